"""Columns that number the rows instead of describing them."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.data.columns.verdict import left_out
from sepgp.data.encoding import Number
from sepgp.data.schema import Schema

ENOUGH = 200
"""Rows from which on a column can be told to be an identifier."""


def warn_of_identifiers(schema: Schema, rows: NDArray[Any]) -> None:
    """Warn if a named column of features, shape (n, d), is a row number or the like."""
    for name, column in numeric_columns(schema, rows):
        if identifies(column):
            warnings.warn(
                f"Column {name!r} has another whole number in every row, as an identifier has; if "
                f"it is one, {left_out(name)}.",
                stacklevel=2,
            )


def numeric_columns(schema: Schema, rows: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """The named columns of numbers among features, shape (n, d), each of shape (n,)."""
    names: Any = schema.names or ()
    if schema.encoding is not None:
        numeric = {e.name for e in schema.encoding.encoders if isinstance(e, Number)}
        names = [name if name in numeric else None for name in schema.encoding.features]
    for number, name in enumerate(names):
        if name is not None:
            yield name, rows[:, number]


def identifies(column: NDArray[Any]) -> bool:
    """Whether values, shape (n,), are whole numbers that all differ, and enough to tell."""
    few = column[:ENOUGH]
    whole = len(few) == ENOUGH and bool((few == np.round(few)).all())
    return whole and len(np.unique(few)) == len(few) and len(np.unique(column)) == len(column)
