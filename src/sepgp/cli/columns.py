"""How columns are read: what users say about it, and what came out."""

import csv
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sepgp.errors import InvalidParameter

if TYPE_CHECKING:
    from sepgp.data.schema import Schema

WORDS = {"time": "date"}
"""Kinds of columns in the words of `--read`, where they have others."""
UNITS = {"h:mm": "in seconds", "truth values": "as 0 and 1"}
"""Units in other words."""
SHOWN = 40
"""Columns in the table."""

Read = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=KIND", help="Read it as number, text or date, or drop it; repeat for more."
    ),
]
DayFirst = Annotated[
    bool | None, typer.Option("--dayfirst/--monthfirst", help="How 3/4/2021 is read.")
]


def listed(names: str | None) -> list[str] | None:
    """The names in a list with commas; a name that has one itself is in double quotes."""
    if names is None:
        return None
    return [name.strip() for name in next(csv.reader([names], skipinitialspace=True), [])]


def choices(given: list[str] | None) -> dict[str, str]:
    """How to read columns, by name."""
    chosen = {}
    for choice in given or []:
        name, equals, kind = choice.rpartition("=")
        if not equals:
            raise InvalidParameter(f"--read={choice} names no kind; write it as COLUMN=number.")
        chosen[name] = kind
    return chosen


def table(schema: "Schema") -> Any:
    """How every column was read, as a table of rich."""
    from rich.markup import escape
    from rich.table import Table

    shown = Table("column", "read as", "", box=None)
    encoding = schema.encoding
    if encoding is None:
        rows = [(name, "number", "") for name, _, _ in schema.columns]
    else:
        kinds = zip(encoding.kinds, encoding.encoders, strict=True)
        rows = [(name, WORDS.get(kind, kind), _remark(e)) for (name, kind), e in kinds]
        rows += [(name, "left out", why) for name, why in encoding.left_out]
    for row in rows[:SHOWN]:
        shown.add_row(*map(escape, row))
    if len(rows) > SHOWN:
        shown.add_row(f"and {len(rows) - SHOWN} more", "", "")
    return shown


def _remark(encoder: Any) -> str:
    from sepgp.data.columns.texts import LEVELS

    found = []
    if hasattr(encoder, "levels"):
        n = len(encoder.levels)
        values = "1 value has" if n == 1 else f"{n} values have"
        if n == LEVELS:
            values = f"the {n} most frequent values have"
        found.append(f"{values} a feature")
        if encoder.means is not None:
            found.append("all count by the labels of their rows")
    remarks = {
        "folded": "case and spaces do not count",
        "comma": "with decimal commas",
        "dayfirst": "day first",
        "bounds": "bounds such as <5 count as the number",
    }
    found += [remark for name, remark in remarks.items() if getattr(encoder, name, False)]
    if unit := getattr(encoder, "unit", ""):
        found.append(UNITS.get(unit, f"in {unit}"))
    if encoder.missing:
        found.append("some are missing")
    return ", ".join(found)
