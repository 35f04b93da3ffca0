"""How good probabilities are, each as one number with a bootstrap interval."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sepgp.data import checks
from sepgp.data.scaling import Floats

BINS = 15
"""Bins of the expected calibration error."""
WORK = 2e8
"""Rows times resamples that an interval may cost."""


class Estimate(NamedTuple):
    """A metric and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


class Sorted(NamedTuple):
    """Probabilities p of the second class in ascending order, with what the metrics need."""

    p: Floats
    y: Floats
    """1 for the second class and 0 for the first, shape (n,)."""
    loss: Floats
    """−log of the probability of the true class, shape (n,)."""


def second_class(classes: NDArray[Any], y: NDArray[Any] | None, what: str) -> NDArray[np.bool_]:
    """Which labels y, shape (b,), are the second class; refuses those that are neither."""
    codes = checks.class_codes(checks.labelled(y, what), classes, what, "classes of the model")
    return np.asarray(codes == 1)


def metrics(log_p: Floats, y: NDArray[np.bool_], weight: Floats) -> dict[str, Estimate]:
    """NLL, error, Brier score, ECE and ROC AUC of n rows, each NaN where the rows do not say.

    `log_p`, shape (n, 2), are the logarithms of the probabilities of both classes; `y`, shape
    (n,), says which rows are of the second one; a row of weight w, shape (n,), counts as w rows.
    The intervals are from rows resampled with Poisson weights, with a fixed seed. Cost O(n) for
    each of 100 to 1,000 resamples, and one sort.
    """
    p = np.exp(log_p[:, 1])
    order = np.argsort(p, kind="stable")
    loss = -np.where(y, log_p[:, 1], log_p[:, 0])
    rows = Sorted(p[order], y[order].astype(np.float64), loss[order])
    weight = weight[order]
    value = _metrics(rows, weight)
    random = np.random.default_rng(0)
    resamples = int(np.clip(WORK / len(p), 100, 1000))
    drawn = [_metrics(rows, weight * random.poisson(1.0, len(p))) for _ in range(resamples)]
    return {name: _estimate(value[name], [d[name] for d in drawn]) for name in value}


def _estimate(value: float, drawn: list[float]) -> Estimate:
    """The value with the quantiles of those resamples that have one."""
    if np.isnan(value):
        return Estimate(value, value, value)
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    # The calibration error of a sample drawn again is larger: its interval may begin above it.
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def _metrics(rows: Sorted, weight: Floats) -> dict[str, float]:
    total = weight.sum()
    if total == 0:
        return dict.fromkeys(("nll", "error", "brier", "ece", "auc"), float("nan"))
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
    where = np.minimum((p * BINS).astype(int), BINS - 1)
    gap = np.bincount(where, weight * (y - p), BINS)
    return float(np.abs(gap).sum() / weight.sum())


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
