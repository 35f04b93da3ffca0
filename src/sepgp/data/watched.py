"""Values that a model cannot use as they are, noticed on their way to it."""

import warnings
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sepgp.data.encoding import Encoder, Encoding, Text, Time, refuse_most, strange, text
from sepgp.data.rows.base import BLOCK, Block, Rows, WrappedRows
from sepgp.errors import brief


class Watch:
    """Counts the values of tables that an encoding cannot use: no number, no date, a new text."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._n_rows = 0
        self._found: dict[Encoder, tuple[int, str, int]] = {}
        """Of every column that has any: how many, the first of them, and its row."""

    def see(self, table: pa.Table) -> None:
        """Look at the next rows. Refuse those most of whose values cannot be used."""
        self._encoding.check(table.schema)
        for encoder in self._encoding.encoders:
            where = strange(encoder, table[encoder.name])
            if not where.any():
                continue
            refuse_most(encoder, table[encoder.name], where, self._n_rows)
            first = int(np.argmax(where))
            example = text(table[encoder.name])[first].as_py(), self._n_rows + first + 1
            count, *before = self._found.get(encoder, (0, *example))
            self._found[encoder] = (count + int(where.sum()), *before)
        self._n_rows += len(table)

    def warn(self) -> None:
        """Say in one sentence what was found, if there was anything."""
        if not self._found:
            return
        encoder = max(self._found, key=lambda e: self._found[e][0])
        count, example, row = self._found.pop(encoder)
        what, value = ("no dates" if isinstance(encoder, Time) else "no numbers"), "missing"
        if isinstance(encoder, Text):
            what, value = "new to the model", "another text"
        others = " and ".join(repr(other.name) for other in self._found)
        more = f"; there are more in {brief(others)}" if others else ""
        warnings.warn(
            f"Column {encoder.name!r} has values that are {what}, such as {brief(example)!r} in "
            f"row {row:,} ({count:,} in all), which count as {value}{more}.",
            stacklevel=2,
        )


class WatchedRows(WrappedRows):
    """Rows for a model; who has read all of them is warned of the values that it cannot use."""

    def __init__(self, rows: Rows, encoding: Encoding | None) -> None:
        super().__init__(rows)
        self._encoding = encoding

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a piece."""
        return self._rows.read(piece, skip, size)

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """All rows in their own order."""
        watch = None if self._encoding is None else Watch(self._encoding)
        for block in super().blocks(size):
            if watch is not None and isinstance(block.X, pa.Table):
                watch.see(block.X)
            yield block
        if watch is not None:
            watch.warn()
