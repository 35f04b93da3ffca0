"""Rows whose labels are counted as they are read."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sepgp.data.rows.base import BLOCK, Block, Rows, WrappedRows


class CountedRows(WrappedRows):
    """The same rows; `counts` has the rows of every label, of all pieces that were read."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self._pieces: dict[int, Counter[Any]] = {}

    @property
    def counts(self) -> Counter[Any]:
        """Rows by label."""
        total: Counter[Any] = Counter()
        for counts in self._pieces.values():
            total += counts
        return total

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a piece."""
        if skip or piece in self._pieces:
            return self._rows.read(piece, skip, size)
        return self._counted(piece, size)

    def _counted(self, piece: int, size: int) -> Iterator[Block]:
        counts: Counter[Any] = Counter()
        for block in self._rows.read(piece, 0, size):
            counts.update([] if block.y is None else block.y.tolist())
            yield block
        self._pieces[piece] = counts
