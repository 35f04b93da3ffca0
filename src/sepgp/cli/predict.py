"""`sepgp predict`: probabilities for the rows of a table."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from sepgp.cli.options import Model, Rows, writable
from sepgp.cli.stdin import readable
from sepgp.errors import InvalidParameter


def predict(
    model: Model,
    data: Rows,
    out: Annotated[
        str, typer.Option(metavar="FILE", help="Parquet, CSV, or - for CSV to a pipe.")
    ] = "predictions.parquet",
) -> None:
    """Write the probability, label, latent mean and standard deviation of every row.

    The latent function f is what the probability comes from: a large standard deviation says that
    the model has seen nothing like the row.

    \b
    sepgp predict loans.sepgp new-loans.csv --out predictions.csv
    cat new-loans.csv | sepgp predict loans.sepgp - --out - | head
    """
    from sepgp.models import load

    if out != "-":
        _check(Path(out))
    fitted = load(model)
    with readable(data) as path:
        n_rows = _write(_tables(fitted, path), out)
    if out != "-":
        second = fitted.classes_.tolist()[1]
        said = f"{out}: {n_rows:,} rows; probability is that of {second!r}."
        typer.echo(said, err=True)


def _check(out: Path) -> None:
    writable(out)
    if out.suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise InvalidParameter(f"--out={out} is neither .csv nor .parquet; choose one of them.")


def _tables(model: Any, path: str) -> Iterator[Any]:
    import numpy as np
    import pyarrow as pa
    from scipy.special import ndtr

    blocks = model.predict_latent(path)  # opened now, so that a wrong path makes no file
    return (
        pa.table(
            {
                "probability": ndtr(mean / np.sqrt(1 + variance)),
                "label": pa.array(model.classes_[(mean > 0).astype(int)]),
                "mean": mean,
                "sd": np.sqrt(variance),
            }
        )
        for mean, variance in blocks
    )


def _write(tables: Iterator[Any], out: str) -> int:
    """Write tables one after the other, and count the rows; a file appears when it is whole."""
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    from sepgp.errors import WriteFailed, reason

    first = next(tables)
    n_rows = len(first)
    if out == "-":
        with pa_csv.CSVWriter(sys.stdout.buffer, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)
                n_rows += len(table)
        return n_rows
    make = pa_csv.CSVWriter if out.lower().endswith(".csv") else pq.ParquetWriter
    temporary = Path(f"{out}.part")
    try:
        with make(temporary, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)
                n_rows += len(table)
        temporary.replace(out)
        return n_rows
    except OSError as error:
        raise WriteFailed(
            f"{out} cannot be written ({reason(error)}); choose another place."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
