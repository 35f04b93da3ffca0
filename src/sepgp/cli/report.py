"""`sepgp report`: one HTML page on a model and some rows."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    data: Annotated[
        str, typer.Argument(help="Parquet or CSV with labels: a file, a folder or a pattern.")
    ],
    target: Annotated[
        str | None,
        typer.Option(help="The column with the labels; that of training when not given."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
) -> None:
    """Write an HTML page that shows how good a model is, and where it is unsure.

    \b
    sepgp report loans.sepgp new-loans.csv --target repaid --out loans.html
    """
    from rich.console import Console

    from sepgp.errors import InvalidParameter
    from sepgp.models import load
    from sepgp.report import write

    fitted = load(model)
    column = target or getattr(fitted, "target_", None)
    if column is None:
        raise InvalidParameter(
            "--target is not given, and the model does not know it; name the column of the labels."
        )
    with Console(stderr=True).status("Reading rows ...") as status:
        write(
            fitted,
            data,
            path=out,
            target=column,
            title=f"Report on {model.name}",
            progress=lambda n: status.update(f"{n:,} rows read ..."),
        )
    typer.echo(out)
