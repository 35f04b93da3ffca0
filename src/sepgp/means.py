"""A prior mean of f from a classifier: what it says of rows that it has not learned from.

The process has f = g + c·h(x), where h is the score of the classifier and c a factor that is
learned with the kernel. On the rows of training h comes from classifiers that were fitted without
them (cross-fitting). Else the scores of training rows would be better than those of any others,
and f would be as sure of itself as the classifier is of rows that it knows by heart. Scores of new
rows are means over all of these classifiers, and may deserve more trust: see `Mean.ratio`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from sepgp.draws import draw
from sepgp.errors import InvalidData, InvalidParameter, reason
from sepgp.threads import allowed

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Labelled = tuple[NDArray[Any], Codes, Floats]
"""Rows of features, shape (n, d), their class numbers and weights."""

TREES = "trees"
"""The name of scikit-learn's boosted trees, of a size that suits the rows."""
LEAST = 1e-6
"""Probabilities are at least this, so that scores are finite: |h| ≤ 4.75 for two classes."""
FOLDS, FEWER_FOLDS = 5, 3
"""Parts of the rows, each of which is scored by a classifier that was fitted on the others; and
where time is short."""
PLENTY = 50_000
"""From so many rows on there are two parts: half of the rows say as much as four fifths."""
STOPPED = 10_000
"""With more rows boosted trees hold some out and stop early, so that larger ones may be tried."""
ROWS_PER_LEAF, LEAVES, MOST_LEAVES = 200, 31, 1023
"""Of the larger trees; and the leaves of scikit-learn's."""
ROUNDS, FEWEST_ROUNDS = 100, 10
"""Of scikit-learn's trees, and where time is short."""
COMPARED = 10_000
"""Rows that a classifier has not seen by which it is chosen, at most."""
VALUES_PER_SECOND, ONE_CORE = 200_000, 0.65
"""With a time budget: rows times columns that classifiers are fitted on, in all, for each of its
seconds; and the share of that on one core."""
FEWEST_COLUMNS = 8
"""A row costs as much as so many columns, at least."""
SCORED, LEAST_SHARE = 8, 0.5
"""Rows that are scored in the time in which one is fitted on; what is left for fits, at least."""
BLOCK = 65_536
"""Rows scored at a time."""


@dataclass(frozen=True)
class Mean:
    """The prior mean c·h of f: classifiers that are fitted, and the factor."""

    classifiers: tuple[Any, ...]
    """Fitted on class numbers 0 … C−1; h is the mean of their scores."""
    n_classes: int
    factor: float = 1.0
    ratio: float = 1.0
    """Of the factor that calibrates scores of new rows to the one for rows of training."""

    def score(self, rows: NDArray[Any]) -> Floats:
        """h at rows of features, shape (n, d), not scaled: shape (n,), or (n, C) for C > 2."""
        scores = [score(classifier, rows, self.n_classes) for classifier in self.classifiers]
        found: Floats = self.ratio * np.mean(scores, axis=0)
        return found

    @property
    def in_halves(self) -> bool:
        """Whether there is a classifier for each half of the rows, and not for more folds."""
        return len(self.classifiers) == 2

    def offset(self, rows: NDArray[Any]) -> Floats:
        """c·h at rows of features, of the same shape."""
        return self.factor * self.score(rows)


def candidates(mean: Any, n_rows: int, in_halves: bool, most: float = np.inf) -> list[Any]:
    """The classifiers, not fitted, that `mean` stands for; one is chosen if there are several.

    Boosted trees with their defaults, and beyond `STOPPED` rows larger ones: with more rounds where
    rows are in folds, and in halves, which are for many rows or little time, with longer steps.
    `most` is the number of rows that the time for one fit is enough for. A round looks for splits
    in every column, which takes as long as some thousands of rows; so if it is small, rounds are
    fewer.
    """
    if not (isinstance(mean, str) and mean == TREES):
        return [mean]
    from sklearn.ensemble import HistGradientBoostingClassifier

    if n_rows <= STOPPED:
        rounds = max(FEWEST_ROUNDS, int(ROUNDS * min(1.0, most / STOPPED)))
        return [HistGradientBoostingClassifier(max_iter=rounds)]
    larger = HistGradientBoostingClassifier(
        learning_rate=0.3 if in_halves else 0.1,
        max_iter=60 if in_halves else 300,
        max_leaf_nodes=min(max(LEAVES, n_rows // ROWS_PER_LEAF), MOST_LEAVES),
    )
    return [HistGradientBoostingClassifier(), larger]


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

    Weights of 1 are left out: with weights scikit-learn's boosted trees take ten times as long to
    bin some thousand rows. Where it draws random numbers without a seed, it has this one.
    """
    copy = clone(classifier)
    unseeded = {
        name: seed
        for name, value in copy.get_params(deep=True).items()
        if (name == "random_state" or name.endswith("__random_state")) and value is None
    }
    copy.set_params(**unseeded)
    if len(y) > STOPPED:  # of a class of one row none can be held out
        X, y, weight = _at((X, y, weight), np.bincount(y)[y] > 1)
    if len(np.unique(y)) < 2:
        raise InvalidData(
            "mean needs two rows of each of two classes at least, so that its classifier can be "
            "fitted without some of the rows; give more rows, or leave it out."
        )
    weighted = bool((weight != 1).any()) and has_fit_parameter(copy, "sample_weight")
    weights = {"sample_weight": weight} if weighted else {}
    try:
        return copy.fit(X, y, **weights)
    except Exception as error:
        raise InvalidParameter(
            f"mean={classifier!r} cannot be fitted on the features ({reason(error)}); "
            "choose another classifier, or leave it out."
        ) from error


def chosen(
    tried: Sequence[Any], rows: Labelled, others: Labelled, n_classes: int, seed: int
) -> tuple[Any, Any]:
    """The classifier with the lowest NLL on other rows than those it is fitted on; and so fitted.

    Of the other rows some are enough.
    """
    fits = [fitted(one, *rows, seed) for one in tried]
    if len(fits) == 1:
        return tried[0], fits[0]
    X, y, weight = (part[_some(np.arange(len(part)), COMPARED, seed)] for part in others)
    losses = [
        -weight @ np.log(np.maximum(_probabilities(fit, X, n_classes), LEAST))[np.arange(len(y)), y]
        for fit in fits
    ]
    best = int(np.argmin(losses))
    return tried[best], fits[best]


def cross_fitted(
    mean: Any,
    rows: Labelled,
    n_classes: int,
    seed: int,
    time_budget: float | None = None,
) -> tuple[Mean, Floats]:
    """The mean that rows lead to, and the score of each by who has not seen it.

    With few rows they are in five folds, and with many in two, since half of many rows is enough.
    New rows get the mean of the scores of all classifiers, which is less noisy than the score of
    one that is fitted on all rows. The first fold decides which classifier it is, where `mean`
    stands for several.
    """
    X, y, _ = rows
    most = affordable(len(X), X.shape[1], n_classes, time_budget)
    count = n_folds(len(y), int(np.bincount(y).min()), most)
    fold = stratified(y, count, seed)
    parts, found = [], np.empty((len(y), *_latents(n_classes)))
    tried: Sequence[Any] = []
    for k in range(count):
        mine = fold == k
        where = _some_of_each(np.flatnonzero(~mine), y, most / count, seed)
        if k == 0:
            tried = candidates(mean, len(where), count == 2, most / count)
        kind, part = chosen(tried, _at(rows, where), _at(rows, mine), n_classes, seed)
        tried = [kind]
        found[mine] = score(part, X[mine], n_classes)
        parts.append(part)
    return Mean(tuple(parts), n_classes), found


def affordable(n_rows: int, n_columns: int, n_classes: int, time_budget: float | None) -> float:
    """Rows that classifiers may be fitted on, in all, before all rows are scored.

    More than two classes have a tree each.
    """
    if time_budget is None:
        return np.inf
    n_trees = 1 if n_classes == 2 else n_classes
    values = VALUES_PER_SECOND * (ONE_CORE if allowed() == 1 else 1.0) * time_budget
    most = values / (n_trees * max(n_columns, FEWEST_COLUMNS))
    return max(most - n_rows / SCORED, LEAST_SHARE * most)


def n_folds(n_rows: int, rarest: int, most: float) -> int:
    """How many folds there are, for rows the rarest class of which has so many.

    Five folds are as much work as four times the rows, and two as much as the rows. Where trees may
    be larger ones, of more rounds, it takes three times as long to have more than three folds.
    """
    work = n_rows * (FOLDS - 1)
    if n_rows >= PLENTY or work > most:
        return 2
    larger = work / FOLDS > STOPPED
    return max(2, min(FEWER_FOLDS if larger and 3 * work > most else FOLDS, rarest))


def stratified(y: Codes, n_folds: int, seed: int) -> Codes:
    """The fold of each row, shape (n,): rows of a class in a random order go to folds in turn."""
    rng = np.random.default_rng((seed, 3))
    fold = np.empty(len(y), np.int64)
    for code in np.unique(y):
        where = np.flatnonzero(y == code)
        fold[rng.permutation(where)] = np.arange(len(where)) % n_folds
    return fold


def _at(rows: Labelled, where: NDArray[Any]) -> Labelled:
    """Some of the rows."""
    X, y, weight = rows
    return X[where], y[where], weight[where]


def _some(where: NDArray[np.intp], most: float, seed: int) -> NDArray[np.intp]:
    """At most so many of these places, drawn at random."""
    if len(where) <= most:
        return where
    return np.sort(np.random.default_rng((seed, 4)).choice(where, int(most), replace=False))


def _some_of_each(where: NDArray[np.intp], y: Codes, most: float, seed: int) -> NDArray[np.intp]:
    """The same, with two of each class that has so many, whatever `most` is."""
    some = _some(where, most, seed)
    for code in np.unique(y[where]):
        if np.sum(y[some] == code) < 2:
            of_class = where[y[where] == code]
            some = np.union1d(some, _some(of_class, 2, seed))
    return some


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
    mean: Any, rows: Labelled, numbers: NDArray[np.int64], n_classes: int, seed: int
) -> Halves:
    """Classifiers for the halves of a stream, fitted on some of its rows with these numbers."""
    second = draw(numbers, seed)[0]
    one, other = _at(rows, second), _at(rows, ~second)
    kind, first = chosen(candidates(mean, len(one[1]), True), one, other, n_classes, seed)
    return Halves((first, fitted(kind, *other, seed)), n_classes, seed)
