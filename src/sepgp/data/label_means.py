"""What the rows of a level were like: smoothed means of labels, as features of a text column."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sepgp.data.columns.levels import HASH, Keys, hashes
from sepgp.data.columns.missing import absent
from sepgp.data.folds import FOLDS
from sepgp.data.moments import Moments
from sepgp.data.scaling import Floats

BY_CHANCE = 2.0
"""Levels differ if χ² is more standard errors than this above what chance would make it."""
TINY = 1e-12
LEAST = 1.0
"""Rows that the class frequencies count as, at least."""


@dataclass(frozen=True, eq=False)
class LabelMeans:
    """For every level and every class but the first: Φ⁻¹ of its smoothed share in the rows.

    It is less Φ⁻¹ of its share in all rows, so that a level that nobody has seen is at 0.
    """

    labels: tuple[str, ...]
    """The classes but the first, C − 1 of them."""
    bits: int
    """Of a level's hash, as in `Levels`."""
    keys: Keys
    """Hashes of the levels, sorted, shape (L,)."""
    values: Floats
    """Shape (L, C − 1); or (FOLDS, L, C − 1), each learned from the rows of all other folds."""

    def of(self, texts: pa.Array, fold: NDArray[np.int8] | None = None) -> Floats:
        """Of texts that are new, or in these folds, both of shape (b,): (b, C − 1). Cost O(b)."""
        coded = texts.dictionary_encode()
        keys = hashes(coded.dictionary) & np.uint64(2**self.bits - 1)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        known = (self.keys[place] == keys) & ~absent(coded.dictionary).to_numpy(False)
        rows = coded.indices.fill_null(len(keys)).to_numpy()
        place, known = np.append(place, 0)[rows], np.append(known, False)[rows]
        by_fold = fold is not None and self.values.ndim == 3
        values = self.values[fold, place] if by_fold else self.values[place]
        return np.where(known[:, None], values, 0.0)

    def to_json(self) -> dict[str, Any]:
        """All but keys and values, in terms of JSON."""
        return {"labels": list(self.labels), "bits": self.bits}

    @property
    def arrays(self) -> dict[str, Floats]:
        """Keys and values, as numbers that a file can hold."""
        return {"keys": self.keys.astype(np.float64), "values": self.values}


def means_from_json(stored: dict[str, Any], keys: Floats, values: Floats) -> LabelMeans:
    """What `LabelMeans.to_json` and `arrays` gave; an error if it cannot have been."""
    means = LabelMeans(tuple(stored["labels"]), stored["bits"], keys.astype(np.uint64), values)
    right = type(means.bits) is int and 0 <= means.bits <= HASH
    right &= all(isinstance(label, str) for label in means.labels)
    right &= len(keys) > 0 and values.shape == (len(keys), len(means.labels))
    right &= bool((np.diff(keys) > 0).all() and keys[0] >= 0 and keys[-1] < 2**means.bits)
    if not right:
        raise ValueError("the label means have other parts than they should")
    return means


class Learned(NamedTuple):
    """Label means of a column, for new rows and for those that they were learned from."""

    of_all: LabelMeans
    by_fold: LabelMeans
    facets: Floats
    """Of the rows that they were learned from: see `Moments.facets`. Shape (3, C − 1)."""


def label_means(
    levels: tuple[Keys, Floats, int], labels: Iterable[Any], missing: float, strength: float
) -> Learned:
    """Label means of the levels that `Levels.by_class` gave.

    `missing` is the weight of rows without a level, and `strength` that of the class frequencies.
    """
    keys, weight, bits = levels
    _, *names = map(str, labels)
    total = weight.sum(1)
    share = _share(total)
    folds = np.arange(FOLDS)
    others = [scores(weight[:, folds != k].sum(1), share, strength) for k in folds]
    by_fold = LabelMeans(tuple(names), bits, keys, np.stack(others))
    # Every row at the value it has in training, and those without a level at 0.
    values = np.vstack([*others, np.zeros((1, len(names)))])
    rows = np.append(weight.sum(2).T.ravel(), missing)
    facets = Moments.of(values[rows > 0], rows[rows > 0]).facets
    of_all = LabelMeans(tuple(names), bits, keys, scores(total, share, strength))
    return Learned(of_all, by_fold, facets)


def scores(weight: Floats, share: Floats, strength: float) -> Floats:
    """Smoothed shares of the classes in levels, as probits less those of all rows: (L, C − 1).

    `weight`, shape (L, C), are the rows of levels by class, and `share`, shape (C,), the classes'
    in all rows, which count as `strength` rows of every level.
    """
    n = weight.sum(1, keepdims=True)
    smoothed = share + (weight - n * share) / (n + strength)
    return _probit(smoothed[:, 1:]) - _probit(share[1:])


def prior_strength(weight: Floats) -> float:
    """How many rows the class frequencies count as; infinity if levels differ by chance only.

    `weight`, shape (L, C), are the rows of levels by class. Their shares are taken to vary between
    levels as a Dirichlet distribution does, whose strength follows from Pearson's χ²: its mean is
    (C − 1) Σ (1 + (n − 1)/(strength + 1)). If levels do not differ, its variance is Haldane's.
    """
    n, share = weight.sum(1), _share(weight)
    expected = n[:, None] * share
    freedom = (len(n) - 1) * (len(share) - 1)
    excess = float((np.square(weight - expected) / expected).sum()) - freedom
    spread = (1 / share).sum() - len(share) ** 2 - 2 * len(share) + 2
    variance = 2 * freedom + spread * (1 / np.maximum(n, 1.0)).sum()
    more = float((n - 1).sum()) * (len(share) - 1)
    if more <= 0 or excess <= BY_CHANCE * math.sqrt(max(variance, 0.0)):
        return math.inf
    return max(more / excess - 1, LEAST)


def _probit(p: Floats) -> Floats:
    """Φ⁻¹(p), finite for a class that has all rows too."""
    from scipy.special import ndtri  # not before there are labels: commands answer without it

    return np.asarray(ndtri(np.clip(p, TINY, 1 - TINY)))


def _share(weight: Floats) -> Floats:
    """Of the classes in all rows, shape (C,), above 0 even if a class has no row with a text."""
    return np.asarray(np.maximum(weight.sum(0) / weight.sum(), TINY))
