"""Mean and variance of numbers by sums that can be merged in any order."""

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sepgp.data.scaling import TAIL, Floats, Scaling

BLOCK = 65_536


@dataclass(frozen=True)
class Moments:
    """Weight, mean, sum of squared deviations and range of k numbers, each of shape (k,)."""

    weight: Floats
    mean: Floats
    squares: Floats
    low: Floats
    high: Floats
    missing: Floats
    """Weight of the rows that lack the number."""

    @classmethod
    def of(cls, values: Floats, weight: Floats) -> Self:
        """Of rows of shape (b, k) with weights of shape (b,); NaN is left out. Cost O(bk)."""
        absent = np.isnan(values)
        if not absent.any():
            total = np.full(values.shape[1], weight.sum())
            mean = weight @ values / total
            squares = weight @ np.square(values - mean)
            return cls(total, mean, squares, values.min(0), values.max(0), 0.0 * total)
        total = weight @ ~absent
        with np.errstate(invalid="ignore"):
            mean = np.nan_to_num(weight @ np.where(absent, 0.0, values) / total)
        squares = weight @ np.where(absent, 0.0, np.square(values - mean))
        low = np.where(absent, np.inf, values).min(0)
        high = np.where(absent, -np.inf, values).max(0)
        return cls(total, mean, squares, low, high, weight @ absent)

    def __add__(self, other: Self) -> Self:
        """Of both sets of rows together (Chan, Golub and LeVeque, 1983)."""
        total = self.weight + other.weight
        with np.errstate(invalid="ignore"):
            share = np.nan_to_num(other.weight / total)
        step = other.mean - self.mean
        return type(self)(
            total,
            self.mean + share * step,
            self.squares + other.squares + np.square(step) * self.weight * share,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.missing + other.missing,
        )

    def __mul__(self, factor: float) -> Self:
        """Of the same rows with all weights multiplied by a factor."""
        scaled = {name: factor * getattr(self, name) for name in ("weight", "squares", "missing")}
        return replace(self, **scaled)

    def columns(self, which: Sequence[int]) -> Self:
        """Of some of the numbers."""
        return type(self)(*(part[list(which)] for part in vars(self).values()))

    def facts(self) -> list[Any]:
        """What tells these numbers from others, in terms of JSON."""
        return [self.mean.tolist(), self.squares.tolist(), self.missing.tolist()]

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Whether the numbers differ at all, shape (k,)."""
        return self.high > self.low

    @property
    def centre(self) -> Floats:
        """The mean, shape (k,), free of rounding where all numbers are the same; 0 if none is."""
        same = np.where(self.weight > 0, self.low, 0.0)
        return np.where(self.varies, self.mean, same)


def standardization(X: NDArray[Any], weight: Floats) -> Scaling:
    """Weighted mean and standard deviation of the columns of X, shape (n, d). Cost O(nd).

    Work is done in blocks, so that no second array of the size of X is made.
    """
    blocks = (slice(i, i + BLOCK) for i in range(0, len(X), BLOCK))
    parts = (Moments.of(X[b].astype(np.float64), weight[b]) for b in blocks)
    total = functools.reduce(operator.add, parts)
    return standardized(total.centre, total.squares / total.weight, total.varies)


def standardized(mean: Floats, variance: Floats, varies: NDArray[Any]) -> Scaling:
    """The scaling to mean 0 and variance 1 of features, each argument of shape (d,).

    A constant feature keeps scale 1, so that it becomes exactly 0, and no gradient moves inducing
    points out of the plane of the data, instead of being divided by nothing.
    """
    scale = np.where(varies > 0, np.sqrt(variance), 1.0)
    return Scaling(mean, np.where(scale > 0, scale, 1.0), TAIL)
