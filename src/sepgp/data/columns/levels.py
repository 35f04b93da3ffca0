"""Levels of a text column by fold and class: sums that can be merged in any order."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sepgp.data.columns.missing import absent
from sepgp.data.folds import FOLDS
from sepgp.data.scaling import Floats

MOST = 2**18
"""Pairs of a level and a class that are kept apart; with more, levels share."""
HASH, CLASS = 32, 10
"""Bits of a level's hash, and of the number of a class."""

Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Levels:
    """Weight of the rows by level, class and fold, in memory that does not grow with the levels.

    A level is known by a hash of its text. Of the hash only the lowest `bits` count, as many as
    leave no more than `MOST` pairs: the same for the same rows, however they were cut into parts.
    """

    keys: Keys
    """Of every pair: the hash, and in the lowest bits the number of the class; sorted, (k,)."""
    weight: Floats
    """Shape (k, FOLDS)."""
    bits: int = HASH

    @classmethod
    def of(
        cls,
        column: pa.Array,
        codes: NDArray[np.int64],
        fold: NDArray[np.int8],
        weight: Floats,
    ) -> Self:
        """Of texts with class numbers, folds and weights, all of shape (b,). Cost O(b)."""
        coded = column.dictionary_encode()
        known = np.append(~absent(coded.dictionary).to_numpy(zero_copy_only=False), False)
        place = coded.indices.fill_null(len(known) - 1).to_numpy()
        where = known[place] & (weight > 0)
        keys = hashes(coded.dictionary)[place[where]] << np.uint64(CLASS)
        keys |= codes[where].astype(np.uint64)
        by_fold = np.zeros((len(keys), FOLDS))
        by_fold[np.arange(len(keys)), fold[where]] = weight[where]
        return cls._summed(keys, by_fold, HASH)

    @classmethod
    def _summed(cls, keys: Keys, weight: Floats, bits: int) -> Self:
        """Of pairs some of which are the same."""
        different, place = np.unique(_shared(keys, bits), return_inverse=True)
        while len(different) > MOST:
            bits -= 1
            different, place = np.unique(_shared(keys, bits), return_inverse=True)
        sums = [np.bincount(place, part, len(different)) for part in weight.T]
        return cls(different, np.stack(sums, axis=1), bits)

    def __add__(self, other: Self) -> Self:
        """Of both sets of rows together."""
        keys, weight = (np.concatenate(p) for p in zip(self._pairs, other._pairs, strict=True))
        return self._summed(keys, weight, min(self.bits, other.bits))

    @property
    def _pairs(self) -> tuple[Keys, Floats]:
        return self.keys, self.weight

    def renumbered(self, numbers: Sequence[int]) -> Self:
        """The same with other numbers of the classes, given by their present ones."""
        new = np.asarray(numbers, np.uint64)[self.keys & np.uint64(2**CLASS - 1)]
        keys = self.keys >> np.uint64(CLASS) << np.uint64(CLASS) | new
        return self._summed(keys, self.weight, self.bits)

    def by_class(self, n_classes: int) -> tuple[Keys, Floats, int]:
        """Hashes of L levels, sorted, their weights, shape (L, FOLDS, C), and the bits that count.

        There are at most `MOST` weights in a fold.
        """
        found, bits = np.unique(self.keys >> np.uint64(CLASS)), self.bits
        while len(found) * n_classes > MOST:
            bits -= 1
            found = np.unique(found & np.uint64(2**bits - 1))
        levels = self._summed(*self._pairs, bits)
        weight = np.zeros((len(found), FOLDS, n_classes))
        place = np.searchsorted(found, levels.keys >> np.uint64(CLASS))
        weight[place, :, levels.keys & np.uint64(2**CLASS - 1)] = levels.weight
        return found, weight, bits


def hashes(texts: pa.Array) -> Keys:
    """A hash of every text, shape (b,), the same for texts that differ in case or spaces only."""
    values = (zlib.crc32(fold(text).encode()) for text in texts.to_pylist())
    return np.fromiter(values, np.uint64, len(texts))


def fold(text: str) -> str:
    """A text without what typing errors change: case, and spaces at the ends or in a row."""
    return " ".join(text.lower().split())


def _shared(keys: Keys, bits: int) -> Keys:
    """Pairs of which only so many bits of the hash count."""
    return keys & np.uint64(2 ** (bits + CLASS) - 1)
