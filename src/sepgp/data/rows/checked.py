"""Rows that must be the same whenever they are read."""

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

    What is compared are sums over `WINDOW` rows of their digests times their places. Rows that can
    only be read in their own order, as those of a function, may be mixed anew unless they have to
    be `in_order`: then it is the sum over all of them, without places. Text counts by its digest,
    and numbers by their bits. Cost O(d) per row, less than encoding them.
    """

    def __init__(self, rows: Rows, in_order: bool = False) -> None:
        super().__init__(rows)
        self.in_order = in_order or rows.splittable
        """Whether rows have to be in the same order, too, in what is read from now on."""
        self._known: dict[int, array[int]] = {}
        """By piece, the digests of its windows."""
        self._whole: dict[int, tuple[int, int]] = {}
        """By piece, how many rows it has and their digest, once all of them have been read."""

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a piece."""
        n_rows, whole = self._whole.get(piece, (None, None))
        place, digest, total, complete = skip, 0, 0, skip % WINDOW == 0
        for block in self._rows.read(piece, skip, size):
            digests, begin = row_digests(block), 0
            total = (total + int(digests.sum())) % 2**64
            digests *= 2 * np.arange(place, place + len(block), dtype=np.uint64) + np.uint64(1)
            while begin < len(block):
                end = min(len(block), begin + WINDOW - place % WINDOW)
                digest = (digest + int(digests[begin:end].sum())) % 2**64
                place, begin = place + end - begin, end
                if place % WINDOW == 0 or place == n_rows:
                    if complete:
                        self._compare(piece, (place - 1) // WINDOW, digest)
                    digest, complete = 0, True
            if not self.in_order and not skip and place == n_rows and total != whole:
                raise other_rows(self.name)
            yield block
        if not skip and n_rows is None:
            if place % WINDOW:
                self._compare(piece, place // WINDOW, digest)
            self._whole[piece] = place, total

    def _compare(self, piece: int, window: int, digest: int) -> None:
        """Keep the digest of a window, or compare it with the one that is known."""
        known = self._known.setdefault(piece, array("Q"))
        if window == len(known):
            known.append(digest)
        elif self.in_order and window < len(known) and known[window] != digest:
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
        # As bytes, which need be no text: whoever encodes the column says so.
        levels = map(zlib.crc32, coded.dictionary.cast(pa.large_binary()).to_pylist())
        where = coded.indices.fill_null(len(coded.dictionary)).to_numpy()
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
