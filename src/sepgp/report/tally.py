"""Counts of probabilities, from which every score and curve of the report is read.

Memory does not depend on the number of rows, and tallies of parts of the rows add up.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from sepgp.data.scaling import Floats
from sepgp.metrics import BINS

THRESHOLDS: Floats = np.arange(1, 1000) / 1000
"""Where the reader can put the threshold."""
# Fine in z, so that probabilities near 0 and 1 are told apart as well as those near ½; the other
# edges make counts at thresholds and in bins exact.
EDGES: Floats = np.unique(
    np.concatenate([ndtr(np.linspace(-8, 8, 8001)), THRESHOLDS, np.arange(1, BINS) / BINS])
)


class Scores(NamedTuple):
    """How good the probabilities are; NaN where the rows do not say."""

    nll: float
    """Mean negative log-likelihood, in nats."""
    error: float
    """Share of rows whose more probable class is the wrong one."""
    brier: float
    """Mean squared difference of probability and outcome."""
    ece: float
    """Expected calibration error: mean distance of stated and observed in the bins."""
    auc: float
    """Area under the ROC curve."""


class Reliability(NamedTuple):
    """Stated against observed, for every bin that has rows; all of shape (bins,)."""

    rows: NDArray[np.int64]
    """How many are in the bin."""
    stated: Floats
    """Mean probability of the rows in the bin."""
    observed: Floats
    """Share of rows of the second class among them."""
    low: Floats
    """95 % interval of what is observed (Wilson)."""
    high: Floats


class Tally(NamedTuple):
    """What is kept of the probabilities p of the second class and of the outcomes."""

    counts: NDArray[np.int64]
    """Rows of either class between two edges, shape (2, edges + 1)."""
    stated: Floats
    """Sum of p between two edges, shape (edges + 1,)."""
    log_loss: float
    squares: float
    errors: int

    @classmethod
    def of(cls, z: Floats, y: NDArray[np.bool_]) -> Self:
        """Count b rows with p = Φ(z), shape (b,), and outcomes y, shape (b,). Cost O(b)."""
        p = ndtr(z)
        where = np.searchsorted(EDGES, p, side="right")
        n = len(EDGES) + 1
        counts = np.stack([np.bincount(where[y == side], minlength=n) for side in (False, True)])
        return cls(
            counts,
            np.bincount(where, weights=p, minlength=n).astype(np.float64),
            float(-log_ndtr(np.where(y, z, -z)).sum()),
            float(np.square(p - y).sum()),
            int(((z > 0) != y).sum()),
        )

    def plus(self, other: "Tally") -> "Tally":
        """The tally of the rows of both."""
        return Tally(
            self.counts + other.counts,
            self.stated + other.stated,
            self.log_loss + other.log_loss,
            self.squares + other.squares,
            self.errors + other.errors,
        )

    @property
    def totals(self) -> tuple[int, int]:
        """Rows of either class."""
        first, second = self.counts.sum(1)
        return int(first), int(second)

    @property
    def n_rows(self) -> int:
        """Rows of both classes."""
        return int(self.counts.sum())

    def scores(self) -> Scores:
        """All scores of the rows."""
        n = self.n_rows
        return Scores(self.log_loss / n, self.errors / n, self.squares / n, self.ece(), self.auc())

    def ece(self) -> float:
        """Expected calibration error, over bins of the same width."""
        count, stated, observed, *_ = self.reliability()
        return float(count @ np.abs(stated - observed) / self.n_rows)

    def auc(self) -> float:
        """Area under the ROC curve; NaN if a class has no rows."""
        false, true = self.roc()
        return float(np.trapezoid(true, false)) if all(self.totals) else float("nan")

    def average_precision(self) -> float:
        """Mean precision, Σ (R_k − R_{k−1}) P_k; NaN without rows of the second class."""
        recall, precision = self.precision_recall()
        return float(np.diff(recall, prepend=0.0) @ precision) if len(recall) else float("nan")

    def reliability(self) -> Reliability:
        """Stated against observed in `BINS` bins of the same width."""
        begins = np.searchsorted(EDGES, np.arange(1, BINS) / BINS) + 1
        begins = np.concatenate([[0], begins])
        first, second = np.add.reduceat(self.counts, begins, axis=1)
        stated = np.add.reduceat(self.stated, begins)
        count = first + second
        kept = count > 0
        count, second = count[kept], second[kept]
        low, high = wilson(second, count)
        return Reliability(count, stated[kept] / count, second / count, low, high)

    def roc(self) -> tuple[Floats, Floats]:
        """False and true positive rates, from (0, 0) to (1, 1) as the threshold falls."""
        above = self._above()
        false, true = above / np.maximum(above[:, -1:], 1)
        return np.append(0.0, false), np.append(0.0, true)

    def precision_recall(self) -> tuple[Floats, Floats]:
        """Recall and precision as the threshold falls, both empty without rows of the class."""
        above = self._above()
        above = above[:, above.sum(0) > 0]
        if not self.totals[1]:
            return np.empty(0), np.empty(0)
        return above[1] / self.totals[1], above[1] / above.sum(0)

    def positives(self) -> NDArray[np.int64]:
        """Rows of either class with p at or above each threshold, shape (2, thresholds)."""
        from_edge = np.cumsum(self.counts[:, ::-1], axis=1)[:, ::-1]
        return from_edge[:, np.searchsorted(EDGES, THRESHOLDS) + 1]

    def histogram(self, n_bins: int) -> NDArray[np.int64]:
        """Rows of either class in bins of p of the same width, shape (2, n_bins).

        Edges of the bins have to be thresholds.
        """
        begins = np.searchsorted(EDGES, np.arange(1, n_bins) / n_bins) + 1
        return np.add.reduceat(self.counts, np.concatenate([[0], begins]), axis=1)

    def _above(self) -> NDArray[np.int64]:
        """Rows of either class at or above each edge that has rows, from the top."""
        counts = self.counts[:, ::-1]
        return np.cumsum(counts[:, counts.sum(0) > 0], axis=1)


def wilson(hits: NDArray[np.int64], count: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """The 95 % interval of a share of which `hits` of `count` were seen (Wilson's)."""
    z2 = 1.959964**2
    share = hits / count
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = np.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    return centre - half, centre + half
