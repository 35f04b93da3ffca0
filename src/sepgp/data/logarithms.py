"""Skewed features beside their logarithms.

A kernel has one length-scale for all values of a feature. Of a skewed one most values lie close
together at one end and a few far away, and no length-scale suits both. So the kernel sees such a
feature twice: as it is, and by the logarithm of the distance from that end.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SKEWED = 1.0
"""The skewness from which on a feature is seen twice, ..."""
ALIKE = 0.99
"""... unless it and its logarithm are correlated as much as this: then nothing is gained."""
UNITS = np.geomspace(1.0, 1e-3, 7)
"""Units of the distance that are tried, in standard deviations. Steps are so large that rounding
decides nothing."""


class Logarithms(NamedTuple):
    """log(1 + t) of k standardised features, with t = (z − origin)/unit, shapes (k,).

    Beyond the origin, where t < 0, it is −log(1 − t). Less its mean and divided by its deviation,
    both of training.
    """

    columns: NDArray[np.int64]
    """Which of the features."""
    origin: Floats
    """The end of the values that most of them are near to."""
    unit: Floats
    """Negative where that is the upper end."""
    mean: Floats
    deviation: Floats

    def apply(self, z: Floats) -> Floats:
        """Of standardised rows z, shape (b, d): shape (b, k). Cost O(bk)."""
        logarithm = symmetric_log((z[:, self.columns] - self.origin) / self.unit)
        return (logarithm - self.mean) / self.deviation


def symmetric_log(t: Floats) -> Floats:
    """log(1 + |t|) with the sign of t: smooth, increasing, and t itself near 0."""
    return np.copysign(np.log1p(np.abs(t)), t)


def of_skewed(z: Floats, weight: Floats) -> Logarithms | None:
    """The logarithms of features that are skewed, by standardised rows z, shape (n, d).

    Each has the unit of the highest normal likelihood. None if no feature is skewed. Cost O(nd).
    """
    weight = weight / weight.sum()
    skewness = _skewness(z, weight)
    columns = np.flatnonzero(np.abs(skewness) > SKEWED)
    z, sign = z[:, columns], np.sign(skewness[columns])
    origin = np.where(sign > 0, z.min(0), z.max(0))
    likelihood = []
    for unit in UNITS:
        logarithm = symmetric_log((z - origin) / (sign * unit))
        mean, variance = _moments(logarithm, weight)
        likelihood.append(-mean - np.log(unit) - 0.5 * np.log(variance))
    unit = sign * UNITS[np.argmax(likelihood, axis=0)]
    logarithm = symmetric_log((z - origin) / unit)
    mean, variance = _moments(logarithm, weight)
    centre, spread = _moments(z, weight)
    products = weight @ ((z - centre) * (logarithm - mean))
    bent = np.abs(products) < ALIKE * np.sqrt(spread * variance)
    if not bent.any():
        return None
    kept = (part[bent] for part in (origin, unit, mean, np.sqrt(variance)))
    return Logarithms(columns[bent], *kept)


def _moments(values: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of columns, by weights that sum to one."""
    mean = weight @ values
    return mean, weight @ np.square(values - mean)


def _skewness(z: Floats, weight: Floats) -> Floats:
    """Of columns, shape (d,); 0 for those that are constant, but for rows of hardly any weight."""
    mean, variance = _moments(z, weight)
    third: Floats = weight @ (z - mean) ** 3
    scale = np.where(z.max(0) > z.min(0), variance, np.inf) ** 1.5
    return third / np.where(scale > 0, scale, np.inf)
