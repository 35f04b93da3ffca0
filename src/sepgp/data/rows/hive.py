"""Columns that the folders on the way to a file give, as year=2008/ does."""

import glob
import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of a folder whose rows have none."""


def keys_of(files: list[str]) -> dict[str, pa.Array]:
    """The keys of all files by name, as whole numbers if all of them are."""
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
