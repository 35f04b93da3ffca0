"""Rows in files of JSON lines."""

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.json as pa_json

from sepgp.data.rows.base import Wanted
from sepgp.data.rows.files import reading
from sepgp.data.rows.lines import LineRows, Piece


class JSONRows(LineRows):
    """Rows of files with a JSON object in every line.

    Columns are the names that there are at the beginning, the middle and the end of the first
    file; where a line has none of a name, it is missing.
    """

    def __init__(self, files: Sequence[str], wanted: Wanted) -> None:
        super().__init__(files)
        self.target = wanted.target
        with reading(self.name):
            found = [_parsed(self._pieces[piece]).schema for piece in self._some()]
            schema = pa.unify_schemas(found, promote_options="permissive")
        self._columns = wanted.among(schema.names, files[0])
        self.schema = pa.schema([schema.field(name) for name in self._columns.features])

    def _table(self, piece: Piece) -> pa.Table:
        table = _parsed(piece)
        for name in self._columns.all:
            if name not in table.column_names:
                table = table.append_column(name, pa.nulls(len(table)))
        return table.select(self._columns.all)


def _parsed(piece: Piece) -> pa.Table:
    content = piece.content()
    read = pa_json.ReadOptions(use_threads=False, block_size=len(content) + 1)
    try:
        return pa_json.read_json(pa.BufferReader(content), read)
    except pa.ArrowInvalid:  # such as numbers and text in one column
        return _mixed(content)


def _mixed(content: bytes) -> pa.Table:
    """The rows of JSON lines, with text in columns that have values of several types."""
    rows = [json.loads(line) for line in content.splitlines() if line.strip()]
    if not all(isinstance(row, dict) for row in rows):
        raise pa.ArrowInvalid("a line is no JSON object")
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        kinds = {type(value) for value in values if value is not None}
        if str in kinds and kinds <= {str, int, float, bool}:
            values = [None if value is None else str(value) for value in values]
        columns[name] = pa.array(values)
    return pa.table(columns)
