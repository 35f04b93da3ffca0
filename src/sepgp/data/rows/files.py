"""Files of rows: where they are, what their folders say, and which one cannot be read."""

import csv
import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from sepgp.errors import InvalidData, reason

PARQUET, CSV = (".parquet", ".pq"), (".csv", ".tsv")
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of a folder whose rows have none."""
COMPRESSED = (".gz", ".bz2", ".zip", ".xz", ".zst")


def find_files(path: str) -> list[str]:
    """A file, all data files in a folder and the folders in it, or those of a pattern of paths."""
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        return _inside(path)
    matches = sorted(glob.glob(path, recursive=True))
    if files := [match for match in matches if os.path.isfile(match)]:
        return files
    if not matches:
        raise InvalidData(f"There is no file {path!r}; check the path or the pattern.")
    return [file for folder in matches for file in _inside(folder)]


def _inside(folder: str) -> list[str]:
    """All data files in a folder and the folders in it, but for hidden ones and those with _."""
    inside = sorted(p for p in Path(folder).rglob("*") if p.is_file())
    visible = [
        str(p)
        for p in inside
        if not any(part.startswith((".", "_")) for part in p.relative_to(folder).parts)
    ]
    for endings in (PARQUET, CSV):
        if files := [p for p in visible if p.lower().endswith(endings)]:
            return files
    raise InvalidData(
        f"The folder {folder!r} has no file that ends in {', '.join(PARQUET + CSV)}; "
        "name a folder that has some."
    )


def are_csv(files: Sequence[str], path: str) -> bool:
    """Whether the files that a path stands for are CSV; they must be of one kind."""
    for file in files:
        if file.lower().endswith(COMPRESSED):
            raise InvalidData(f"{file} is compressed; unpack it or convert it to Parquet.")
    found = {file.lower().endswith(CSV) for file in files}
    if len(found) > 1:
        raise InvalidData(
            f"{path!r} stands for CSV files and others; name those of one kind, as '*.csv' does."
        )
    return found == {True}


def path_keys(files: Sequence[str]) -> dict[str, pa.Array]:
    """Columns that the folders of some files give, as year=2008/ does: a value for each file.

    Values are whole numbers if all of them are.
    """
    keys = [_keys(path) for path in files]
    columns = {}
    for name in dict.fromkeys(name for entry in keys for name in entry):
        column = pa.array([entry.get(name) for entry in keys])
        with suppress(pa.ArrowInvalid):
            column = column if pa.types.is_null(column.type) else column.cast(pa.int64())
        columns[name] = column
    return columns


def keys_above(path: str) -> set[str]:
    """Keys that are the same for all files of a path or pattern because it has them itself."""
    while glob.has_magic(path) or not os.path.isdir(path):
        path = os.path.dirname(path) or "."
    return set(_keys(os.path.join(path, "file")))


def _keys(path: str) -> dict[str, str | None]:
    parts = [part.split("=", 1) for part in Path(path).absolute().parts[:-1] if "=" in part]
    return {unquote(k): None if v == NULL_FOLDER else unquote(v) for k, v in parts}


def name_of(files: Sequence[str]) -> str:
    """What messages call some files."""
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def same_columns(path: str, names: Sequence[str], first: str, expected: Sequence[str]) -> None:
    """Refuse a file that lacks a column of the first file."""
    for name in expected:
        if name not in names:
            fault = f"{path} has no column {name!r}, which {first} has"
            raise InvalidData(f"{fault}; give all files the same columns.")


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Say which file it is that cannot be read."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidData(
            f"{path} cannot be read ({reason(error)}); the file is damaged or incomplete, or not "
            "what its name says: replace it."
        ) from error
