"""Rows that are held out of training, chosen at random and always the same."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from sepgp.data.rows.base import BLOCK, Block, Rows, WrappedRows, cut_blocks


class Draw:
    """Which rows of a piece are held out: about a share, by the seed and their places alone."""

    def __init__(self, share: float, seed: int, piece: int = 0) -> None:
        self._share, self._rng = share, np.random.default_rng((seed, piece, 1))

    def held_out(self, n_rows: int, most: int | None = None) -> NDArray[np.bool_]:
        """Whether the next n rows are held out, shape (n,); no more than `most` of them."""
        numbers = self._rng.random(n_rows)
        chosen: NDArray[np.bool_] = numbers < self._share
        if most is not None and chosen.sum() > most:
            chosen = numbers <= np.sort(numbers)[most - 1]
        return chosen


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
        self._share, self._seed, self._held_out, self._others = share, seed, held_out, others
        if not held_out:
            self.name += " without its held-out rows"

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a piece, without the other rows."""
        return cut_blocks(self._chosen(piece, size), skip, size)

    def _chosen(self, piece: int, size: int) -> Iterator[Block]:
        draw = Draw(self._share, self._seed, piece)
        for block in self._rows.read(piece, 0, size):
            chosen = draw.held_out(len(block)) == self._held_out
            if self._others is not None:
                self._others(block.take(np.flatnonzero(~chosen)))
            yield block.take(np.flatnonzero(chosen))
