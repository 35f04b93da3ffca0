"""Texts that are numbers once signs for money, percent and thousands are taken away."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sepgp.data.scaling import Floats

MONEY = r"[$€£¥₹%]|\b(?:usd|eur|gbp|chf)\b"
SPACES = r"[ '’_\x{00a0}\x{202f}]"
NUMBER = r"^[-+]?(?:\d+|[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+)?(?:{point}\d*)?(?:e[-+]?\d+)?$"
"""With a digit somewhere. Thousands are set apart everywhere or nowhere."""
CLOCK = r"^(?P<h>\d{1,2}):(?P<m>\d\d)(?::(?P<s>\d\d(?:\.\d+)?))?$"
CODE = r"^0\d+$"
"""Zeros in front belong to a code, such as a postcode."""
TRUTH = ("false", "true")


def parsed(texts: pa.Array, comma: bool = False) -> Floats:
    """Numbers that texts stand for, shape (b,), NaN where they stand for none.

    With `comma`, that is the decimal point. Times of day are seconds, and truth values 0 and 1.
    """
    if not comma:
        try:
            return _array(texts.cast(pa.float64()))
        except pa.ArrowInvalid:
            pass
    clean = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    clean = pc.replace_substring_regex(clean, r"^\((.+)\)$", r"-\1")  # as accountants do
    clean = pc.replace_substring_regex(pc.replace_substring(clean, "−", "-"), MONEY, "")
    clean = pc.utf8_trim_whitespace(clean)
    thousands, point = (r"\.", ",") if comma else (",", r"\.")
    apart = f"(?:{thousands}|{SPACES})"
    shape = NUMBER.format(thousands=apart, point=point)
    right = pc.and_(
        pc.match_substring_regex(clean, shape), pc.match_substring_regex(clean, r"^[-+]?[.,]?\d")
    )
    plain = pc.replace_substring_regex(clean, rf"^\+|{apart}", "")
    plain = pc.replace_substring(plain, ",", ".") if comma else plain
    numbers = _array(pc.if_else(right, plain, None).cast(pa.float64()))
    truth = _array(pc.index_in(clean, pa.array(TRUTH, pa.large_string())).cast(pa.float64()))
    return np.where(np.isnan(numbers), np.where(np.isnan(truth), _seconds(clean), truth), numbers)


def plain(texts: pa.Array) -> bool:
    """Whether all texts are numbers as computers write them."""
    try:
        return bool(pc.all(pc.is_finite(texts.cast(pa.float64()))).as_py())
    except pa.ArrowInvalid:
        return False


def with_commas(texts: pa.Array, points: Floats) -> Floats:
    """The same with decimal commas, where `points` are the numbers with decimal points."""
    if np.isnan(points).any() or pc.any(pc.match_substring(texts, ",")).as_py():
        return parsed(texts, comma=True)
    dots = pc.match_substring(texts, ".").to_numpy(zero_copy_only=False)
    return np.where(dots, np.nan, points)


def codes(texts: pa.Array) -> pa.Array:
    """Whether texts are digits with zeros in front."""
    return pc.match_substring_regex(texts, CODE)


def _seconds(texts: pa.Array) -> Floats:
    """Times of day in seconds."""
    found = pc.extract_regex(texts, CLOCK)
    hours, minutes, seconds = (
        _array(pc.if_else(pc.not_equal(part, ""), part, None).cast(pa.float64()))
        for part in (found.field(i) for i in range(3))
    )
    return np.where(np.isnan(minutes), np.nan, 3600 * hours + 60 * minutes + np.nan_to_num(seconds))


def _array(column: pa.Array) -> Floats:
    """As an array; infinity, which is no number, is NaN."""
    values = np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
    return np.where(np.isinf(values), np.nan, values)
