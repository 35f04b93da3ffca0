"""How the texts of a column are to be read."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sepgp.data.columns import dates
from sepgp.data.columns.amounts import UNITS, Amounts
from sepgp.data.columns.levels import fold
from sepgp.data.columns.numbers import SECONDS, TRUTH, factor
from sepgp.data.columns.reading import Reading
from sepgp.data.columns.texts import AS_FOUND, LEVELS, Choices, Texts
from sepgp.errors import InvalidData, brief

MOST = 0.9
"""The share of the texts that must be numbers, or dates, in a column of them."""
HALF, MANY_LEVELS = 0.5, 100
"""This share is enough in a column with more different texts than can be told apart as levels."""
CODES = 0.01
"""With this share of zeros in front, digits are codes."""
DIFFERENT, ENOUGH = 0.9, 20
"""A column is an identifier or free text if this share of its texts differ, of so many or more."""
OTHER = 0.1
"""The share of texts too rare to be told apart that is worth a word."""
DAYS = 25
"""Different days of the month that dates have, at least, if they are not ends of months."""
SEPARATORS, SEVERAL = ";,|", 3
"""What stands between the choices of one text; there are so many times more texts than choices."""
PLAINLY = "write numbers as 1234.5 and dates as 2021-12-31"


class Note(NamedTuple):
    """Something to say about a column, with a text that is an example of it."""

    column: str
    example: str
    about: str
    remedy: str

    def sentence(self, row: int | None) -> str:
        """All of it; `row` is where the example is, counted from 1."""
        place = "" if row is None else f" in row {row:,}"
        return f"{self.about}, such as {brief(self.example)!r}{place}{self.remedy}."


class Verdict(NamedTuple):
    """How to read a column."""

    kind: str
    """"number", "time", "text", or "drop" if it is left out."""
    option: bool | None = False
    """Whether numbers have decimal commas, dates begin with the day (None if no date tells), or
    texts that differ in case or spaces only are one."""
    note: Note | None = None


def verdict(
    name: str,
    texts: Texts,
    choices: Choices = AS_FOUND,
    convention: bool | None = None,
    by_label: bool = False,
) -> Verdict:
    """What the texts of a column are, unless the user has chosen it.

    `convention` is whether other columns of the table have decimal commas; None if they do not
    tell. `by_label` is whether levels that are not told apart count by the labels of their rows.
    """
    wish, n = choices.read.get(name), texts.n_rows
    comma, note = _comma(name, texts, convention)
    day = texts.times[1].count > texts.times[0].count
    if choices.dayfirst is not None:
        day = choices.dayfirst
    number, time = texts.numbers[comma].reading, texts.times[day]
    if wish == "number" or (wish is None and _is_number(texts, number)):
        return Verdict("number", comma, _unread(name, "number", number, n) or note)
    if wish == "date" or (wish is None and _most(texts, time)):
        differ = texts.times[0].moments.facts() != texts.times[1].moments.facts()
        both = texts.times[0].count == texts.times[1].count
        if both and choices.dayfirst is None and differ:
            raise InvalidData(
                f"Column {name!r} has dates such as {next(iter(texts.levels))!r}, which may begin "
                "with the day or the month; say which (dayfirst=True or False, or --dayfirst or "
                f"--monthfirst on the command line), write them as 2021-12-31, or {left_out(name)}."
            )
        known = day if differ else choices.dayfirst
        note = _unread(name, "date", time, n)
        if note is None and day and choices.dayfirst is None:
            note = _year_first(name, texts)
        return Verdict("time", known, note)
    if wish is not None:
        return Verdict("text")
    if note := _no_quantity(name, texts, texts.numbers[comma]):
        return Verdict("text", note=note)
    if n >= ENOUGH and texts.n_levels >= DIFFERENT * n:
        return Verdict("drop", note=_identifier(name, texts))
    alike = _alike(name, texts)
    note = alike or _several(name, texts) or _other(name, texts, by_label)
    return Verdict("text", alike is not None, note)


def may_be_levels(columns: Iterable[Texts]) -> bool:
    """Whether texts of a column, in several parts, may be levels: most are no numbers or dates."""
    parts = list(columns)
    n = sum(texts.n_rows for texts in parts)
    quantities = [0]
    for way in (0, 1):
        plain = (texts.numbers[way].by_unit.get("") for texts in parts)
        quantities.append(sum(reading.count for reading in plain if reading is not None))
        quantities.append(sum(texts.times[way].count for texts in parts))
    codes = sum(texts.shapes["codes"] for texts in parts)
    return codes >= CODES * n or max(quantities) < MOST * n


def decimal_commas(columns: Iterable[Texts]) -> bool | None:
    """Whether the numbers in columns of a table have decimal commas; None if nothing tells."""
    found = set()
    for texts in columns:
        points, commas = (amounts.reading for amounts in texts.numbers)
        more = points if points.count > commas.count else commas
        if points.count != commas.count and _is_number(texts, more):
            found.add(more is commas)
    return found.pop() if len(found) == 1 else None


def _most(texts: Texts, reading: Reading) -> bool:
    """Whether most texts can be read in this way."""
    share = HALF if texts.n_levels > MANY_LEVELS else MOST
    return reading.count >= share * texts.n_rows > 0


def _is_number(texts: Texts, reading: Reading) -> bool:
    """Whether a column is one of numbers: not of codes, months, bounds alone, or yes and no."""
    n = texts.n_rows
    if not _most(texts, reading) or texts.shapes["codes"] >= CODES * n:
        return False
    if texts.shapes["months"] >= MOST * n:
        return False
    if reading.unit == TRUTH:  # in several words, else they are told apart as texts
        words = {level.strip().lower() for level in texts.levels}
        return words <= {"true", "false"} or (reading.count == n and len(words) > 2)
    return reading.bounds <= HALF * n


def _comma(name: str, texts: Texts, convention: bool | None) -> tuple[bool, Note | None]:
    """Whether numbers have decimal commas, and what to say where nothing tells.

    A point before three digits may set thousands apart. Where other columns do not tell, it does
    if there are numbers without one, and none of these has more than three digits.
    """
    points, commas = (amounts.reading for amounts in texts.numbers)
    if points.count != commas.count:
        return commas.count > points.count, None
    if not points.count or points.moments.facts() == commas.moments.facts():
        return False, None
    if convention is not None:
        return convention, None
    if texts.shapes["whole"] and not texts.shapes["long"]:
        return bool(points.moments.high[0] < commas.moments.high[0]), None
    example = next((level for level in texts.levels if "." in level), None)
    if example is None:
        return False, None
    about = f"Column {name!r} has a point before three digits in all of its fractions"
    remedy = ", which is taken for the decimal point; if it separates thousands, remove it"
    return False, Note(name, example, about, remedy)


def left_out(name: str) -> str:
    """How not to learn from a column, in Python and on the command line."""
    return f"leave it out (columns=[...], or --drop {name!r} on the command line)"


def _unread(name: str, kind: str, reading: Reading, n_rows: int) -> Note | None:
    """What to say of texts that cannot be read in the way of the others."""
    if not reading.count and n_rows:
        raise InvalidData(
            f"Column {name!r} has no {kind}, but texts such as {reading.failed!r}; correct them, "
            f"or {by_choice(name, 'text')}."
        )
    if reading.failed is None:
        return None
    lost = n_rows - reading.count
    unit = f" in {reading.unit!r}" if reading.unit else ""
    verb = "is" if lost == 1 else "are"
    about = (
        f"Column {name!r} is read as {kind}s{unit}, and {lost:,} of its {n_rows:,} values {verb} "
    )
    remedy = f"; they count as missing: correct them, or {by_choice(name, 'text')}"
    return Note(name, reading.failed, f"{about}not", remedy)


def _year_first(name: str, texts: Texts) -> Note | None:
    """What to say of dates that would lie closer together if they began with a year.

    What would be their days has to be spread over the month, as years are not.
    """
    levels = pc.utf8_trim_whitespace(pa.array(texts.levels, pa.large_string()))
    read, other = (dates.parsed(found, True) for found in (levels, dates.with_years(levels)))
    if np.isnat(other).any() or np.ptp(other) >= np.ptp(read[~np.isnat(read)]):
        return None
    days = other.astype("M8[D]") - other.astype("M8[M]").astype("M8[D]")
    if len(np.unique(days)) < DAYS:  # ends of months, and the like
        return None
    about = (
        f"Column {name!r} is read as dates with the day first, and they would lie closer together "
        "if they began with the year"
    )
    remedy = (
        "; if they do, write years with four digits, and if not, say so by dayfirst=True "
        "(--dayfirst on the command line)"
    )
    example = levels[int(np.argmax(read != other))].as_py()
    return Note(name, example, about, remedy)


def _identifier(name: str, texts: Texts) -> Note:
    about = f"Column {name!r} has a different text in nearly every row"
    remedy = ", as identifiers and free text have, and is left out; if it matters, "
    example = next(iter(texts.levels))
    plainly = f"{PLAINLY}, or " if any(map(str.isdigit, example)) else ""
    return Note(name, example, about, f"{remedy}{plainly}{by_choice(name, 'text')}")


def _no_quantity(name: str, texts: Texts, amounts: Amounts) -> Note | None:
    """What to say of texts that have numbers, which cannot be compared with each other."""
    about = f"Column {name!r} is read as text, since its values "
    if texts.shapes["pairs"] > HALF * texts.n_rows:
        example = next(level for level in texts.levels if "/" in level or "x" in level.lower())
        return Note(name, example, about + "hold two numbers each", "; make two columns of it")
    units = [unit for unit in amounts.by_unit if unit not in ("", SECONDS, TRUTH)]
    if "" in amounts.by_unit and any(math.isnan(factor("", unit)) for unit in units):
        units.append("")
    count = sum(amounts.by_unit[unit].count for unit in {*units, ""} & amounts.by_unit.keys())
    if len(units) < 2 or count < MOST * texts.n_rows or len(amounts.by_unit) >= UNITS:
        return None
    some = ", ".join(repr(unit) if unit else "none" for unit in units)
    about += f"have several units ({some})"
    return Note(name, amounts.examples[units[-1]], about, "; write all of them in one")


def _alike(name: str, texts: Texts) -> Note | None:
    """What to say of texts that differ in nothing but case and spaces, as typing errors do."""
    seen: dict[str, str] = {}
    for level in texts.levels:
        other = seen.setdefault(fold(level), level)
        if other != level:
            about = f"Column {name!r} has texts that differ in case or spaces only"
            remedy = (
                f" and {other!r}, which count as one; if they are not, {by_choice(name, 'text')}"
            )
            return Note(name, level, about, remedy)
    return None


def _several(name: str, texts: Texts) -> Note | None:
    """What to say of texts that are lists of a few choices, as forms make them."""
    for separator in SEPARATORS:
        lists = [level for level in texts.levels if separator in level]
        choices = {part.strip() for level in texts.levels for part in level.split(separator)}
        if 2 * len(lists) > len(texts.levels) > SEVERAL * len(choices):
            about = f"Column {name!r} is read as text, since its values hold several choices each"
            return Note(name, lists[0], about, "; make a column of each choice")
    return None


def _other(name: str, texts: Texts, by_label: bool) -> Note | None:
    """What to say of a column many of whose texts are too rare to be told apart.

    With digits in most of them, they may be numbers that cannot be read.
    """
    with_digits = sum(any(map(str.isnumeric, level)) for level in texts.levels)
    if texts.other <= (0 if 2 * with_digits > len(texts.levels) else OTHER):
        return None
    about = (
        f"Column {name!r} is read as text, and {texts.other:.0%} of its values are not among the "
        f"{LEVELS} that are told apart"
    )
    example = min(texts.levels, key=lambda level: (level.isdecimal(), texts.levels[level]))
    remedy = f"; {PLAINLY}, turn texts into fewer groups, or "
    if by_label:
        count = "count by the labels of rows with the same text, where these differ"
        remedy = f", and {count}; {PLAINLY}, or "
    return Note(name, example, about, remedy + left_out(name))


def by_choice(name: str, kind: str) -> str:
    """How to have a column read in another way, in Python and on the command line."""
    command = f"--read {name!r}={kind} on the command line"
    return f"read it as {kind} (read={{{name!r}: {kind!r}}}, or {command})"
