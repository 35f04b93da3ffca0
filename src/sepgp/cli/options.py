"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    Path | None,
    typer.Option(help="Folder with the data sets; the variable SEPGP_DATA when not given."),
]
