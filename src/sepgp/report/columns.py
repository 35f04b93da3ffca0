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
Value: TypeAlias = float | str | None
"""A number, microseconds since 1970 or a text; None is a missing value."""
ROOM = 48
"""Characters of values that a list of rows has room for."""


class Column(NamedTuple):
    """A column that a model learned from."""

    name: str
    kind: str
    """What it holds: "number", "time" or "text"."""
    position: int
    missing: bool
    """Whether values were missing in training, so that being missing is a feature."""


def fitting(columns: list[Column]) -> list[Column]:
    """The first columns whose values fit side by side in a list of rows."""
    wide = [max(9 if c.kind == "number" else 16, min(len(c.name), 16)) for c in columns]
    return columns[: int(np.searchsorted(np.cumsum(wide), ROOM, "right"))]


def columns(model: Model) -> list[Column]:
    """The columns of a fitted model, in the order of its rows."""
    schema = model.schema
    encoders = [None] * schema.n_columns if schema.encoding is None else schema.encoding.encoders
    described = enumerate(zip(schema.columns, encoders, strict=True))
    return [
        Column(name, kind, i, encoder is not None and encoder.missing)
        for i, ((name, kind, _), encoder) in described
    ]


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


def replaced(X: Rows, column: Column, value: Value) -> Rows:
    """The same rows with one value in all of a column; None makes it missing."""
    if not isinstance(X, pa.Table):
        other = np.array(X, np.float64)
        other[:, column.position] = value
        return other
    types = {"text": pa.large_string(), "time": pa.timestamp("us"), "number": pa.float64()}
    if column.kind == "time" and value is not None:
        value = round(float(value))
    constant = pa.repeat(pa.scalar(value, types[column.kind]), len(X))
    return X.set_column(column.position, X.column_names[column.position], constant)


def shown(X: Rows, row: int, column: Column) -> str:
    """A value of a row as people read it."""
    if column.kind == "text":
        return said(column, X.column(column.position)[row].as_py())
    return said(column, values(X[row : row + 1], column)[0])


def said(column: Column, value: Value) -> str:
    """A value of a column as people read it."""
    if value is None or value != value:
        return "missing"
    if column.kind == "text":
        return str(value)
    return moment(float(value)) if column.kind == "time" else number(float(value))


def moment(microseconds: float) -> str:
    """A time since 1970 as date, hour and minute, or as a date if it is midnight."""
    text_ = str(np.datetime64(int(microseconds), "us").astype("datetime64[m]"))
    return text_.replace("T", " ").removesuffix(" 00:00")


def count(rows: float) -> str:
    """How many rows, which weights may make a number with a fraction."""
    return f"{rows:,.0f}" if rows == round(rows) else f"{rows:,.1f}"


def number(value: float) -> str:
    """A number with four digits that count, or all digits if it is whole."""
    if value != value:
        return "missing"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
