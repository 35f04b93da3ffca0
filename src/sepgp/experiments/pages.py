"""Tables and pages as files."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sepgp.experiments.cells import Cell, Result
from sepgp.files.atomic import replacing


def write_text(path: Path, text: str) -> Path:
    """Write a text file in one go, so that no half of it is ever seen; return its path."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def write_csv(path: Path, table: Any) -> Path:
    """Write a table with numbers of six digits; return its path."""
    return write_text(path, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def table_of(grid: Iterable[Cell], results: Mapping[str, Result]) -> Any:
    """A table with a row for each cell: its arguments and its results."""
    return pd.DataFrame([cell.arguments | results[cell.name] for cell in grid])


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
