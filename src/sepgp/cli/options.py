"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

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
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but the results.")]
