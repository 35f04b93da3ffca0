"""The prior mean of a training: a classifier that is fitted first, and its scores of the rows."""

from dataclasses import replace

from sepgp.data.inputs import TrainingData
from sepgp.data.prepared import ArrayData, StreamData
from sepgp.data.stream_source import MEMORY
from sepgp.draws import draw
from sepgp.means import Halves, Mean, affordable, cross_fitted, halves
from sepgp.model import Model
from sepgp.training.settings import Settings


def with_scores(
    settings: Settings, given: TrainingData, seed: int
) -> tuple[TrainingData, Mean | None]:
    """The rows with the scores of the classifier that the settings ask for, and the prior mean.

    Held-out rows are scored as new ones: the classifier never sees them.
    """
    if settings.mean is None:
        return given, None
    if isinstance(given.data, StreamData):
        scorer = of_stream(settings, given.data, seed)
        mean, data = scorer.mean, replace(given.data, scorer=scorer)
        given = given._replace(data=data)
    else:
        mean, scored = of_rows(settings, given.data, seed)
        given = given._replace(data=scored)
    if given.held_out is not None:
        score = mean.score(given.held_out.X)
        given = given._replace(held_out=given.held_out._replace(score=score))
    return given, mean


def of_rows(settings: Settings, data: ArrayData, seed: int) -> tuple[Mean, ArrayData]:
    """The prior mean that rows in memory lead to, and the rows with their scores."""
    mean, score = cross_fitted(
        settings.mean, data.sample(), len(data.classes), seed, settings.time_budget
    )
    return mean, data._replace(score=score)


def of_stream(settings: Settings, data: StreamData, seed: int) -> Halves:
    """Classifiers for a stream, fitted on as many of its rows as the shuffle buffer holds.

    With a time budget they are fewer if it is short. Cost: a pass over the rows.
    """
    n_columns, n_classes = len(data.survey.scaling.mean), len(data.classes)
    enough = affordable(n_columns, n_classes, settings.time_budget)
    most = min(MEMORY / (8 * (n_columns + 3)), enough)
    share = most / data.n_rows
    X, y, weight, numbers = data.take(lambda numbers: draw(numbers, seed)[1] < share)
    return halves(settings.mean, (X, y, weight), numbers, n_classes, seed)


def begun(settings: Settings, mean: Mean | None, previous: Model | None) -> Mean | None:
    """A prior mean with the factor to start from: what was learned before, or 0 or 1.

    It is 0 where rows are in folds: of few rows scores are noisy, and a process that begins with
    them may never find what it could explain by itself. It is 1 where it is not learned, and where
    rows are in halves, so that there are two classifiers: many rows, or little time.
    """
    before = None if previous is None else previous.mean
    if mean is None or before is not None:
        return learned(mean, None if before is None else before.factor)
    in_folds = len(mean.classifiers) == 1
    return replace(mean, factor=0.0 if in_folds and settings.learn_kernel else 1.0)


def learned(mean: Mean | None, factor: float | None) -> Mean | None:
    """A prior mean with the factor that was learned."""
    return None if mean is None or factor is None else replace(mean, factor=factor)
