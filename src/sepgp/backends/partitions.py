"""Partitions of the rows: how one is opened, looked at and made ready, by whoever holds it."""

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from sepgp.backends.backend import Handle
from sepgp.data import checks
from sepgp.data.columns.texts import AS_FOUND, Choices
from sepgp.data.encoding import Encoding
from sepgp.data.prepared import MEASURED
from sepgp.data.rows import READERS, ArrayRows, Rows, TableRows, is_table
from sepgp.data.rows.base import Block, Wanted, joined
from sepgp.data.rows.checked import row_digests
from sepgp.data.rows.files import common_format, find_files, keys_above, reading
from sepgp.data.rows.parquet import ParquetRows
from sepgp.data.rows.table import arrow
from sepgp.data.sample import Sample
from sepgp.data.scaling import Floats, Scaling
from sepgp.data.split import SplitRows
from sepgp.data.survey import Arrays, Findings, Survey
from sepgp.errors import InvalidData


class File(NamedTuple):
    """A file of rows, which whoever works on it opens."""

    path: str
    form: str
    """The format of the file."""
    hidden: frozenset[str]
    """Columns that folders give and that are left out unless they are named."""
    columns: frozenset[str] | None = None
    """The columns that the file may have; None for any."""


class Partition(NamedTuple):
    """Some of the rows, as they were handed in."""

    name: str
    """What messages call it."""
    X: File | Handle
    """A file; or an array of shape (b, d) or a table."""
    y: Handle | None = None
    weight: Handle | None = None
    wanted: Wanted = Wanted()
    """The columns that the user has named; for tables, those that every partition must have."""


def file_partitions(path: str, wanted: Wanted) -> list[Partition]:
    """A partition for each file of a folder or pattern; only the first file is opened here."""
    files = find_files(path)
    form, hidden = common_format(files, path), frozenset(keys_above(path))
    first = next((f for f in files if not _empty(File(f, form, hidden))), files[0])
    rows = _open(File(first, form, hidden), wanted)
    assert rows.schema is not None
    known = None
    if form == "Parquet" and wanted.columns is None:
        known = frozenset(pq.read_schema(first).names)
    wanted = wanted._replace(columns=rows.schema.names)
    return [Partition(f, File(f, form, hidden, known), None, None, wanted) for f in files]


def rows_of(partition: Partition) -> Rows | None:
    """The rows of a partition, checked when they are read; None if it is empty."""
    name, X, y, weight, wanted = partition
    if isinstance(X, File):
        if X.columns is not None:
            with reading(X.path):
                _no_other_columns(pq.read_schema(X.path).names, X.columns, name)
        return None if _empty(X) else _open(X, wanted)
    if not len(X):
        return None
    y, weight = (None if values is None else np.asarray(values) for values in (y, weight))
    if is_table(X):
        table = arrow(X, name)
        _same_columns(table.column_names, wanted, name)
        rows: Rows = TableRows(table, wanted.target, wanted.columns, wanted.weight or weight, y)
    else:
        X = np.asarray(X)
        for values, what in ((y, "y"), (weight, "sample_weight")):
            if values is not None:
                checks.one_per_row(values, len(X), f"{what} of {name}")
        rows = ArrayRows(X, y, weight)
    rows.name = name
    return rows


def _same_columns(names: Sequence[str], wanted: Wanted, name: str) -> None:
    """Refuse a table with other columns than the others; `wanted` has named all of them."""
    known = [*(wanted.columns or ()), wanted.target, wanted.weight]
    for column in known:
        if column is not None and column not in names:
            raise InvalidData(
                f"{name} has no column {column!r}, which other partitions have; give all "
                "partitions the same columns."
            )
    _no_other_columns(names, [column for column in known if column is not None], name)


def _no_other_columns(names: Sequence[str], known: Collection[str], name: str) -> None:
    for column in names:
        if column not in known:
            raise InvalidData(
                f"{name} has a column {column!r}, which other partitions have not; give all "
                "partitions the same columns, or name those to learn from by columns."
            )


def _empty(file: File) -> bool:
    if file.form != "Parquet":
        return False
    with reading(file.path):
        return bool(pq.read_metadata(file.path).num_rows == 0)


def _open(file: File, wanted: Wanted) -> Rows:
    if file.form == "Parquet":
        return ParquetRows([file.path], wanted, file.hidden)
    return READERS[file.form]([file.path], wanted)


@dataclass(frozen=True)
class Look:
    """How partitions are looked at: see `Findings`."""

    seed: int
    encoding: Encoding | None = None
    choices: Choices = AS_FOUND
    held_out: float = 0.0
    """The share of the rows that is held out."""

    def training(self, rows: Rows, number: int, others: Any = None) -> Rows:
        """The rows of a partition that are not held out; `others` is called with those that are."""
        if not self.held_out:
            return rows
        return SplitRows(rows, self.held_out, self.seed + number, False, others)


class Seen:
    """What was seen of some partitions, and a sample of the rows that are held out.

    `digests` tell the rows of a partition, by its number, from others.
    """

    def __init__(
        self,
        found: Findings,
        held_out: Sample,
        width: tuple[str, int] | None,
        digests: dict[int, int],
    ) -> None:
        self.found, self.held_out, self._width, self.digests = found, held_out, width, digests

    def __add__(self, other: "Seen") -> "Seen":
        """Of both together; the other ones come after these."""
        if self._width is not None and other._width is not None:
            (first, d), (name, other_d) = self._width, other._width
            if d != other_d:
                raise InvalidData(
                    f"{name} has {other_d} columns, where {first} has {d}; give all partitions "
                    "the same columns."
                )
        # Copies, since whoever holds the parts may have to add them again.
        found, held_out = copy.deepcopy((self.found, self.held_out))
        found.merge(other.found)
        held_out.merge(other.held_out)
        digests = self.digests | other.digests
        return Seen(found, held_out, self._width or other._width, digests)


def look_at(how: Look, number: int, *partition: Any) -> Seen:
    """Go once over a partition, which has this number among all. Cost O(nd)."""
    given = Partition(*partition)
    found = Findings("y", how.seed, how.encoding, how.choices, number)
    held_out, width, digest = Sample(how.seed, MEASURED, number), None, 0
    rows = rows_of(given)
    if rows is not None:
        # Which rows are held out depends on where they are in the partition, so pieces are one.
        rows = how.training(rows, number, held_out.add)
        for block in rows.blocks():
            width = width or (given.name, block.X.shape[1])
            found.add(number, block)
            digest = _digest(digest, block)
    return Seen(found, held_out, width, {number: digest})


class PartRows(NamedTuple):
    """The n_k rows of a part, encoded and scaled: what is held in memory during training."""

    X: NDArray[Any]
    """Shape (n_k, d), in the type of the work on rows."""
    y: NDArray[np.int64]
    """Class numbers, shape (n_k,)."""
    weight: Floats

    @property
    def size(self) -> tuple[int, float]:
        """How many rows there are, and their weight."""
        return len(self.y), float(self.weight.sum())


@dataclass(frozen=True)
class Recipe:
    """How the rows of partitions become those of a part."""

    look: Look
    survey: Survey
    scaling: Scaling
    dtype: torch.dtype
    digests: dict[int, int]
    """Of the rows as they were seen: whoever makes a part again must find the same ones."""

    def prepare(self, number: int, *partition: Any) -> PartRows:
        """The rows of a partition, those of weight 0 left out. Cost O(nd)."""
        given = Partition(*partition)
        rows, parts, count, digest = rows_of(given), [self._nothing()], 0, 0
        for block in () if rows is None else self.look.training(rows, number).blocks():
            block = block.learned_from(count, number)
            count, digest = count + len(block), _digest(digest, block)
            parts.append(self._ready(self.survey.arrays(block, given.name)))
        if count != self.survey.counts[number]:
            raise checks.changed_rows(given.name, self.survey.counts[number])
        if digest != self.digests[number]:
            raise checks.other_rows(given.name)
        return joined_parts(*parts)

    def _ready(self, arrays: Arrays) -> PartRows:
        X, y, weight = arrays
        kept = weight > 0
        return PartRows(self.scaling.apply(X[kept]).astype(self._type), y[kept], weight[kept])

    def _nothing(self) -> PartRows:
        return PartRows(
            np.empty((0, self.scaling.width), self._type), np.empty(0, np.int64), np.empty(0)
        )

    @property
    def _type(self) -> str:
        return "f4" if self.dtype == torch.float32 else "f8"


def _digest(before: int, block: Block) -> int:
    """The digest of rows in any order, once those of a block have been added."""
    return (before + int(row_digests(block).sum())) % 2**64


def prepare(recipe: Recipe, number: int, *partition: Any) -> PartRows:
    """The rows of one partition as they are trained on."""
    return recipe.prepare(number, *partition)


def joined_parts(*parts: PartRows) -> PartRows:
    """The rows of some partitions, one after the other."""
    return PartRows(*(joined(arrays) for arrays in zip(*parts, strict=True)))


def size_of(part: PartRows) -> tuple[int, float]:
    """How many rows a part has, and their weight."""
    return part.size


def groups(counts: NDArray[np.int_], n_parts: int) -> list[list[int]]:
    """Neighbouring partitions as parts of about the same number of rows; empty ones are in none.

    There are fewer parts than asked for if there are fewer partitions.
    """
    middle = (np.cumsum(counts) - counts / 2) / counts.sum()
    part_of = np.minimum((middle * n_parts).astype(int), n_parts - 1)
    found = [np.flatnonzero((part_of == part) & (counts > 0)).tolist() for part in range(n_parts)]
    return [group for group in found if group]
