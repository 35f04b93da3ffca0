"""Rows in CSV files."""

import csv
from collections.abc import Mapping, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv

from sepgp.data.columns.missing import SIGNS
from sepgp.data.columns.numbers import CODE, has_shape
from sepgp.data.rows.base import Wanted
from sepgp.data.rows.files import reading, same_columns
from sepgp.data.rows.lines import LineRows, Piece, record

LABELS = (pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("s"), pa.timestamp("ns"))
"""Types that labels may have; else they are text."""


class CSVRows(LineRows):
    """Rows of CSV files.

    Every file has a header line. Values in quotes may contain line ends. All are text: what they
    mean is found when all of them are known, see `sepgp.data.columns`. Only labels and other
    columns that `types` is asked for have the type that the beginning, the middle and the end of
    the first file suggest.
    """

    def __init__(self, files: Sequence[str], wanted: Wanted) -> None:
        self._headers: dict[str, list[str]] = {}
        self._delimiters: dict[str, str] = {}
        super().__init__(files)
        self.target = wanted.target
        self._columns = wanted.among(self._headers[files[0]], files[0])
        for path in files:
            same_columns(path, self._headers[path], files[0], self._columns.all)
        self._types = dict.fromkeys(self._columns.all, pa.string())
        if self.target is not None:
            self._types |= self.types([self.target])
        self.schema = pa.schema([(c, pa.string()) for c in self._columns.features])

    def types(self, names: Sequence[str]) -> dict[str, pa.DataType]:
        """The types of columns that their values suggest."""
        if not names:
            return {}
        texts = dict.fromkeys(names, pa.large_string())
        with reading(self.name):
            some = [self._parse(self._pieces[piece], texts) for piece in self._some()]
        return {name: _natural(pa.concat_tables(some)[name]) for name in names}

    def _header(self, path: str, file: BinaryIO) -> None:
        header = record(file.readline(), file).decode("utf-8-sig")
        if header.lower().startswith("sep="):  # as Excel writes it
            header = record(file.readline(), file).decode()
        delimiter = max(",;\t|", key=header.count)
        names = next(csv.reader(header.splitlines(keepends=True), delimiter=delimiter), [])
        self._headers[path] = [name.strip() for name in names]
        self._delimiters[path] = delimiter

    def _table(self, piece: Piece) -> pa.Table:
        return self._parse(piece, self._types)

    def _parse(self, piece: Piece, types: Mapping[str, pa.DataType]) -> pa.Table:
        content = piece.content()
        read = pa_csv.ReadOptions(
            use_threads=False, column_names=self._headers[piece.path], block_size=len(content)
        )
        parse = pa_csv.ParseOptions(
            delimiter=self._delimiters[piece.path], newlines_in_values=b'"' in content
        )
        convert = pa_csv.ConvertOptions(
            column_types=types, strings_can_be_null=True, include_columns=list(types)
        )
        convert.null_values = [*convert.null_values, *SIGNS, "None"]
        return pa_csv.read_csv(pa.BufferReader(content), read, parse, convert)


def _natural(texts: pa.ChunkedArray) -> pa.DataType:
    """The type of values that texts are."""
    if not has_shape(texts, CODE).any():
        for dtype in LABELS:
            try:
                texts.cast(dtype)
                return dtype
            except pa.ArrowInvalid:
                continue
    return pa.string()
