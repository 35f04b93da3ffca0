"""How good the probabilities of more than two classes are."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sepgp.data.scaling import Floats
from sepgp.evaluation.two_classes import BINS


class Parts(NamedTuple):
    """What the metrics of n rows are made of; a resample only weighs the rows anew."""

    means: Floats
    """Loss, mistake and Brier score of every row, shape (3, n)."""
    top: Any
    """Gap between outcome and probability of the most probable class, in its bin: (n, BINS)."""
    classes: Any
    """The same for every class, shape (n, C · BINS), sparse."""
    areas: Floats
    """Macro and weighted area under the ROC curves, NaN without two classes."""
    influence: Floats
    """What weight on a row adds to either area, shape (2, n)."""


def measures(
    p: Floats, loss: Floats, codes: NDArray[np.int64], weight: Floats
) -> tuple[Callable[[Floats], dict[str, float]], Floats]:
    """A function that gives the metrics for any weights of the rows, and the weights as given.

    `p` has shape (n, C) and `codes`, the numbers of the true classes, shape (n,). Memory and cost
    are O(nC), besides a sort for every class.
    """
    n, C = p.shape
    y = codes[:, None] == np.arange(C)
    said = p.argmax(1)
    right = said == codes
    brier = np.square(p - y).sum(1)
    top = _gaps(p[np.arange(n), said][:, None], right[:, None])
    means = np.stack([loss, ~right, brier])
    areas, influence = _mean_areas(p, codes, weight)
    return partial(_measured, Parts(means, top, _gaps(p, y), areas, influence)), weight


def _measured(parts: Parts, weight: Floats) -> dict[str, float]:
    total = weight.sum()
    nll, error, brier = parts.means @ weight / total
    classes = np.abs(weight @ parts.classes)
    macro, weighted = np.clip(parts.areas + parts.influence @ weight / total, 0, 1)
    return {
        "nll": float(nll),
        "error": float(error),
        "brier": float(brier),
        "ece": float(np.abs(weight @ parts.top).sum() / total),
        "classwise_ece": float(classes.sum() / (total * len(classes) / BINS)),
        "macro_auc": float(macro),
        "weighted_auc": float(weighted),
    }


def _gaps(p: Floats, y: NDArray[np.bool_]) -> Any:
    """y − p of n rows and k events, each in the bin of its p: a sparse array (n, k · BINS)."""
    n, k = p.shape
    where = np.minimum((p * BINS).astype(np.int32), BINS - 1) + BINS * np.arange(k, dtype=np.int32)
    return csr_array(((y - p).ravel(), where.ravel(), np.arange(n + 1) * k), shape=(n, k * BINS))


def _mean_areas(p: Floats, codes: NDArray[np.int64], weight: Floats) -> tuple[Floats, Floats]:
    """Macro and weighted mean of the areas of the classes that have rows, and their influence."""
    n, C = p.shape
    rows = np.bincount(codes, weight, C)
    present = np.flatnonzero(rows)
    if len(present) < 2:
        return np.full(2, np.nan), np.zeros((2, n))
    areas, influence = np.zeros(C), np.zeros((2, n))
    share = np.stack([np.full(C, 1 / len(present)), rows / rows.sum()])
    for c in present:
        areas[c], change = area_under_roc(p[:, c], codes == c, weight)
        influence += share[:, c, None] * change
    means = share @ areas
    influence[1] += areas[codes] - means[1]  # the shares of the classes change too
    return means, influence


def area_under_roc(p: Floats, y: NDArray[np.bool_], weight: Floats) -> tuple[float, Floats]:
    """The chance that a row of the class has a higher p than one of the others; ties count half.

    With it the influence of every row, shape (n,): with other weights w of the same rows, the area
    is larger by Σ wᵢ influenceᵢ / Σ wᵢ to first order, which is what an interval needs.
    """
    _, group = np.unique(p, return_inverse=True)
    up, down = np.bincount(group, weight * y), np.bincount(group, weight * ~y)
    n_up, n_down = up.sum(), down.sum()
    below = (np.cumsum(down) - 0.5 * down) / n_down
    above = 1 - (np.cumsum(up) - 0.5 * up) / n_up
    area = up @ below / n_up
    change = np.where(y, (below[group] - area) / n_up, (above[group] - area) / n_down)
    return float(area), weight.sum() * change
