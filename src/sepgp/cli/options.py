"""Options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sepgp.errors import InvalidParameter

if TYPE_CHECKING:
    from sepgp.classifier import GPClassifier

Data = Annotated[
    Path | None,
    typer.Option(help="Folder with the data sets; the variable SEPGP_DATA when not given."),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that sepgp train wrote.")]
Rows = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Parquet or CSV: a file, a folder, a pattern in quotes, or - for CSV from a pipe.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="The column that holds the labels; that of training if not given."
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="The column with the rows' weights; all weigh the same if not given."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but the results.")]


def label_column(model: "GPClassifier", given: str | None) -> str:
    """The column of the labels: as given, or as in training."""
    target = given or model.target_
    if target is None:
        raise InvalidParameter(
            "The model does not say which column holds the labels; name it by --target."
        )
    return target


def writable(path: Path) -> None:
    """Find out before hours of work that the result has no place to go."""
    if path.is_dir():
        raise InvalidParameter(f"--out={path} is a folder; name a file.")
    if not path.absolute().parent.is_dir():
        raise InvalidParameter(f"--out={path} is in a folder that is not there; make it first.")
