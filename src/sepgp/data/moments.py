"""Mean and deviation of numbers by sums that can be merged in any order."""

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sepgp.data.scaling import FAR, LARGEST, TAIL, Floats, Scaling

VALUES, NARROW = 2**20, 16
"""Of a block: so many numbers, and no more rows than of so many columns."""
WIDE = 128
"""From so many columns on, rows are added up as they lie; fewer are transposed first."""
EXTREME = 400
"""Numbers beyond 2 to this power, or below its inverse, are taken in other units: their squares
would overflow, or be 0."""
SWAMPED = 30.0
"""A standard deviation that is more than this many times the width of most values is that of a few
others."""
NORMAL_WIDTHS = {0.25: 1.349, 0.1: 2.563, 0.05: 3.290, 0.01: 4.653}
"""Between a quantile and its opposite, in standard deviations of a normal distribution."""
QUANTILE_ROWS = 2000
ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""A deviation of this part of the values is that of their last digits."""
NOTHING = -(2**15)
"""The unit of numbers that are all 0, as a power of 2: less than that of any others."""


@dataclass(frozen=True)
class Moments:
    """Weight, mean, sum of squared deviations and range of k numbers, each of shape (k,).

    Mean, deviations and range are in units of 2 to the power `unit`, nearly always 0.
    """

    weight: Floats
    mean: Floats
    squares: Floats
    low: Floats
    high: Floats
    missing: Floats
    """Weight of the rows that lack the number."""
    unit: NDArray[np.int_]

    @classmethod
    def of(cls, values: Floats, weight: Floats) -> Self:
        """Of rows of shape (b, k) with weights of shape (b,); NaN is left out. Cost O(bk)."""
        # Loops over rows are the inner ones, unless there are so many columns that they may be.
        columns = np.array(values.T, np.float64, order="C" if values.shape[1] < WIDE else "F")
        low, high = columns.min(1), columns.max(1)
        absent = np.isnan(columns) if np.isnan(low).any() else None
        if absent is not None:
            low = columns.min(1, where=~absent, initial=np.inf)
            high = columns.max(1, where=~absent, initial=-np.inf)
        size = np.maximum(high, -low)
        unit = np.where(size > 0, np.frexp(size)[1], NOTHING)
        unit[(np.abs(unit) <= EXTREME)] = 0
        if unit.any():
            columns = np.ldexp(columns, -unit[:, None])
            low, high = np.ldexp(low, -unit), np.ldexp(high, -unit)
        total, missing = np.full(len(columns), weight.sum()), np.zeros(len(columns))
        if absent is not None:
            total, missing = ~absent @ weight, absent @ weight
            columns[absent] = 0.0
        with np.errstate(invalid="ignore"):
            mean = np.nan_to_num(columns @ weight / total)
        columns -= mean[:, None]
        if absent is not None:
            columns[absent] = 0.0
        squares = np.square(columns, out=columns) @ weight
        return cls(total, mean, squares, low, high, missing, unit)

    def __add__(self, other: Self) -> Self:
        """Of both sets of rows together (Chan, Golub and LeVeque, 1983)."""
        unit = np.maximum(self.unit, other.unit)
        self, other = self._in(unit), other._in(unit)
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
            unit,
        )

    def _in(self, unit: NDArray[np.int_]) -> Self:
        """The same numbers in another unit."""
        change = self.unit - unit
        if not change.any():
            return self
        mean, low, high = (np.ldexp(part, change) for part in (self.mean, self.low, self.high))
        squares = np.ldexp(self.squares, 2 * change)
        return replace(self, mean=mean, squares=squares, low=low, high=high, unit=unit)

    def __mul__(self, factor: float) -> Self:
        """Of the same rows with all weights multiplied by a factor."""
        scaled = {name: factor * getattr(self, name) for name in ("weight", "squares", "missing")}
        return replace(self, **scaled)

    def times(self, factor: float) -> Self:
        """Of the numbers multiplied by a factor."""
        low, high = factor * self.low, factor * self.high
        low, high = (low, high) if factor > 0 else (high, low)
        mean, squares = factor * self.mean, factor**2 * self.squares
        return replace(self, mean=mean, squares=squares, low=low, high=high)

    def columns(self, which: Sequence[int]) -> Self:
        """Of some of the numbers."""
        return type(self)(*(part[list(which)] for part in vars(self).values()))

    def facts(self) -> list[Any]:
        """What tells these numbers from others, in terms of JSON."""
        return [self.centre.tolist(), self.deviation.tolist(), self.missing.tolist()]

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Whether the numbers differ at all, shape (k,)."""
        return self.high > self.low

    @property
    def centre(self) -> Floats:
        """The mean, shape (k,), free of rounding where all numbers are the same; 0 if none is."""
        same = np.where(self.weight > 0, self.low, 0.0)
        return np.ldexp(np.where(self.varies, self.mean, same), self.unit)

    @property
    def deviation(self) -> Floats:
        """The standard deviation, shape (k,), where missing numbers are at the mean."""
        return np.ldexp(np.sqrt(self.squares / (self.weight + self.missing)), self.unit)

    @property
    def facets(self) -> Floats:
        """Mean, deviation, and the largest distance from the mean, of each number: (3, k)."""
        present = self.varies
        with np.errstate(invalid="ignore"):
            reach = np.maximum(self.high - self.mean, self.mean - self.low)
        reach = np.ldexp(np.where(present, reach, 0.0), self.unit)
        return np.stack([self.centre, np.where(present, self.deviation, 0.0), reach])


def standardization(X: NDArray[Any], weight: Floats) -> Scaling:
    """Weighted mean and standard deviation of the columns of X, shape (n, d). Cost O(nd).

    Work is done in blocks, so that no second array of the size of X is made.
    """
    size = max(1, VALUES // max(X.shape[1], NARROW))
    blocks = (slice(i, i + size) for i in range(0, len(X), size))
    parts = (Moments.of(X[b], weight[b]) for b in blocks)
    return standardized(functools.reduce(operator.add, parts).facets)


def standardized(facets: Floats) -> Scaling:
    """The scaling to mean 0 and variance 1 of features by their `Moments.facets`, shape (3, d).

    A constant feature becomes 0, and so does one that varies by nothing but the rounding of its
    values; see `Scaling`.
    """
    mean, deviation, reach = facets
    with np.errstate(over="ignore"):
        rounding = ROUNDING * (np.abs(mean) + reach)
    varies = deviation > rounding
    scale = np.where(varies, deviation, LARGEST)
    far = FAR * np.maximum(TAIL, np.where(varies, reach / scale, 0.0))
    return Scaling(mean, scale, TAIL, far)


def resistant(scaling: Scaling, rows: NDArray[Any]) -> Scaling:
    """The same scaling, but where a few far values set it: one, or a sign for missing as -999.

    There it is by the quantiles of a sample of rows, shape (k, d), or else all other values would
    look alike. Features that are mostly one value are judged by quantiles farther out.
    """
    some = np.asarray(rows[:: -(-len(rows) // QUANTILE_ROWS)], np.float64)
    width, shares = np.zeros(some.shape[1]), list(NORMAL_WIDTHS)
    with np.errstate(all="ignore"):
        levels = [0.5, *shares, *(1 - share for share in shares)]
        middle, *sides = np.quantile(some, levels, axis=0)
        lows, highs = sides[: len(shares)], sides[len(shares) :]
        for low, high, normal in zip(lows, highs, NORMAL_WIDTHS.values(), strict=True):
            width = np.where(width > 0, width, (high - low) / normal)
        swamped = np.isfinite(width + middle) & (width > 0) & (scaling.scale / width > SWAMPED)
        swamped &= scaling.scale < LARGEST
        moved = scaling.far * scaling.scale + FAR * np.abs(middle - scaling.mean)
        far = np.maximum(FAR * TAIL, np.where(swamped, moved / width, scaling.far))
    return scaling._replace(
        mean=np.where(swamped, middle, scaling.mean),
        scale=np.where(swamped, width, scaling.scale),
        far=np.minimum(far, LARGEST),
    )
