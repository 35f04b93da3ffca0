"""Rows that come more than once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.data.scaling import Floats


def merge_duplicates(
    X: NDArray[Any], y: NDArray[np.int64], weight: Floats
) -> tuple[NDArray[Any], NDArray[np.int64], Floats]:
    """Equal rows of equal class as one row that has their total weight, in sorted order.

    So a row of weight w and w copies of it are the same numbers, in whatever order they come.
    """
    table = np.column_stack([X.astype(np.float64), y])
    _, first, group = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return X[first], y[first], np.bincount(group.ravel(), weight).astype(np.float64)
