"""Batches from rows that do not fit in memory."""

from collections.abc import Generator, Iterator
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sepgp.data import checks
from sepgp.data.batches import Batch, Batching
from sepgp.data.prefetch import prefetch
from sepgp.data.rows.base import Block, Rows
from sepgp.data.survey import Survey
from sepgp.means import Halves

MEMORY = 64 * 2**20
"""Bytes of the shuffle buffer. Rows that fit into it altogether are trained as an array."""
READERS = 4
"""Parts of a stream that are read side by side. Each may hold 2 MB for every column."""
CHUNK = 8192
"""Rows that one reader gives before another one is asked."""
AHEAD = 4
"""Batches that wait for training."""


class Range(NamedTuple):
    """Rows `begin` to `end` of a piece."""

    piece: int
    begin: int
    end: int


def strata(counts: NDArray[np.int_], n_strata: int) -> list[list[Range]]:
    """Cut a stream into parts of neighbouring rows, each with its ranges of pieces.

    The parts have about the same number of rows. `counts` are the rows of each piece.
    """
    edges = np.linspace(0, counts.sum(), n_strata + 1).astype(int)
    ends = np.cumsum(counts)
    parts: list[list[Range]] = []
    for low, high in pairwise(edges):
        part = []
        for piece in np.flatnonzero((ends > low) & (ends - counts < high)):
            first = ends[piece] - counts[piece]
            begin, end = max(low, first) - first, min(high, ends[piece]) - first
            part.append(Range(int(piece), int(begin), int(end)))
        if part:
            parts.append(part)
    return parts


class _Shuffled(NamedTuple):
    """Rows on their way through the buffer."""

    X: NDArray[Any]
    y: NDArray[np.int64]
    weight: NDArray[Any]
    rows: NDArray[np.int64]
    score: NDArray[Any]
    """Shape (b, 0) if there is no classifier."""


class _Buffer:
    """A bounded heap of rows from which batches are drawn at random."""

    def __init__(
        self, size: int, n_features: int, score: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        y, numbers = np.empty((2, size), np.int64)
        X, weight = np.empty((size, n_features), dtype), np.empty(size, dtype)
        self._store = _Shuffled(X, y, weight, numbers, np.empty((size, *score), dtype))
        self.count = 0

    def add(self, block: _Shuffled) -> None:
        end = self.count + len(block.y)
        for store, values in zip(self._store, block, strict=True):
            store[self.count : end] = values
        self.count = end

    def take(self, where: NDArray[np.int64]) -> _Shuffled:
        """Take out the rows at these places; rows from the end fill the holes."""
        taken = _Shuffled(*(store[where] for store in self._store))
        self.count -= len(where)
        stays = np.ones(len(where), dtype=bool)
        stays[where[where >= self.count] - self.count] = False
        holes, fillers = where[where < self.count], self.count + np.flatnonzero(stays)
        for store in self._store:
            store[holes] = store[fillers]
        return taken


class StreamSource:
    """Batches of rows in an order that depends on the seed alone, in bounded memory.

    A stream is cut into `READERS` parts of neighbouring rows, which are read side by side, each in
    a random order of its pieces, and mixed in a buffer from which batches are drawn. So rows that
    are sorted by time or class come as well mixed as others, however large the file. Every epoch
    has a fresh order. A thread reads, encodes and scales ahead of training. `survey` is what the
    pass over the rows found, and `scorer` scores them where a classifier gives a prior mean.
    """

    def __init__(
        self, rows: Rows, survey: Survey, how: Batching, scorer: Halves | None = None
    ) -> None:
        self._rows, self._survey, self._how, self._scorer = rows, survey, how, scorer
        self.n_rows = survey.n_rows
        self.total_weight = survey.total_weight
        self.batches_per_epoch = how.batches_per_epoch(survey.n_kept)
        self._strata = strata(survey.counts, READERS if rows.splittable else 1)
        self._offsets = np.cumsum(survey.counts) - survey.counts
        self._dtype = np.dtype("f4" if how.dtype == torch.float32 else "f8")
        capacity = MEMORY // (self._dtype.itemsize * (how.scaling.width + 3))
        self._capacity = min(max(capacity, 2 * how.size), survey.n_kept)
        self._first = self._capacity // len(self._strata)

    def batches(self, start: int = 0) -> Generator[Batch]:
        """Batches without end, from batch number `start` on."""
        return prefetch(self._batches(start), AHEAD)

    def _batches(self, start: int) -> Generator[Batch]:
        epoch, skip = divmod(start, self.batches_per_epoch)
        score = (0,) if self._scorer is None else self._scorer.shape
        buffer = _Buffer(self._capacity + CHUNK, self._how.scaling.width, score, self._dtype)
        while True:
            for taken in islice(self._epoch(epoch, buffer), skip, None):
                yield self._how.batch(*(taken if self._scorer is not None else taken[:4]))
            epoch, skip = epoch + 1, 0

    def _epoch(self, epoch: int, buffer: _Buffer) -> Iterator[_Shuffled]:
        rng = np.random.default_rng((self._how.seed, epoch))
        blocks = self._mixed(rng)
        buffer.count = 0
        for number in range(self.batches_per_epoch):
            begin, end = self._how.bounds(self._survey.n_kept, number)
            size = end - begin
            # Training begins before the buffer is full: four times as much comes in as goes out.
            wanted = min(self._capacity, max(self._first, size) + 3 * number * size)
            while buffer.count < wanted and (block := next(blocks, None)) is not None:
                buffer.add(block)
            if buffer.count < size:
                raise checks.changed_rows(self._rows.name, self.n_rows)
            yield buffer.take(rng.choice(buffer.count, size, replace=False, shuffle=False))
        if buffer.count or next(blocks, None) is not None:
            raise checks.changed_rows(self._rows.name, self.n_rows)

    def _mixed(self, rng: np.random.Generator) -> Iterator[_Shuffled]:
        """All rows, in blocks from all parts of the stream in turn."""
        left = np.array([sum(r.end - r.begin for r in part) for part in self._strata])
        readers = [
            self._part([part[i] for i in rng.permutation(len(part))]) for part in self._strata
        ]
        while left.any():
            reader = rng.choice(len(left), p=left / left.sum())
            count, block = next(readers[reader], (left[reader], None))
            left[reader] -= count
            if block is not None and len(block.y):
                yield block

    def _part(self, ranges: list[Range]) -> Iterator[tuple[int, _Shuffled]]:
        """The rows of some ranges, with the number of rows that were read for them."""
        for piece, begin, end in ranges:
            position = begin
            for block in self._rows.read(piece, begin, CHUNK):
                first = self._offsets[piece] + position
                block = block.cut(0, end - position).learned_from(first)
                numbers = first + np.arange(len(block))
                position += len(block)
                yield len(block), self._prepared(block, numbers)
                if position == end:
                    break
            if position < end:
                raise checks.changed_rows(self._rows.name, self.n_rows)

    def _prepared(self, block: Block, numbers: NDArray[np.int64]) -> _Shuffled:
        X, y, weight = self._survey.arrays(block, self._rows.name)
        kept = weight > 0
        if not kept.all():
            X, y, weight, numbers = X[kept], y[kept], weight[kept], numbers[kept]
        score = np.empty((len(y), 0))
        if self._scorer is not None:
            score = self._scorer.score(X, numbers)
        return _Shuffled(self._how.scaling.apply(X), y, weight, numbers, score)
