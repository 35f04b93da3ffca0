"""Rows of an array."""

from typing import Any

import numpy as np

from sepgp.data import checks
from sepgp.data.rows.base import Block, RowsInMemory


class ArrayRows(RowsInMemory):
    """An array or memmap X of shape (n, d), with labels and weights of shape (n,) or without."""

    def __init__(self, X: Any, y: Any = None, weight: Any = None) -> None:
        super().__init__(len(X))
        self._arrays = X, y, weight

    def _block(self, part: slice) -> Block:
        X, y, weight = (None if array is None else array[part] for array in self._arrays)
        return array_block(X, self.name).beside(y, weight, self.name)


def array_block(X: Any, name: str) -> Block:
    """A block of rows X, shape (b, d), without labels."""
    X = checks.matrix(X, name)
    return Block(X, None, np.ones(len(X)))
