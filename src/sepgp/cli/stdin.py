"""Data from a pipe."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def readable(data: str) -> Iterator[str]:
    """The path of the data; for "-", of a file that holds what comes from standard input."""
    if data != "-":
        yield data
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "standard-input.csv"
        with open(path, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield str(path)
