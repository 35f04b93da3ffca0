"""The command `sepgp`: its groups, and one sentence for every mistake."""

import sys
from collections.abc import Sequence

import typer

from sepgp.cli import data, reproduce
from sepgp.errors import InvalidData, InvalidParameter
from sepgp.experiments.cells import CellFailed

app = typer.Typer(
    help="Sparse Gaussian process classification by stochastic expectation propagation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")
app.add_typer(reproduce.app, name="reproduce")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a mistake of the user ends it with one sentence and exit code 1."""
    try:
        app(arguments)
    except (InvalidData, InvalidParameter, CellFailed, ImportError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)
