"""`sepgp report`: one HTML page on a model and some rows."""

from pathlib import Path
from typing import Annotated

import typer

from sepgp.cli.options import (
    Model,
    Rows,
    Target,
    Unlabelled,
    Weight,
    check_out,
    label_column,
    load_model,
    readable,
)
from sepgp.errors import InvalidParameter

Page = Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")]


def report(
    model: Model,
    data: Rows,
    target: Target = None,
    weight: Weight = None,
    drop_unlabelled: Unlabelled = False,
    out: Page = Path("report.html"),
) -> None:
    """Write an HTML page on how good a model is, and where unsure.

    \b
    sepgp report loans.sepgp new-loans.csv
    sepgp report loans.sepgp new-loans.csv --target repaid --out loans.html
    """
    from rich.console import Console

    check_out(out, model, data, endings=(".html", ".htm"))
    title = f"Report on {model.name}"
    with readable(data) as path, Console(stderr=True).status("Reading rows ...") as status:
        fitted = load_model(model)
        from sepgp.data.rows import open_rows
        from sepgp.report import write

        labels, names = label_column(fitted.model_, target), fitted.model_.schema.names
        if labels in (names or ()):
            raise InvalidParameter(
                f"--target={labels} is a column that the model learned from; name that of the "
                "labels."
            )
        rows = open_rows(path, labels, names, weight, drop_unlabelled)

        progress = lambda n: status.update(f"{n:,} rows read ...")  # noqa: E731
        write(fitted, rows, path=out, title=title, progress=progress)
    typer.echo(out)
