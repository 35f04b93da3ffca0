"""Which classes are taken for which, and how far the probability of each can be trusted.

Memory is O(C²), whatever the number of rows, and those of parts of the rows add up. A row of
weight w counts as w rows.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sepgp.data.scaling import Floats
from sepgp.evaluation.tally import Reliability
from sepgp.evaluation.two_classes import BINS


class Mistake(NamedTuple):
    """Rows of one class that were said to be of another."""

    true: int
    said: int
    rows: float
    share: float
    """Of all rows of the true class."""


class Confusion(NamedTuple):
    """True classes against those that were said, the most probable ones."""

    counts: Floats
    """Rows of class i that were said to be of class j, shape (C, C)."""
    bins: Floats
    """For `Reliability.of`, every class against the rest, shape (4, C, BINS)."""

    @classmethod
    def of(cls, p: Floats, codes: NDArray[np.int64], weight: Floats) -> Self:
        """Count b rows by probabilities, shape (b, C), class numbers and weights. Cost O(bC)."""
        C = p.shape[1]
        counts = _sums(codes * C + p.argmax(1), weight, C * C)
        bins = np.minimum((p * BINS).astype(np.int64), BINS - 1) + BINS * np.arange(C)
        heavy = np.repeat(weight, C)
        y = (codes[:, None] == np.arange(C)).ravel()
        sums = (heavy * ~y, heavy * y, heavy**2, heavy * p.ravel())
        added = np.stack([_sums(bins.ravel(), part, C * BINS) for part in sums])
        return cls(counts.reshape(C, C), added.reshape(4, C, BINS))

    def plus(self, other: "Confusion") -> "Confusion":
        """That of the rows of both."""
        return Confusion(self.counts + other.counts, self.bins + other.bins)

    @property
    def totals(self) -> Floats:
        """Rows of every class, shape (C,)."""
        totals: Floats = self.counts.sum(1)
        return totals

    def recall(self) -> Floats:
        """The share of the rows of every class that were said to be of it; NaN without rows."""
        return _shares(np.diag(self.counts), self.totals)

    def precision(self) -> Floats:
        """The share of the rows said to be of every class that are; NaN if it was never said."""
        return _shares(np.diag(self.counts), self.counts.sum(0))

    def f1(self) -> Floats:
        """The harmonic mean of precision and recall."""
        return _shares(2 * np.diag(self.counts), self.totals + self.counts.sum(0))

    def reliability(self, code: int) -> Reliability:
        """Stated against observed probability of one class."""
        return Reliability.of(self.bins[:, code])

    def calibration_error(self) -> Floats:
        """The expected calibration error of every class, shape (C,)."""
        error: Floats = np.abs(self.bins[1] - self.bins[3]).sum(1) / self.totals.sum()
        return error

    def mistakes(self) -> list[Mistake]:
        """Every pair of classes that was confused, from the most frequent mistake down."""
        wrong = self.counts * ~np.eye(len(self.counts), dtype=bool)
        order = np.argsort(-wrong, axis=None, kind="stable")[: np.count_nonzero(wrong)]
        pairs = zip(*np.unravel_index(order, wrong.shape), strict=True)
        totals = self.totals
        return [Mistake(int(i), int(j), wrong[i, j], wrong[i, j] / totals[i]) for i, j in pairs]


def _sums(where: NDArray[np.int64], values: Floats, size: int) -> Floats:
    return np.bincount(where, values, size).astype(np.float64)


def _shares(part: Floats, whole: Floats) -> Floats:
    shares: Floats = np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)
    return shares
