"""Rows that need not be read from their source twice."""

from collections.abc import Iterator

from sepgp.data.rows.base import BLOCK, Block, Rows, WrappedRows, cut_blocks


class CachedRows(WrappedRows):
    """The same rows, kept in memory from the first reading on if all of them fit.

    As soon as they would take more than `n_bytes`, everything is dropped for good.
    """

    def __init__(self, rows: Rows, n_bytes: int) -> None:
        super().__init__(rows)
        self._room = n_bytes
        self._pieces: dict[int, list[Block]] = {}

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a piece."""
        if piece in self._pieces:
            return cut_blocks(self._pieces[piece], skip, size)
        return self._rows.read(piece, skip, size) if skip else self._kept(piece, size)

    def _kept(self, piece: int, size: int) -> Iterator[Block]:
        blocks: list[Block] = []
        for block in self._rows.read(piece, 0, size):
            self._room -= block.n_bytes
            if self._room >= 0:
                blocks.append(block)
            else:
                blocks.clear()
                self._pieces.clear()
            yield block
        if self._room >= 0:
            self._pieces[piece] = blocks
