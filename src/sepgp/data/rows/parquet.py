"""Rows in Parquet files."""

import functools
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sepgp.data.checks import other_rows
from sepgp.data.rows.base import BLOCK, Block, Rows, Wanted, cut_blocks
from sepgp.data.rows.files import name_of, path_keys, reading, same_kinds
from sepgp.data.rows.table import without_views
from sepgp.errors import InvalidData

READ_BUFFER = 2**16
"""Bytes of a column that are fetched at a time."""
INDEX = re.compile(r"__index_level_\d+__")
"""The column that pandas makes of an index without a name: row numbers, no feature."""


class _Group(NamedTuple):
    """A row group of a file."""

    path: str
    number: int
    keys: dict[str, pa.Scalar]
    """Columns that the folders on the path give."""


class ParquetRows(Rows):
    """Rows of Parquet files; a piece is a row group.

    Folders such as year=2008/ on the way to a file give it a column. Columns that are not chosen
    by name leave out those in `hidden`, unless they are stored in the file.
    """

    def __init__(self, files: Sequence[str], wanted: Wanted, hidden: Collection[str]) -> None:
        self.name, self.target = name_of(files), wanted.target
        with reading(files[0]):
            schema = pq.read_schema(files[0])
        keys = {name: key for name, key in path_keys(files).items() if name not in schema.names}
        for name, key in keys.items():
            schema = schema.append(pa.field(name, key.type))
        if wanted.columns is None:
            others = {wanted.target, wanted.weight, *(name for name in keys if name in hidden)}
            columns = [c for c in schema.names if c not in others and not INDEX.fullmatch(c)]
            wanted = wanted._replace(columns=columns)
        self._columns = wanted.among(schema.names, files[0])
        self.schema = pa.schema([schema.field(c) for c in self._columns.features])
        stored = pa.schema([schema.field(c) for c in self._columns.all if c not in keys])
        self._groups: list[_Group] = []
        self.n_rows: int = 0
        for number, path in enumerate(files):
            with reading(path):
                metadata = pq.read_metadata(path)
                found = metadata.schema.to_arrow_schema()
                same_kinds(path, found, files[0], stored, wanted.target)
            chosen = {name: keys[name][number] for name in self._columns.all if name in keys}
            for group in range(metadata.num_row_groups):
                if metadata.row_group(group).num_rows:
                    self._groups.append(_Group(path, group, chosen))
            self.n_rows += metadata.num_rows
        self.n_pieces = len(self._groups)
        if not self.n_pieces:
            raise InvalidData(f"{self.name} has no rows; give a file that has some.")

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a row group, decoded as they are asked for."""
        return cut_blocks(self._decoded(self._groups[piece], size), skip, size)

    def _decoded(self, group: _Group, size: int) -> Iterator[Block]:
        path, number, keys = group
        stored = [c for c in self._columns.all if c not in keys]
        how = {"buffer_size": READ_BUFFER, "pre_buffer": False}
        with (
            reading(path),
            _unchanged(path) as version,
            pq.ParquetFile(path, metadata=_footer(path, *version), **how) as file,
        ):
            if number >= file.num_row_groups or not {*stored} <= {*file.schema_arrow.names}:
                raise other_rows(path)
            for batch in file.iter_batches(size, [number], stored, use_threads=False):
                table = pa.Table.from_batches([batch])
                for name, value in keys.items():
                    table = table.append_column(name, pa.repeat(value, len(batch)))
                yield self._columns.block(without_views(table), path)


@contextmanager
def _unchanged(path: str) -> Iterator[tuple[int, int]]:
    """When a file was changed, and its size. If it is another one when an error comes, say so."""
    version = _version(path)
    try:
        yield version
    except (OSError, pa.ArrowException) as error:
        if _version(path) != version:
            raise other_rows(path) from error
        raise


def _version(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size


@functools.lru_cache(maxsize=8)
def _footer(path: str, changed: int, size: int) -> pq.FileMetaData:
    """What a file says of its row groups, once for all who read it: it grows with their number."""
    return pq.read_metadata(path)
