"""What one pass over rows learns about them: sums that can be merged in any order."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sepgp.data import encoding as enc
from sepgp.data.encoding import Encoder, Encoding, Text, left_out
from sepgp.data.moments import Moments, standardized
from sepgp.data.scaling import Floats, Scaling
from sepgp.errors import InvalidData

DATE = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{2,4}( .*)?")
NUMBER = re.compile(r"[-+]?\d[\d.]*,\d[\d.,]*")
DATES = ", which may begin with the day or the month; write them as 2021-12-31"
NUMBERS = "; write them with a decimal point and without other signs"
AMBIGUOUS = ((DATE, "dates", DATES), (NUMBER, "numbers with commas", NUMBERS))
"""Texts that nobody knows how to read, and what to do: commas may set thousands apart, or not."""
MOST_LEVELS = 1000
"""A text column with more different values is taken for an identifier and refused."""


@dataclass(frozen=True)
class Levels:
    """The weight of every text of a column."""

    name: str
    weight: Counter[str]
    missing: float
    """Weight of the rows without a text."""

    @classmethod
    def of(cls, name: str, column: pa.ChunkedArray, weight: Floats) -> Self:
        """Of a column of length b. Cost O(b)."""
        coded = enc.text(column).combine_chunks().dictionary_encode()
        try:
            levels = coded.dictionary.to_pylist()
        except UnicodeDecodeError as error:
            raise InvalidData(
                f"Column {name!r} has text that is not UTF-8; convert it, or {left_out(name)}."
            ) from error
        for pattern, what, remedy in AMBIGUOUS:
            if levels and all(pattern.fullmatch(level) for level in levels):
                fault = f"{what} such as {levels[0]!r}{remedy}"
                raise InvalidData(f"Column {name!r} has {fault}, or {left_out(name)}.")
        codes = coded.indices.fill_null(len(levels)).to_numpy()
        sums = np.bincount(codes, weight, len(levels) + 1).tolist()
        missing = sums.pop()
        return cls(name, Counter(dict(zip(levels, sums, strict=True))), missing)._checked()

    def __add__(self, other: Self) -> Self:
        """Of both sets of rows together."""
        weight = Counter(self.weight)
        for level, value in other.weight.items():
            weight[level] += value
        return type(self)(self.name, weight, self.missing + other.missing)._checked()

    def __mul__(self, factor: float) -> Self:
        """Of the same rows with all weights multiplied by a factor."""
        weight = Counter({level: value * factor for level, value in self.weight.items()})
        return type(self)(self.name, weight, self.missing * factor)

    def facts(self) -> list[Any]:
        """What tells these texts from others, in terms of JSON."""
        return [self.name, sorted(self.weight.items()), self.missing]

    def _checked(self) -> Self:
        if len(self.weight) > MOST_LEVELS:
            raise InvalidData(
                f"Column {self.name!r} has text with more than {MOST_LEVELS:,} different values; "
                f"turn it into fewer groups, or {left_out(self.name)}."
            )
        return self


@dataclass(frozen=True)
class Summary:
    """Sums over rows of an array, which is one part, or of a table, with a part per column."""

    count: int
    total: float
    """Weight of all rows."""
    parts: tuple[Moments | Levels, ...]
    columns: tuple[tuple[str, str], ...] | None = None
    """Name and kind of every column; None for an array."""

    @classmethod
    def of(cls, X: Floats | pa.Table, weight: Floats) -> Self:
        """Of b > 0 rows and their weights, shape (b,). Cost O(bd)."""
        count, total = len(weight), float(weight.sum())
        if not isinstance(X, pa.Table):
            return cls(count, total, (Moments.of(X, weight),))
        columns = tuple((name, enc.kind(X[name].type, name)) for name in X.column_names)
        single = [name for name, which in columns if which in ("number", "null")]
        parts: dict[str, Moments | Levels] = {}
        if single:
            # All at once, so that the sums are those of an array with the same numbers.
            values = np.concatenate([enc.numbers(X[name], name) for name in single], axis=1)
            moments = Moments.of(values, weight)
            parts = {name: moments.columns([i]) for i, name in enumerate(single)}
        for name, which in columns:
            if which == "text":
                parts[name] = Levels.of(name, X[name], weight)
            elif which == "time":
                parts[name] = Moments.of(enc.times(X[name], name), weight)
        return cls(count, total, tuple(parts[name] for name, _ in columns), columns)

    def __add__(self, other: Self) -> Self:
        """Of both sets of rows together."""
        count, total = self.count + other.count, self.total + other.total
        if self.columns is None or other.columns is None:
            (a,), (b,) = self.parts, other.parts
            return type(self)(count, total, (a + b,))  # type: ignore[operator]
        columns, parts = [], []
        both = zip(self.columns, self.parts, other.columns, other.parts, strict=True)
        for (name, kind_a), a, (_, kind_b), b in both:
            which = kind_b if kind_a == "null" else kind_a
            if kind_b not in (which, "null"):
                raise InvalidData(
                    f"X has a {kind_a} in column {name!r} of some rows and a {kind_b} in others; "
                    "give the column one type."
                )
            columns.append((name, which))
            a, b = (_as_kind(part, name, which) for part in (a, b))
            parts.append(a + b)  # type: ignore[operator]
        return type(self)(count, total, tuple(parts), tuple(columns))

    def __mul__(self, factor: float) -> Self:
        """Of the same rows with all weights multiplied by a factor."""
        parts = tuple(part * factor for part in self.parts)
        return type(self)(self.count, self.total * factor, parts, self.columns)

    def encoding(self) -> Encoding | None:
        """The encoding that these sums lead to; None for an array."""
        if self.columns is None:
            return None
        encoders: list[Encoder] = []
        for (name, _), part in zip(self.columns, self.parts, strict=True):
            if isinstance(part, Levels):
                frequent = sorted(part.weight, key=lambda level: (-part.weight[level], level))
                encoders.append(Text(name, tuple(frequent[: enc.LEVELS]), bool(part.missing > 0)))
            else:
                encoder = enc.Time if len(part.mean) > 1 else enc.Number
                fill = tuple(part.centre.tolist())
                encoders.append(encoder(name, fill, bool(part.missing[0] > 0)))
        return Encoding(tuple(encoders))

    def scaling(self, encoding: Encoding | None) -> Scaling:
        """The standardisation of the features; the encoding has the same columns in this order."""
        if encoding is None:
            return standardized(*_values(self.parts[0]))  # type: ignore[arg-type]
        pairs = zip(encoding.encoders, encoding.kinds, self.parts, strict=True)
        columns = [_scaled(encoder, _as_kind(part, *which)) for encoder, which, part in pairs]
        return standardized(*np.concatenate(columns, axis=1))


def _as_kind(part: Moments | Levels, name: str, which: str) -> Moments | Levels:
    """The sums of a column without any value as those of a column of another kind."""
    if isinstance(part, Levels):
        return part
    if which == "text":
        return Levels(name, Counter(), float(part.missing[0]))
    if which == "time" and len(part.mean) == 1:
        return part.columns([0] * enc.N_TIMES)
    return part


def _scaled(encoder: Encoder, part: Moments | Levels) -> Floats:
    """Mean, deviation, and whether it varies, of the features of a column, shape (3, k)."""
    if isinstance(part, Levels):
        assert isinstance(encoder, Text)
        known = [part.weight[level] for level in encoder.levels]
        other = sum(value for level, value in part.weight.items() if level not in encoder.levels)
        if encoder.missing:
            return _shares([*known, other, part.missing])
        return _shares([*known, other + part.missing])
    values = _values(part)
    if not encoder.missing:
        return values
    return np.hstack([values, _shares([part.missing[0], part.weight[0]])[:, :1]])


def _values(part: Moments) -> Floats:
    """Of numbers, where missing ones are at the mean."""
    return np.stack([part.centre, part.deviation, part.varies])


def _shares(weights: Sequence[float]) -> Floats:
    """Of features one of which is 1 and the others 0 in every row, from the rows' weights."""
    weight = np.asarray(weights, np.float64)
    share = weight / weight.sum()
    varies = (weight > 0) & (np.count_nonzero(weight) > 1)
    return np.stack([share, np.sqrt(share * (1 - share)), varies])
