"""Files of rows: where they are, what their folders say, and which one cannot be read."""

import csv
import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from json import JSONDecodeError
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from sepgp.data.encoding import kind
from sepgp.errors import InvalidData, reason

COMPRESSED = (".gz", ".zst", ".bz2")
FORMATS = {
    "Parquet": (".parquet", ".pq"),
    "CSV": (".csv", ".tsv", ".txt"),
    "Feather": (".feather", ".arrow"),
    "JSON lines": (".jsonl", ".ndjson"),
}
"""Endings of files that are read. Those of text may be followed by one of a compression."""
SHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
NOTES = (".txt", ".txt.gz", ".txt.zst", ".txt.bz2")
"""Endings of files that are read if they are named, but may be about other files of a folder."""
READ = ", ".join(f"{name} ({', '.join(endings)})" for name, endings in FORMATS.items())
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of a folder whose rows have none."""


def find_files(path: str) -> list[str]:
    """A file, all data files in a folder and the folders in it, or those of a pattern of paths."""
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
    visible = [
        str(p)
        for p in sorted(files_below(folder))
        if not any(part.startswith((".", "_")) for part in p.relative_to(folder).parts)
    ]
    tables = [p for p in visible if not p.lower().endswith(NOTES)]
    for name in FORMATS:
        if files := [p for p in tables if format_of(p) == name]:
            return files
    raise InvalidData(
        f"The folder {folder!r} has no file that ends in "
        f"{', '.join(e for endings in FORMATS.values() for e in endings if e not in NOTES)}; "
        "name a folder that has some."
    )


def files_below(folder: str) -> Iterator[Path]:
    """The files of a folder and of the folders in it, also by links; of each folder once."""
    seen: set[str] = set()
    for place, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        yield from (path for name in files if (path := Path(place, name)).is_file())


def format_of(path: str) -> str | None:
    """The format of a file, by the ending of its name; None if it is not read."""
    path = path.lower()
    for name, endings in FORMATS.items():
        plain = path
        if name in ("CSV", "JSON lines"):
            for ending in COMPRESSED:
                plain = plain.removesuffix(ending)
        if plain.endswith(endings):
            return name
    return None


def common_format(files: Sequence[str], path: str) -> str:
    """The format of the files that a path stands for, which must have one."""
    found = {format_of(file) for file in files}
    if None in found:
        file = next(file for file in files if format_of(file) is None)
        if file.lower().endswith(SHEETS):
            raise InvalidData(f"{file} is a spreadsheet; save it as CSV and give that file.")
        raise InvalidData(
            f"{file} has a name that says no format that is read, which are {READ}, the texts also "
            f"packed ({', '.join(COMPRESSED)}); convert or rename it."
        )
    if len(found) > 1:
        some = " and ".join(sorted(str(name) for name in found))
        raise InvalidData(
            f"{path!r} stands for files of {some}; name those of one kind, as '*.csv' does."
        )
    return str(found.pop())


def path_keys(files: Sequence[str]) -> dict[str, pa.Array]:
    """Columns that the folders of some files give, as year=2008/ does: a value for each file.

    Values are whole numbers if all of them are.
    """
    keys = [_keys(path) for path in files]
    columns = {}
    for name in dict.fromkeys(name for entry in keys for name in entry):
        column = pa.array([entry.get(name) for entry in keys])
        with suppress(pa.ArrowInvalid):
            column = column if pa.types.is_null(column.type) else column.cast(pa.int64())
        columns[name] = column
    return columns


def keys_above(path: str) -> set[str]:
    """Keys that are the same for all files of a path or pattern because it has them itself."""
    while glob.has_magic(path) or not os.path.isdir(path):
        path = os.path.dirname(path) or "."
    return set(_keys(os.path.join(path, "file")))


def _keys(path: str) -> dict[str, str | None]:
    parts = [part.split("=", 1) for part in Path(path).absolute().parts[:-1] if "=" in part]
    return {unquote(k): None if v == NULL_FOLDER else unquote(v) for k, v in parts}


def name_of(files: Sequence[str]) -> str:
    """What messages call some files."""
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def same_columns(path: str, names: Sequence[str], first: str, expected: Sequence[str]) -> None:
    """Refuse a file that lacks a column of the first file."""
    for name in expected:
        if name not in names:
            fault = f"{path} has no column {name!r}, which {first} has"
            raise InvalidData(f"{fault}; give all files the same columns.")


def same_kinds(
    path: str, schema: pa.Schema, first: str, expected: pa.Schema, target: str | None
) -> None:
    """Refuse a file whose columns differ from those of the first file.

    Labels may be anything, and are compared when they are read.
    """
    same_columns(path, schema.names, first, expected.names)
    for field in expected:
        found = schema.field(field.name).type
        if field.name == target or found == field.type:
            continue
        kinds = {kind(found, field.name), kind(field.type, field.name), "null"}
        if len(kinds) > 2:
            raise InvalidData(
                f"{path} has {found} in column {field.name!r}, where {first} has {field.type}; "
                "give all files the same types."
            )


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Say which file it is that cannot be read."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error, JSONDecodeError) as error:
        raise InvalidData(
            f"{path} cannot be read ({reason(error)}); the file is damaged or incomplete, or not "
            "what its name says: replace it."
        ) from error
