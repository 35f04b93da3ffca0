"""What one pass over rows learns about them: sums that can be merged in any order."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sepgp.data import encoding as enc
from sepgp.data.columns import dates
from sepgp.data.columns.reading import Reading
from sepgp.data.columns.texts import AS_FOUND, Choices, Meanings, Texts
from sepgp.data.columns.verdict import Note, Verdict, decimal_commas, left_out, verdict
from sepgp.data.encoding import Encoder, Encoding, Number, Text, Time
from sepgp.data.moments import Moments, standardized
from sepgp.data.scaling import Floats, Scaling
from sepgp.errors import InvalidData, nearest

ROW_NAMES = ("", "Unnamed: 0")
"""What the column is called that pandas and R write in front of all others."""


@dataclass(frozen=True)
class Summary:
    """Sums over rows of an array, which is one part, or of a table, with a part per column."""

    count: int
    total: float
    """Weight of all rows."""
    parts: tuple[Moments | Texts, ...]
    columns: tuple[tuple[str, str], ...] | None = None
    """Name and kind of every column; None for an array."""
    as_text: frozenset[str] = frozenset()
    """Columns of numbers that are read as text, or dates."""

    @classmethod
    def of(
        cls,
        X: Floats | pa.Table,
        weight: Floats,
        as_text: Collection[str] = (),
        meanings: Mapping[str, Meanings | None] | None = None,
    ) -> Self:
        """Of b > 0 rows and their weights, shape (b,). Cost O(bd).

        `meanings` are those of the texts of these rows and others, by column.
        """
        count, total = len(weight), float(weight.sum())
        if not isinstance(X, pa.Table):
            return cls(count, total, (Moments.of(X, weight),))
        kinds = enc.kinds(X.schema)
        numeric = frozenset(n for n in as_text if kinds.get(n) == "number")
        kinds |= dict.fromkeys(numeric, "text")
        single = [name for name, which in kinds.items() if which in ("number", "null")]
        parts: dict[str, Moments | Texts] = {}
        if single:
            # All at once, so that the sums are those of an array with the same numbers.
            columns = np.concatenate([enc.numbers(X[name], name).T for name in single])
            moments = Moments.of(columns.T, weight)
            parts = {name: moments.columns([i]) for i, name in enumerate(single)}
        for name, which in kinds.items():
            if which == "text":
                known = None if meanings is None else meanings.get(name)
                parts[name] = _texts(X[name], name, weight, name in as_text, known)
            elif which == "time":
                times = enc.local_times(X[name], name).to_numpy()
                parts[name] = Moments.of(dates.features(times), weight)
        return cls(count, total, tuple(parts[n] for n in kinds), tuple(kinds.items()), numeric)

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
            a, b = (_as_kind(part, which) for part in (a, b))
            parts.append(a + b)  # type: ignore[operator]
        as_text = self.as_text | other.as_text
        return type(self)(count, total, tuple(parts), tuple(columns), as_text)

    def __mul__(self, factor: float) -> Self:
        """Of the same rows with all weights multiplied by a factor."""
        parts = tuple(part * factor for part in self.parts)
        return type(self)(self.count, self.total * factor, parts, self.columns, self.as_text)

    def encoding(
        self, choices: Choices = AS_FOUND, by_label: bool = False
    ) -> tuple[Encoding | None, list[Note]]:
        """The encoding that these sums lead to, None for an array, and what to say about it.

        `by_label` is whether texts will have label means, which these sums do not know.
        """
        if self.columns is None:
            return None, []
        encoders, dropped, notes = [], [], []
        names = [name for name, _ in self.columns]
        for name in choices.read:
            if name not in names:
                near = nearest(name, names)
                one = "correct it" if near is None else f"name {near!r} or another"
                raise InvalidData(f"read names {name!r}, which is no column; {one}.")
        commas = decimal_commas(part for part in self.parts if isinstance(part, Texts))
        for (name, which), part in zip(self.columns, self.parts, strict=True):
            found = Verdict(which, choices.dayfirst if which == "time" else False)
            if choices.read.get(name) == "drop":
                dropped.append((name, "by choice"))
                continue
            if name in ROW_NAMES and name not in choices.read:
                dropped.append((name, "names or numbers of rows"))
                continue
            if isinstance(part, Texts):
                found = verdict(name, part, choices, commas, by_label)
                notes += [] if found.note is None else [found.note]
            if found.kind == "drop":
                dropped.append((name, "a different text in nearly every row"))
            else:
                encoders.append(_encoder(name, part, found, name in self.as_text))
        if not encoders:
            raise InvalidData(
                "X has no column to learn from but those that are left out "
                f"({', '.join(repr(name) for name, _ in dropped)}); add one, or choose how they "
                "are read."
            )
        return Encoding(tuple(encoders), tuple(dropped)), notes

    def more_levels(self, encoding: Encoding | None) -> list[str]:
        """The text columns that have more levels than are told apart."""
        if encoding is None or self.columns is None:
            return []
        parts = {name: part for (name, _), part in zip(self.columns, self.parts, strict=True)}
        texts = ((e, parts[e.name]) for e in encoding.encoders if isinstance(e, Text))
        return [
            encoder.name
            for encoder, part in texts
            if isinstance(part, Texts)
            and len((part.folded() if encoder.folded else part).levels) > len(encoder.levels)
        ]

    def missing(self, name: str) -> float:
        """The weight of the rows without a text in a column."""
        where = [column for column, _ in self.columns or ()].index(name)
        return float(np.sum(self.parts[where].missing))

    def scaling(
        self, encoding: Encoding | None, means: Mapping[str, Floats] | None = None
    ) -> Scaling:
        """The standardisation of the features; the encoding has columns of these.

        `means` are the `Moments.facets` of label means, by column.
        """
        if encoding is None or self.columns is None:
            return standardized(self.parts[0].facets)  # type: ignore[union-attr]
        parts = dict(zip((name for name, _ in self.columns), self.parts, strict=True))
        kinds = zip(encoding.encoders, encoding.kinds, strict=True)
        columns = []
        for encoder, (name, which) in kinds:
            columns.append(_scaled(encoder, _as_kind(parts[name], which)))
            if isinstance(encoder, Text) and encoder.means is not None:
                nothing = np.zeros((3, len(encoder.means.labels)))
                columns.append(nothing if means is None else means.get(name, nothing))
        return standardized(np.concatenate(columns, axis=1))


def meanings(
    X: Floats | pa.Table,
    as_text: Collection[str] = (),
    known: Mapping[str, Meanings | None] | None = None,
) -> dict[str, Meanings | None]:
    """Those of the texts of a table, by column, for `Summary.of` of parts of its rows.

    Those of an earlier block are `known`.
    """
    if not isinstance(X, pa.Table):
        return {}
    kinds = enc.kinds(X.schema)
    found = {}
    for name in kinds:
        if kinds[name] == "text" or (kinds[name] == "number" and name in as_text):
            with _named(name):
                before = None if known is None else known.get(name)
                found[name] = Meanings.of(enc.text(X[name]).combine_chunks(), before)
    return found


def _texts(
    column: pa.ChunkedArray, name: str, weight: Floats, dated: bool, known: Meanings | None
) -> Texts:
    with _named(name):
        return Texts.of(enc.text(column).combine_chunks(), weight, dated, known)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Say which column has bytes that are no text."""
    try:
        yield
    except (UnicodeDecodeError, pa.ArrowInvalid) as error:
        raise InvalidData(
            f"Column {name!r} has text that is not UTF-8; convert it, or {left_out(name)}."
        ) from error


def _encoder(name: str, part: Moments | Texts, found: Verdict, of_numbers: bool) -> Encoder:
    if found.kind == "text":
        assert isinstance(part, Texts)
        folded = bool(found.option)
        levels = (part.folded() if folded else part).frequent
        return Text(name, levels, bool(part.missing > 0), of_numbers, folded)
    reading = _as_read(part, found.kind, found.option)
    moments = reading.moments
    fill, missing = tuple(moments.centre.tolist()), bool(moments.missing[0] > 0)
    if found.kind == "time":
        return Time(name, fill, missing, found.option, of_numbers)
    return Number(name, fill, missing, bool(found.option), reading.unit, reading.bounds > 0)


def _as_read(part: Moments | Texts, which: str, option: bool | None) -> Reading:
    """The sums of numbers or times, which texts have for every way to read them."""
    if isinstance(part, Moments):
        return Reading(part, 0, None)
    return part.times[bool(option)] if which == "time" else part.numbers[bool(option)].reading


def _as_kind(part: Moments | Texts, which: str) -> Moments | Texts:
    """The sums of a column without any value as those of a column of another kind."""
    if isinstance(part, Texts):
        return part
    if which == "text":
        return Texts.nothing(float(part.missing[0]))
    if which == "time" and len(part.mean) == 1:
        return part.columns([0] * dates.N_FEATURES)
    return part


def _scaled(encoder: Encoder, part: Moments | Texts) -> Floats:
    """Mean, deviation and reach of the features of a column, shape (3, k): `Moments.facets`."""
    if isinstance(encoder, Text):
        assert isinstance(part, Texts)
        part = part.folded() if encoder.folded else part
        known = [part.levels[level] for level in encoder.levels]
        other = sum(value for level, value in part.levels.items() if level not in encoder.levels)
        if encoder.missing:
            return _shares([*known, other, part.missing])
        return _shares([*known, other + part.missing])
    if isinstance(encoder, Time):
        part = _as_read(part, "time", encoder.dayfirst).moments
    else:
        part = _as_read(part, "number", encoder.comma).moments
    if not encoder.missing:
        return part.facets
    return np.hstack([part.facets, _shares([part.missing[0], part.weight[0]])[:, :1]])


def _shares(weights: Sequence[Any]) -> Floats:
    """Of features one of which is 1 and the others 0 in every row, from the rows' weights."""
    weight = np.asarray(weights, np.float64)
    share = weight / weight.sum()
    varies = (weight > 0) & (np.count_nonzero(weight) > 1)
    facets = np.stack([share, np.sqrt(share * (1 - share)), np.maximum(share, 1 - share)])
    facets[1:, ~varies] = 0.0
    return facets
