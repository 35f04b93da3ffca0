"""Numbers that stand for a missing value, such as -999."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.data.columns.verdict import left_out
from sepgp.data.identifiers import numeric_columns
from sepgp.data.schema import Schema

LOOKED_AT = 20_000
"""Rows that are looked at."""
ABSURD = 1e6
"""A value that is this many times as large as any other is no measurement."""


def warn_of_sentinels(schema: Schema, rows: NDArray[Any]) -> None:
    """Warn if a named column of features, shape (n, d), has a value that stands for missing."""
    some = rows[:: -(-len(rows) // LOOKED_AT)]
    for name, number in numeric_columns(schema):
        column = some[:, number]
        with np.errstate(over="ignore"):
            found = sentinel(column.astype(np.float64))
        if found is not None:
            share = np.mean(column == found)
            warnings.warn(
                f"Column {name!r} has the value {found:g} in {share:.1%} of the rows, far from all "
                "others, as a sign for missing values has; if it is one, leave these values empty, "
                f"or {left_out(name)}.",
                stacklevel=2,
            )


def sentinel(column: NDArray[np.float64]) -> float | None:
    """A number among values, shape (n,), that is too far from all others to be one of them.

    It is written with nines alone, there more than once, and as far from the others as half of
    their range; or it is absurdly large.
    """
    for value in (column.min(), column.max()):
        others = column[column != value]
        if len(others) < 3 or np.ptp(others) == 0 or abs(value) < 9:
            continue
        nines = abs(value) < 1e15 and value == round(value) and set(f"{abs(value):.0f}") == {"9"}
        far = 2 * np.abs(others - value).min() > np.ptp(others) and len(others) < len(column) - 1
        if (nines and far) or abs(value) / ABSURD > np.abs(others).max():
            return float(value)
    return None
