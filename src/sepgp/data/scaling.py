"""Standardisation of features."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Scaling(NamedTuple):
    """x ↦ (x − mean)/scale, feature by feature; both of shape (d,)."""

    mean: Floats
    scale: Floats

    def apply(self, X: NDArray[np.generic]) -> Floats:
        """Scale rows X, shape (b, d). Cost O(bd)."""
        scaled: Floats = (np.asarray(X, np.float64) - self.mean) / self.scale
        return scaled

    def undo(self, X: Floats) -> Floats:
        """The rows, shape (b, d), in their original units. Cost O(bd)."""
        return X * self.scale + self.mean


def identity(n_features: int) -> Scaling:
    """The scaling that changes nothing."""
    return Scaling(np.zeros(n_features), np.ones(n_features))


def standardization(X: NDArray[np.generic], weight: Floats) -> Scaling:
    """Weighted mean and standard deviation of the columns of X, shape (n, d). Cost O(nd).

    A constant column keeps scale 1, so that it becomes 0 instead of being divided by nothing.
    Work is done in blocks, so that no second array of the size of X is made.
    """
    total = weight.sum()
    blocks = [slice(i, i + 65_536) for i in range(0, len(X), 65_536)]
    mean = sum(weight[b] @ X[b].astype(np.float64) for b in blocks) / total
    variance = sum(weight[b] @ np.square(X[b] - mean) for b in blocks) / total
    scale = np.sqrt(variance)
    # Rounding leaves a constant column a spread of about the last digit of its mean.
    constant = scale <= 10 * np.finfo(np.float64).eps * np.abs(mean)
    return Scaling(np.asarray(mean), np.where(constant, 1.0, scale))
