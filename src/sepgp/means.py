"""A prior mean of f from a classifier: what it says of rows that it has not learned from.

The process has f = g + c·h(x), where h is the score of the classifier and c a factor that is
learned with the kernel. On the rows of training h comes from classifiers that were fitted without
them (cross-fitting). Else the scores of training rows would be better than those of any others,
and f would be as sure of itself as the classifier is of rows that it knows by heart.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from sepgp.errors import InvalidData, InvalidParameter, reason

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

TREES = "trees"
"""The name of scikit-learn's boosted trees with their defaults."""
LEAST = 1e-6
"""Probabilities are at least this, so that scores are finite: |h| ≤ 4.75 for two classes."""
FOLDS = 5
"""Parts of the rows, each of which is scored by a classifier that was fitted on the others."""
PLENTY = 50_000
"""From so many rows on there are two parts: half of the rows say as much as four fifths."""
ROWS_PER_SECOND = 20_000
"""With a time budget: rows that classifiers are fitted on, in all, for each of its seconds."""
BLOCK = 65_536
"""Rows scored at a time."""


@dataclass(frozen=True)
class Mean:
    """The prior mean c·h of f: classifiers that are fitted, and the factor."""

    classifiers: tuple[Any, ...]
    """Fitted on class numbers 0 … C−1; h is the mean of their scores."""
    n_classes: int
    factor: float = 1.0

    def score(self, rows: NDArray[Any]) -> Floats:
        """h at rows of features, shape (n, d), not scaled: shape (n,), or (n, C) for C > 2."""
        scores = [score(classifier, rows, self.n_classes) for classifier in self.classifiers]
        return scores[0] if len(scores) == 1 else np.mean(scores, axis=0)

    def offset(self, rows: NDArray[Any]) -> Floats:
        """c·h at rows of features, of the same shape."""
        return self.factor * self.score(rows)


def named(mean: Any) -> Any:
    """The classifier, not fitted, that the parameter `mean` stands for."""
    if mean == TREES:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier()
    return mean


def check(mean: Any) -> None:
    """Refuse what is neither None, "trees" nor a classifier of scikit-learn's kind."""
    if mean is None or (isinstance(mean, str) and mean == TREES):
        return
    methods = ("fit", "get_params", "predict_proba")
    if isinstance(mean, type) or not all(hasattr(mean, name) for name in methods):
        raise InvalidParameter(
            f"mean={mean!r} is no classifier with predict_proba; give one of scikit-learn's kind "
            f"that is not fitted, {TREES!r} or None."
        )


def score(classifier: Any, rows: NDArray[Any], n_classes: int) -> Floats:
    """What a fitted classifier says of rows, shape (n, d): shape (n,), or (n, C) for C > 2.

    For two classes the probit z = Φ⁻¹(p), under which the process alone would predict p. For more
    it is ½ log p, less its mean over the classes: two of them then differ by about the probit.
    """
    parts = [np.empty((0, *_latents(n_classes)))]
    for begin in range(0, len(rows), BLOCK):
        p = _probabilities(classifier, rows[begin : begin + BLOCK], n_classes)
        if n_classes == 2:
            parts.append(ndtri(np.clip(p[:, 1], LEAST, 1 - LEAST)))
        else:
            log_p = np.log(np.maximum(p, LEAST))
            parts.append(0.5 * (log_p - log_p.mean(1, keepdims=True)))
    return np.concatenate(parts)


def _probabilities(classifier: Any, rows: NDArray[Any], n_classes: int) -> Floats:
    """Of all classes, shape (n, C); 0 for one that the classifier has not seen."""
    p = np.zeros((len(rows), n_classes))
    p[:, classifier.classes_] = classifier.predict_proba(rows)
    if not np.isfinite(p).all():
        raise InvalidData(
            "mean gives probabilities that are NaN or infinite; choose another classifier."
        )
    return p


def fitted(classifier: Any, X: NDArray[Any], y: Codes, weight: Floats, seed: int) -> Any:
    """A copy of a classifier that is fitted on rows, shape (n, d), with weights if it takes them.

    Where it draws random numbers without a seed, it has this one.
    """
    copy = clone(classifier)
    unseeded = {
        name: seed
        for name, value in copy.get_params(deep=True).items()
        if (name == "random_state" or name.endswith("__random_state")) and value is None
    }
    copy.set_params(**unseeded)
    if len(np.unique(y)) < 2:
        raise InvalidData(
            "mean needs two rows of each of two classes at least, so that its classifier can be "
            "fitted without some of the rows; give more rows, or leave it out."
        )
    weights = {"sample_weight": weight} if has_fit_parameter(copy, "sample_weight") else {}
    try:
        return copy.fit(X, y, **weights)
    except Exception as error:
        raise InvalidParameter(
            f"mean={classifier!r} cannot be fitted on the features ({reason(error)}); "
            "choose another classifier, or leave it out."
        ) from error


def cross_fitted(
    classifier: Any,
    X: NDArray[Any],
    y: Codes,
    weight: Floats,
    n_classes: int,
    seed: int,
    time_budget: float | None = None,
) -> tuple[Mean, Floats]:
    """The mean that rows, shape (n, d), lead to, and the score of each by who has not seen it.

    With few rows they are in five folds, and new rows are scored by a classifier fitted on all.
    With many there are two, and new rows get the mean of both scores: a third classifier would cost
    as much as the two together, and half of many rows is enough.
    """
    count = n_folds(len(y), int(np.bincount(y).min()), time_budget)
    fold = stratified(y, count, seed)
    most = len(y) if time_budget is None else int(ROWS_PER_SECOND * time_budget / count)
    parts, found = [], np.empty((len(y), *_latents(n_classes)))
    for k in range(count):
        others = _some(np.flatnonzero(fold != k), most, seed)
        part = fitted(classifier, X[others], y[others], weight[others], seed)
        found[fold == k] = score(part, X[fold == k], n_classes)
        parts.append(part)
    if count > 2:
        parts = [fitted(classifier, X, y, weight, seed)]
    return Mean(tuple(parts), n_classes), found


def n_folds(n_rows: int, rarest: int, time_budget: float | None) -> int:
    """How many folds there are, for rows the rarest class of which has so many.

    Five folds and all rows are as much work as five times the rows, and two as much as the rows.
    """
    many = n_rows >= PLENTY
    if time_budget is not None:
        many |= n_rows * FOLDS > ROWS_PER_SECOND * time_budget
    return 2 if many else max(2, min(FOLDS, rarest))


def stratified(y: Codes, n_folds: int, seed: int) -> Codes:
    """The fold of each row, shape (n,): rows of a class in a random order go to folds in turn."""
    rng = np.random.default_rng((seed, 3))
    fold = np.empty(len(y), np.int64)
    for code in np.unique(y):
        where = np.flatnonzero(y == code)
        fold[rng.permutation(where)] = np.arange(len(where)) % n_folds
    return fold


def _some(where: NDArray[np.intp], most: int, seed: int) -> NDArray[np.intp]:
    """At most so many of these places, drawn at random."""
    if len(where) <= most:
        return where
    return np.sort(np.random.default_rng((seed, 4)).choice(where, most, replace=False))


def _latents(n_classes: int) -> tuple[int, ...]:
    return () if n_classes == 2 else (n_classes,)


@dataclass(frozen=True)
class Halves:
    """Two classifiers for rows that are read one block after the other.

    A row is in one of two halves by its number. The first classifier was fitted without the rows of
    the first half, and the second without those of the second.
    """

    classifiers: tuple[Any, Any]
    n_classes: int
    seed: int

    @property
    def mean(self) -> Mean:
        """What new rows get."""
        return Mean(self.classifiers, self.n_classes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the score of one row: () or (C,)."""
        return _latents(self.n_classes)

    def score(self, rows: NDArray[Any], numbers: NDArray[np.int64]) -> Floats:
        """The score of rows with these numbers, by who has not seen them: (n,), or (n, C)."""
        found = np.empty((len(rows), *_latents(self.n_classes)))
        second = draw(numbers, self.seed)[0]
        for half, classifier in zip((~second, second), self.classifiers, strict=True):
            found[half] = score(classifier, rows[half], self.n_classes)
        return found


def halves(
    classifier: Any,
    X: NDArray[Any],
    y: Codes,
    weight: Floats,
    numbers: NDArray[np.int64],
    n_classes: int,
    seed: int,
) -> Halves:
    """Classifiers for the halves of a stream, fitted on some of its rows with these numbers."""
    second = draw(numbers, seed)[0]
    first, other = (
        fitted(classifier, X[half], y[half], weight[half], seed) for half in (second, ~second)
    )
    return Halves((first, other), n_classes, seed)


def draw(numbers: NDArray[np.int64], seed: int) -> tuple[NDArray[np.bool_], Floats]:
    """Of each row number, whether the row is in the second half, and a number in [0, 1).

    By the mixing function of SplitMix64: the same for a row wherever it is met.
    """
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) + np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z & np.uint64(1)) == 1, (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
