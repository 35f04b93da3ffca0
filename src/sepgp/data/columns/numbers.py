"""Texts that are numbers once units, signs for money and percent, and thousands are taken away."""

import unicodedata
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sepgp.data.scaling import Floats

SPACES = r"[ '’_]"
DIGITS = (
    r"(?:(?:\d+|[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+{lakhs})(?:{point}\d*)?|{point}\d+)"
    r"(?:e[-+]?\d+)?"
)
"""Thousands are set apart everywhere or nowhere."""
LAKHS = r"|[1-9]\d?(?:,\d\d)+,\d{3}"
"""As in India, 12,34,567."""
UNIT = r"/?[\pL\p{Sc}%‰°][^\d,;:<>()]{0,14}?[23²³]?"
CURRENCIES = (
    r"\p{Sc}|\pL{1,3}\$|(?:aed|aud|brl|cad|chf|cny|czk|dkk|fr|hkd|huf|idr|ils|inr|jpy|kr|krw|kč|mxn|"
    r"myr|nok|nzd|php|pln|rmb|ron|rs|rub|sek|sgd|thb|try|zar|zł)"
)
"""Names and signs of money that stand in front of a number; of some there are others in `SIGNS`."""
QUANTITY = (
    r"^(?P<least>[<>≤≥]=? ?)?(?P<sign>[-+] ?)?"
    rf"(?:(?P<before>{CURRENCIES.replace('{', '{{').replace('}', '}}')})\.?)? ?(?P<minus>-)?"
    rf"(?P<digits>{DIGITS})(?P<most>\+)? ?(?P<unit>{UNIT.replace('{', '{{').replace('}', '}}')})?$"
)
"""A bound, such as <5 or 90+, is taken for the number itself."""
MILLIONS = r"^([-+<>~ ]*\p{Sc}?[- ]*[\d.,]+)M$"
"""Written with a capital letter, since 5m is five metres or minutes."""
SIGNS = {
    r"[−–—‒]": "-",
    r"[\x{00a0}\x{2002}-\x{200a}\x{202f}]": " ",
    r"[\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}\x{feff}]": "",  # which nobody sees
    r"^=?[\"'](.*\d.*?)\"?$": r"\1",  # as spreadsheets mark text
    "μ": "µ",
    "℃": "°c",
    r" ?(?:±|\+/-) ?\d+(?:[.,]\d+)?": "",
    r"(\d) ?(?:[×x·*] ?)?10[\^*]{1,2}([-+]?\d+)": r"\1e\2",
    r"^(.*\d.*?) ?(?:\([hl!*]{1,2}\)|[*†‡]{1,3})$": r"\1",  # as laboratories mark high and low
    r"^(.*\d.*?) ?(?:\([^()\pL]+\)|\[[^\[\]\pL]+\])$": r"\1",  # 45 (12 %), 7.5 [1]
    r"^(?:[~≈] ?|(?:ca|approx)(?:\. ?| ))": "",
    r"^(\p{Sc} ?)?\((.+)\)$": r"-\1\2",  # as accountants write it
    r"(\d)[.,]-{1,2}(\D*)$": r"\1\2",  # 5.- is without cents
    r"^(\d[^-]*)-( ?\p{Sc}?)$": r"-\1\2",  # as SAP does
    r"(^|[^\pL])(?:eur|euros?)($|[^\pL])": r"\1€\2",
    r"(^|[^\pL])usd($|[^\pL])": r"\1$\2",
    r"(^|[^\pL])gbp($|[^\pL])": r"\1£\2",
    r"(\pL{3})s$": r"\1",  # years and year
    r"^(\d+)(?:st|nd|rd|th|er|ème|e)( .*)?$": r"\1th\2",
    r"^(\d):([0-5]\d\.\d+)$": r"0:0\1:\2",  # minutes and seconds
    r"^([0-5]\d):([0-5]\d\.\d+)$": r"0:\1:\2",
}
"""What is written in several ways, and one of them."""
CLOCK = (
    r"^(?P<h>\d{1,3})[:h](?P<m>[0-5]\d)(?::(?P<s>[0-5]\d(?:\.\d+)?))?(?: ?(?P<half>[ap])\.?m\.?)?$"
)
SECONDS, TRUTH = "h:mm", "truth values"
"""The units of times of day and durations, and of words for yes and no."""
AMBIGUOUS = ("m", "b", SECONDS, TRUTH)
"""Units that plain numbers beside them may not be in."""
DURATION = "".join(
    rf"(?:(?P<{name}>\d+(?:\.\d+)?) ?(?:{words})[ ,]*)?"
    for name, words in {
        "y": "y|yrs?|years?",
        "o": "mos?|mths?|months?",
        "d": "d|days?",
        "h": "h|hrs?|hours?|std",
        "m": "m|mins?|minutes?",
        "s": "s|secs?|seconds?",
    }.items()
)
DAY = 86_400
IN_SECONDS = (365.2425 * DAY, 365.2425 / 12 * DAY, DAY, 3600, 60, 1)
"""The parts of a duration such as 6h 40m, from years down."""
SCALES: tuple[dict[str, float], ...] = (
    {"": 1, "k": 1e3, "tsd": 1e3, "tsd.": 1e3, "mio": 1e6, "mio.": 1e6, "mn": 1e6, "million": 1e6}
    | {"bn": 1e9, "mrd": 1e9, "mrd.": 1e9, "billion": 1e9},
    {"k": 1, "m": 1e3, "mio": 1e3, "b": 1e6},
    {"": 1, "cr": 1, "dr": -1},  # credit and debit
    {"b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12},
    {"b": 1, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40},
    {"µg": 1e-6, "mcg": 1e-6, "mg": 1e-3, "g": 1, "kg": 1e3, "t": 1e6},
    {"nm": 1e-9, "µm": 1e-6, "mm": 1e-3, "cm": 1e-2, "m": 1, "km": 1e3},
    {"µl": 1e-6, "ml": 1e-3, "cl": 1e-2, "dl": 1e-1, "l": 1},
    {"hz": 1, "khz": 1e3, "mhz": 1e6, "ghz": 1e9},
    {"w": 1, "kw": 1e3},  # mw may be either
    {"ω": 1, "kω": 1e3},
    *({d + one: 1.0, d + other: -1.0} for d in ("", "°", "° ") for one, other in ("ns", "ew")),
    {SECONDS: 1, "ms": 1e-3, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60}
    | dict.fromkeys(("h", "hr", "hrs", "std", "hour"), 3600.0)
    | dict.fromkeys(("d", "day"), float(DAY))
    | dict.fromkeys(("mo", "mos", "month"), IN_SECONDS[1])
    | dict.fromkeys(("y", "yr", "yrs", "year"), IN_SECONDS[0]),
)
"""Units that can be turned into each other: how much each is. Some stand in several."""
SIDES = {"s", "h"}
"""Alone, these are not seconds and hours, but the sides of a German account: Soll and Haben."""
NO = ("false", "f", "no", "n", "nein", "non", "off", "falsch", "faux")
YES = ("true", "t", "yes", "y", "ja", "oui", "on", "wahr", "vrai")
CODE = r"^(?:=?[\"'])?0\d+\pL*\"?$"
"""Zeros in front belong to a code, such as a postcode."""
MONTH = r"^(?:0[1-9]|1[0-2])\.(?:19|20)\d\d$"
"""A month of a year, such as 03.2021."""
PLAIN = r"^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$"
PLAIN_COMMA = r"^[-+]?\d+(?:,\d+)?$"
"""Numbers as computers write them, with a decimal point and with a decimal comma."""
FRACTION = r"^[-+]?\d+{point}(?:\d{{1,2}}|\d{{4,}})$"
"""With the other sign than the decimal one: no number, since it sets no thousands apart."""
PAIR = r"^(?:\d+(?:[.,]\d+)? ?[/×]|[1-9]\d*(?:[.,]\d+)? ?x) ?\d+(?:[.,]\d+)?(?: ?\pL+)?$"
"""Two numbers, such as 120/80; 0x80 is one."""


class Quantities(NamedTuple):
    """What texts say, each part of shape (b,)."""

    values: Floats
    """NaN where they say no number."""
    bounds: NDArray[np.bool_]
    """Whether it is said that the number is less, or more."""
    units: NDArray[np.int_]
    """As places among the names of units."""
    names: tuple[str, ...]
    """In lower case; empty for numbers without a unit."""

    def of_unit(self, unit: str) -> NDArray[np.bool_]:
        """Which texts are numbers in a unit, shape (b,)."""
        if unit not in self.names:
            return np.zeros(len(self.values), bool)
        found: NDArray[np.bool_] = self.units == self.names.index(unit)
        return found & ~np.isnan(self.values)

    def take(self, where: NDArray[np.int_] | slice) -> "Quantities":
        """What the texts at these places say."""
        return Quantities(self.values[where], self.bounds[where], self.units[where], self.names)


def parsed(texts: pa.Array, comma: bool = False) -> Quantities:
    """The quantities that texts stand for; with `comma`, that is the decimal point.

    Numbers as computers write them, which most are, are read a hundred times faster than others.
    """
    is_easy = _like(texts, PLAIN_COMMA if comma else PLAIN)
    is_none = _like(texts, FRACTION.format(point=r"\." if comma else ","))
    is_hard = pc.invert(pc.or_(is_easy, is_none))
    easy, hard = _mask(is_easy), _mask(is_hard)
    plain = texts.filter(is_easy)
    plain = pc.replace_substring(plain, ",", ".") if comma else plain
    values, bounds = np.full(len(texts), np.nan), np.zeros(len(texts), bool)
    values[easy] = _array(plain.cast(pa.float64()))
    if not hard.any():
        return Quantities(values, bounds, np.zeros(len(texts), int), ("",))
    units = np.full(len(texts), "", object)
    found = _written(texts.filter(is_hard), comma)
    values[hard], bounds[hard] = found.values, found.bounds
    units[hard] = np.array(found.names, object)[found.units]
    names, codes = np.unique(units, return_inverse=True)
    return Quantities(values, bounds, codes, tuple(names.tolist()))


def _written(texts: pa.Array, comma: bool) -> Quantities:
    """The quantities of texts as people write them."""
    clean = pc.replace_substring_regex(texts, MILLIONS, r"\1 mio")
    clean = pc.utf8_trim_whitespace(pc.utf8_lower(clean))
    for sign, usual in SIGNS.items():
        clean = pc.replace_substring_regex(clean, sign, usual)
    thousands, point, lakhs = (r"\.", ",", "") if comma else (",", r"\.", LAKHS)
    apart = f"(?:{thousands}|{SPACES})"
    found = pc.extract_regex(clean, QUANTITY.format(thousands=apart, point=point, lakhs=lakhs))
    part = {field.name: pc.struct_field(found, field.name) for field in found.type}
    digits = pc.replace_substring_regex(part["digits"], apart, "")
    digits = pc.replace_substring(digits, ",", ".") if comma else digits
    values = _array(digits.cast(pa.float64()))
    less = [pc.starts_with(part[name], "-") for name in ("sign", "minus")]
    values = np.where(_mask(pc.xor(*less)), -values, values)
    units = _objects(part["before"]) + _objects(part["unit"])
    bounds = _mask(pc.or_(*(pc.not_equal(part[name], "") for name in ("least", "most"))))
    for unit, others in ((SECONDS, _seconds(clean)), (TRUTH, _truth(clean))):
        units[~np.isnan(others)] = unit
        values = np.where(np.isnan(others), values, others)
    names, codes = np.unique(units, return_inverse=True)
    return Quantities(values, bounds, codes, tuple(names.tolist()))


def values(texts: pa.Array, comma: bool, unit: str) -> Floats:
    """The numbers that texts stand for in a unit, shape (b,), NaN where they stand for none."""
    found = parsed(texts, comma)
    factors = [factor(name, unit) for name in found.names]
    result: Floats = found.values * np.array(factors)[found.units]
    if unit == TRUTH:
        zero_or_one = (found.values == 0) | (found.values == 1)
        result = np.where(zero_or_one, found.values, result)
    if not unit and np.isnan(result).all():  # a column that had a type of its own in training
        result = np.where(found.of_unit(TRUTH) | found.of_unit(SECONDS), found.values, np.nan)
    return result


def factor(unit: str, other: str) -> float:
    """What to multiply numbers in a unit by to have them in another, NaN if they have no relation.

    Numbers without a unit, beside others that have one, are in it too, unless it is a multiple.
    """
    if unit == other:
        return 1.0
    (money, mine), (other_money, theirs) = _money(unit), _money(other)
    if money not in ("", other_money) or {mine, theirs} == SIDES:
        return np.nan
    for scale in SCALES:
        if mine in scale and theirs in scale:
            return scale[mine] / scale[theirs]
    return 1.0 if not unit and theirs not in AMBIGUOUS else np.nan


def base(unit: str) -> str:
    """A unit without its multiple: what numbers in it are counted in, such as $ for $k."""
    money, _ = _money(unit)
    return money if factor(unit, money) > 1 else unit


def _money(unit: str) -> tuple[str, str]:
    """The sign of a currency that a unit begins or ends with, and the rest of it."""
    if unit and unicodedata.category(unit[0]) == "Sc":
        return unit[0], unit[1:].strip()
    if unit and unicodedata.category(unit[-1]) == "Sc":
        return unit[-1], unit[:-1].strip()
    return "", unit


def plain(texts: pa.Array) -> bool:
    """Whether all texts are numbers as computers write them."""
    try:
        return bool(pc.all(pc.is_finite(texts.cast(pa.float64()))).as_py())
    except pa.ArrowInvalid:
        return False


def with_commas(texts: pa.Array, points: Quantities) -> Quantities:
    """The same with decimal commas, where `points` are the quantities with decimal points."""
    if np.isnan(points.values).any() or points.names != ("",):
        return parsed(texts, comma=True)
    if pc.any(pc.match_substring(texts, ",")).as_py():
        return parsed(texts, comma=True)
    # Only points may be read in another way, and most cannot set thousands apart.
    values = np.where(_mask(pc.match_substring(texts, ".")), np.nan, points.values)
    apart = _mask(pc.match_substring_regex(texts, r"^[-+]?[1-9]\d{0,2}(?:\.\d{3})+$"))
    if apart.any():
        thousands = pc.replace_substring(texts.filter(pa.array(apart)), ".", "")
        values[apart] = _array(thousands.cast(pa.float64()))
    return points._replace(values=values)


def has_shape(texts: pa.Array, shape: str) -> NDArray[np.bool_]:
    """Whether texts match a pattern such as `CODE`, shape (b,)."""
    return _mask(_like(texts, shape))


def any_has_shape(texts: pa.Array, shape: str) -> bool:
    """Whether some text matches a pattern; imports no pandas, as turning into an array would."""
    return bool(pc.any(_like(texts, shape)).as_py())


def _like(texts: pa.Array, shape: str) -> pa.Array:
    """The same as an array of Arrow, false where there is no text."""
    found = pc.match_substring_regex(texts, shape)
    return pc.and_kleene(found.is_valid(), found)  # filling in a value would import pandas


def _seconds(texts: pa.Array) -> Floats:
    """Times of day and durations in seconds."""
    found = pc.extract_regex(texts, CLOCK)
    hours, minutes, seconds = (_part(found, i) for i in range(3))
    half = _objects(found.field(3))
    hours = np.where(half != "", hours % 12, hours) + 12 * (half == "p")  # 12 am is midnight
    clock = 3600 * hours + 60 * minutes + np.nan_to_num(seconds)
    found = pc.extract_regex(texts, f"^(?P<iso>pt)?{DURATION}$")
    parts = np.stack([_part(found, i + 1) for i in range(len(IN_SECONDS))])
    several = (~np.isnan(parts)).sum(0) + (_objects(found.field(0)) != "") > 1
    total = np.where(several, np.array(IN_SECONDS) @ np.nan_to_num(parts), np.nan)
    return np.where(np.isnan(minutes), total, clock)


def _part(found: pa.StructArray, place: int) -> Floats:
    """The numbers in a part of texts, NaN where it is empty."""
    text = found.field(place)
    return _array(pc.if_else(pc.not_equal(text, ""), text, None).cast(pa.float64()))


def _truth(texts: pa.Array) -> Floats:
    """Words for no as 0, and for yes as 1."""
    words = pa.array(NO + YES, pa.large_string())
    place = _array(pc.index_in(texts, words).cast(pa.float64()))
    return np.where(np.isnan(place), np.nan, place >= len(NO))


def _array(column: pa.Array) -> Floats:
    """As an array; infinity, which is no number, is NaN."""
    values = np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
    return np.where(np.isinf(values), np.nan, values)


def _mask(column: pa.Array) -> NDArray[np.bool_]:
    known = pc.and_kleene(column.is_valid(), column)
    return np.asarray(known.to_numpy(zero_copy_only=False), bool)


def _objects(column: pa.Array) -> NDArray[np.object_]:
    """Texts, in which spaces at the ends are taken away, and null is empty."""
    texts = pc.utf8_trim_whitespace(pc.fill_null(column, ""))
    return np.asarray(texts.to_numpy(zero_copy_only=False), object)
