"""The prior mean of a training: a classifier that is fitted first, and its scores of the rows."""

import logging
import warnings
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from sepgp.data.inputs import TrainingData
from sepgp.data.prepared import MEASURED, ArrayData, StreamData
from sepgp.data.split import AUTO, Draw
from sepgp.data.stream_source import MEMORY
from sepgp.draws import draw
from sepgp.likelihoods import for_classes
from sepgp.means import Halves, Mean, affordable, cross_fitted, halves, n_folds
from sepgp.training.settings import Settings

logger = logging.getLogger(__name__)

ROWS_PER_SECOND = 100_000
"""More than steps of training go over. With a time budget others need no score."""
FEWEST = 100
"""Rows that are scored and trained on, however short the time."""
CALIBRATED = 1_000
"""New rows that the ratio of a mean is found from, at least; fewer say little of it."""
LEAST, LARGEST = 0.1, 4.0
"""Of the factors that calibrate scores: below, a classifier knows next to nothing."""
FEW_ROWS, FEW_OF_ALL = 10_000, 0.2
"""A warning says if a time budget lets a classifier see fewer rows, and a smaller share of them."""
FEW_STEPS = 10
"""Up to so many steps are too few for a factor that starts at 0."""


def with_scores(
    settings: Settings, given: TrainingData, seed: int
) -> tuple[TrainingData, Mean | None]:
    """The rows with the scores of the classifier that the settings ask for, and the prior mean.

    Held-out rows are scored as new ones: the classifier never sees them. Those that are held out by
    default are in its folds, where there are folds: to do without them would make it worse.
    """
    if settings.mean is None:
        return given, None
    data, held_out = given.data, given.held_out
    if isinstance(data, StreamData):
        scorer = of_stream(settings, data, seed)
        mean, scored = scorer.mean, replace(data, scorer=scorer)
        return given._replace(data=scored, held_out=_with_score(held_out, mean)), mean
    n_rows, n = data.n_rows, float(data.weight.sum())
    data = seen_in_time(settings, data, seed)
    _warn_of_few(settings, data, n_rows)
    in_folds = held_out is not None and not in_halves(settings, data, held_out)
    if held_out is None or settings.validation_fraction != AUTO or not in_folds:
        mean, data = of_rows(settings, data, seed)
        held_out = _with_score(held_out, mean)
    else:
        count, pairs = data.n_rows, zip(data.sample(), held_out.sample(), strict=True)
        X, y, weight = map(np.concatenate, pairs)
        mean, both = of_rows(settings, data._replace(X=X, y=y, weight=weight), seed)
        data, held_out = both.take(slice(count)), both.take(slice(count, None))
    if held_out is not None and mean.in_halves and held_out.n_rows >= CALIBRATED:
        mean = replace(mean, ratio=calibration(held_out) / max(mean.factor, LEAST))
        held_out = _with_score(held_out, mean)
    # Rows that training sees stand for all: batches are what they would be.
    data = data._replace(weight=data.weight * (n / data.weight.sum()))
    return given._replace(data=data, held_out=held_out), mean


def _with_score(data: ArrayData | None, mean: Mean) -> ArrayData | None:
    """New rows with their scores."""
    return None if data is None else data._replace(score=mean.score(data.X))


def of_rows(settings: Settings, data: ArrayData, seed: int) -> tuple[Mean, ArrayData]:
    """The prior mean that rows in memory lead to, calibrated, and the rows with their scores."""
    data = data._replace(X=np.asarray(data.X))
    mean, score = cross_fitted(
        settings.mean, data.sample(), len(data.classes), seed, settings.time_budget
    )
    data = data._replace(score=score)
    return replace(mean, factor=calibration(data)), data


def seen_in_time(settings: Settings, data: ArrayData, seed: int) -> ArrayData:
    """The rows, or as many of each class as training can see in its time."""
    most = ROWS_PER_SECOND * (np.inf if settings.time_budget is None else settings.time_budget)
    most = max(most, FEWEST)
    if data.n_rows <= most:
        return data
    logger.info("mean: %.0f of %d rows are scored and trained on", most, data.n_rows)
    return data.take(~Draw(1 - most / data.n_rows, seed).held_out(data.y))


def _warn_of_few(settings: Settings, data: ArrayData, n_rows: int) -> None:
    """Say so if the time is too short for the classifier to learn much; there are n rows in all."""
    n_columns = data.X.shape[1]
    most = affordable(data.n_rows, n_columns, len(data.classes), settings.time_budget)
    if most < min(FEW_ROWS, FEW_OF_ALL * n_rows):
        warnings.warn(
            f"The classifier of mean= is fitted on {most:,.0f} of {n_rows:,} rows, because "
            f"time_budget={settings.time_budget:g} is short for {n_columns:,} columns; give more "
            "time, or no mean.",
            stacklevel=2,
        )


def in_halves(settings: Settings, data: ArrayData, held_out: ArrayData) -> bool:
    """Whether all these rows together will be in two halves, with a classifier for each."""
    n_rows, n_classes = data.n_rows + held_out.n_rows, len(data.classes)
    rarest = np.bincount(np.concatenate([data.y, held_out.y])).min()
    most = affordable(n_rows, data.X.shape[1], n_classes, settings.time_budget)
    return n_folds(n_rows, int(rarest), most) == 2


def calibration(data: ArrayData) -> float:
    """The factor on their scores under which the rows have the lowest NLL; some are enough."""
    some = data.take(np.random.default_rng(0).permutation(data.n_rows)[:MEASURED])
    assert some.score is not None
    h, likelihood = some.score, for_classes(len(data.classes))
    if not h.any():
        return 0.0

    def nll(factor: float) -> float:
        log_p = likelihood.log_probability(some.y, factor * h, np.zeros_like(h))
        return -float(some.weight @ log_p)

    found = minimize_scalar(nll, bounds=(0.0, LARGEST), method="bounded", options={"xatol": 0.005})
    return float(found.x)


def of_stream(settings: Settings, data: StreamData, seed: int) -> Halves:
    """Classifiers for a stream, fitted on as many of its rows as the shuffle buffer holds.

    With a time budget they are fewer if it is short. Cost: a pass over the rows.
    """
    n_columns, n_classes = len(data.survey.scaling.mean), len(data.classes)
    enough = affordable(0, n_columns, n_classes, settings.time_budget)  # scored as they are read
    most = min(MEMORY / (8 * (n_columns + 3)), enough)
    share = most / data.n_rows
    X, y, weight, numbers = data.take(lambda numbers: draw(numbers, seed)[1] < share)
    return halves(settings.mean, (X, y, weight), numbers, n_classes, seed)


def first_factor(settings: Settings, mean: Mean) -> float:
    """The factor that a training begins with where no trial decides: 0, or what calibrates scores.

    It is 0 where rows are in folds: of few rows scores are noisy, and a process that begins with
    them may never find what it could explain by itself. It is not where it is not learned or steps
    are few, and where rows are in halves: many rows, or little time.
    """
    few = settings.max_iter is not None and settings.max_iter <= FEW_STEPS
    return mean.factor if few or mean.in_halves or not settings.learn_kernel else 0.0


def going_on(settings: Settings, mean: Mean | None, before: Mean | None) -> Mean | None:
    """A prior mean with the factor that a model to go on from has, if it has one."""
    if mean is None:
        return None
    return learned(mean, first_factor(settings, mean) if before is None else before.factor)


def learned(mean: Mean | None, factor: float | None) -> Mean | None:
    """A prior mean with the factor that was learned."""
    return None if mean is None or factor is None else replace(mean, factor=factor)
