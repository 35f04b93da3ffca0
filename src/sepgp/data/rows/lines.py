"""Rows in files of text: cut into pieces of whole records, unpacked and in UTF-8."""

import codecs
import shutil
import tempfile
import warnings
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from sepgp.data.rows.base import BLOCK, Block, Columns, Rows, cut_blocks
from sepgp.data.rows.files import COMPRESSED, name_of, reading
from sepgp.errors import InvalidData

PIECE = 4 * 2**20
"""Bytes of a file that are read at a time."""
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""How a file begins that says in which encoding it is, if not in UTF-8."""
OTHERS = {
    b"PK\x03\x04": "a spreadsheet or an archive",
    b"\xd0\xcf\x11\xe0": "a spreadsheet",
    b"PAR1\x15": "Parquet",
    b"\x1f\x8b": "packed by gzip",
    b"%PDF": "a PDF",
}
"""How files begin that are no text."""
OTHER = "cp1252"
"""The encoding of text that is not UTF-8: Latin-1 with the signs that Windows has in its gaps."""


class Piece(NamedTuple):
    """Bytes `begin` to `end` of a file."""

    path: str
    """What the user calls the file."""
    place: str
    """The file, or what was made of it."""
    begin: int
    end: int

    def content(self) -> bytes:
        """The bytes."""
        with open(self.place, "rb") as file:
            file.seek(self.begin)
            return file.read(self.end - self.begin)

    def lines_before(self) -> int:
        """How many lines of the file are before the piece."""
        lines = 0
        with open(self.place, "rb") as file:
            while (left := self.begin - file.tell()) > 0:
                lines += file.read(min(PIECE, left)).count(b"\n")
        return lines


class LineRows(Rows):
    """Rows of files of text; a piece is a run of whole lines.

    Files that are compressed or not in UTF-8 are converted once, into a folder for temporary files
    that lasts as long as the rows.
    """

    _columns: Columns

    def __init__(self, files: Sequence[str]) -> None:
        self.name = name_of(files)
        self._pieces: list[Piece] = []
        for path in files:
            with reading(path):
                self._cut(path)
        self.n_pieces = len(self._pieces)
        if not self._pieces:
            raise InvalidData(f"{self.name} has no rows; give a file that has some.")

    def _header(self, path: str, file: BinaryIO) -> None:
        """Read what comes before the rows of a file."""

    @abstractmethod
    def _table(self, piece: Piece) -> pa.Table:
        """The rows of a piece."""

    def read(self, piece: int, skip: int = 0, size: int = BLOCK) -> Iterator[Block]:
        """Blocks of a run of lines."""
        found = self._pieces[piece]
        with reading(found.path):
            table = self._table(found)
        return cut_blocks([self._columns.block(table, found.path)], skip, size)

    def _some(self) -> list[int]:
        """The pieces at the beginning, the middle and the end of the first file."""
        mine = [i for i, piece in enumerate(self._pieces) if piece.path == self._pieces[0].path]
        return sorted({mine[0], mine[len(mine) // 2], mine[-1]})

    @cached_property
    def _folder(self) -> Path:
        folder = tempfile.mkdtemp(prefix="sepgp-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    def _cut(self, path: str) -> None:
        """Note where the pieces of a file begin and end."""
        place = path
        if path.lower().endswith(COMPRESSED):
            with pa.input_stream(path) as packed:
                place = self._converted(iter(lambda: packed.read(PIECE), b""))
        with open(place, "rb") as file:
            start = file.read(5)
        for mark, what in OTHERS.items():
            if start.startswith(mark):
                raise InvalidData(
                    f"{path} is {what}, whatever its name says; rename it, or save it as CSV."
                )
        if encoding := _encoding(start[:4]):
            place = self._in_utf8(place, encoding)
        try:
            self._pieces += self._pieces_of(path, place)
        except UnicodeDecodeError:
            warnings.warn(
                f"{path} is read as Latin-1, since it is not in UTF-8.",
                stacklevel=2,
            )
            self._pieces += self._pieces_of(path, self._in_utf8(place, OTHER))

    def _pieces_of(self, path: str, place: str) -> list[Piece]:
        pieces = []
        with open(place, "rb") as file:
            self._header(path, file)
            begin = file.tell()
            while content := record(file.read(PIECE) + file.readline(), file):
                content.decode()  # an error here if it is not UTF-8
                pieces.append(Piece(path, place, begin, file.tell()))
                begin = file.tell()
        return pieces

    def _in_utf8(self, place: str, encoding: str) -> str:
        with open(place, encoding=encoding, errors="replace", newline="") as file:
            return self._converted(text.encode() for text in iter(lambda: file.read(PIECE), ""))

    def _converted(self, parts: Iterator[bytes]) -> str:
        place = self._folder / str(len(list(self._folder.iterdir())))
        with open(place, "wb") as file:
            file.writelines(parts)
        return str(place)


def _encoding(start: bytes) -> str | None:
    """The encoding of a file that begins with these four bytes, if it is not UTF-8.

    Without a mark, every second byte of Western text in UTF-16 is zero.
    """
    for mark, encoding in MARKS.items():
        if start.startswith(mark):
            return encoding
    without = {1: "utf-16-le", 0: "utf-16-be"}
    zero = (name for odd, name in without.items() if start[odd::2] == b"\0\0")
    return next(zero, None)


def record(content: bytes, file: BinaryIO) -> bytes:
    """Lines of a file and the rest of the last record, if a value in quotes goes on.

    A quote that is never closed is a sign of its own, such as that for inches.
    """
    if content.count(b'"') % 2 == 0:
        return content
    here, parts = file.tell(), [content]
    while (line := file.readline()) and sum(map(len, parts)) < len(content) + PIECE:
        parts.append(line)
        if line.count(b'"') % 2:
            return b"".join(parts)
    file.seek(here)
    return content
