"""`sepgp report`: one HTML page on a model and some rows."""

from pathlib import Path
from typing import Annotated

import typer

from sepgp.cli.options import (
    Model,
    Rows,
    Target,
    Weight,
    check_out,
    label_column,
    load_model,
    readable,
)

Page = Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")]


def report(
    model: Model,
    data: Rows,
    target: Target = None,
    weight: Weight = None,
    out: Page = Path("report.html"),
) -> None:
    """Write an HTML page that shows how good a model is, and where it is unsure.

    \b
    sepgp report loans.sepgp new-loans.csv
    sepgp report loans.sepgp new-loans.csv --target repaid --out loans.html
    """
    from rich.console import Console

    check_out(out, model, data, endings=(".html", ".htm"))
    title = f"Report on {model.name}"
    with readable(data) as path, Console(stderr=True).status("Reading rows ...") as status:
        fitted = load_model(model)
        columns = {"target": label_column(fitted.model_, target), "sample_weight": weight}
        from sepgp.report import write

        progress = lambda n: status.update(f"{n:,} rows read ...")  # noqa: E731
        write(fitted, path, path=out, title=title, progress=progress, **columns)
    typer.echo(out)
