"""Rows in CSV files."""

import csv
import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.csv as pa_csv

from sepgp.data.rows.base import BLOCK, Block, Rows, Wanted, cut_blocks
from sepgp.data.rows.files import name_of, reading, same_columns
from sepgp.errors import InvalidData

PIECE = 4 * 2**20
"""Bytes of a file that are read at a time."""
SECONDS, NANOSECONDS = pa.timestamp("s"), pa.timestamp("ns")
"""The types that Arrow finds for times."""


MISSING = ("?", "-", "--", "None", "none", "n.a.")
"""Values that are missing, beside those that Arrow takes for null. One of them must not make text
of a column of numbers."""


class CSVRows(Rows):
    """Rows of CSV files; a piece is a run of whole lines.

    Every file has a header line. Values may be quoted but not contain line ends; empty values and
    those that stand for nothing, such as NA and ?, are missing. Types are those of the beginning,
    the middle and the end of the first file. Where commas do not separate values, they may stand
    for decimal points.
    """

    def __init__(self, files: Sequence[str], wanted: Wanted) -> None:
        self.name, self.target = name_of(files), wanted.target
        self._pieces: list[tuple[str, int, int]] = []
        self._headers: dict[str, list[str]] = {}
        self._delimiters: dict[str, str] = {}
        for path in files:
            with reading(path):
                self._cut(path)
        if not self._pieces:
            raise InvalidData(f"{self.name} has no rows; give a file that has some.")
        self._columns = wanted.among(self._headers[files[0]], files[0])
        for path in files:
            same_columns(path, self._headers[path], files[0], self._columns.all)
        self.n_pieces = len(self._pieces)
        self._decimal_point, self._types = ".", self._infer(".")
        if self._delimiters[files[0]] != ",":
            types = self._infer(",")
            if _count_numbers(types) > _count_numbers(self._types):
                self._decimal_point, self._types = ",", types
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
                file.seek(min(begin + PIECE, end))
                file.readline()
                self._pieces.append((path, begin, file.tell()))
                begin = file.tell()

    def _infer(self, decimal_point: str) -> dict[str, pa.DataType]:
        path = self._pieces[0][0]
        mine = [i for i, piece in enumerate(self._pieces) if piece[0] == path]
        types: dict[str, pa.DataType] = {}
        for piece in sorted({mine[0], mine[len(mine) // 2], mine[-1]}):
            found = self._parse(piece, None, decimal_point).schema
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

    def _parse(
        self, piece: int, types: dict[str, pa.DataType] | None, decimal_point: str
    ) -> pa.Table:
        path, begin, end = self._pieces[piece]
        with reading(path):
            with open(path, "rb") as file:
                file.seek(begin)
                content = file.read(end - begin)
            # In one block, so that types are found from all lines.
            read = pa_csv.ReadOptions(
                use_threads=False, column_names=self._headers[path], block_size=len(content)
            )
            parse = pa_csv.ParseOptions(delimiter=self._delimiters[path])
            convert = pa_csv.ConvertOptions(
                column_types=types, strings_can_be_null=True, decimal_point=decimal_point
            )
            convert.null_values = [*convert.null_values, *MISSING]
            convert.include_columns = self._columns.all
            return pa_csv.read_csv(pa.BufferReader(content), read, parse, convert)

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a run of lines."""
        table = self._parse(piece, self._types, self._decimal_point)
        return cut_blocks([self._columns.block(table, self._pieces[piece][0])], skip, size)


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
