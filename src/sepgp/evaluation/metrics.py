"""How good probabilities are, each as one number with a bootstrap interval."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sepgp.data import checks
from sepgp.data.scaling import Floats
from sepgp.evaluation import many_classes, two_classes

WORK = 5e7
"""Numbers times resamples that an interval may cost."""


class Estimate(NamedTuple):
    """A metric and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


def class_codes(classes: NDArray[Any], y: NDArray[Any] | None, what: str) -> NDArray[np.int64]:
    """The numbers of the classes of labels y, shape (b,); refuses those that are none of them."""
    return checks.class_codes(checks.labelled(y, what), classes, what, "classes of the model")


def metrics(
    p: Floats, loss: Floats, codes: NDArray[np.int64], weight: Floats
) -> dict[str, Estimate]:
    """Metrics of n rows, each NaN where the rows do not say.

    NLL, error, Brier score, ECE and ROC AUC of the second class of two. With C classes the Brier
    score is summed over the classes, ECE is that of the most probable class, and there are the
    mean ECE of all classes and the macro and weighted mean of the AUC of each class against the
    rest, over the classes that have rows.

    `p`, shape (n, C), are the probabilities, and `loss`, shape (n,), is −log of those of the true
    classes, whose numbers are `codes`, shape (n,); a row of weight w, shape (n,), counts as w rows.
    The intervals are from rows resampled with Poisson weights, with a fixed seed. Cost O(nC) for
    each of 100 to 1,000 resamples, and a sort for every class.
    """
    n, C = p.shape
    if C == 2:
        measure, weight = two_classes.measures(p[:, 1], loss, codes == 1, weight)
    else:
        measure, weight = many_classes.measures(p, loss, codes, weight)
    value = measure(weight)
    random = np.random.default_rng(0)
    resamples = int(np.clip(WORK / (n * (C - 1)), 100, 1000))
    weights = (weight * random.poisson(1.0, n) for _ in range(resamples))
    drawn = [measure(resampled) for resampled in weights if resampled.any()]
    return {
        name: _estimate(value[name], [d[name] for d in drawn], name.endswith("ece"))
        for name in value
    }


def _estimate(value: float, drawn: list[float], biased: bool) -> Estimate:
    """The value with the quantiles of those resamples that have one.

    The calibration error of a sample drawn again is larger than the sample's own, because chance
    adds to it once more; of quantities that are `biased` so, what it adds on average is taken off.
    """
    if np.isnan(value):
        return Estimate(value, value, value)
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    if biased:
        added = np.nanmean(drawn) - value
        low, high = max(0.0, low - added), high - added
    return Estimate(value, float(low), float(high))
