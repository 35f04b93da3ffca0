"""Values that a model cannot use as they are, noticed on their way to it."""

import warnings
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sepgp.data.encoding import Encoder, Encoding, Text, Time, nothing, refuse_most, strange, text
from sepgp.data.rows.base import BLOCK, Block, Rows, WrappedRows
from sepgp.errors import brief


class Watch:
    """Counts the values of tables that an encoding cannot use: no number, no date, a new text."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._n_rows = 0
        self._found: dict[Encoder, tuple[int, str, int]] = {}
        """Of every column that has any: how many, the first of them, and its row."""
        self._absent: dict[str, tuple[int, int]] = {}
        """Of every column that lacks some, but did not in training: how many, and the first row."""

    def see(self, table: pa.Table) -> None:
        """Look at the next rows. Refuse those most of whose values cannot be used."""
        self._encoding.check(table)
        for encoder in self._encoding.encoders:
            self._see_absent(encoder, table[encoder.name])
            where = strange(encoder, table[encoder.name])
            if not where.any():
                continue
            refuse_most(encoder, table[encoder.name], where, self._n_rows)
            first = int(np.argmax(where))
            example = text(table[encoder.name])[first].as_py(), self._n_rows + first + 1
            count, *before = self._found.get(encoder, (0, *example))
            self._found[encoder] = (count + int(where.sum()), *before)
        self._n_rows += len(table)

    def _see_absent(self, encoder: Encoder, column: pa.ChunkedArray) -> None:
        if encoder.missing:
            return
        where = nothing(column, encoder.name)
        if where.any():
            first = self._n_rows + int(np.argmax(where)) + 1
            count, first = self._absent.get(encoder.name, (0, first))
            self._absent[encoder.name] = count + int(where.sum()), first

    def warn(self) -> None:
        """Say what was found, if there was anything: a sentence on values, one on missing ones."""
        if self._absent:
            name = max(self._absent, key=lambda name: self._absent[name][0])
            count, row = self._absent.pop(name)
            others = " and ".join(map(repr, self._absent))
            more = f", as others do in {brief(others)}" if others else ""
            warnings.warn(
                f"Column {name!r} has no value in row {row:,} ({count:,} rows in all){more}, where "
                "the model was trained with none missing; fill in what is known, since its "
                "predictions there are those of an average value.",
                stacklevel=2,
            )
        if not self._found:
            return
        encoder = max(self._found, key=lambda e: self._found[e][0])
        count, example, row = self._found.pop(encoder)
        what, value = ("no dates" if isinstance(encoder, Time) else "no numbers"), "missing"
        if isinstance(encoder, Text):
            what, value = "new to the model", "other texts"
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
