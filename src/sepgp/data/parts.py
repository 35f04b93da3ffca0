"""A part of other rows, chosen at random and always the same."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from sepgp.data.rows import BLOCK, Block, Rows


def lots(seed: int, piece: int = 0) -> np.random.Generator:
    """Where the rows of a piece draw their lots, one number each: below the share is kept aside."""
    return np.random.default_rng((seed, piece, 1))


class Part(Rows):
    """The rows that a share keeps aside, or all the others.

    Every row's fate depends on the seed and its place alone, so that it is the same at every
    reading.

    Parameters
    ----------
    rows : Rows
        All rows.
    share : float
        Of the rows that are kept aside.
    seed : int
        Of the choice.
    kept_aside : bool
        Whether this part is the share or the rest.
    others : function, optional
        Called with the rows of the other part, block by block, whenever this one is read.
    """

    def __init__(
        self,
        rows: Rows,
        share: float,
        seed: int,
        kept_aside: bool,
        others: Callable[[Block], None] | None = None,
    ) -> None:
        self._rows, self._share, self._seed, self._aside = rows, share, seed, kept_aside
        self._others = others
        self.name = rows.name if kept_aside else f"{rows.name} without the {share:.0%} kept aside"
        self.schema, self.n_pieces = rows.schema, rows.n_pieces
        self.splittable = rows.splittable

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a piece, without the rows of the other part."""
        random = lots(self._seed, piece)
        for block in self._rows.read(piece, 0, size):
            aside: NDArray[np.bool_] = random.random(len(block)) < self._share
            where = np.flatnonzero(aside == self._aside)
            if self._others is not None:
                self._others(block.take(np.flatnonzero(aside != self._aside)))
            passed = min(skip, len(where))
            skip -= passed
            if passed < len(where):
                yield block.take(where[passed:])
