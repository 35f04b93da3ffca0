"""Options that several commands share."""

import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sepgp.errors import InvalidData, InvalidParameter, reason

if TYPE_CHECKING:
    from sepgp.classifier import GPClassifier
    from sepgp.model import Model as Fitted

TABLES = (
    ".csv",
    ".tsv",
    ".txt",
    ".parquet",
    ".pq",
    ".feather",
    ".arrow",
    ".json",
    ".jsonl",
    ".ndjson",
    ".gz",
    ".zst",
    ".bz2",
)
DOCUMENTS = (".html", ".htm", ".pdf", ".md", ".xls", ".xlsx", ".ods", ".png", ".zip")
"""Endings of files that are no models."""

Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder with the data sets; else SEPGP_DATA.")
]


def _readable_model(path: Path) -> Path:
    """Refuse a file that is not there, before libraries that take seconds are imported."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise InvalidData(f"{path} cannot be read ({reason(error)}); check the path.") from None
    return path


Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="A file that sepgp train wrote.", callback=_readable_model
    ),
]
Rows = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help='Parquet, CSV, Feather or JSON lines: file, folder, "pattern"; - is CSV from a pipe.',
    ),
]
Target = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The column with the labels; else that of training."),
]
Weight = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The column with sample weights; else all are 1."),
]
Unlabelled = Annotated[
    bool, typer.Option("--drop-unlabelled", help="Leave out rows that have no label.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the results.")]


@contextmanager
def readable(data: str) -> Iterator[str]:
    """The path of the data; for "-", of a file that holds what comes from standard input.

    A path that leads nowhere is refused here, before libraries that take seconds are imported.
    """
    if data != "-":
        from sepgp.data.rows.files import find_files

        find_files(data)
        yield data
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "standard-input.csv"
        with open(path, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield str(path)


def load_model(path: Path) -> "GPClassifier":
    """The classifier in a file."""
    from sepgp.classifier import load

    return load(path)


def told(model: "GPClassifier") -> "Fitted":
    """Its model, with the class that it tells the probability of as the second of two."""
    return model.model_.about(model.pos_label)


def label_column(model: "Fitted", given: str | None) -> str:
    """The column of the labels: as given, or as in training."""
    target = given or model.target
    if target is None:
        raise InvalidParameter(
            "The model does not say which column holds the labels; name it by --target."
        )
    return target


def check_out(out: Path, *inputs: str | Path, endings: Collection[str] = ()) -> None:
    """Refuse before anything is read that the result goes where it cannot or must not go.

    `inputs` are the files that are read and the data, as the commands take it; `endings` those
    that the result may have, where it is not a model, which may have any but those of others.
    """
    if out.is_dir():
        raise InvalidParameter(f"--out={out} is a folder; name a file.")
    if not out.absolute().parent.is_dir():
        raise InvalidParameter(f"--out={out} is in a folder that is not there; make it first.")
    refuse_inputs("--out", out, *inputs)
    ending = out.suffix.lower()
    if endings and ending not in endings:
        either = " nor ".join(endings)
        raise InvalidParameter(f"--out={out} is neither {either}; choose one of them.")
    if not endings and ending in TABLES + DOCUMENTS:
        raise InvalidParameter(f"--out={out} is no name for a model; end it in .sepgp.")


def refuse_inputs(option: str, output: Path, *inputs: str | Path) -> None:
    """Refuse an output that is one of the inputs, or a link to one."""
    for file in (file for path in inputs for file in _files(str(path))):
        if same(output, file):
            raise InvalidParameter(f"{option}={output} would overwrite {file}; name another file.")


def same(a: Path, b: Path) -> bool:
    """Whether two paths lead to one place, be it by symbolic or hard links."""
    if a.exists() and b.exists():
        return os.path.samefile(a, b)
    return os.path.realpath(a) == os.path.realpath(b)


def _files(data: str) -> list[Path]:
    """The path, or the files that a folder, a pattern or standard input stands for."""
    if data == "-":
        return [Path("/dev/stdin")]
    found = [Path(data)]
    if not found[0].exists():
        found += map(Path, glob.glob(data, recursive=True))
    folders = [str(path) for path in found if path.is_dir()]
    if not folders:
        return found
    from sepgp.data.rows.files import files_below

    below = [file for folder in folders for file in files_below(folder)]
    return found + [file for file in below if file.suffix.lower() in TABLES]
