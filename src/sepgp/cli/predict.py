"""`sepgp predict`: probabilities for the rows of a table."""

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sepgp.cli.options import Model, Rows, check_out, load_model, readable, told
from sepgp.errors import InvalidParameter

if TYPE_CHECKING:
    from sepgp.model import Model as Fitted

DIGITS = 9
"""Of numbers in CSV."""


def predict(
    model: Model,
    data: Rows,
    out: Annotated[
        str, typer.Option(metavar="FILE", help="Parquet or CSV by its ending; - is CSV to a pipe.")
    ] = "predictions.parquet",
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column to copy, such as an id; repeat for more."),
    ] = None,
) -> None:
    """Predict the probability, the label and the latent f of rows.

    With two classes the probability is that of the second in sorted order, or of the one that
    sepgp train --positive chose; its column is named after it. With more there is a probability for
    each class, then the label, its probability, and the latent mean and standard deviation of its
    class. The latent function f is what probabilities come from: a large standard deviation says
    that no row in training was like this one.

    \b
    sepgp predict loans.sepgp new-loans.csv --keep loan_id --out predictions.csv
    cat new-loans.csv | sepgp predict loans.sepgp - --out - | head
    """
    kept = keep or []
    if out != "-":
        check_out(Path(out), model, data, endings=(".csv", ".parquet", ".pq"))
    with readable(data) as path:
        fitted = told(load_model(model))
        for name in kept:
            if name in _columns(fitted) or kept.count(name) > 1:
                raise InvalidParameter(
                    f"--keep={name} would be a second column of this name; leave it out or rename "
                    "it."
                )
        n_rows = _write(_tables(fitted, path, kept, _is_parquet(out)), out)
    if out != "-":
        whose = "" if len(fitted.classes) == 2 else "; probability is that of the label"
        typer.echo(f"{out}: {n_rows:,} rows{whose}.", err=True)


def _columns(model: "Fitted") -> list[str]:
    """The columns of predictions."""
    labels = [str(label) for label in model.classes.tolist()]
    if len(labels) == 2:
        return [f"probability_{labels[1]}", "label", "mean", "sd"]
    return [*(f"probability_{label}" for label in labels), "label", "probability", "mean", "sd"]


def _is_parquet(out: str) -> bool:
    return out.lower().endswith((".parquet", ".pq"))


def _tables(model: "Fitted", path: str, keep: list[str], exact: bool) -> Iterator[Any]:
    """The predictions for the rows of a path, with all digits if they are to be `exact`."""
    import numpy as np
    import pyarrow as pa

    from sepgp.data.rows import open_rows
    from sepgp.data.watched import WatchedRows

    names = list(model.schema.names or [])
    if keep and not names:
        raise InvalidParameter(
            f"--keep={keep[0]} needs a model that knows its columns by name, and this one was "
            "trained on an array; train it on a table."
        )
    columns = [*names, *(name for name in keep if name not in names)]
    rows = open_rows(path, columns=columns or None)  # now, so that a wrong path makes no file

    def predicted(block: Any) -> Any:
        features = block.X.select(names) if names else block.X
        mean, variance = model.latent(features)
        p = model.likelihood.probabilities(mean, variance)
        if len(model.classes) == 2:
            code = model.likelihood.most_probable(mean, variance)
            numbers = [p[:, 1], mean, np.sqrt(variance)]
        else:
            code = p.argmax(1)
            best, f, v = (x[np.arange(len(code)), code] for x in (p, mean, variance))
            numbers = [*p.T, best, f, np.sqrt(v)]
        values = numbers if exact else [_rounded(part) for part in numbers]
        labels = pa.array(model.classes[code])
        values.insert(_columns(model).index("label"), labels)
        kept = {name: block.X[name] for name in keep}
        return pa.table(kept | dict(zip(_columns(model), values, strict=True)))

    watched = WatchedRows(rows, model.schema.encoding)
    return (predicted(block) for block in watched.blocks())


def _write(tables: Iterator[Any], out: str) -> int:
    """Write tables one after the other, and count the rows; a file appears when it is whole."""
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    from sepgp.files.atomic import replacing

    first = next(tables)
    n_rows = 0
    make = pq.ParquetWriter if _is_parquet(out) else pa_csv.CSVWriter
    place = nullcontext(sys.stdout.buffer) if out == "-" else replacing(out)
    with place as file, make(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
            n_rows += len(table)
    return n_rows


def _rounded(values: Any) -> Any:
    """Numbers with as many digits as anybody needs, instead of 17."""
    import numpy as np

    size = np.floor(np.log10(np.clip(np.abs(values), 1e-290, None)))
    scale = 10.0 ** (DIGITS - 1 - size)
    return np.round(values * scale) / scale
