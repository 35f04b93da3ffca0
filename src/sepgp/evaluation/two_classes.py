"""How good the probabilities of two classes are."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sepgp.data.scaling import Floats

BINS = 15
"""Bins of the expected calibration error."""


class Sorted(NamedTuple):
    """Probabilities p of the second class in ascending order, with what the metrics need."""

    p: Floats
    y: Floats
    """1 for the second class and 0 for the first, shape (n,)."""
    loss: Floats
    """−log of the probability of the true class, shape (n,)."""


def measures(
    p: Floats, loss: Floats, y: NDArray[np.bool_], weight: Floats
) -> tuple[Callable[[Floats], dict[str, float]], Floats]:
    """A function that gives the metrics for any weights of the rows, and the weights in its order.

    `p` are probabilities of the second class, and `y` says which rows are of it, shape (n,).
    """
    order = np.argsort(p, kind="stable")
    rows = Sorted(p[order], y[order].astype(np.float64), loss[order])
    return partial(_measured, rows), weight[order]


def _measured(rows: Sorted, weight: Floats) -> dict[str, float]:
    total = weight.sum()
    return {
        "nll": float(weight @ rows.loss / total),
        "error": float(weight @ ((rows.p > 0.5) != (rows.y > 0)) / total),
        "brier": float(weight @ np.square(rows.p - rows.y) / total),
        "ece": calibration_error(rows.p, rows.y, weight),
        "auc": area_under_roc(rows.p, rows.y, weight),
    }


def calibration_error(p: Floats, y: Floats, weight: Floats) -> float:
    """Expected calibration error over bins of equal width.

    In each, the distance of the mean probability from the share of the second class.
    """
    return float(np.abs(calibration_gaps(p, y, weight)).sum() / weight.sum())


def calibration_gaps(p: Floats, y: Floats, weight: Floats) -> Floats:
    """Rows of the second class less those that p states, in each bin; adds up over rows."""
    where = np.minimum((p * BINS).astype(int), BINS - 1)
    return np.bincount(where, weight * (y - p), BINS).astype(np.float64)


def chance_of_calibration_error(p: Floats, weight: Floats) -> float:
    """The calibration error that right probabilities p, shape (n,), would have by chance alone.

    It is not 0: in a bin, the share of what happened differs from what was stated by a normal
    deviate of variance Σ w²p(1 − p), whose mean distance from 0 is √(2/π) standard deviations.
    """
    where = np.minimum((p * BINS).astype(int), BINS - 1)
    variance = np.bincount(where, weight**2 * p * (1 - p), BINS)
    return float(np.sqrt(2 / np.pi * variance).sum() / weight.sum())


def area_under_roc(p: Floats, y: Floats, weight: Floats) -> float:
    """The chance that a row of the second class has the higher probability; ties count half.

    `p` is in ascending order. NaN if one class has no weight.
    """
    positive, negative = weight * y, weight * (1 - y)
    group = np.concatenate([[0], np.cumsum(p[1:] != p[:-1])])
    up, down = np.bincount(group, positive), np.bincount(group, negative)
    pairs = up.sum() * down.sum()
    if pairs == 0:
        return float("nan")
    return float(up @ (np.cumsum(down) - 0.5 * down) / pairs)
