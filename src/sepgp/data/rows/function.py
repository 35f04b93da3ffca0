"""Rows that a function gives."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sepgp.data.rows.array import array_block
from sepgp.data.rows.base import BLOCK, Block, Rows, Wanted, cut_blocks
from sepgp.data.rows.table import arrow, is_table
from sepgp.errors import InvalidData, InvalidParameter, reason


class CallableRows(Rows):
    """A function without arguments that returns a fresh iterator of blocks on every call.

    A block is (X, y) or (X, y, weight), with X an array or a table, or a table that has the target
    among its columns; or, for prediction, X alone. The order of blocks cannot be changed, so rows
    are mixed only as far as the shuffle buffer reaches.
    """

    n_pieces = 1
    splittable = False

    def __init__(self, function: Callable[[], Iterable[Any]], wanted: Wanted) -> None:
        self.name = f"{getattr(function, '__name__', type(function).__name__)}()"
        self._function = function
        self._last: Iterable[Any] | None = None
        self.target, self._wanted = wanted.target, wanted
        self._layout: Any = None
        first = next(self._raw(), None)
        if first is None:
            raise InvalidData(f"{self.name} gave no rows; return an iterator that gives some.")
        if isinstance(first.X, pa.Table):
            self.schema = first.X.schema
        elif wanted.target is not None or wanted.weight is not None:
            raise InvalidParameter(
                f"target={wanted.target!r} and the weight {wanted.weight!r} name columns, but "
                f"{self.name} gives arrays without names; give blocks (X, y) or (X, y, weight)."
            )

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks as they come, cut to the size that is asked for."""
        return cut_blocks(self._raw(), skip, size)

    def _raw(self) -> Iterator[Block]:
        number = 0
        try:
            items = self._function()
            if items is self._last and iter(items) is items:
                raise InvalidData(
                    f"{self.name} gave the same {type(items).__name__} again, which can be read "
                    "only once; return a fresh one at every call."
                )
            self._last = items
            for item in items:
                block = self._block(item)
                if len(block):
                    self._check_layout(block)
                    yield block
                number += 1
        except (InvalidData, InvalidParameter):
            raise
        except Exception as error:
            raise InvalidData(
                f"{self.name} raised {type(error).__name__} in block {number + 1} "
                f"({reason(error)}); correct the function."
            ) from error

    def _block(self, item: Any) -> Block:
        X, y, weight = item, None, None
        if isinstance(item, tuple):
            if not 1 <= len(item) <= 3:
                raise InvalidData(
                    f"{self.name} gave a tuple of {len(item)} parts; give (X, y) or (X, y, weight)."
                )
            X, y, weight = (*item, None, None)[:3]
        if hasattr(X, "__len__") and not len(X):  # whatever its columns
            return Block(np.empty((0, 0)), None, np.empty(0))
        if not is_table(X):
            return array_block(X, self.name).beside(y, weight, self.name)
        if y is not None and self.target is not None:
            raise InvalidData(
                f"{self.name} gave labels beside a table, but target={self.target!r} names a "
                "column; give the labels once."
            )
        table = arrow(X, self.name)
        chosen = self._wanted.among(table.column_names, self.name)
        return chosen.block(table, self.name).beside(y, weight, self.name)

    def _check_layout(self, block: Block) -> None:
        """Refuse other names of columns than those of the first block, or another number."""
        columns = block.X.column_names if isinstance(block.X, pa.Table) else block.X.shape[1]
        if columns != (columns if self._layout is None else self._layout):
            raise InvalidData(
                f"{self.name} gave a block with other columns than its first block; "
                "give the same columns in every block."
            )
        self._layout = columns
