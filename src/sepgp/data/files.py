"""Rows in Parquet and CSV files."""

import csv
import functools
import glob
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from sepgp.data.encoding import kind
from sepgp.data.rows import (
    BLOCK,
    Block,
    Columns,
    Rows,
    choose_columns,
    cuts,
    without_views,
)
from sepgp.errors import InvalidData, reason

CSV_PIECE = 4 * 2**20
"""Bytes of a CSV file that are read at a time."""
SECONDS, NANOSECONDS = pa.timestamp("s"), pa.timestamp("ns")
"""The types that Arrow finds for times in CSV."""
READ_BUFFER = 2**16
"""Bytes of a Parquet column that are fetched at a time."""
PARQUET, CSV = (".parquet", ".pq"), (".csv", ".tsv")
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of a folder whose rows have none."""
INDEX = re.compile(r"__index_level_\d+__")
"""The column that pandas makes of an index without a name: row numbers, no feature."""
COMPRESSED = (".gz", ".bz2", ".zip", ".xz", ".zst")


def file_rows(
    path: str | os.PathLike[str],
    target: str | None = None,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
) -> Rows:
    """Rows of a file, of all files in a folder and the folders in it, or of a pattern of paths."""
    files = _find(os.fspath(path))
    for file in files:
        if file.lower().endswith(COMPRESSED):
            raise InvalidData(f"{file} is compressed; unpack it or convert it to Parquet.")
    tables = [file.lower().endswith(CSV) for file in files]
    if any(tables) and not all(tables):
        raise InvalidData(
            f"{os.fspath(path)!r} stands for CSV files and others; name those of one kind, as "
            "'*.csv' does."
        )
    if all(tables):
        return CSVRows(files, target, columns, weight)
    return ParquetRows(files, target, columns, weight, _keys_above(os.fspath(path)))


def _find(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        return _inside(path)
    matches = sorted(glob.glob(path, recursive=True))
    if files := [match for match in matches if os.path.isfile(match)]:
        return files
    if not matches:
        raise InvalidData(f"There is no file {path!r}; check the path or the pattern.")
    return [file for folder in matches for file in _inside(folder)]


def _inside(folder: str) -> list[str]:
    """All data files in a folder and the folders in it, but for hidden ones and those with _."""
    inside = sorted(p for p in Path(folder).rglob("*") if p.is_file())
    visible = [
        str(p)
        for p in inside
        if not any(part.startswith((".", "_")) for part in p.relative_to(folder).parts)
    ]
    for endings in (PARQUET, CSV):
        if files := [p for p in visible if p.lower().endswith(endings)]:
            return files
    raise InvalidData(
        f"The folder {folder!r} has no file that ends in {', '.join(PARQUET + CSV)}; "
        "name a folder that has some."
    )


def _keys(path: str) -> dict[str, str | None]:
    """Columns that the folders of a path give, as year=2008/ does."""
    parts = [part.split("=", 1) for part in Path(path).absolute().parts[:-1] if "=" in part]
    return {unquote(k): None if v == NULL_FOLDER else unquote(v) for k, v in parts}


def _keys_above(path: str) -> set[str]:
    """Keys that are the same for all files of a path or pattern because it has them itself."""
    while glob.has_magic(path) or not os.path.isdir(path):
        path = os.path.dirname(path) or "."
    return set(_keys(os.path.join(path, "file")))


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Say which file it is that cannot be read."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidData(
            f"{path} cannot be read ({reason(error)}); the file is damaged or incomplete, or not "
            "what its name says: replace it."
        ) from error


def _same_kinds(
    path: str, schema: pa.Schema, first: str, expected: pa.Schema, target: str | None
) -> None:
    """Refuse a file whose columns differ from those of the first file.

    Labels may be anything, and are compared when they are read.
    """
    for field in expected:
        if field.name not in schema.names:
            raise InvalidData(
                f"{path} has no column {field.name!r}, which {first} has; give all files the same "
                "columns."
            )
        found = schema.field(field.name).type
        if field.name == target:
            continue
        kinds = {kind(found, field.name), kind(field.type, field.name), "null"}
        if len(kinds) > 2:
            raise InvalidData(
                f"{path} has {found} in column {field.name!r}, where {first} has {field.type}; "
                "give all files the same types."
            )


def _name(files: Sequence[str]) -> str:
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


class _Group(NamedTuple):
    """A row group of a Parquet file."""

    path: str
    number: int
    keys: dict[str, pa.Scalar]
    """Columns that the folders on the path give."""


def _footer(path: str) -> pq.FileMetaData:
    """What a file says of its row groups, once for all who read it: it grows with their number."""
    found = os.stat(path)
    return _read_footer(path, found.st_mtime_ns, found.st_size)


@functools.lru_cache(maxsize=8)
def _read_footer(path: str, changed: int, size: int) -> pq.FileMetaData:
    return pq.read_metadata(path)


class ParquetRows(Rows):
    """Rows of Parquet files; a piece is a row group.

    Folders such as year=2008/ on the way to a file give it a column. Columns that are not chosen
    by name leave out those in `hidden`, unless they are stored in the file.
    """

    def __init__(
        self,
        files: Sequence[str],
        target: str | None = None,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        hidden: Collection[str] = (),
    ) -> None:
        self.name = _name(files)
        with _reading(files[0]):
            schema = pq.read_schema(files[0])
        keys = _typed([_keys(path) for path in files])
        keys = {name: keys[name] for name in keys if name not in schema.names}
        for name in keys:
            schema = schema.append(pa.field(name, keys[name].type))
        if columns is None:
            others = {target, weight, *(name for name in keys if name in hidden)}
            columns = [c for c in schema.names if c not in others and not INDEX.fullmatch(c)]
        self._columns = choose_columns(schema.names, files[0], target, columns, weight)
        self.schema = pa.schema([schema.field(c) for c in self._columns.features])
        stored = pa.schema([schema.field(c) for c in self._columns.all if c not in keys])
        self._groups: list[_Group] = []
        for number, path in enumerate(files):
            with _reading(path):
                metadata = pq.read_metadata(path)
                _same_kinds(path, metadata.schema.to_arrow_schema(), files[0], stored, target)
            chosen = {name: keys[name][number] for name in self._columns.all if name in keys}
            for group in range(metadata.num_row_groups):
                if metadata.row_group(group).num_rows:
                    self._groups.append(_Group(path, group, chosen))
        self.n_pieces = len(self._groups)
        if not self.n_pieces:
            raise InvalidData(f"{self.name} has no rows; give a file that has some.")

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a row group, decoded as they are asked for."""
        path, number, keys = self._groups[piece]
        stored = [c for c in self._columns.all if c not in keys]
        with (
            _reading(path),
            pq.ParquetFile(
                path, metadata=_footer(path), buffer_size=READ_BUFFER, pre_buffer=False
            ) as file,
        ):
            for batch in file.iter_batches(
                size, row_groups=[number], columns=stored, use_threads=False
            ):
                passed = min(skip, len(batch))
                skip -= passed
                if passed == len(batch):
                    continue
                table = pa.Table.from_batches([batch[passed:]])
                for name, value in keys.items():
                    table = table.append_column(name, pa.repeat(value, len(batch) - passed))
                yield self._columns.block(without_views(table), path)


def _typed(keys: list[dict[str, str | None]]) -> dict[str, pa.Array]:
    """The keys of all files by name, as whole numbers if all of them are."""
    columns = {}
    for name in dict.fromkeys(name for entry in keys for name in entry):
        column = pa.array([entry.get(name) for entry in keys])
        with suppress(pa.ArrowInvalid):
            column = column if pa.types.is_null(column.type) else column.cast(pa.int64())
        columns[name] = column
    return columns


class CSVRows(Rows):
    """Rows of CSV files; a piece is a run of whole lines.

    Every file has a header line. Values may be quoted but not contain line ends; empty values and
    those that Arrow takes for null, such as NA, are missing. Types are those of the beginning,
    the middle and the end of the first file. Where commas do not separate values, they may stand
    for decimal points.
    """

    def __init__(
        self,
        files: Sequence[str],
        target: str | None = None,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
    ) -> None:
        self.name = _name(files)
        self._pieces: list[tuple[str, int, int]] = []
        self._headers: dict[str, list[str]] = {}
        self._delimiters: dict[str, str] = {}
        for path in files:
            with _reading(path):
                self._cut(path)
        if not self._pieces:
            raise InvalidData(f"{self.name} has no rows; give a file that has some.")
        self._columns: Columns = choose_columns(
            self._headers[files[0]], files[0], target, columns, weight
        )
        for path in files:
            for column in self._columns.all:
                if column not in self._headers[path]:
                    raise InvalidData(
                        f"{path} has no column {column!r}, which {files[0]} has; give all files "
                        "the same columns."
                    )
        self.n_pieces = len(self._pieces)
        self._decimal_point = "."
        self._types = self._infer()
        if self._delimiters[files[0]] != ",":
            self._try_decimal_commas()
        self.schema = pa.schema([(c, self._types[c]) for c in self._columns.features])

    def _cut(self, path: str) -> None:
        """Note the header of a file and where its pieces begin and end."""
        with open(path, "rb") as file:
            header = file.readline().decode("utf-8-sig", errors="replace")
            delimiter = max(",;\t|", key=header.count)
            names = next(csv.reader([header], delimiter=delimiter), [])
            self._headers[path] = [name.strip() for name in names]
            self._delimiters[path] = delimiter
            begin, end = file.tell(), os.path.getsize(path)
            while begin < end:
                file.seek(min(begin + CSV_PIECE, end))
                file.readline()
                self._pieces.append((path, begin, file.tell()))
                begin = file.tell()

    def _infer(self) -> dict[str, pa.DataType]:
        path = self._pieces[0][0]
        mine = [i for i, piece in enumerate(self._pieces) if piece[0] == path]
        types: dict[str, pa.DataType] = {}
        for piece in sorted({mine[0], mine[len(mine) // 2], mine[-1]}):
            found = self._parse(piece, None).schema
            for name in self._columns.all:
                types[name] = _common(types.get(name, pa.null()), found.field(name).type)
        for name in self._columns.features:
            if pa.types.is_binary(types[name]):
                raise InvalidData(
                    f"{path} has text in column {name!r} that is not UTF-8; convert the file."
                )
            if pa.types.is_integer(types[name]) or pa.types.is_null(types[name]):
                types[name] = pa.float64()
        return types

    def _try_decimal_commas(self) -> None:
        """Take commas for decimal points if that makes more columns of numbers."""
        before = self._types
        self._decimal_point = ","
        self._types = self._infer()
        if _count_numbers(self._types) <= _count_numbers(before):
            self._decimal_point, self._types = ".", before

    def _parse(self, piece: int, types: dict[str, pa.DataType] | None) -> pa.Table:
        path, begin, end = self._pieces[piece]
        with _reading(path):
            with open(path, "rb") as file:
                file.seek(begin)
                content = file.read(end - begin)
            # In one block, so that types are found from all lines.
            return pa_csv.read_csv(
                pa.BufferReader(content),
                pa_csv.ReadOptions(
                    use_threads=False, column_names=self._headers[path], block_size=len(content)
                ),
                pa_csv.ParseOptions(delimiter=self._delimiters[path]),
                pa_csv.ConvertOptions(
                    column_types=types,
                    include_columns=self._columns.all,
                    strings_can_be_null=True,
                    decimal_point=self._decimal_point,
                ),
            )

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a run of lines."""
        table = self._parse(piece, self._types)
        for part in cuts(0, skip, len(table), size):
            yield self._columns.block(table[part], self._pieces[piece][0])


def _count_numbers(types: dict[str, pa.DataType]) -> int:
    return sum(pa.types.is_integer(t) or pa.types.is_floating(t) for t in types.values())


def _common(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type that holds values of both types."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in (a, b)):
        return pa.float64()
    if all(pa.types.is_date(t) or t in (SECONDS, NANOSECONDS) for t in (a, b)):
        return NANOSECONDS
    return pa.string()
