"""Rows that lie somewhere, in memory or not, as pieces that are read block by block."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sepgp.data import checks
from sepgp.data.columns.numbers import parsed
from sepgp.data.encoding import decoded
from sepgp.data.folds import fold_of
from sepgp.data.scaling import Floats
from sepgp.errors import InvalidData, InvalidParameter, nearest

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
    fold: NDArray[np.int8] | None = None
    """Shape (b,), of rows that features learn from the labels of; None of others."""

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def n_bytes(self) -> int:
        """The memory that the rows take."""
        return int(self.X.nbytes + self.weight.nbytes + (0 if self.y is None else self.y.nbytes))

    def beside(self, y: Any, weight: Any, name: str) -> "Block":
        """The same rows with labels and weights of shape (b,), unless these are None."""
        if y is not None:
            y = checks.labels(y, len(self), f"y of {name}")
        if weight is not None:
            weight = checks.weights(weight, len(self), f"weight of {name}")
        return Block(self.X, self.y if y is None else y, self.weight if weight is None else weight)

    def cut(self, begin: int, end: int) -> "Block":
        """The rows from `begin` up to `end`."""
        part = slice(begin, end)
        y, fold = (None if a is None else a[part] for a in (self.y, self.fold))
        return Block(self.X[part], y, self.weight[part], fold)

    def take(self, where: NDArray[Any]) -> "Block":
        """The rows of these numbers, or those where it is true."""
        y, fold = (None if a is None else a[where] for a in (self.y, self.fold))
        return Block(taken(self.X, where), y, self.weight[where], fold)

    def learned_from(self, begin: int, stream: int = 0) -> "Block":
        """The same rows in their folds; `begin` is the number of the first of them in a stream."""
        return replace(self, fold=fold_of(begin + np.arange(len(self)), stream))


def taken(X: Any, where: NDArray[Any]) -> Any:
    """The rows of these numbers of a table or an array, or those where it is true."""
    if not isinstance(X, pa.Table):
        return X[where]
    return X.filter(pa.array(where)) if where.dtype == bool else X.take(where)


def joined(parts: Sequence[Any]) -> Any:
    """The rows of tables with `canonical` columns, or those of arrays, one after the other."""
    if isinstance(parts[0], pa.Table):
        return pa.concat_tables(parts, promote_options="default")
    return np.concatenate(parts)


class Rows(ABC):
    """Rows in pieces that can be read in any order, each from its beginning.

    A subclass reads one kind of file or object. `open_rows` makes the one that fits.
    """

    name: str
    """What messages call it."""
    schema: pa.Schema | None = None
    """The columns that become features; None if the rows come as arrays."""
    target: str | None = None
    """The column that holds the labels, where they are one."""
    n_pieces: int
    n_rows: int | None = None
    """How many there are; None where that is not known before they are read."""
    splittable = True
    """Whether several readers may go over one piece at the same time."""

    @abstractmethod
    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of at most `size` rows of a piece, from its row number `skip` on."""

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """All rows in their own order."""
        for piece in range(self.n_pieces):
            yield from self.read(piece, size=size)


def cut_blocks(blocks: Iterable[Block], skip: int, size: int = BLOCK) -> Iterator[Block]:
    """The rows of some blocks from row number `skip` on, in blocks of at most `size` rows."""
    for block in blocks:
        passed = min(skip, len(block))
        skip -= passed
        for begin in range(passed, len(block), size):
            yield block.cut(begin, min(begin + size, len(block)))


class WrappedRows(Rows):
    """Rows that come from others, with the same columns and pieces."""

    def __init__(self, rows: Rows) -> None:
        self._rows, self.name, self.schema = rows, rows.name, rows.schema
        self.n_pieces, self.splittable, self.target = rows.n_pieces, rows.splittable, rows.target
        self.n_rows = rows.n_rows


class RowsInMemory(Rows):
    """Rows that can be cut anywhere at no cost; a piece is a run of `BLOCK` rows."""

    name = "X"

    def __init__(self, n_rows: int) -> None:
        self.n_rows: int = n_rows
        self.n_pieces = max(1, -(-n_rows // BLOCK))

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a run of rows."""
        end = min((piece + 1) * BLOCK, self.n_rows)
        for begin in range(piece * BLOCK + skip, end, size):
            yield self._block(slice(begin, min(begin + size, end)))

    @abstractmethod
    def _block(self, part: slice) -> Block: ...


class Columns(NamedTuple):
    """Which columns of a table are features, which one is the label and which the weight."""

    features: tuple[str, ...]
    target: str | None
    weight: str | None
    drop_unlabelled: bool = False
    """Whether rows without a label are left out, or refused."""

    @property
    def all(self) -> list[str]:
        """Every column that has to be read."""
        others = (c for c in (self.target, self.weight) if c is not None)
        return list(dict.fromkeys((*self.features, *others)))

    def block(self, table: pa.Table, name: str) -> Block:
        """The rows of a table that has these columns."""
        y = None
        if self.target is not None:
            table = self._labelled(table, f"{name} in column {self.target!r}")
            y = _labels(table[self.target], f"{name} in column {self.target!r}")
        weight = np.ones(len(table))
        if self.weight is not None:
            what = f"{name} in column {self.weight!r}"
            weight = checks.weights(_weights(table[self.weight], what), len(table), what)
        return Block(table.select(self.features), y, weight)

    def _labelled(self, table: pa.Table, what: str) -> pa.Table:
        """The rows that have a label."""
        labels = decoded(table[self.target])
        if pa.types.is_floating(labels.type):
            missing = pc.is_null(labels, nan_is_null=True)
        else:
            missing = pc.is_null(labels)
        n_missing = pc.sum(missing).as_py() or 0
        if n_missing and not self.drop_unlabelled:
            first = table.filter(missing)[self.features[0]][0].as_py()
            raise checks.missing_labels(n_missing, what, (self.features[0], first))
        return table.filter(pc.invert(missing)) if n_missing else table


class Wanted(NamedTuple):
    """The columns that a user has named: see `open_rows`."""

    target: str | None = None
    columns: Sequence[str] | None = None
    weight: str | None = None
    drop_unlabelled: bool = False

    def among(self, names: Sequence[str], name: str) -> Columns:
        """The columns to read from a table that has columns of these names."""
        target, columns, weight, drop_unlabelled = self
        checks.unique_names(names, name)
        if isinstance(columns, str):
            raise InvalidParameter(f"columns={columns!r} is text; give a list of column names.")
        features = tuple(c for c in names if c not in (target, weight))
        if columns is not None:
            features = tuple(columns)
            checks.unique_names(features, "columns")
        for column in (*features, target, weight):
            if column is not None and column not in names:
                known = ", ".join(map(repr, names[:8])) + " or another" * (len(names) > 8)
                near = nearest(column, names)
                one = "add it, or name one that it has"
                if near is not None and column in features:  # which a model may have named
                    one = f"if {near!r} is meant, write both alike, else add it to those it has"
                elif near is not None:
                    one = f"name {near!r} or another that it has"
                raise InvalidData(f"{name} has no column {column!r}; {one} ({known}).")
        if not features:
            raise InvalidData(f"{name} has no column to learn from besides the target; add some.")
        if target in features:
            raise InvalidParameter(f"columns contains the target {target!r}; leave it out.")
        return Columns(features, target, weight, drop_unlabelled)


def _as_text(column: pa.ChunkedArray, what: str) -> pa.ChunkedArray:
    """A column of bytes, which many programs write for text."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        raise InvalidData(
            f"{what} has labels of bytes that are not text in UTF-8; give text or whole numbers."
        ) from None


def _labels(column: pa.ChunkedArray, what: str) -> NDArray[Any]:
    """A column of labels as an array of shape (b,); dates and bytes are text there."""
    column = decoded(column)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        column = _as_text(column, what)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("s", column.type.tz), safe=False)
    if pa.types.is_temporal(column.type) and not pa.types.is_duration(column.type):
        column = column.cast(pa.string())
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if any(f(column.type) for f in (pa.types.is_string, pa.types.is_large_string)):
        # Every text once, as an object that all its rows share.
        coded = pc.dictionary_encode(column).combine_chunks()
        levels = np.array(coded.dictionary.to_pylist(), dtype=object)
        return np.asarray(levels[coded.indices.to_numpy()] if len(levels) else levels)
    return checks.labels(column.to_numpy(), len(column), what)


def _weights(column: pa.ChunkedArray, what: str) -> Any:
    """A column of weights as numbers, read as a column of features would be."""
    column = decoded(column)
    if not any(f(column.type) for f in (pa.types.is_string, pa.types.is_large_string)):
        try:
            return column.cast(pa.float64(), safe=False)
        except pa.ArrowException:
            return column.to_pylist()
    texts = column.cast(pa.large_string()).combine_chunks()
    points, commas = (parsed(texts, comma).values for comma in (False, True))
    lost = [int(np.isnan(values).sum()) for values in (points, commas)]
    values = points if lost[0] <= lost[1] else commas
    unclear = (points != commas) if lost[0] == lost[1] else np.isnan(values)
    if unclear.any():
        example = texts[int(np.argmax(unclear))].as_py()
        may = "which is no number" if np.isnan(values).any() else "which may be read in two ways"
        raise InvalidData(f"{what} has the weight {example!r}, {may}; write all weights as 1234.5.")
    return values
