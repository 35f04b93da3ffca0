"""Folds of the rows: what a feature learns from labels, it learns from those of other folds."""

import numpy as np
from numpy.typing import NDArray

from sepgp.draws import draw

FOLDS = 5
"""How many there are."""
SEED = 5
"""Of the draw, so that it is none of those that depend on the user's seed."""


def fold_of(numbers: NDArray[np.int64], stream: int = 0) -> NDArray[np.int8]:
    """The fold of rows with these numbers in a stream, the same wherever a row is met."""
    return (FOLDS * draw(numbers, SEED + stream)[1]).astype(np.int8)
