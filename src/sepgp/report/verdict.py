"""The verdict at the top of the page: is the model any good, can it be trusted, what to do next."""

from collections.abc import Iterator

import numpy as np

from sepgp.evaluation.tally import Reliability
from sepgp.report.findings import Findings

CALIBRATED = 2.0
"""A model is calibrated up to so many times the error of perfectly calibrated probabilities."""
SMALL = 0.01
"""A calibration error that nobody minds."""


def verdict(found: Findings, entropy: float) -> Iterator[str]:
    """Sentences; `entropy` is the log loss of a guess that knows the class frequencies."""
    loss = found.scores["nll"]
    if entropy == 0:
        yield "All rows are of one class, so they cannot tell how well classes are told apart."
        return
    against = f"log loss {loss.value:.3f} against {entropy:.3f}"
    if loss.high < entropy:
        less = f"{_percent(1 - loss.value / entropy)} less"
        yield f"Better than a guess from the class frequencies: {against}, {less}."
    elif loss.low > entropy:
        yield f"Worse than a guess from the class frequencies: {against}. Do not use it as it is."
    else:
        interval = f"{loss.low:.3f} to {loss.high:.3f}"
        yield f"Not clearly better than a guess from the class frequencies: {against} ({interval})."
    yield _calibration(found)
    if loss.high >= entropy:
        yield (
            "Next: see in the learning curve whether training has converged, and look for columns "
            "that tell the classes apart."
        )
    else:
        yield f"Next: {found.advice}"


def _calibration(found: Findings) -> str:
    error = found.scores["ece"].value
    differ = f"predicted and observed probabilities differ by {error:.3f} on average"
    by_chance = f"perfect calibration would give {found.chance:.3f} by chance"
    if error < max(SMALL, CALIBRATED * found.chance):
        return f"Calibrated: {differ}; {by_chance}."
    over = _overconfidence(found.tally.reliability(), len(found.confusion.counts) == 2)
    if over > error / 2:
        advice = "Calibrate it on held-out rows before relying on it"
        return f"Overconfident: {differ}; {by_chance}. {advice}."
    if over < -error / 2:
        return f"Underconfident: {differ}; {by_chance}."
    return f"Not calibrated, too high for some rows and too low for others: {differ}; {by_chance}."


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"


def _overconfidence(bins: Reliability, two: bool) -> float:
    """By how much the probability that is stated of the likelier side is too high, on average."""
    side = np.where(bins.stated < 0.5, -1, 1) if two else 1
    return float(bins.rows @ (side * (bins.stated - bins.observed)) / bins.rows.sum())
