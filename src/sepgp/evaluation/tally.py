"""Counts of probabilities, from which the curves of the report are read.

Memory does not depend on the number of rows, and tallies of parts of the rows add up. A row of
weight w counts as w rows.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sepgp.data.scaling import Floats
from sepgp.evaluation.two_classes import BINS

THRESHOLDS: Floats = np.arange(1, 1000) / 1000
"""Where the reader can put the threshold."""
# Fine in z, so that probabilities near 0 and 1 are told apart as well as those near ½; the other
# edges make counts at thresholds and in bins exact.
EDGES: Floats = np.unique(
    np.concatenate([ndtr(np.linspace(-8, 8, 8001)), THRESHOLDS, np.arange(1, BINS) / BINS])
)


class Reliability(NamedTuple):
    """Stated against observed, for every bin that has rows; all of shape (bins,).

    The intervals are those of as many rows of the same weight as would tell as much.
    """

    rows: Floats
    """How many are in the bin."""
    stated: Floats
    """Mean probability of the rows in the bin."""
    observed: Floats
    """Share of rows of the second class among them."""
    low: Floats
    """95 % interval of what is observed (Wilson)."""
    high: Floats

    @classmethod
    def of(cls, sums: Floats) -> Self:
        """From weights without and with the event, squared weights and p, summed over each bin."""
        without, with_, squares, stated = sums[:, sums[:2].sum(0) > 0]
        count = without + with_
        observed = with_ / count
        low, high = wilson(observed, count**2 / squares)
        return cls(count, stated / count, observed, low, high)


class Tally(NamedTuple):
    """What is kept of the probabilities p of the second class and of the outcomes."""

    counts: Floats
    """Rows of either class between two edges, shape (2, edges + 1)."""
    squares: Floats
    """Sum of the squared weights between two edges, shape (edges + 1,)."""
    stated: Floats
    """Sum of p between two edges, shape (edges + 1,)."""

    @classmethod
    def of(cls, p: Floats, y: NDArray[np.bool_], weight: Floats) -> Self:
        """Count b rows by p, outcomes y and weights, each of shape (b,). Cost O(b)."""
        where = np.searchsorted(EDGES, p, side="right")

        def sums(values: Floats) -> Floats:
            return np.bincount(where, values, len(EDGES) + 1).astype(np.float64)

        counts = np.stack([sums(weight * ~y), sums(weight * y)])
        return cls(counts, sums(weight**2), sums(weight * p))

    def plus(self, other: "Tally") -> "Tally":
        """The tally of the rows of both."""
        return Tally(*(mine + others for mine, others in zip(self, other, strict=True)))

    @property
    def totals(self) -> tuple[float, float]:
        """Rows of either class."""
        first, second = self.counts.sum(1)
        return float(first), float(second)

    @property
    def total(self) -> float:
        """Rows of both classes."""
        return sum(self.totals)

    def average_precision(self) -> float:
        """Mean precision, Σ (R_k − R_{k−1}) P_k; NaN without rows of the second class."""
        recall, precision = self.precision_recall()
        return float(np.diff(recall, prepend=0.0) @ precision) if len(recall) else float("nan")

    def reliability(self) -> Reliability:
        """Stated against observed in `BINS` bins of the same width."""
        return Reliability.of(np.add.reduceat(np.vstack(self), _begins(BINS), axis=1))

    def roc(self) -> tuple[Floats, Floats]:
        """False and true positive rates, from (0, 0) to (1, 1) as the threshold falls."""
        above = self._above()
        false, true = above / np.where(above[:, -1:] > 0, above[:, -1:], 1)
        return np.append(0.0, false), np.append(0.0, true)

    def precision_recall(self) -> tuple[Floats, Floats]:
        """Recall and precision as the threshold falls, both empty without rows of the class."""
        if not self.totals[1]:
            return np.empty(0), np.empty(0)
        above = self._above()
        return above[1] / above[1, -1], above[1] / above.sum(0)

    def abstention(self) -> tuple[Floats, Floats]:
        """Rows at or above a threshold, as a share, and those of the first class among them.

        With the first class for mistakes: the error when only the surest rows are answered.
        """
        above = self._above()
        return above.sum(0) / self.total, above[0] / above.sum(0)

    def positives(self) -> Floats:
        """Rows of either class with p at or above each threshold, shape (2, thresholds)."""
        from_edge = np.cumsum(self.counts[:, ::-1], axis=1)[:, ::-1]
        return from_edge[:, np.searchsorted(EDGES, THRESHOLDS) + 1]

    def histogram(self, n_bins: int) -> Floats:
        """Rows of either class in bins of p of the same width, shape (2, n_bins).

        Edges of the bins have to be thresholds.
        """
        sums: Floats = np.add.reduceat(self.counts, _begins(n_bins), axis=1)
        return sums

    def _above(self) -> Floats:
        """Rows of either class at or above each edge that has rows, from the top."""
        counts = self.counts[:, ::-1]
        return np.cumsum(counts[:, counts.sum(0) > 0], axis=1)


def _begins(n_bins: int) -> NDArray[np.int_]:
    return np.append(0, np.searchsorted(EDGES, np.arange(1, n_bins) / n_bins) + 1)


def wilson(share: Floats, count: Floats) -> tuple[Floats, Floats]:
    """The 95 % interval of a share that was seen among so many (Wilson's)."""
    z2 = 1.959964**2
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = np.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    return centre - half, centre + half
