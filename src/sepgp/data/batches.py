"""Batches of rows on their way to a training step, and what gives them."""

from collections.abc import Generator
from typing import Any, NamedTuple, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from sepgp.data.scaling import Scaling
from sepgp.gp.products import next_round, rounded

MINIBATCH = 2000
"""Rows in a batch, unless told otherwise; a set of no more rows is one batch."""
ALIGNMENT = 64


class Batch(NamedTuple):
    """b rows, scaled and ready for the kernel."""

    X: Tensor
    """Features, shape (b, d)."""
    y: Tensor
    """Class numbers 0 … C−1, int64, shape (b,)."""
    weight: Tensor
    """Shape (b,)."""
    rows: Tensor | None
    """Row numbers in the whole set, shape (b,); None when the batch is the whole set in order."""
    score: Tensor | None = None
    """What a classifier says of the rows, shape (b,), or (C, b): see `sepgp.means`."""

    def split(self, size: int) -> list["Batch"]:
        """The same rows in parts of this size."""
        n_rows = len(self.y)
        begins = range(0, n_rows, size)
        return [self] if n_rows <= size else [self.take(slice(i, i + size)) for i in begins]

    def double(self) -> "Batch":
        """The same rows in float64."""
        score = None if self.score is None else self.score.double()
        return self._replace(X=self.X.double(), weight=self.weight.double(), score=score)

    def take(self, where: slice | Tensor) -> "Batch":
        """Some of the rows."""
        rows = torch.arange(len(self.y)) if self.rows is None else self.rows
        score = None if self.score is None else self.score[..., where]
        return Batch(self.X[where], self.y[where], self.weight[where], rows[where], score)


class Batching(NamedTuple):
    """How rows become batches: scaled, and as tensors of `dtype` on `device`."""

    scaling: Scaling
    size: int
    """Rows in a batch, at most."""
    seed: int = 0
    """Of the order of the rows."""
    dtype: torch.dtype = torch.float64
    device: str = "cpu"

    def batches_per_epoch(self, n_rows: int) -> int:
        """How many batches have all rows."""
        return max(1, -(-n_rows // self.size))

    def bounds(self, n_rows: int, number: int) -> tuple[int, int]:
        """Where the batch of this number begins and ends in the order of an epoch.

        They are as equal as can be; in float32 all but one have a number of rows that products are
        fast with, if there is one below and above the mean.
        """
        count = self.batches_per_epoch(n_rows)
        fewer = n_rows // count
        more = fewer + 1
        if self.dtype == torch.float32 and next_round(rounded(fewer)) <= self.size:
            fewer, more = rounded(fewer), next_round(rounded(fewer))
        larger, rest = divmod(n_rows - count * fewer, more - fewer)
        begin, end = (
            place * fewer + min(place, larger) * (more - fewer) + rest * (place > larger)
            for place in (number, number + 1)
        )
        return begin, end

    def scaled(self, X: NDArray[Any]) -> Tensor:
        """Rows X, shape (b, d), scaled, in the numbers of a batch: shape (b, width)."""
        return scaled(self.scaling, X, self.dtype)

    def batch(
        self,
        X: Tensor | NDArray[Any],
        y: NDArray[Any],
        weight: NDArray[Any],
        rows: NDArray[Any] | None,
        score: NDArray[Any] | None = None,
    ) -> Batch:
        """The batch of rows X, shape (b, d), that are scaled, with scores (b,), or (b, C)."""
        return Batch(
            self._tensor(X, self.dtype),
            self._tensor(y, torch.int64),
            self._tensor(weight, self.dtype),
            None if rows is None else torch.from_numpy(rows),
            None if score is None else self._tensor(score.T, self.dtype),
        )

    def _tensor(self, array: Tensor | NDArray[Any], dtype: torch.dtype) -> Tensor:
        return aligned(torch.as_tensor(array).to(self.device, dtype))


class Source(Protocol):
    """Where batches come from."""

    n_rows: int
    total_weight: float
    batches_per_epoch: int

    def batches(self, start: int = 0) -> Generator[Batch]:
        """Batches without end, from batch number `start` on."""
        ...


def scaled(scaling: Scaling, X: NDArray[Any], dtype: torch.dtype) -> Tensor:
    """Rows X, shape (b, d), scaled in float64 and then rounded: shape (b, width)."""
    result = torch.empty(len(X), scaling.width, dtype=dtype)
    scaling.apply(X, result.numpy())
    return result


def aligned(tensor: Tensor) -> Tensor:
    """The tensor at an address where torch would have put it.

    Matrix products round differently for other addresses, and NumPy's memory, or a file's, may lie
    anywhere: then a run could not be repeated bit for bit.
    """
    return tensor if tensor.data_ptr() % ALIGNMENT == 0 else tensor.clone()
