"""How the texts of a column are to be read."""

from typing import NamedTuple

from sepgp.data.columns.texts import LEVELS, Choices, Reading, Texts
from sepgp.errors import InvalidData, brief

MOST = 0.9
"""The share of the texts that must be numbers, or dates, in a column of them."""
HALF, MANY_LEVELS = 0.5, 100
"""This share is enough in a column with more different texts than can be told apart as levels."""
CODES = 0.01
"""With this share of zeros in front, digits are codes."""
DIFFERENT, ENOUGH = 0.9, 20
"""A column is an identifier or free text if this share of its texts differ, of so many or more."""


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
    """Whether numbers have decimal commas, or dates begin with the day; None if no date tells."""
    note: Note | None = None


def verdict(name: str, texts: Texts, choices: Choices) -> Verdict:
    """What the texts of a column are, unless the user has chosen it."""
    wish, n = choices.read.get(name), texts.n_rows
    comma = texts.numbers[1].count > texts.numbers[0].count
    day = texts.times[1].count > texts.times[0].count
    if choices.dayfirst is not None:
        day = choices.dayfirst
    number, time = texts.numbers[comma], texts.times[day]
    many = texts.n_levels > MANY_LEVELS

    def most(reading: Reading) -> bool:
        return reading.count >= (HALF if many else MOST) * n > 0

    if wish == "number" or (wish is None and most(number) and texts.n_codes < CODES * n):
        return Verdict("number", comma, _unread(name, "number", number, n))
    if wish == "date" or (wish is None and most(time)):
        differ = texts.times[0].moments.facts() != texts.times[1].moments.facts()
        both = texts.times[0].count == texts.times[1].count
        if both and choices.dayfirst is None and differ:
            raise InvalidData(
                f"Column {name!r} has dates such as {next(iter(texts.levels))!r}, which may begin "
                "with the day or the month; say which (dayfirst=True or False, or --dayfirst or "
                f"--monthfirst on the command line), write them as 2021-12-31, or {left_out(name)}."
            )
        known = day if differ else choices.dayfirst
        return Verdict("time", known, _unread(name, "date", time, n))
    if wish is None and n >= ENOUGH and texts.n_levels >= DIFFERENT * n:
        return Verdict("drop", note=_identifier(name, texts))
    return Verdict("text", note=_other(name, texts) if wish is None else None)


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
    about = f"Column {name!r} is read as {kind}s, and {lost:,} of its {n_rows:,} values are none"
    remedy = f"; they count as missing: correct them, or {by_choice(name, 'text')}"
    return Note(name, reading.failed, about, remedy)


def _identifier(name: str, texts: Texts) -> Note:
    about = f"Column {name!r} has another text in nearly every row"
    remedy = ", as identifiers and free text have, and is left out; if it matters, "
    return Note(name, next(iter(texts.levels)), about, f"{remedy}{by_choice(name, 'text')}")


def _other(name: str, texts: Texts) -> Note | None:
    """What to say of a column most of whose texts are too rare to be told apart."""
    if texts.other <= HALF:
        return None
    about = (
        f"Column {name!r} is read as text, and {texts.other:.0%} of its values are not among the "
        f"{LEVELS} that are told apart"
    )
    example = min(texts.levels, key=lambda level: texts.levels[level])
    remedy = "; write numbers without units, turn texts into fewer groups, or "
    return Note(name, example, about, remedy + left_out(name))


def by_choice(name: str, kind: str) -> str:
    """How to have a column read in another way, in Python and on the command line."""
    command = f"--read {name!r}={kind} on the command line"
    return f"read it as {kind} (read={{{name!r}: {kind!r}}}, or {command})"
