"""Batches of rows on their way to a training step, and what gives them."""

from collections.abc import Generator
from typing import NamedTuple, Protocol

from torch import Tensor

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


class Source(Protocol):
    """Where batches come from."""

    n_rows: int
    total_weight: float
    batches_per_epoch: int

    def batches(self, start: int = 0) -> Generator[Batch]:
        """Batches without end, from batch number `start` on."""
        ...


def aligned(tensor: Tensor) -> Tensor:
    """The tensor at an address where torch would have put it.

    Matrix products round differently for other addresses, and NumPy's memory, or a file's, may lie
    anywhere: then a run could not be repeated bit for bit.
    """
    return tensor if tensor.data_ptr() % ALIGNMENT == 0 else tensor.clone()
