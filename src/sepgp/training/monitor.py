"""Held-out rows: how good the model is on them during training, and the best one so far."""

import math
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from sepgp.data.batches import Source
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.natural import Natural
from sepgp.gp.predictor import Predictor, predict, predictor
from sepgp.inference.method import State
from sepgp.likelihoods import Likelihood

EVERY = 50
"""Steps from one measurement to the next, at most."""
CLOSEST = 10
"""At least, where a training is short: else there are 20 measurements."""

CHUNK = 4096
"""Held-out rows predicted at a time."""


class Best(NamedTuple):
    """The best model measured so far: O(m²) numbers, and nothing of EP's sites per row."""

    iteration: int
    nll: float
    xi: Tensor
    """Hyper-parameters, shape (p,)."""
    Lambda: Tensor
    """Shape (m, m), or (C, m, m)."""
    b: Tensor
    """Shape (m,), or (C, m)."""


class Monitor:
    """Measures models on held-out rows.

    When it measures depends on the number of the step alone, so that a run that was stopped and
    went on measures the same models.

    Parameters
    ----------
    hyper : Hyperparameters
        What ξ means.
    likelihood : Likelihood
        Of the labels.
    source : Source
        The held-out rows; they are read once and held.
    """

    def __init__(self, hyper: Hyperparameters, likelihood: Likelihood, source: Source) -> None:
        self._hyper, self._likelihood = hyper, likelihood
        self._batches = list(islice(source.batches(), source.batches_per_epoch))
        self._total = source.total_weight

    def due(self, iteration: int, max_iter: int | None) -> bool:
        """Whether the model is measured after this step even if it is not the last."""
        every = EVERY if max_iter is None else min(EVERY, max(CLOSEST, max_iter // 20))
        return iteration % every == 0

    def measure(
        self, best: Best | None, iteration: int, xi: Tensor, sites: State
    ) -> tuple[Best | None, float]:
        """The best model, now that this one is measured too, and its mean NLL.

        `xi`, shape (p,), is what the sites were refined under. Cost O(m³) + O(m²) per row.
        """
        nll = self._nll(xi, Natural(sites.Lambda, sites.b))
        if nll < (math.inf if best is None else best.nll):
            best = Best(iteration, nll, xi.clone(), sites.Lambda.clone(), sites.b.clone())
        return best, nll

    @torch.no_grad()
    def _nll(self, xi: Tensor, sites: Natural) -> float:
        """Mean of −log p(y) over the rows, by weight; NaN if q has no covariance."""
        kernel, Z = self._hyper.model(xi)
        try:
            folded = predictor(kernel, Z, sites)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            return math.nan
        dtype = self._batches[0].X.dtype
        kernel, Z = kernel.to(dtype), Z.to(dtype)
        folded = Predictor(*(part.to(dtype) for part in folded))
        total = 0.0
        for X, y, weight, _, score in self._batches:
            of_g, variance_ = predict(folded, kernel(Z, X), kernel.diag(X))
            offset = self._hyper.offset(xi, score)
            of_f = of_g if offset is None else of_g + offset
            mean, variance, w = (x.double().cpu().numpy() for x in (of_f, variance_, weight))
            log_p = self._likelihood.log_probability(y.cpu().numpy(), mean.T, variance.T)
            total -= float(w @ log_p)
        return total / self._total
