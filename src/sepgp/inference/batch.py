"""A batch of rows, as the methods see it."""

from typing import NamedTuple

from torch import Tensor


class Targets(NamedTuple):
    """Labels and weights of the b rows of a batch, and how many rows there are in all."""

    y: Tensor
    """Labels −1 and 1, shape (b,)."""
    weight: Tensor
    """A row of weight w counts as w copies of its factor; shape (b,)."""
    rows: Tensor | None
    """Row numbers of the batch in the whole set, shape (b,); EP alone needs them."""
    n: float
    """Total weight of all rows of the set: the paper's n."""
