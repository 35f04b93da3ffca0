"""Rows in CSV files."""

import codecs
import csv
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv

from sepgp.data.columns.missing import SIGNS
from sepgp.data.columns.numbers import CODE, any_has_shape
from sepgp.data.rows.base import Wanted
from sepgp.data.rows.files import reading, same_columns
from sepgp.data.rows.lines import LineRows, Piece, record
from sepgp.errors import InvalidData, brief

LABELS = (pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("s"), pa.timestamp("ns"))
"""Types that labels may have; else they are text."""
LOOKED_AT = 20
"""Records at the beginning of a file that are looked at to find the header."""


class CSVRows(LineRows):
    """Rows of CSV files.

    Every file has a header line. Values in quotes may contain line ends. All are text: what they
    mean is found when all of them are known, see `sepgp.data.columns`. Only labels have the type
    that the beginning, the middle and the end of the first file suggest.
    """

    def __init__(self, files: Sequence[str], wanted: Wanted) -> None:
        named = (wanted.target, wanted.weight, *(wanted.columns or ()))
        self._named = {name for name in named if name is not None}
        self._headers: dict[str, list[str]] = {}
        self._delimiters: dict[str, str] = {}
        super().__init__(files)
        self.target = wanted.target
        self._refuse_values(files[0])
        self._columns = wanted.among(self._headers[files[0]], files[0])
        for path in files:
            same_columns(path, self._headers[path], files[0], self._columns.all)
        self._types = dict.fromkeys(self._columns.all, pa.string())
        if self.target is not None:
            self._types[self.target] = self._natural_type(self.target)
        self.schema = pa.schema([(c, pa.string()) for c in self._columns.features])

    def _natural_type(self, name: str) -> pa.DataType:
        """The type of a column that its values suggest."""
        with reading(self.name):
            some = [
                self._parse(self._pieces[piece], {name: pa.large_string()})
                for piece in self._some()
            ]
        return _natural(pa.concat_tables(some)[name])

    def _header(self, path: str, file: BinaryIO) -> None:
        """Find the header, which may come after a title: as wide as most records behind it.

        Where a line has all names of columns that the user has given, it is that one, though
        spreadsheets have others above it for merged cells.
        """
        file.seek(len(codecs.BOM_UTF8) if file.read(3) == codecs.BOM_UTF8 else 0)
        records: list[str] = []
        ends = []
        while len(records) < LOOKED_AT and (content := record(file.readline(), file)):
            records.append(content.decode())
            ends.append(file.tell())
        first = int(bool(records) and records[0].lower().startswith("sep="))  # as Excel writes it
        usual = [i for i in range(first, len(records)) if _heads(records[i:])]
        places = [*usual, *range(first, len(records))]
        right = (i for i in places if self._named <= set(_header_names(records[i:])))
        header = next(right, next(iter(places), -1))
        if header > first:
            warnings.warn(
                f"{path} has its header in line {header + 1}; the lines above it are left out, "
                f"such as {brief(records[first])!r}.",
                stacklevel=2,
            )
        text = records[header] if records else ""
        if "\r" in text.rstrip() and "\n" not in text:
            raise InvalidData(
                f"{path} ends its lines in CR alone, as old programs for the Mac do; save it with "
                "line ends of Unix or Windows."
            )
        self._delimiters[path] = _delimiter(text)
        self._headers[path] = _header_names(records[header:])
        file.seek(ends[header] if records else 0)

    def _refuse_values(self, path: str) -> None:
        """Refuse a file that has no header, but values in its first line, or a single column."""
        names = self._headers[path]
        if len(names) == 1 and any(name in names[0] for name in self._named - {*names}):
            raise InvalidData(
                f"{path} has one column only, {brief(names[0])!r}; set its values apart by commas, "
                "semicolons, tabs or bars."
            )
        if self.target not in (None, *names) and all(map(_is_number, names)):
            raise InvalidData(
                f"{path} has values in its first line, {brief(', '.join(names))!r}, instead of "
                "names of columns; add a line of names above it."
            )

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
        try:
            return pa_csv.read_csv(pa.BufferReader(content), read, parse, convert)
        except pa.ArrowInvalid as error:
            said = _other_width(piece, error) or _other_value(piece, self._headers, error)
            raise said or error from error


def _delimiter(header: str) -> str:
    return max(",;\t|", key=header.count)


def _header_names(records: list[str]) -> list[str]:
    """The names of columns; those without one, which spreadsheets add, are named as pandas does.

    Some programs give no name, not even an empty one, to a last column without values, and R to
    the names of rows in front.
    """
    if not records:
        return []
    names, *rows = (_fields(text, _delimiter(records[0])) for text in records)
    rows = [row for row in rows if row]
    if rows and all(len(row) == len(names) + 1 for row in rows):
        names = ["", *names] if any(row[-1] for row in rows) else [*names, ""]
    return [name.strip() or f"Unnamed: {i}" for i, name in enumerate(names)]


def _fields(text: str, delimiter: str) -> list[str]:
    """The values of a record."""
    return next(csv.reader(text.splitlines(keepends=True), delimiter=delimiter), [])


def _heads(records: list[str]) -> bool:
    """Whether the first of some records has several names, and most of the others as many values.

    Programs that write tables of one width fill up a title with empty values.
    """
    delimiter = _delimiter(records[0])
    names = _fields(records[0], delimiter)
    named = sum(bool(name.strip()) for name in names)
    others = [len(_fields(text, delimiter)) for text in records[1:] if text.strip()]
    same = sum(width == len(names) for width in others)
    return len(names) > 1 and 2 * named > len(names) and 2 * same >= len(others)


def _other_width(piece: Piece, error: pa.ArrowInvalid) -> InvalidData | None:
    """What to say of a line that has more or fewer values than the header."""
    found = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+): ?(.*)", str(error))
    if found is None:
        return None
    row, expected, got, line = found.groups()
    where = ""
    if row is not None:
        where = f" in line {piece.lines_before() + int(row):,}"
    return InvalidData(
        f"{piece.path} has {got} value{'s' * (got != '1')}{where} ({brief(line)!r}), where its "
        f"header has {expected} columns; correct the line, or remove it if it is a title or a "
        "total."
    )


def _other_value(
    piece: Piece, headers: Mapping[str, Sequence[str]], error: pa.ArrowInvalid
) -> InvalidData | None:
    """What to say of a value of another type than those at the beginning of the file."""
    form = r"column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\w+).*invalid value '(.*)'"
    found = re.search(form, str(error))
    if found is None:
        return None
    column, row, dtype, value = found.groups()
    where = "" if row is None else f" in line {piece.lines_before() + int(row):,}"
    return InvalidData(
        f"{piece.path} has {brief(value)!r}{where} of column "
        f"{headers[piece.path][int(column)]!r}, which begins with values of type {dtype}; correct "
        "the value, or drop the row."
    )


def _natural(texts: pa.ChunkedArray) -> pa.DataType:
    """The type of values that texts are."""
    if not any_has_shape(texts, CODE):
        for dtype in LABELS:
            try:
                texts.cast(dtype)
                return dtype
            except pa.ArrowInvalid:
                continue
    return pa.string()


def _is_number(text: str) -> bool:
    """Whether a text is a number as computers write it; an array of texts would import pandas."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
