"""Rows that lie in memory."""

import itertools
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.data.batches import Batch, Batching
from sepgp.data.prefetch import prefetch
from sepgp.data.scaling import Floats
from sepgp.data.subset import taken

LARGE = 2**18
"""Values of a minibatch from which on it takes some milliseconds to scale it."""


def merge_duplicates(
    X: NDArray[Any], y: NDArray[np.int64], weight: Floats
) -> tuple[NDArray[Any], NDArray[np.int64], Floats]:
    """Equal rows of equal class as one row that has their total weight, in sorted order.

    So a row of weight w and w copies of it are the same numbers, in whatever order they come.
    """
    table = np.column_stack([X.astype(np.float64), y])
    _, first, group = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return X[first], y[first], np.bincount(group.ravel(), weight).astype(np.float64)


class ArraySource:
    """Batches from arrays, in an order that depends on the seed alone.

    X, shape (n, d), is kept as it is, and every batch scaled when it is taken; y, shape (n,), are
    class numbers 0 … C−1; weights, shape (n,), are positive; scores, if a classifier gives a prior
    mean, have shape (n,), or (n, C). If one batch holds all rows, it is the whole set in its own
    order. A thread scales large minibatches ahead of training.
    """

    def __init__(
        self,
        X: NDArray[np.generic],
        y: NDArray[np.int64],
        weight: Floats,
        how: Batching,
        score: Floats | None = None,
    ) -> None:
        self._arrays, self._score, self._how = (X, y, weight), score, how
        self.n_rows = len(y)
        self.total_weight = float(weight.sum())
        self.batches_per_epoch = how.batches_per_epoch(self.n_rows)

    def batches(self, start: int = 0) -> Generator[Batch]:
        """Batches without end, from batch number `start` on. Every epoch has a fresh order."""
        batches = self._batches(start)
        large = self._how.size * self._arrays[0].shape[1] >= LARGE
        return prefetch(batches, 1) if large and self.batches_per_epoch > 1 else batches

    def _batches(self, start: int) -> Generator[Batch]:
        if self.batches_per_epoch == 1:
            yield from itertools.repeat(self._batch(None))
        epoch, skip = divmod(start, self.batches_per_epoch)
        while True:
            order = np.random.default_rng((self._how.seed, epoch)).permutation(self.n_rows)
            for number in range(skip, self.batches_per_epoch):
                yield self._batch(order[slice(*self._how.bounds(self.n_rows, number))])
            epoch, skip = epoch + 1, 0

    def _batch(self, rows: NDArray[np.int_] | None) -> Batch:
        where = slice(None) if rows is None else rows
        X, y, weight = (taken(array, where) for array in self._arrays)
        score = None if self._score is None else taken(self._score, where)
        return self._how.batch(self._how.scaled(X), y, weight, rows, score)
