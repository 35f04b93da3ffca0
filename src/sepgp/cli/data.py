"""`sepgp data`: the catalogue of data sets."""

from pathlib import Path
from typing import Annotated

import typer

from sepgp.cli.options import Data, refuse_inputs

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def data(context: typer.Context, data: Data = None) -> None:
    """List the data sets of the experiments, or get one.

    \b
    sepgp data --data DIR
    sepgp data fetch heart --data DIR
    """
    if context.invoked_subcommand is None:
        _list(data)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A data set that OpenML has.")],
    data: Data = None,
) -> None:
    """Download a data set from OpenML into the folder.

    \b
    sepgp data fetch heart --data DIR
    """
    from sepgp.experiments.openml import fetch

    typer.echo(fetch(name, data))


@app.command()
def airline(
    flights: Annotated[
        Path, typer.Argument(metavar="FLIGHTS", help="2008.csv, plain or compressed.")
    ],
    planes: Annotated[Path, typer.Argument(metavar="PLANES", help="plane-data.csv.")],
    data: Data = None,
) -> None:
    """Build the airline data from two files of the ASA Data Expo.

    \b
    sepgp data airline 2008.csv.bz2 plane-data.csv --data DIR
    """
    from sepgp.experiments.airline import build
    from sepgp.experiments.catalogue import data_folder, described

    file = described("airline").file
    for name in (file, f"{file}.sha256"):
        refuse_inputs("--data", data_folder(data, file) / name, flights, planes)
    typer.echo(build(flights, planes, data))


def _list(folder: Path | None) -> None:
    import os

    from rich.console import Console
    from rich.table import Table

    from sepgp.experiments.catalogue import CATALOGUE, command

    place = folder or os.environ.get("SEPGP_DATA")
    table = Table("name", "rows", "features", "here", "y or y = 1, source and licence", box=None)
    for column in table.columns[:4]:
        column.no_wrap = True
    for entry in CATALOGUE.values():
        here = bool(place and (Path(place) / entry.file).is_file())
        about = f"{entry.meaning}. From {entry.source}. Licence: {entry.licence}."
        way = command(entry)
        if way and not here:
            about += f" To get it: {way}."
        size = f"{entry.rows:,}", str(len(entry.features))
        table.add_row(entry.name, *size, "yes" if here else "no", about)
    Console().print(table)
