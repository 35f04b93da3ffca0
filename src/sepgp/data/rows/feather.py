"""Rows in Feather files, which are Arrow's own."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from sepgp.data.rows.base import BLOCK, Block, Rows, Wanted, cut_blocks
from sepgp.data.rows.files import name_of, reading, same_kinds
from sepgp.data.rows.table import without_views
from sepgp.errors import InvalidData


class FeatherRows(Rows):
    """Rows of Feather (Arrow IPC) files; a piece is a record batch, read as it is asked for."""

    def __init__(self, files: Sequence[str], wanted: Wanted) -> None:
        self.name, self.target = name_of(files), wanted.target
        self._batches: list[tuple[str, int]] = []
        for path in files:
            with reading(path), pa.ipc.open_file(path) as file:
                if path == files[0]:
                    schema = file.schema
                    self._columns = wanted.among(schema.names, path)
                expected = pa.schema([schema.field(c) for c in self._columns.all])
                same_kinds(path, file.schema, files[0], expected, wanted.target)
                self._batches += [(path, i) for i in range(file.num_record_batches)]
        self.schema = pa.schema([schema.field(c) for c in self._columns.features])
        self.n_pieces = len(self._batches)
        if not self.n_pieces:
            raise InvalidData(f"{self.name} has no rows; give a file that has some.")

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a record batch."""
        path, number = self._batches[piece]
        with reading(path), pa.memory_map(path) as mapped, pa.ipc.open_file(mapped) as file:
            table = pa.Table.from_batches([file.get_batch(number)]).select(self._columns.all)
        return cut_blocks([self._columns.block(without_views(table), path)], skip, size)
