"""Rows that lie in memory."""

from collections.abc import Generator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sepgp.data.batches import Batch, aligned
from sepgp.data.scaling import Floats, Scaling


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
    class numbers 0 … C−1; weights, shape (n,), are positive. With no more rows than `batch_size`,
    every batch is the whole set in its own order. Batches are tensors of `dtype` on `device`.
    """

    def __init__(
        self,
        X: NDArray[np.generic],
        y: NDArray[np.int64],
        weight: Floats,
        scaling: Scaling,
        batch_size: int,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
        device: str = "cpu",
    ) -> None:
        self._arrays = X, y, weight
        self._scaling = scaling
        self._seed = seed
        self._dtype, self._device = dtype, device
        self.n_rows = len(y)
        self.total_weight = float(weight.sum())
        self.batches_per_epoch = max(1, -(-self.n_rows // batch_size))

    def batches(self, start: int = 0) -> Generator[Batch]:
        """Batches without end, from batch number `start` on. Every epoch has a fresh order."""
        if self.batches_per_epoch == 1:
            whole = self._batch(None)
            while True:
                yield whole
        epoch, skip = divmod(start, self.batches_per_epoch)
        while True:
            order = np.random.default_rng((self._seed, epoch)).permutation(self.n_rows)
            for rows in np.array_split(order, self.batches_per_epoch)[skip:]:
                yield self._batch(rows)
            epoch, skip = epoch + 1, 0

    def _batch(self, rows: NDArray[np.int_] | None) -> Batch:
        X, y, weight = (a if rows is None else a[rows] for a in self._arrays)
        return Batch(
            self._tensor(self._scaling.apply(X), self._dtype),
            self._tensor(y, torch.int64),
            self._tensor(weight, self._dtype),
            None if rows is None else torch.from_numpy(rows),
        )

    def _tensor(self, array: NDArray[Any], dtype: torch.dtype) -> Tensor:
        return aligned(torch.as_tensor(array).to(self._device, dtype))
