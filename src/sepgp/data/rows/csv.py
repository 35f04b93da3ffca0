"""Rows in CSV files."""

import csv
import os
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from sepgp.data.columns.missing import SIGNS
from sepgp.data.columns.numbers import codes
from sepgp.data.rows.base import BLOCK, Block, Rows, Wanted, cut_blocks
from sepgp.data.rows.files import name_of, reading, same_columns
from sepgp.errors import InvalidData

PIECE = 4 * 2**20
"""Bytes of a file that are read at a time."""


class CSVRows(Rows):
    """Rows of CSV files; a piece is a run of whole lines.

    Every file has a header line. Values may be quoted but not contain line ends. All are text: what
    they mean is found when all of them are known, see `sepgp.data.columns`. Only labels and other
    columns that `types` is asked for have the type that the beginning, the middle and the end of
    the first file suggest.
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
        self._types = dict.fromkeys(self._columns.all, pa.string())
        if self.target is not None:
            self._types |= self.types([self.target])
        self.schema = pa.schema([(c, pa.string()) for c in self._columns.features])

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

    def types(self, names: Sequence[str]) -> dict[str, pa.DataType]:
        """The types of columns that their values suggest."""
        if not names:
            return {}
        path = self._pieces[0][0]
        mine = [i for i, piece in enumerate(self._pieces) if piece[0] == path]
        some = sorted({mine[0], mine[len(mine) // 2], mine[-1]})
        found = [self._parse(piece, names, {}).schema.remove_metadata() for piece in some]
        try:
            common = pa.unify_schemas(found, promote_options="permissive")
        except pa.ArrowException:  # such as numbers and text
            common = pa.schema([(name, pa.string()) for name in names])
        texts = self._parse(some[0], names, dict.fromkeys(names, pa.large_string()))
        coded = [name for name in names if pc.any(codes(texts[name])).as_py()]
        return dict(zip(names, common.types, strict=True)) | dict.fromkeys(coded, pa.string())

    def _parse(
        self, piece: int, names: Sequence[str], types: Mapping[str, pa.DataType]
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
                column_types=types, strings_can_be_null=True, include_columns=list(names)
            )
            convert.null_values = [*convert.null_values, *SIGNS.to_pylist(), "None"]
            return pa_csv.read_csv(pa.BufferReader(content), read, parse, convert)

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a run of lines."""
        table = self._parse(piece, self._columns.all, self._types)
        return cut_blocks([self._columns.block(table, self._pieces[piece][0])], skip, size)
