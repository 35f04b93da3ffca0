"""Standardisation of features."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TAIL = 2.0
"""Beyond this many standard deviations a value is compressed by a logarithm."""
FARTHEST = 1e12
"""No scaled value is larger: squared distances would overflow in float32."""

LARGEST = float(np.finfo(np.float64).max)


class Scaling(NamedTuple):
    """z = (x − mean)/scale, feature by feature, with values beyond `tail` compressed.

    Where |z| > tail it becomes tail + log(1 + |z| − tail), with its sign: a value of forty
    standard deviations would otherwise be further from every other row than any length-scale
    reaches. The map is smooth and one-to-one.
    """

    mean: Floats
    """Shape (d,)."""
    scale: Floats
    """Shape (d,)."""
    tail: float

    def apply(self, X: NDArray[np.generic]) -> Floats:
        """Scale rows X, shape (b, d). Cost O(bd)."""
        with np.errstate(over="ignore"):
            z: Floats = (np.asarray(X, np.float64) - self.mean) / self.scale
        size = np.abs(z)
        far = size > self.tail
        if far.any():
            z[far] = np.copysign(self.tail + np.log1p(size[far] - self.tail), z[far])
        return np.clip(z, -FARTHEST, FARTHEST, out=z)

    def undo(self, Z: Floats) -> Floats:
        """The scaled rows Z, shape (b, d), in their original units. Cost O(bd)."""
        z = np.array(Z)
        size = np.abs(z)
        far = size > self.tail
        with np.errstate(over="ignore"):
            z[far] = np.copysign(self.tail + np.expm1(size[far] - self.tail), z[far])
            return np.clip(z * self.scale + self.mean, -LARGEST, LARGEST)


def identity(n_features: int) -> Scaling:
    """The scaling that changes nothing."""
    return Scaling(np.zeros(n_features), np.ones(n_features), math.inf)
