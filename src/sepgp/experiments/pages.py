"""Tables and pages as files."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from sepgp.experiments.cells import Cell, Result
from sepgp.files.atomic import replacing


def write_text(path: Path, text: str) -> Path:
    """Write a text file in one go, so that no half of it is ever seen; return its path."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Iterable[Any]]) -> Path:
    """Write a table with numbers of six digits; return its path."""
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(f"{value:.6g}" if isinstance(value, float) else value for value in row)
    return write_text(path, stream.getvalue())


def write_results(
    path: Path,
    grid: Iterable[Cell],
    results: Mapping[str, Result],
    keys: Sequence[str],
    fields: Sequence[str],
) -> Path:
    """Write a table with a row for each cell: some of its arguments and of its results."""
    rows = (
        [*(cell.arguments[key] for key in keys), *(results[cell.name][field] for field in fields)]
        for cell in grid
    )
    return write_csv(path, (*keys, *fields), rows)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
