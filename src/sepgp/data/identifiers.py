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
    for name, number in numeric_columns(schema):
        if identifies(rows, number):
            warnings.warn(
                f"Column {name!r} has a different whole number in every row, as an identifier has; "
                f"if it is one, {left_out(name)}.",
                stacklevel=2,
            )


def numeric_columns(schema: Schema) -> Iterator[tuple[str, int]]:
    """The named columns of numbers among features, with the number of the feature."""
    names: Any = schema.names or ()
    if schema.encoding is not None:
        numeric = {e.name for e in schema.encoding.encoders if isinstance(e, Number)}
        names = [name if name in numeric else None for name in schema.encoding.features]
    return ((name, number) for number, name in enumerate(names) if name is not None)


def identifies(rows: NDArray[Any], number: int) -> bool:
    """Whether a feature of rows, shape (n, d), has whole numbers that all differ, enough to tell.

    Nearly always the first rows say that it has not, and no others are looked at.
    """
    few = rows[:ENOUGH, number]
    whole = len(few) == ENOUGH and bool((few == np.round(few)).all())
    if not whole or len(np.unique(few)) < len(few):
        return False
    column = rows[:, number]
    return len(np.unique(column)) == len(column)
