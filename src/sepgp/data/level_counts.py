"""Rows of text columns by level, class and fold, as one pass over them finds them."""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from sepgp.data.columns.levels import Keys, Levels
from sepgp.data.encoding import text
from sepgp.data.rows.base import Block
from sepgp.data.scaling import Floats


class LevelCounts:
    """The levels of columns, in which classes have numbers in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._levels: dict[str, Levels] = {}

    def add(self, block: Block, names: Collection[str]) -> None:
        """Add some columns of the rows of a block, whose folds are known. Cost O(b) for each."""
        assert block.fold is not None
        if not names:
            return
        labels, codes = np.unique(np.asarray(block.y), return_inverse=True)
        codes = np.array(self._numbered(labels.tolist()))[codes]
        for name in names:
            texts = text(block.X[name]).combine_chunks()
            self._add(name, Levels.of(texts, codes, block.fold, block.weight))

    def merge(self, other: "LevelCounts") -> None:
        """Add what another one has."""
        numbers = self._numbered(other._numbers)
        for name, levels in other._levels.items():
            self._add(name, levels.renumbered(numbers))

    def by_class(self, name: str, labels: Iterable[Any]) -> tuple[Keys, Floats, int] | None:
        """`Levels.by_class` of a column, in the order of these labels; None if it has no level."""
        if name not in self._levels or not len(self._levels[name].keys):
            return None
        order = self._numbered(labels)
        keys, weight, bits = self._levels[name].by_class(len(self._numbers))
        return keys, weight[:, :, order], bits

    def _add(self, name: str, levels: Levels) -> None:
        before = self._levels.get(name)
        self._levels[name] = levels if before is None else before + levels

    def _numbered(self, labels: Iterable[Any]) -> list[int]:
        return [self._numbers.setdefault(label, len(self._numbers)) for label in labels]
