"""Rows that must be the same whenever they are read."""

import sys
import zlib
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sepgp.data.checks import other_rows
from sepgp.data.encoding import kinds, local_times, numbers, text
from sepgp.data.rows.base import BLOCK, Block, Rows, WrappedRows

WINDOW = 8192
"""Rows that have a digest together; so there are 8 bytes for so many rows."""

Digests = NDArray[np.uint64]


class CheckedRows(WrappedRows):
    """The same rows; an error if they are others than when they were read for the first time.

    What is compared are sums of the rows' digests: over `WINDOW` rows, and where rows can only be
    read in their own order, as those of a function, over all of them: it may mix them anew. Text
    counts by its digest, and numbers by their bits. Cost O(d) per row, less than encoding them.
    """

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self._window = WINDOW if rows.splittable else sys.maxsize
        self._known: dict[int, array[int]] = {}
        """By piece, the digests of its windows."""
        self._counts: dict[int, int] = {}
        """By piece, its rows, once all of them have been read."""

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a piece."""
        place, digest, whole = skip, 0, skip % self._window == 0
        for block in self._rows.read(piece, skip, size):
            digests, begin = row_digests(block), 0
            while begin < len(block):
                end = min(len(block), begin + self._window - place % self._window)
                digest = (digest + int(digests[begin:end].sum())) % 2**64
                place, begin = place + end - begin, end
                if place % self._window == 0 or place == self._counts.get(piece):
                    if whole:
                        self._compare(piece, (place - 1) // self._window, digest)
                    digest, whole = 0, True
            yield block
        if not skip and piece not in self._counts:
            if place % self._window:
                self._compare(piece, place // self._window, digest)
            self._counts[piece] = place

    def _compare(self, piece: int, window: int, digest: int) -> None:
        """Keep the digest of a window, or compare it with the one that is known."""
        known = self._known.setdefault(piece, array("Q"))
        if window == len(known):
            known.append(digest)
        elif window < len(known) and known[window] != digest:
            raise other_rows(self.name)


def row_digests(block: Block) -> Digests:
    """A number for each row of a block, shape (b,), of its features, label and weight."""
    if isinstance(block.X, pa.Table):
        of_kind = kinds(block.X.schema)
        columns = [_bits_of_column(block.X[name], name, which) for name, which in of_kind.items()]
    else:
        columns = [*_bits(np.asarray(block.X).T)]
    columns.append(_bits(block.weight))
    if block.y is not None:
        columns.append(_bits_of_labels(block.y))
    total = np.zeros(len(block), np.uint64)
    for number, bits in enumerate(columns, 1):
        # Another odd factor for each column.
        total += bits * np.uint64(number * 0x9E3779B97F4A7C15 % 2**64 | 1)
    # Not linear, so that values that change places between rows change the sum over the rows.
    total ^= total >> np.uint64(32)
    total *= np.uint64(0xD6E8FEB86659FD93)
    return np.asarray(total ^ (total >> np.uint64(32)))


def _bits(values: NDArray[Any]) -> Digests:
    """Numbers by their bits in float64, in the same shape."""
    return np.ascontiguousarray(values, np.float64).view(np.uint64)


def _bits_of_column(column: pa.ChunkedArray, name: str, which: str) -> Digests:
    if which == "number":
        return _bits(numbers(column, name)[:, 0])
    if which == "time":
        times = local_times(column, name).cast(pa.int64())
        return np.asarray(times.fill_null(0).to_numpy().view(np.uint64))
    if which == "text":
        coded = text(column).combine_chunks().dictionary_encode()
        levels = [zlib.crc32(level.encode()) for level in coded.dictionary.to_pylist()]
        where = coded.indices.fill_null(len(levels)).to_numpy()
        return np.asarray(np.array([*levels, 0], np.uint64)[where])
    return np.zeros(len(column), np.uint64)


def _bits_of_labels(y: NDArray[Any]) -> Digests:
    if y.dtype.kind in "biuf":
        return _bits(y)
    known: dict[Any, int] = {}
    for label in y.tolist():
        if label not in known:
            known[label] = zlib.crc32(repr(label).encode())
    return np.array([known[label] for label in y.tolist()], np.uint64)
