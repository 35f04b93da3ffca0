"""Standardisation of features."""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sepgp.data.logarithms import Logarithms

Floats = NDArray[np.float64]

TAIL = 2.0
"""Beyond this many standard deviations a value is compressed by a logarithm."""
FAR = 3.0
"""Far begins at so many times the largest distance from the mean in training."""
FARTHEST = 1e12
"""No scaled value is larger: squared distances would overflow in float32."""

VALUES = 2**16
"""Of a block of rows that is scaled at a time: what is computed on the way stays in the cache."""

LARGEST = float(np.finfo(np.float64).max)


class Scaling(NamedTuple):
    """z = (x − mean)/scale, feature by feature, with values beyond `tail` compressed.

    Where |z| > tail it becomes tail + log(1 + |z| − tail), with its sign: a value of forty
    standard deviations would otherwise be further from every other row than any length-scale
    reaches. Beyond `far`, where no row of training was, it grows with z again, so that a model
    knows nothing of rows that are far from all that it has seen. The map is one-to-one. A feature
    that was constant has so large a scale that it is 0 whatever its value: nothing can be said
    about others.
    """

    mean: Floats
    """Shape (d,)."""
    scale: Floats
    """Shape (d,)."""
    tail: float
    far: Floats
    """In standard deviations, shape (d,)."""
    components: Floats | None = None
    """Where there are very many features: the directions that rows are then projected on, shape
    (d, q), orthogonal and of one length. See `sepgp.data.components`."""
    logarithms: Logarithms | None = None
    """Where features are skewed: the k logarithms that rows have beside them."""

    @property
    def width(self) -> int:
        """How many numbers a scaled row has: d, or d + k, or q."""
        if self.components is not None:
            return len(self.components.T)
        return len(self.mean) + (0 if self.logarithms is None else len(self.logarithms.columns))

    def apply(self, X: NDArray[np.generic], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Scale rows X, shape (b, d), to shape (b, width). Cost O(bd), or O(bdq).

        The result is in `out`, if that is given, which may be of another type of numbers.
        """
        scaled = np.empty((len(X), self.width)) if out is None else out
        size = max(1, VALUES // max(1, X.shape[1]))
        for begin in range(0, len(X), size):
            block = slice(begin, begin + size)
            scaled[block] = self.project(self.standardize(X[block]))
        return scaled

    def project(self, z: Floats) -> Floats:
        """Standardised rows, shape (b, d), with logarithms or on components: shape (b, width)."""
        if self.logarithms is not None:
            return np.concatenate([z, self.logarithms.apply(z)], axis=1)
        return z if self.components is None else z @ self.components

    def standardize(self, X: NDArray[np.generic]) -> Floats:
        """Rows X, shape (b, d), before they are projected: shape (b, d)."""
        with np.errstate(over="ignore"):
            z: Floats = (np.asarray(X, np.float64) - self.mean) / self.scale
        size = np.abs(z)
        largest = size.max(initial=0.0)
        if not largest <= self.tail:
            out = size > self.tail
            size, far = size[out], np.broadcast_to(self.far, z.shape)[out]
            near = np.minimum(size, far)
            pulled = self.tail + np.log1p(near - self.tail) + (size - near)
            z[out] = np.copysign(pulled, z[out])
        return z if largest <= FARTHEST else np.clip(z, -FARTHEST, FARTHEST, out=z)

    def lift(self, Z: Floats) -> Floats:
        """The standardised rows, shape (b, d), that are projected on Z, shape (b, width)."""
        if self.components is None:
            return Z[:, : len(self.mean)]
        lifted: Floats = Z @ (self.components / np.square(self.components).sum(0)).T
        return lifted

    def undo(self, Z: Floats) -> Floats:
        """The scaled rows Z, shape (b, width), in their original units. Cost O(bd), or O(bdq)."""
        return self.unstandardize(self.lift(Z))

    def unstandardize(self, Z: Floats) -> Floats:
        """Standardised rows, shape (b, d), in their original units. Cost O(bd)."""
        z = np.array(Z)
        size = np.abs(z)
        out = size > self.tail
        with np.errstate(over="ignore"):
            far = np.broadcast_to(self.far, z.shape)[out]
            edge = self.tail + np.log1p(far - self.tail)
            near = np.minimum(size[out], edge)
            pushed = self.tail + np.expm1(near - self.tail) + (size[out] - near)
            z[out] = np.copysign(pushed, z[out])
            return np.clip(z * self.scale + self.mean, -LARGEST, LARGEST)

    def for_more(self) -> Self:
        """For a model that will learn from more rows.

        A feature that was constant may vary yet, and what is far from the first rows need not be
        far from all.
        """
        scale = np.where(self.scale == LARGEST, 1.0, self.scale)
        return self._replace(scale=scale, far=np.full_like(self.far, math.inf))


def identity(n_features: int, mean: Floats | float = 0.0) -> Scaling:
    """The scaling that changes nothing, but takes off the mean, shape (d,), if there is one."""
    never = np.full(n_features, math.inf)
    return Scaling(np.zeros(n_features) + mean, np.ones(n_features), math.inf, never)
