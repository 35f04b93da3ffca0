"""Rows that are held out of training, chosen at random and always the same."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.data.checks import MOST_CLASSES
from sepgp.data.rows.base import BLOCK, Block, Rows, WrappedRows, cut_blocks

ROUNDING = 1e-9
AUTO, SHARE, MOST, PLENTY = "auto", 0.1, 3_000, 10_000
"""The default share: a tenth of the rows, and so many at most, if there are so many in all."""


def held_out_share(fraction: float | str, n_rows: int | None, batch_size: int) -> float:
    """The share of n rows that are held out by this `validation_fraction`.

    "auto" holds out none where rows are few, or one batch has all of them: few rows say little of a
    model that did without them. Nor does it where it is not known how many there are.
    """
    if fraction != AUTO:
        return float(fraction)
    if n_rows is None or n_rows < PLENTY:
        return 0.0
    share = min(SHARE, MOST / n_rows)
    return share if (1 - share) * n_rows > batch_size else 0.0


class Draw:
    """Which rows of a piece are held out: a share of every class.

    Of the first 1/share rows of a class one is held out, at a random place, then one of the next
    1/share rows, and so on. The first row of a class is never held out, so that training knows all
    classes. Seed, labels and the places of rows decide; how they are cut into
    blocks does not.
    """

    def __init__(self, share: float, seed: int, piece: int = 0) -> None:
        self._share, self._seed = share, (seed, piece, 1)
        self._seen: dict[Any, tuple[int, int]] = {}
        """By label, the number of its class and how many rows it had."""

    def held_out(self, labels: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether the next rows, with these labels of shape (n,), are held out, shape (n,)."""
        chosen = np.zeros(len(labels), dtype=bool)
        for label, rows in _classes(labels) if len(labels) else ():
            number, seen = self._seen.get(label, (len(self._seen), 0))
            self._seen[label] = number, seen + len(rows)
            first, last = (
                int(np.floor(self._share * row + ROUNDING)) for row in (seen, seen + len(rows) - 1)
            )
            strata = np.arange(first, last + 1)
            begin, end = (np.ceil((strata + i - ROUNDING) / self._share) for i in (0, 1))
            bits = np.random.PCG64((*self._seed, number))
            bits.advance(first)
            places = np.random.Generator(bits).random(len(strata))
            drawn = begin + np.floor((end - begin) * places)
            drawn = np.where(drawn == 0, end - 1, drawn) - seen
            chosen[rows[drawn[(drawn >= 0) & (drawn < len(rows))].astype(np.int64)]] = True
        return chosen


def _classes(labels: NDArray[Any]) -> Iterator[tuple[Any, NDArray[np.intp]]]:
    """Every label with its rows, in the order in which the labels appear.

    More than there can be are no classes; whoever reads the labels will say so.
    """
    try:
        values, codes = _coded(labels)
    except TypeError:  # labels that cannot be compared are refused by whoever reads them
        values = np.empty(0)
    if not 0 < len(values) <= MOST_CLASSES:
        yield None, np.arange(len(labels))
        return
    ordered = np.argsort(codes.astype(np.int16), kind="stable")
    parts = np.split(ordered, np.cumsum(np.bincount(codes))[:-1])
    pairs = [(name, rows) for name, rows in zip(values.tolist(), parts, strict=True) if len(rows)]
    yield from sorted(pairs, key=lambda pair: int(pair[1][0]))


def _coded(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Labels, sorted, and for each row which one of them it has; some may have no row."""
    if labels.dtype.kind == "i":
        low, high = int(labels.min()), int(labels.max())
        if high - low < MOST_CLASSES:  # to sort millions of rows would take half a second
            return np.arange(low, high + 1), labels.astype(np.intp) - low
    values, codes = np.unique(labels, return_inverse=True)
    return values, codes


class SplitRows(WrappedRows):
    """The rows that are held out of others (see `Draw`), or all but these.

    Whenever they are read, `others` is called with the other rows, block by block.
    """

    def __init__(
        self,
        rows: Rows,
        share: float,
        seed: int,
        held_out: bool,
        others: Callable[[Block], None] | None = None,
    ) -> None:
        super().__init__(rows)
        self.n_rows = None
        self._share, self._seed, self._held_out, self._others = share, seed, held_out, others

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a piece, without the other rows."""
        return cut_blocks(self._chosen(piece, size), skip, size)

    def _chosen(self, piece: int, size: int) -> Iterator[Block]:
        draw = Draw(self._share, self._seed, piece)
        for block in self._rows.read(piece, 0, size):
            labels = np.zeros(len(block)) if block.y is None else block.y
            counts = block.weight > 0  # others would be no row of their class to train on
            held_out = np.zeros(len(block), dtype=bool)
            held_out[counts] = draw.held_out(labels[counts])
            chosen = held_out == self._held_out
            if self._others is not None:
                self._others(block.take(~chosen))
            yield block.take(chosen)
