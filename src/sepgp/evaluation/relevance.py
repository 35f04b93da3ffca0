"""Which columns matter to a model: how much f depends on each of them."""

import copy

import torch
from torch import Tensor

from sepgp.gp.fitc import means
from sepgp.model import Model

EXCHANGES = 10
"""With how many others an inducing point exchanges a column, at most."""
ROWS = 100_000
"""How many points that makes in all, at most, unless one exchange of every column makes more."""


def relevance(model: Model) -> dict[str, float]:
    """The share of every column in how much the mean of f depends on them.

    A column counts by ½ E[(f(z) − f(z'))²], where z is an inducing point and z' is the same with
    this column's features taken from another one: Sobol's total effect, by Jansen's formula. So a
    column that f ignores counts nothing, however many features it has. With C classes it is the
    sum over their functions, less the mean of these. Empty if f is constant. Cost O(m²d) per
    column and exchange.
    """
    Z, scaling = model.Z.cpu(), model.scaling
    points = torch.from_numpy(scaling.lift(Z.numpy()))
    names, _, sizes = zip(*model.schema.columns, strict=True)
    beta, kernel = model.predictor.beta.cpu(), copy.deepcopy(model.kernel).cpu()
    exchanges = max(1, min(EXCHANGES, len(Z) - 1, ROWS // (len(Z) * len(names))))
    effects = []

    def function(points: Tensor) -> Tensor:
        """f at points that are standardised, shape (m, d): shape (m,), or (C, m)."""
        f = means(beta, kernel(Z, torch.from_numpy(scaling.project(points.numpy()))))
        if model.mean is not None:
            f = f + torch.as_tensor(model.mean.offset(scaling.unstandardize(points.numpy())).T)
        # Of C classes: what moves all of them together changes nothing.
        return f if f.ndim == 1 else f - f.mean(0)

    with torch.no_grad():
        f = function(points.clone())
        unit = max(float(f.abs().max()), 1e-300)  # shares have none, and squares have a limit
        for features in torch.split(torch.arange(points.shape[1]), list(sizes)):
            effect = 0.0
            for k in range(1, exchanges + 1):
                exchanged = points.clone()
                exchanged[:, features] = points.roll(k, 0)[:, features]
                effect += float((((f - function(exchanged)) / unit) ** 2).mean())
            effects.append(effect)
    total = sum(effects)
    return {n: e / total for n, e in zip(names, effects, strict=True)} if total > 0 else {}
