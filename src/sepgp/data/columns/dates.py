"""Texts that are dates or times, in the order of year, month and day, or by the month's name."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sepgp.data.scaling import Floats

CLOCK = (
    r"(?:[T, ]+(?P<h>\d{1,2}):(?P<n>\d\d)(?::(?P<s>\d\d(?:\.\d+)?))?"
    r" ?(?P<p>[AaPp])?(?:\.?[Mm]\.?)?(?: [A-Z]{3,5})?)?"
    r" ?(?:Z|UTC|GMT|(?P<z>[-+])(?P<zh>\d\d):?(?P<zm>\d\d))?$"
)
"""The name of a zone, such as CET, is left away: in one file it is one place's, most likely."""
USUAL = {
    r"^(\d{8})T(\d\d)(\d\d)(\d\d)": r"\1T\2:\3:\4",
    r"(:\d\d),(\d+)$": r"\1.\2",
    r"^(\d{1,2})/?(\pL{3})/?(\d{4})(?::|$)": r"\1-\2-\3 ",  # of web servers, and SAS
    r"^(\pL{3} \pL{3} +\d{1,2}) (\d\d:\d\d:\d\d)(?: [A-Z]{3,4})? (\d{4})$": r"\1 \3 \2",  # of C
    r" GMT([-+]\d{4})(?: \(.*\))?$": r" \1",  # of JavaScript
    r" (\d\d)\.(\d\d)\.(\d\d)(\.\d+)?( [AP]M)$": r" \1:\2:\3\4\5",  # of Oracle
    r"^KW ?(\d{1,2})[/ -]+(\d{4})$": r"\2-W\1",  # of German calendars
}
"""What programs write in ways of their own, and the usual one."""
WEEKDAY = r"^(?:\pL{3,10}[.,]? +)?"
NAME = r"(?P<w>\pL{3,10})"
OF_YEAR = r"(?P<y>(?:19|20)\d\d)"
SHAPES = (
    r"^(?P<y>\d{4})(?P<_>[-/.])(?P<m>\d{1,2})[-/.](?P<d>\d{1,2})",
    r"^(?P<a>\d{1,2})(?P<_>[-/.])(?P<b>\d{1,2})[-/.](?P<y>\d{4}|\d\d)",
    WEEKDAY + NAME + r"[. -]+(?P<d>\d{1,2})(?:st|nd|rd|th|er)?[, -]+(?P<y>\d{4})",
    WEEKDAY + rf"(?P<d>\d{{1,2}})(?:st|nd|rd|th|er)?[. -]+{NAME}[.,]?[ -]+(?P<y>\d{{4}}|\d\d)",
    r"^(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)",
    rf"^(?P<m>\d{{1,2}})[-/.]{OF_YEAR}",
    rf"^{OF_YEAR}[-/](?P<m>\d\d)",
    rf"^{NAME}[. -]+{OF_YEAR}",
    r"^(?P<w>\pL{3})-(?P<y>\d\d)",
    rf"^{OF_YEAR}[-/ ]?Q(?P<q>[1-4])",
    rf"^Q(?P<q>[1-4])[-/ ]?{OF_YEAR}",
    rf"^{OF_YEAR}[-/ ]?W(?P<k>[1-4]\d|5[0-3]|0?[1-9])(?:-[1-7])?",
)
"""A month or a quarter without a day is its first, and a week a day of it or the next to it."""
MONTHS = [
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    ["jan", "feb", "mär", "apr", "mai", "juni", "juli", "aug", "sep", "okt", "nov", "dez"],
    ["jan", "fév", "mars", "avr", "mai", "juin", "juil", "aoû", "sep", "oct", "nov", "déc"],
]
"""How their names begin, in English, German and French."""
DAY = 86_400.0
WEEK, YEAR = 7.0, 365.2425
CYCLES = ("day", "week", "year")
N_FEATURES = 1 + 2 * len(CYCLES)
CENTURY = 30
"""Years of two digits from here on are of the last century, as in spreadsheets."""


def parsed(texts: pa.Array, dayfirst: bool) -> NDArray[np.datetime64]:
    """Times that texts stand for, in microseconds, shape (b,), NaT where they stand for none.

    `dayfirst` says how 3/4/2021 is read. Times with a zone are taken as UTC.
    """
    try:
        return _array(texts.cast(pa.timestamp("us")))
    except pa.ArrowInvalid:
        pass
    clean, found = pc.utf8_trim_whitespace(texts), np.full(len(texts), np.datetime64("NaT", "us"))
    for form, usual in USUAL.items():
        clean = pc.replace_substring_regex(clean, form, usual)
    for shape in SHAPES:
        parts = pc.extract_regex(clean, shape + CLOCK)
        if parts.null_count < len(parts):
            found = np.where(np.isnat(found), _times(parts, dayfirst), found)
    return found


def with_years(texts: pa.Array) -> pa.Array:
    """The same, but that dates such as 21-03-04 begin with a year, which has four digits then."""
    for begin, century in (("[012]", "20"), ("[3-9]", "19")):
        short = rf"^({begin}\d[-/.]\d\d?[-/.]\d\d)(\D|$)"
        texts = pc.replace_substring_regex(texts, short, rf"{century}\1\2")
    return texts


def features(times: NDArray[np.datetime64]) -> Floats:
    """Times in microseconds, shape (b,), as numbers, shape (b, 7), NaN where they are NaT.

    Days since 1970, then sine and cosine of the place in the day, the week and the year.
    """
    days = np.where(np.isnat(times), np.nan, times.astype(np.int64)) / (1e6 * DAY)
    turns = 2 * np.pi * np.stack([days % 1.0, (days + 3) / WEEK % 1.0, days / YEAR % 1.0])
    cycles = np.stack([np.sin(turns), np.cos(turns)], axis=1).reshape(6, -1)
    return np.column_stack([days, *cycles])


def _times(parts: pa.StructArray, dayfirst: bool) -> NDArray[np.datetime64]:
    """The times that the parts of texts make."""
    names = [field.name for field in parts.type]

    def number(name: str, missing: float = np.nan) -> NDArray[np.float64]:
        if name not in names:
            return np.full(len(parts), missing)
        text = pc.struct_field(parts, name)
        values = pc.if_else(pc.not_equal(text, ""), text, None).cast(pa.float64())
        return np.asarray(values.fill_null(missing).to_numpy(zero_copy_only=False))

    year, month = number("y"), number("m")
    day = number("d") if "d" in names else np.ones(len(parts))
    short = pc.fill_null(pc.less(pc.utf8_length(pc.struct_field(parts, "y")), 3), False)
    century = np.where(year < CENTURY, 2000, 1900)
    year = year + np.where(short.to_numpy(zero_copy_only=False), century, 0)
    if "a" in names:
        month, day = (number("b"), number("a")) if dayfirst else (number("a"), number("b"))
    if "q" in names:
        month = 3 * number("q") - 2
    if "k" in names:
        month = day
    if "w" in names:
        month = _named(pc.struct_field(parts, "w"))
    half = pc.utf8_lower(pc.struct_field(parts, "p"))
    hour = number("h", 0)
    for letter, twelve in (("a", -12), ("p", 0)):  # 12 am is midnight, 12 pm noon, 1 pm is 13
        where = pc.fill_null(pc.equal(half, letter), False).to_numpy(zero_copy_only=False)
        hour = hour + np.where(where, np.where(hour == 12, twelve, 12 if letter == "p" else 0), 0)
    right = (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (number("n", 0) < 60)
    west = pc.fill_null(pc.equal(pc.struct_field(parts, "z"), "-"), False)
    east = np.where(west.to_numpy(zero_copy_only=False), -60, 60)
    minutes = number("n", 0) - east * number("zh", 0) - np.sign(east) * number("zm", 0)
    months = np.where(right, (year - 1970) * 12 + month - 1, 0).astype("M8[M]")
    days = months.astype("M8[D]") + np.where(right, day - 1, 0).astype("m8[D]")
    right &= days.astype("M8[M]") == months
    if "k" in names:
        days = days + np.where(right, 7 * (number("k") - 1), 0).astype("m8[D]")
    seconds = 3600 * hour + 60 * minutes + number("s", 0)
    times = days.astype("M8[us]") + np.where(right, 1e6 * seconds, 0).astype("m8[us]")
    return np.where(right, times, np.datetime64("NaT", "us"))


def _named(words: pa.Array) -> NDArray[np.float64]:
    """The months that words stand for, 1 … 12, NaN where they stand for none."""
    lower, found = pc.utf8_lower(words), np.full(len(words), np.nan)
    for names in MONTHS:
        for month, name in enumerate(names, 1):
            begins = pc.fill_null(pc.starts_with(lower, name), False)
            found[begins.to_numpy(zero_copy_only=False)] = month
    return found


def _array(column: pa.Array) -> NDArray[np.datetime64]:
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype("M8[us]")
