"""What would make a model better: more time, more inducing points, more rows, or other columns."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sepgp.data.rows import Rows
from sepgp.data.sample import Sample
from sepgp.evaluation.relevance import relevance
from sepgp.evaluation.uncertainty import uncertainty
from sepgp.gp.whitened import whitened
from sepgp.model import Model
from sepgp.training.early_stop import GAIN, PATIENCE

IGNORANT = 1 / 3
"""Share of epistemic uncertainty from which it is worth reducing."""
IDLE = 1e-3
"""Share of a column in how f depends on all, below which it hardly matters."""
NAMED = 3
"""Columns that are named."""
ROWS = 2000
"""How many rows tell what inducing points leave open."""


def advice_on(model: Model, rows: Rows) -> str:
    """What would help most, by a sample of labelled rows that were not trained on."""
    sample = Sample(seed=0, size=ROWS)
    for block in rows.blocks():
        sample.add(block)
    X = sample.block().X
    mean, variance = model.latent(X)
    p = model.likelihood.probabilities(mean, variance)
    parts = uncertainty(mean, variance, p if mean.ndim == 2 else p[:, 1])
    return advice(model, X, parts.noise.mean(), parts.ignorance.mean(), relevance(model))


def advice(
    model: Model, X: Any, noise: float, ignorance: float, shares: Mapping[str, float]
) -> str:
    """What would help most, and why, in half a sentence.

    `noise` and `ignorance` are means over rows that were not trained on, of which X are some;
    `shares` are those of the columns in how f depends on them. Time comes first, because the other
    signs are those of a finished training.
    """
    fall = last_fall(model.history)
    if fall >= GAIN:
        return (
            f"more time, since the negative log-likelihood of held-out rows fell by {fall:.4f} in "
            f"the last {_percent(PATIENCE)} of the training."
        )
    whole = noise + ignorance
    if whole == 0 or ignorance / whole <= IGNORANT:
        return (
            "better columns, since most of the uncertainty is aleatoric, which more rows would not "
            "reduce."
        )
    epistemic = f"since {_percent(ignorance / whole)} of the uncertainty is epistemic"
    if len(model.Z) < model.n_seen / 2 and left_open(model, X) > 1 / 2:
        return (
            f"more inducing points than {len(model.Z)}, {epistemic}, and most of it is what the "
            "inducing points leave open."
        )
    return f"more rows{_or_fewer_columns(shares)}, {epistemic}, which they would reduce."


def last_fall(history: Mapping[str, NDArray[Any]]) -> float:
    """By how much the NLL of held-out rows fell in the last part of a training; 0 if unknown.

    A training that early stopping has ended gained less than `GAIN` in such a part of its plan.
    """
    measured = ~np.isnan(history["validation_nll"])
    nll, seconds = history["validation_nll"][measured], history["seconds"][measured]
    before = seconds <= (1 - PATIENCE) * history["seconds"][-1]
    return float(nll[before].min() - nll.min()) if before.any() else 0.0


@torch.no_grad()
def left_open(model: Model, X: Any) -> float:
    """The share of s = k(x, x) − kᵀK⁻¹k in the variance of f, over some of the rows X."""
    rows = model.schema.features(X)
    rows = rows[:: max(1, len(rows) // ROWS)]
    x = torch.as_tensor(model.scaling.apply(rows)).to(model.Z)
    L_inverse = whitened(model.kernel(model.Z, model.Z)).L_inverse
    s = model.kernel.diag(x) - (L_inverse @ model.kernel(model.Z, x)).square().sum(-2)
    _, variance = model.latent_of_features(rows)
    return float(s.clamp_min(0).mean()) / max(float(variance.mean()), 1e-300)


def _or_fewer_columns(shares: Mapping[str, float]) -> str:
    """The columns that could be left out, if there are any."""
    idle = [name for name, share in shares.items() if share < IDLE]
    if not idle:
        return ""
    shown = ", ".join(idle[:NAMED])
    more = f" and {len(idle) - NAMED} more" if len(idle) > NAMED else ""
    return f", or fewer columns ({shown}{more} hardly matter)"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"
