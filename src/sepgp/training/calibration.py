"""Neither too sure nor too careful: a factor on the mean of f, by rows that were not trained on.

Length-scales and inducing points that are learned from few rows fit them better than others, and
their probabilities are too sure, or on some sets too careful. Rows that are held out would tell,
but of few rows all are wanted in training. So a second training does without a fifth of them, and
the factor on its mean of f under which this fifth is most probable is taken over by the model of
all rows.
"""

import logging
import math
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from sepgp.data.prepared import ArrayData, Data
from sepgp.data.scaling import Floats
from sepgp.data.split import AUTO, PLENTY, Draw
from sepgp.gp.kernels import Kernel
from sepgp.gp.natural import Natural
from sepgp.likelihoods import Likelihood
from sepgp.model import Model
from sepgp.training.choice import is_long
from sepgp.training.settings import Settings

logger = logging.getLogger(__name__)

SHARE = 0.2
"""Of the rows that the second training does without."""
FEWEST = 5_000
"""Rows of which this share can tell the factor to a few percent. From `PLENTY` on rows are held out
by default, and the factor would be near 1."""
RARE = 500
"""Rows of a class, at least, so that 100 are aside. Few say little of the factor: with 42 it was
.92 to 1.31 on four draws of mammography, and each was a loss."""
LEAST, LARGEST = 0.5, 2.0
STEPS, SECONDS = 200, 20.0
"""There is a second training only where there are at least so many steps or seconds for both."""
FIRST = 0.6
"""The share of the training on all rows in steps or seconds, of which the second has the others."""
ENOUGH = 0.5
"""The steps of the second training, as a part of the first one's, from which on it tells."""


def is_wanted(settings: Settings, data: Data, elapsed: float = 0.0) -> bool:
    """Whether there is a second training for these rows of two classes, after so many seconds.

    Not where users chose the kernel or which rows are held out, nor for rows in a stream.
    """
    if settings.time_budget is not None:
        settings = replace(settings, time_budget=settings.time_budget - elapsed)
    return bool(
        isinstance(data, ArrayData)
        and FEWEST <= data.n_rows < PLENTY
        and len(data.classes) == 2
        and np.bincount(data.y, minlength=2).min() >= RARE
        and settings.validation_fraction == AUTO
        and not isinstance(settings.kernel, Kernel)
        and is_long(settings, data.n_rows, STEPS, SECONDS)
    )


def first_part(settings: Settings, elapsed: float) -> Settings:
    """Those of the training on all rows, which leaves the second a part of the time."""
    if settings.time_budget is None:
        return settings
    return replace(settings, time_budget=elapsed + FIRST * (settings.time_budget - elapsed))


def second_part(settings: Settings, n_iter: int, elapsed: float) -> Settings:
    """Those of the second training, after a first one of so many steps: the rest of the time."""
    budget = settings.time_budget
    return replace(
        settings,
        max_iter=math.ceil(n_iter * (1 - FIRST) / FIRST),
        time_budget=None if budget is None else max(0.0, budget - elapsed),
    )


def cut(data: ArrayData, seed: int) -> tuple[ArrayData, ArrayData]:
    """The rows of the second training, and the share of every class that it does without."""
    aside = Draw(SHARE, seed).held_out(data.y)
    return data.take(~aside), data.take(aside)


def factor(model: Model, rows: ArrayData) -> float:
    """The factor on the mean of f under which rows that the model has not seen are most probable.

    Where a classifier gives a prior mean, the rows have its scores out of sample.
    """
    mean, variance = replace(model, mean=None).latent_of_features(rows.X)
    if model.mean is not None:
        assert rows.score is not None
        mean = mean + model.mean.factor * rows.score
    found = best_factor(model.likelihood, rows, mean, variance)
    logger.info("calibration: the mean of f is multiplied by %.3f", found)
    return found


def best_factor(likelihood: Likelihood, rows: ArrayData, mean: Floats, variance: Floats) -> float:
    """The factor with the lowest NLL of rows with these means and variances, shape (n,) each."""

    def nll(log_factor: float) -> float:
        log_p = likelihood.log_probability(rows.y, np.exp(log_factor) * mean, variance)
        return -float(rows.weight @ log_p)

    bounds = np.log(LEAST), np.log(LARGEST)
    return float(np.exp(minimize_scalar(nll, bounds=bounds, method="bounded").x))


def times(model: Model, c: float) -> Model:
    """The model whose mean of f is c times as large, and its variance as it was.

    That is q with c·b in the place of b, and c times the prior mean if there is one.
    """
    predictor = model.predictor._replace(beta=c * model.predictor.beta)
    sites = Natural(model.sites.Lambda, c * model.sites.b)
    mean = None if model.mean is None else replace(model.mean, factor=c * model.mean.factor)
    return replace(model, predictor=predictor, sites=sites, mean=mean)
