"""A batch of rows on its way from a source to a training step."""

from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """b rows, scaled and ready for the kernel."""

    X: Tensor
    """Features, shape (b, d)."""
    y: Tensor
    """Labels −1 and 1, shape (b,)."""
    weight: Tensor
    """Shape (b,)."""
    rows: Tensor | None
    """Row numbers in the whole set, shape (b,); None when the batch is the whole set in order."""
