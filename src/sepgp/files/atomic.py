"""Files that appear whole or not at all, whatever happens while they are written."""

import glob
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sepgp.errors import WriteFailed, reason

Location = str | os.PathLike[str]


@contextmanager
def replacing(path: Location) -> Iterator[Path]:
    """Give the path of an empty file, which takes the place of `path` when all went well.

    It is forced to the disk and then renamed, so that there is the old file or the new one. A
    symbolic link stays, and its target is replaced; a file that is there keeps its mode, and one
    that may not be written is not replaced. An OSError becomes a `WriteFailed`.
    """
    with _explained(path):
        temporary, target = _beside(path)
        try:
            yield temporary
            _force(temporary)
            os.replace(temporary, target)
            if hasattr(os, "O_DIRECTORY"):  # where the system lets a folder be opened
                _force(target.parent)
        finally:
            temporary.unlink(missing_ok=True)


def check(path: Location) -> None:
    """Raise a `WriteFailed` before hours of work if the path has no place to be written to."""
    with _explained(path):
        _beside(path)[0].unlink()


def remove_leftovers(path: Location) -> None:
    """Remove what a process that was killed in the middle of `replacing` left beside the file."""
    target = Path(os.path.realpath(path))
    for leftover in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        leftover.unlink(missing_ok=True)


def _beside(path: Location) -> tuple[Path, Path]:
    """An empty file, and beside it the place that it is for, of which it has the mode."""
    target = Path(os.path.realpath(path))
    if os.path.lexists(target) and not target.is_file():  # as a device, or a link to itself
        raise OSError(f"it is {'a folder' if target.is_dir() else 'not a file'}")
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    # The system applies the umask, which cannot be asked for without a moment of another one.
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    os.close(os.open(temporary, flags, 0o666 if mode is None else 0o600))
    if mode is not None:
        temporary.chmod(mode)
    return temporary, target


@contextmanager
def _explained(path: Location) -> Iterator[None]:
    try:
        yield
    except WriteFailed:
        raise
    except OSError as error:
        kept = "; the file that is there is unchanged" if os.path.isfile(path) else ""
        raise WriteFailed(
            f"{os.fspath(path)} cannot be written ({reason(error)}){kept}: "
            "free some space or choose another folder."
        ) from error


def _force(path: Path) -> None:
    """Let a file or the entries of a folder reach the disk."""
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
