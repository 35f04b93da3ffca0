"""A uniform sample of a stream of rows."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from sepgp.data.encoding import canonical
from sepgp.data.rows.base import Block, joined
from sepgp.data.scaling import Floats

SAMPLE = 20_000
"""Rows in a sample, unless told otherwise."""


class Sample:
    """At most `SAMPLE` rows, those with the smallest of random keys: a uniform sample of a stream.

    Rows of weight zero are left out. `size` is another number of rows. Samples of several streams,
    each with another number, can be merged.
    """

    def __init__(self, seed: int, size: int | None = None, stream: int = 0) -> None:
        self._size = SAMPLE if size is None else size
        self._rng = np.random.default_rng((seed, 0, stream))
        self._keys: list[Floats] = []
        self._blocks: list[Block] = []
        self._limit = 1.0

    def add(self, block: Block) -> None:
        """Let the rows of a block take part."""
        keys = self._rng.random(len(block))
        where = np.flatnonzero((keys < self._limit) & (block.weight > 0))
        if len(where):
            self._keys.append(keys[where])
            taken = block.take(where)
            if isinstance(taken.X, pa.Table):
                taken = replace(taken, X=canonical(taken.X))
            self._blocks.append(taken)
        if len(self) > 4 * self._size:
            self._shrink()

    def merge(self, other: "Sample") -> None:
        """Let the rows of another sample, of the same size, take part."""
        self._keys += other._keys
        self._blocks += other._blocks
        self._limit = min(self._limit, other._limit)
        if len(self) > self._size:
            self._shrink()

    def __len__(self) -> int:
        return sum(map(len, self._keys))

    def block(self) -> Block:
        """The sample of all rows so far, of which there must be some."""
        self._shrink()
        return self._blocks[0]

    def _shrink(self) -> None:
        keys = np.concatenate(self._keys)
        kept = np.sort(np.argsort(keys)[: self._size])
        labels = [block.y for block in self._blocks if block.y is not None]
        weight = np.concatenate([block.weight for block in self._blocks])
        folds = [block.fold for block in self._blocks if block.fold is not None]
        fold = np.concatenate(folds) if folds else None
        X = joined([block.X for block in self._blocks])
        self._blocks = [Block(X, np.concatenate(labels), weight, fold).take(kept)]
        self._keys = [keys[kept]]
        if len(kept) == self._size:
            self._limit = keys[kept].max()
