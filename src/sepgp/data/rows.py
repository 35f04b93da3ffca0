"""Rows that lie somewhere, in memory or not, as pieces that are read block by block."""

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sepgp.data.encoding import decoded
from sepgp.data.scaling import Floats
from sepgp.errors import InvalidData, InvalidParameter, reason

BLOCK = 65_536
"""Rows that are read at a time, unless told otherwise."""


@dataclass(frozen=True)
class Block:
    """b rows as they were read: neither encoded nor scaled."""

    X: pa.Table | NDArray[Any]
    """The columns that become features, or an array of shape (b, d)."""
    y: NDArray[Any] | None
    """Labels, shape (b,); None where there are none."""
    weight: Floats
    """Shape (b,)."""

    def __len__(self) -> int:
        return len(self.weight)

    def cut(self, begin: int, end: int) -> "Block":
        """The rows from `begin` up to `end`."""
        part = slice(begin, end)
        return Block(self.X[part], None if self.y is None else self.y[part], self.weight[part])

    def take(self, where: NDArray[np.int_]) -> "Block":
        """The rows of these numbers."""
        X = self.X.take(where) if isinstance(self.X, pa.Table) else self.X[where]
        return Block(X, None if self.y is None else self.y[where], self.weight[where])


class Rows(ABC):
    """Rows in pieces that can be read in any order, each from its beginning.

    A subclass reads one kind of file or object. `open_rows` makes the one that fits.
    """

    name: str
    """What messages call it."""
    schema: pa.Schema | None = None
    """The columns that become features; None if the rows come as arrays."""
    n_pieces: int
    splittable = True
    """Whether several readers may go over one piece at the same time."""

    @abstractmethod
    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of at most `size` rows of a piece, from its row number `skip` on."""

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """All rows in their own order."""
        for piece in range(self.n_pieces):
            yield from self.read(piece, size=size)


class Columns(NamedTuple):
    """Which columns of a table are features, which one is the label and which the weight."""

    features: tuple[str, ...]
    target: str | None
    weight: str | None

    @property
    def all(self) -> list[str]:
        """Every column that has to be read."""
        others = (c for c in (self.target, self.weight) if c is not None)
        return list(dict.fromkeys((*self.features, *others)))

    def block(self, table: pa.Table, name: str) -> Block:
        """The rows of a table that has these columns."""
        y = None if self.target is None else labels(table[self.target], name, self.target)
        weight = np.ones(len(table))
        if self.weight is not None:
            what = f"{name} in column {self.weight!r}"
            try:
                values = table[self.weight].cast(pa.float64(), safe=False).to_numpy()
            except pa.ArrowException as error:
                message = f"{what} has weights that are not numbers; convert them."
                raise InvalidData(message) from error
            weight = checked_weights(values, what)
        return Block(table.select(self.features), y, weight)


def choose_columns(
    names: Sequence[str],
    name: str,
    target: str | None,
    columns: Sequence[str] | None,
    weight: str | None,
) -> Columns:
    """The columns to read from a table that has columns of these names."""
    once(names, name)
    if isinstance(columns, str):
        raise InvalidParameter(f"columns={columns!r} is text; give a list of column names.")
    features = tuple(c for c in names if c not in (target, weight))
    if columns is not None:
        features = tuple(columns)
        once(features, "columns")
    for column in (*features, target, weight):
        if column is not None and column not in names:
            known = ", ".join(map(repr, names[:8])) + (" or another" if len(names) > 8 else "")
            raise InvalidData(
                f"{name} has no column {column!r}; add it, or name one that it has ({known})."
            )
    if not features:
        raise InvalidData(f"{name} has no column to learn from besides the target; add some.")
    if target in features:
        raise InvalidParameter(f"columns contains the target {target!r}; leave it out.")
    return Columns(features, target, weight)


def once(names: Sequence[str], what: str) -> None:
    """Refuse names of columns that come twice."""
    twice = [column for column, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidData(f"{what} has several columns {twice[0]!r}; give each its own name.")


def labels(column: pa.ChunkedArray, name: str, target: str) -> NDArray[Any]:
    """A column of labels as an array of shape (b,)."""
    column = decoded(column)
    if column.null_count:
        raise InvalidData(
            f"{name} has no label in column {target!r} of {column.null_count} rows; "
            "drop the rows that have no label."
        )
    if any(f(column.type) for f in (pa.types.is_string, pa.types.is_large_string)):
        # Every text once, as an object that all its rows share.
        coded = pc.dictionary_encode(column).combine_chunks()
        levels = np.array(coded.dictionary.to_pylist(), dtype=object)
        return np.asarray(levels[coded.indices.to_numpy()] if len(levels) else levels)
    return complete(np.asarray(column.to_numpy()), f"{name} in column {target!r}")


def complete(y: NDArray[Any], what: str) -> NDArray[Any]:
    """Labels y, shape (b,), none of which is missing."""
    missing = y != y if y.dtype.kind in "fO" else np.zeros(len(y), bool)
    if y.dtype == object:
        missing = missing | (y == None)  # noqa: E711
    if np.any(missing):
        raise InvalidData(
            f"{what} has no label in {np.sum(missing)} rows; drop the rows that have no label."
        )
    return y


def checked_weights(values: Floats, what: str) -> Floats:
    """Weights of shape (b,), each finite and at least 0."""
    if not np.isfinite(values).all() or (values < 0).any():
        raise InvalidData(
            f"{what} has a weight that is negative, missing or infinite; "
            "give a weight of at least 0 for every row."
        )
    return values


def cuts(first: int, skip: int, end: int, size: int) -> Iterator[slice]:
    """Rows from `first + skip` to `end`, cut at multiples of `size` from `first` on.

    So the cuts of a piece are the same wherever its reading begins.
    """
    begin = first + skip
    while begin < end:
        cut = min(begin + size - (begin - first) % size, end)
        yield slice(begin, cut)
        begin = cut


class TableRows(Rows):
    """A table in memory, of pandas, polars, pyarrow or anything with Arrow's interface.

    Labels and weights are columns of it, or arrays of shape (n,).
    """

    def __init__(
        self,
        data: Any,
        target: str | None = None,
        columns: Sequence[str] | None = None,
        weight: str | Floats | None = None,
        y: NDArray[Any] | None = None,
    ) -> None:
        self.name = "X"
        table = arrow(data)
        named = weight if isinstance(weight, str) else None
        self._columns = choose_columns(table.column_names, self.name, target, columns, named)
        self._table = table.select(self._columns.all)
        self._y, self._weight = y, None if isinstance(weight, str) else weight
        self.schema = table.select(self._columns.features).schema
        self.n_pieces = max(1, -(-len(table) // BLOCK))

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a piece, which is a run of `BLOCK` rows."""
        end = min((piece + 1) * BLOCK, len(self._table))
        for part in cuts(piece * BLOCK, skip, end, size):
            block = self._columns.block(self._table[part], self.name)
            if self._y is not None:
                block = replace(block, y=self._y[part])
            if self._weight is not None:
                block = replace(block, weight=self._weight[part])
            yield block


class ArrayRows(Rows):
    """An array or memmap X of shape (n, d), with labels and weights of shape (n,) or without."""

    def __init__(self, X: Any, y: Any = None, weight: Any = None) -> None:
        self.name = "X"
        self._X, self._y, self._weight = X, y, weight
        self.n_pieces = max(1, -(-len(X) // BLOCK))

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a piece, which is a run of `BLOCK` rows."""
        end = min((piece + 1) * BLOCK, len(self._X))
        for part in cuts(piece * BLOCK, skip, end, size):
            y = None if self._y is None else np.asarray(self._y[part])
            yield _array_block(
                self._X[part], y, None if self._weight is None else self._weight[part], self.name
            )


class CallableRows(Rows):
    """A function without arguments that returns a fresh iterator of blocks on every call.

    A block is (X, y) or (X, y, weight), with X an array or a table, or a table that has the target
    among its columns; or, for prediction, X alone. The order of blocks cannot be changed, so rows
    are mixed only as far as the shuffle buffer reaches.
    """

    n_pieces = 1
    splittable = False

    def __init__(
        self,
        function: Callable[[], Iterable[Any]],
        target: str | None = None,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
    ) -> None:
        self.name = f"{getattr(function, '__name__', type(function).__name__)}()"
        self._function = function
        self._last: Iterable[Any] | None = None
        self._target, self._chosen, self._weight = target, columns, weight
        first = next(self._raw(), None)
        if first is None:
            raise InvalidData(f"{self.name} gave no rows; return an iterator that gives some.")
        if isinstance(first.X, pa.Table):
            self.schema = first.X.schema
        elif target is not None or weight is not None:
            raise InvalidParameter(
                f"target={target!r} and the weight {weight!r} name columns, but {self.name} gives "
                "arrays without names; give blocks (X, y) or (X, y, weight)."
            )
        self._layout = _layout(first)

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks as they come, cut to the size that is asked for."""
        for block in self._raw():
            if _layout(block) != self._layout:
                raise InvalidData(
                    f"{self.name} gave a block with other columns than its first block; "
                    "give the same columns in every block."
                )
            passed = min(skip, len(block))
            skip -= passed
            for begin in range(passed, len(block), size):
                yield block.cut(begin, min(begin + size, len(block)))

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
            return _array_block(X, y, weight, self.name)
        table = arrow(X, self.name)
        chosen = choose_columns(
            table.column_names, self.name, self._target, self._chosen, self._weight
        )
        block = chosen.block(table, self.name)
        if y is not None:
            if self._target is not None:
                raise InvalidData(
                    f"{self.name} gave labels beside a table, but target={self._target!r} names a "
                    "column; give the labels once."
                )
            block = replace(block, y=_checked_labels(y, len(table), self.name))
        if weight is not None:
            block = replace(block, weight=_checked_weights(weight, len(table), self.name))
        return block


def _layout(block: Block) -> Any:
    """What all blocks of a source have in common: names of columns, or how many there are."""
    return block.X.column_names if isinstance(block.X, pa.Table) else block.X.shape[1]


def is_table(data: Any) -> bool:
    """Whether data is a table with named columns."""
    return hasattr(data, "columns") and (hasattr(data, "__arrow_c_stream__") or _is_pandas(data))


def _is_pandas(data: Any) -> bool:
    return hasattr(data, "iloc")


def arrow(data: Any, name: str = "X") -> pa.Table:
    """A table of pandas, polars or another library as one of Arrow."""
    names = data.column_names if hasattr(data, "column_names") else data.columns
    once(list(map(str, names)), name)
    try:
        if _is_pandas(data):  # its index is not a column
            return pa.Table.from_pandas(data, preserve_index=False)
        return without_views(pa.table(data))
    except (pa.ArrowException, TypeError, ValueError) as error:
        where = f", {error.args[1]}" if len(error.args) > 1 else ""  # pandas' column
        raise InvalidData(
            f"{name} has a column of mixed or unknown values ({reason(error)}{where}); "
            "give every column one type."
        ) from error


def without_views(table: pa.Table) -> pa.Table:
    """The same table with plain text instead of views of text, which few functions can handle."""
    for number, field in enumerate(table.schema):
        column = table[number]
        if pa.types.is_dictionary(field.type) and pa.types.is_string_view(field.type.value_type):
            chunks = [c.dictionary.cast(pa.large_string()).take(c.indices) for c in column.chunks]
            column = pa.chunked_array(chunks, pa.large_string())
        elif pa.types.is_string_view(field.type):
            column = column.cast(pa.large_string())
        else:
            continue
        table = table.set_column(number, field.name, column)
    return table


def open_rows(
    data: Any,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
) -> Rows:
    """Rows from whatever holds them.

    Parameters
    ----------
    data : path, table, callable or Rows
        A Parquet or CSV file, a folder of them (with hive partitions, `year=2008/`, as columns), a
        pattern such as "flights/*.parquet", a table in memory (pandas, polars, pyarrow), or a
        function that returns an iterator of blocks: see `CallableRows`.
    target : str, optional
        The column that holds the labels.
    columns : list of str, optional
        The columns to learn from; all but `target` and `weight` when not given.
    weight : str, optional
        The column that holds the weights of the rows.
    """
    from sepgp.data.files import file_rows

    if isinstance(data, Rows):
        if (target, columns, weight) != (None, None, None):
            raise InvalidParameter(
                "target, columns and weight belong to open_rows(...) when X was opened by it; "
                "name them there."
            )
        return data
    if isinstance(data, str | os.PathLike):
        return file_rows(data, target, columns, weight)
    if is_table(data):
        return TableRows(data, target, columns, weight)
    if callable(data):
        return CallableRows(data, target, columns, weight)
    if isinstance(data, Iterator):
        raise InvalidData(
            f"X is a {type(data).__name__}, which can be read only once; "
            "give a function that returns a fresh one."
        )
    raise InvalidData(
        f"X is a {type(data).__name__}; give an array, a table, a path or a function that returns "
        "an iterator of blocks."
    )


def _array_block(X: Any, y: Any, weight: Any, name: str) -> Block:
    X = np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InvalidData(
            f"{name} has rows of shape {X.shape} and type {X.dtype}; "
            "give arrays of numbers of shape (rows, features), or tables."
        )
    if X.dtype.kind == "f" and not np.isfinite(X).all():
        column = int(np.argmax(~np.isfinite(X).all(0)))
        raise InvalidData(
            f"{name} has NaN or infinity in column {column}; impute these values or drop the rows."
        )
    labels = None if y is None else _checked_labels(y, len(X), name)
    return Block(
        X, labels, np.ones(len(X)) if weight is None else _checked_weights(weight, len(X), name)
    )


def _checked_labels(y: Any, n_rows: int, name: str) -> NDArray[Any]:
    y = np.asarray(y)
    _same_length(n_rows, y, name, "labels")
    return complete(y, name)


def _checked_weights(weight: Any, n_rows: int, name: str) -> Floats:
    weight = np.asarray(weight, np.float64)
    _same_length(n_rows, weight, name, "weights")
    return checked_weights(weight, name)


def _same_length(n_rows: int, values: NDArray[Any], name: str, what: str) -> None:
    if values.shape != (n_rows,):
        raise InvalidData(
            f"{name} has {what} of shape {values.shape} for {n_rows} rows; give one per row."
        )
