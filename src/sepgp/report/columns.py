"""The columns of a model's rows: what they hold, and rows with other values in one of them."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sepgp.data.encoding import numbers, text
from sepgp.data.scaling import Floats
from sepgp.model import Model

Rows: TypeAlias = Any
"""Rows as sources give them: tables whose columns are `canonical`, or arrays."""


class Column(NamedTuple):
    """A column that a model learned from."""

    name: str
    kind: str
    """What it holds: "number", "time" or "text"."""
    position: int
    n_features: int
    """How many features its encoding has."""
    missing: bool
    """Whether values were missing in training, so that being missing is a feature."""


def columns(model: Model) -> list[Column]:
    """The columns of a fitted model, in the order of its rows."""
    encoding = model.schema.encoding
    missing = [False] * model.schema.n_columns
    if encoding is not None:
        missing = [encoder.missing for encoder in encoding.encoders]
    described = zip(model.schema.columns, missing, strict=True)
    return [Column(name, kind, i, size, m) for i, ((name, kind, size), m) in enumerate(described)]


def values(X: Rows, column: Column) -> Floats:
    """The values of a column of numbers or times, NaN where missing, shape (n,).

    Times are microseconds since 1970.
    """
    if not isinstance(X, pa.Table):
        return np.asarray(X[:, column.position], np.float64)
    stored = X.column(column.position)
    if column.kind == "time" and not pa.types.is_null(stored.type):
        stored = stored.cast(pa.int64())
    return numbers(stored, column.name)[:, 0]


def levels(X: Rows, column: Column, most: int) -> list[str | None]:
    """The most frequent texts of a column, in this order; None stands for a missing one."""
    counts = pc.value_counts(text(X.column(column.position)).combine_chunks())
    pairs = zip(counts.field("counts").to_pylist(), counts.field("values").to_pylist(), strict=True)
    ordered = sorted(pairs, key=lambda pair: (-pair[0], pair[1] is None, pair[1] or ""))
    return [value for _, value in ordered[:most]]


def replaced(X: Rows, column: Column, value: float | str | None) -> Rows:
    """The same rows with one value in all of a column; None makes it missing."""
    if not isinstance(X, pa.Table):
        other = np.array(X, np.float64)
        other[:, column.position] = value
        return other
    if column.kind == "text":
        constant = pa.repeat(pa.scalar(value, pa.large_string()), len(X))
    elif column.kind == "time":
        stored = pa.scalar(None if value is None else round(float(value)), pa.int64())
        constant = pa.repeat(stored, len(X)).cast(pa.timestamp("us"))
    else:
        constant = pa.repeat(pa.scalar(value, pa.float64()), len(X))
    return X.set_column(column.position, X.column_names[column.position], constant)


def shown(X: Rows, row: int, column: Column) -> str:
    """A value as people read it."""
    if column.kind == "text":
        value = X.column(column.position)[row].as_py()
        return "missing" if value is None else str(value)
    if isinstance(X, pa.Table):
        X = X.slice(row, 1)
        row = 0
    value = values(X, column)[row]
    return moment(value) if column.kind == "time" else number(value)


def moment(microseconds: float) -> str:
    """A time since 1970 as date, hour and minute, or as a date if it is midnight."""
    if microseconds != microseconds:
        return "missing"
    text_ = str(np.datetime64(int(microseconds), "us").astype("datetime64[m]"))
    return text_.replace("T", " ").removesuffix(" 00:00")


def count(rows: float) -> str:
    """How many rows, which weights may make a number with a fraction."""
    return f"{rows:,.0f}" if rows == round(rows) else f"{rows:,.1f}"


def number(value: float) -> str:
    """A number with four digits that count, or all digits if it is whole."""
    if value != value:
        return "missing"
    if value == round(value) and abs(value) < 1e9:
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.0f}"
    if 1e4 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.4g}"
