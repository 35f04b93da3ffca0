"""From the columns of a table to the features of a matrix."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sepgp.data.columns import dates
from sepgp.data.columns import numbers as number_texts
from sepgp.data.columns.levels import fold
from sepgp.data.columns.missing import absent
from sepgp.data.columns.texts import LEVELS
from sepgp.data.columns.verdict import left_out
from sepgp.data.label_means import LabelMeans, means_from_json
from sepgp.data.scaling import Floats
from sepgp.errors import InvalidData, brief

FEW = 10
"""Texts that may be words where numbers or dates are expected."""


@dataclass(frozen=True)
class Number:
    """A column of numbers, truth values (0 and 1), durations or times of day (seconds).

    Its value is a feature. A missing value counts as `fill`, the mean of the others; if there were
    any in the rows that the encoding was made from, a second feature is 1 where it is missing.
    """

    name: str
    fill: tuple[float, ...]
    missing: bool
    comma: bool = False
    """Whether texts have decimal commas."""
    unit: str = ""
    """Of the numbers in texts, if they have one."""
    bounds: bool = False
    """Whether some texts were bounds, such as <5, which count as the number itself."""

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return (self.name, *_indicator(self))

    def values(self, column: pa.ChunkedArray) -> pa.Array:
        """The numbers of a column, NaN where it has none."""
        if kind(column.type, self.name) != "text":
            return pa.array(numbers(column, self.name)[:, 0])
        texts = text(column).combine_chunks()
        found = number_texts.values(texts, self.comma, self.unit)
        refuse_most(self, column, _unread(texts, np.isnan(found)))
        return pa.array(found)

    def encode(self, column: pa.ChunkedArray) -> Floats:
        """Features of a column of length b, shape (b, k). Cost O(b)."""
        return _filled(self.values(column).to_numpy()[:, None], self.fill, self.missing)


@dataclass(frozen=True)
class Time:
    """A column of dates or times: days since 1970, and where in the day, week and year it lies.

    Places in a cycle are given by sine and cosine, so that midnight is next to midnight. Times
    with a zone are taken as local times there. Missing values are as in `Number`.
    """

    name: str
    fill: tuple[float, ...]
    missing: bool
    dayfirst: bool | None = None
    """Whether texts such as 3/4/2021 begin with the day; None if there were none in training."""
    of_numbers: bool = False
    """Whether numbers such as 20210403 are dates."""

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        cycles = (f"{self.name} in its {c} ({f})" for c in dates.CYCLES for f in ("sin", "cos"))
        return (f"{self.name} in days", *cycles, *_indicator(self))

    def values(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The times of a column, in microseconds."""
        if kind(column.type, self.name) in ("time", "null"):
            return local_times(column, self.name)
        texts = text(column).combine_chunks()
        found = dates.parsed(texts, bool(self.dayfirst))
        if self.dayfirst is None:
            other = dates.parsed(texts, True)
            unclear = (found != other) & ~np.isnat(found) & ~np.isnat(other)
            if unclear.any():
                raise InvalidData(
                    f"X has dates such as {texts[int(np.argmax(unclear))].as_py()!r} in column "
                    f"{self.name!r}, which may begin with the day or the month, and the model was "
                    "trained with none like these; write them as 2021-12-31."
                )
            found = np.where(np.isnat(found), other, found)
        refuse_most(self, column, _unread(texts, np.isnat(found)))
        return pa.chunked_array([pa.array(found)])

    def encode(self, column: pa.ChunkedArray) -> Floats:
        """Features of a column of length b, shape (b, k). Cost O(b)."""
        return _filled(dates.features(self.values(column).to_numpy()), self.fill, self.missing)


@dataclass(frozen=True)
class Text:
    """A column of text or categories: one feature per level, one for every other text.

    A missing value has a feature of its own if there were any in the rows that the encoding was
    made from; otherwise it counts as another text. Label means are further features.
    """

    name: str
    levels: tuple[str, ...]
    missing: bool
    of_numbers: bool = False
    """Whether numbers are read as text."""
    folded: bool = False
    """Whether texts that differ in case or spaces only are one; then levels are in lower case."""
    means: LabelMeans | None = None
    """What the labels of every level's rows were, where there are more than these levels."""

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        levels = (f"{self.name} = {level!r}" for level in self.levels)
        labels = () if self.means is None else self.means.labels
        means = (f"{self.name} by its share of {label!r}" for label in labels)
        return (*levels, f"{self.name} = another", *_indicator(self), *means)

    def values(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The texts of a column."""
        texts = text(column)
        if self.folded:
            coded = texts.combine_chunks().dictionary_encode()
            folded = pa.array(map(fold, coded.dictionary.to_pylist()), pa.large_string())
            texts = pa.chunked_array([folded.take(coded.indices)])
        return texts

    def encode(self, column: pa.ChunkedArray, fold: NDArray[np.int8] | None = None) -> Floats:
        """Features of a column of length b, shape (b, k). Cost O(bk).

        `fold`, shape (b,), is for rows that label means by fold were learned from.
        """
        values = self.values(column).combine_chunks()
        known = pc.index_in(values, value_set=pa.array(self.levels, pa.large_string()))
        where = pc.fill_null(known, len(self.levels)).to_numpy().astype(np.intp)
        if self.missing:
            nothing = absent(values).to_numpy(zero_copy_only=False)
            where[nothing & (where == len(self.levels))] = len(self.levels) + 1
        features = np.zeros((len(values), len(self.features)))
        features[np.arange(len(values)), where] = 1.0
        if self.means is not None:
            features[:, -len(self.means.labels) :] = self.means.of(
                text(column).combine_chunks(), fold
            )
        return features


Encoder = Number | Time | Text
_KINDS: dict[str, Any] = {"number": Number, "time": Time, "text": Text}
_WORDS = {"number": "numbers", "time": "times", "text": "text"}


class Encoding(NamedTuple):
    """How the columns of a table become features: one encoder per column, side by side."""

    encoders: tuple[Encoder, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    """Columns that are not learned from, and why."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have, in whatever order."""
        return tuple(encoder.name for encoder in self.encoders)

    @property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """Every column and what `kind` says of it."""
        names = {c: k for k, c in _KINDS.items()}
        return tuple((encoder.name, names[type(encoder)]) for encoder in self.encoders)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, d of them."""
        return tuple(name for encoder in self.encoders for name in encoder.features)

    @property
    def plain(self) -> bool:
        """Whether every column is a feature as it is, so that an array can stand for a table."""
        return all(isinstance(e, Number) and not e.missing for e in self.encoders)

    @property
    def by_label(self) -> tuple[str, ...]:
        """The columns that have label means."""
        return tuple(e.name for e in self.encoders if getattr(e, "means", None) is not None)

    def check(self, table: pa.Table) -> None:
        """Refuse a table if it lacks a column or has another kind of values."""
        for encoder, (name, known) in zip(self.encoders, self.kinds, strict=True):
            if name not in table.column_names:
                raise lacking(name)
            dtype = table[name].type
            found = kind(dtype, name)
            may_be = {known, "null"} | ({"text"} if known != "text" else set())
            if getattr(encoder, "of_numbers", False):
                may_be.add("number")
            # Tables of pandas have numbers, all of them NaN, in a column without any value.
            if found not in may_be and not nothing(table[name], name).all():
                raise other_kind(name, f"{_WORDS[found]} ({dtype})", known)

    def encode(self, table: pa.Table, fold: NDArray[np.int8] | None = None) -> Floats:
        """Features of a table of b rows, shape (b, d): see `Text.encode`. Cost O(bd)."""
        self.check(table)
        columns = ((encoder, table[encoder.name]) for encoder in self.encoders)
        parts = [e.encode(c, fold) if isinstance(e, Text) else e.encode(c) for e, c in columns]
        return np.concatenate(parts, axis=1)

    def with_means(self, means: Mapping[str, LabelMeans]) -> "Encoding":
        """The same with these label means of some text columns, by name."""

        def learned(encoder: Encoder) -> Encoder:
            found = means.get(encoder.name)
            if found is None or not isinstance(encoder, Text):
                return encoder
            return replace(encoder, means=found)

        return self._replace(encoders=tuple(map(learned, self.encoders)))

    def values(self, table: pa.Table) -> pa.Table:
        """The columns as they are read: numbers, times in microseconds, and text."""
        self.check(table)
        return pa.table({e.name: e.values(table[e.name]) for e in self.encoders})

    def to_json(self) -> list[dict[str, Any]]:
        """The encoding in terms of JSON, all but its `arrays`."""
        pairs = zip(self.kinds, self.encoders, strict=True)
        read = [{"kind": kind_, **vars(encoder)} for (_, kind_), encoder in pairs]
        for entry in read:
            means = entry.pop("means", None)
            if means is not None:
                entry["means"] = means.to_json()
        return read + [{"kind": "drop", "name": name, "why": why} for name, why in self.left_out]

    @property
    def arrays(self) -> dict[str, Floats]:
        """The label means, by the number of the column."""
        found = ((i, getattr(encoder, "means", None)) for i, encoder in enumerate(self.encoders))
        return {
            f"{i}.{name}": array
            for i, means in found
            if means is not None
            for name, array in means.arrays.items()
        }


def encoding_from_json(
    stored: Iterable[dict[str, Any]], arrays: Mapping[str, Floats] | None = None
) -> Encoding:
    """The encoding that `Encoding.to_json` and `arrays` gave; an error if it cannot have been."""
    entries = [dict(entry) for entry in stored]
    left_out = tuple((str(e["name"]), str(e["why"])) for e in entries if e["kind"] == "drop")
    entries = [e for e in entries if e["kind"] != "drop"]
    for i, entry in enumerate(entries):
        if "means" in entry:
            parts = ((arrays or {})[f"{i}.{name}"] for name in ("keys", "values"))
            entry["means"] = means_from_json(entry["means"], *parts)
    encoding = Encoding(tuple(map(_encoder, entries)), left_out)
    if len(set(encoding.columns)) < len(encoding.columns):
        raise ValueError("a column has two encoders")
    return encoding


def _encoder(entry: dict[str, Any]) -> Encoder:
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
    encoder: Encoder = _KINDS[str(values.pop("kind"))](**values)
    texts = {"name", "unit"} & vars(encoder).keys()
    others = [v for k, v in vars(encoder).items() if k not in ("fill", "levels", "means", *texts)]
    right = all(isinstance(getattr(encoder, name), str) for name in texts) and {
        type(v) for v in others
    } <= {bool, type(None)}
    if isinstance(encoder, Text):
        right &= isinstance(encoder.levels, tuple)
        right &= all(isinstance(level, str) for level in encoder.levels)
    else:
        right &= len(encoder.fill) == (dates.N_FEATURES if isinstance(encoder, Time) else 1)
        right &= all(math.isfinite(value) for value in encoder.fill)
    if not right:
        raise ValueError(f"the encoder of column {encoder.name!r} has other parts than it should")
    return encoder


def kind(dtype: pa.DataType, name: str) -> str:
    """What a column of this type holds: "number", "time", "text", or "null" if nothing at all."""
    if pt.is_dictionary(dtype):
        dtype = dtype.value_type
    if pt.is_null(dtype):
        return "null"
    numeric = (pt.is_integer, pt.is_floating, pt.is_decimal, pt.is_boolean, pt.is_duration)
    if any(test(dtype) for test in (*numeric, pt.is_time)):
        return "number"
    if pt.is_timestamp(dtype) or pt.is_date(dtype):
        return "time"
    if pt.is_string(dtype) or pt.is_large_string(dtype) or pt.is_string_view(dtype):
        return "text"
    raise InvalidData(
        f"Column {name!r} has values of type {dtype}, which is neither a number, a truth value, a "
        f"time nor text; convert it, or {left_out(name)}."
    )


def kinds(schema: pa.Schema) -> dict[str, str]:
    """What the columns of a table hold, by name; all that hold anything else are named."""
    found, refused = {}, {}
    for field in schema:
        try:
            found[field.name] = kind(field.type, field.name)
        except InvalidData as error:
            refused[field.name] = str(error)
    if len(refused) == 1:
        raise InvalidData(refused.popitem()[1])
    if refused:
        raise InvalidData(
            f"Columns {', '.join(map(repr, refused))} have values that are neither numbers, truth "
            "values, times nor text; convert them, or leave them out (columns=[...], or --drop "
            f"{','.join(refused)!r} on the command line)."
        )
    return found


def lacking(name: str) -> InvalidData:
    """The complaint about a table without a column of the model."""
    return InvalidData(
        f"X has no column {name!r}, which the model was trained with; add the column."
    )


def other_kind(name: str, found: str, known: str) -> InvalidData:
    """The complaint about a column that does not hold what it held in training."""
    return InvalidData(
        f"X has {found} in column {name!r}, where the model was trained with {_WORDS[known]}; "
        "convert the column."
    )


def numbers(column: pa.ChunkedArray, name: str) -> Floats:
    """A column of numbers as an array of shape (b, 1), NaN where it is missing."""
    column = decoded(column)
    dtype, unit = column.type, 1.0
    if pt.is_duration(dtype) or pt.is_time(dtype):
        unit = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[dtype.unit]
        column = column.cast(pa.int32() if pt.is_time32(dtype) else pa.int64())
    values = column.cast(pa.float64(), safe=False).to_numpy()
    if np.isinf(values).any():
        raise InvalidData(
            f"X contains infinity (inf) in column {name!r} ({np.isinf(values).sum()} of "
            f"{len(values)} rows); replace these values or leave them empty."
        )
    return np.asarray(values * unit if unit != 1.0 else values)[:, None]


def local_times(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """A column of dates or times in microseconds, as a clock shows them in their own zone."""
    column = decoded(column)
    if pt.is_timestamp(column.type) and column.type.tz is not None:
        try:
            column = pc.local_timestamp(column)
        except pa.ArrowInvalid as error:
            raise InvalidData(
                f"X has times in column {name!r} whose zone {column.type.tz!r} is unknown here; "
                "convert them to UTC."
            ) from error
    return column.cast(pa.timestamp("us"), safe=False)


def text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of text or of categories as text."""
    return decoded(column).cast(pa.large_string())


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column with its values instead of numbers of them."""
    dtype = column.type
    return column.cast(dtype.value_type) if pt.is_dictionary(dtype) else column


def canonical(table: pa.Table) -> pa.Table:
    """The same table with one type for each kind of column, so that any two can be joined."""
    columns = {}
    for name in table.column_names:
        column = table[name]
        which = kind(column.type, name)
        if which == "number":
            column = pa.array(numbers(column, name)[:, 0])
        elif which == "time":
            column = local_times(column, name)
        elif which == "text":
            column = text(column)
        columns[name] = column
    return pa.table(columns)


def _indicator(encoder: Encoder) -> tuple[str, ...]:
    return (f"{encoder.name} is missing",) if encoder.missing else ()


def nothing(column: pa.ChunkedArray, name: str) -> NDArray[np.bool_]:
    """Which values of a column are missing, shape (b,)."""
    which = kind(column.type, name)
    if which == "text":
        return np.asarray(absent(text(column).combine_chunks()).to_numpy(zero_copy_only=False))
    if which == "number":
        return np.isnan(numbers(column, name)[:, 0])
    return np.asarray(column.is_null())


def strange(encoder: Encoder, column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Which values of a column the encoder cannot use as they are, shape (b,): see `Watch`."""
    texts = text(column).combine_chunks() if kind(column.type, encoder.name) == "text" else None
    if isinstance(encoder, Text):
        if texts is None or len(encoder.levels) == LEVELS:  # others were in training, too
            return np.zeros(len(column), bool)
        values = encoder.values(column).combine_chunks()
        levels = pa.array(encoder.levels, pa.large_string())
        return _unread(texts, pc.invert(pc.is_in(values, levels)).to_numpy(zero_copy_only=False))
    if texts is None:
        return np.zeros(len(column), bool)
    if isinstance(encoder, Number):
        return _unread(texts, np.isnan(number_texts.values(texts, encoder.comma, encoder.unit)))
    found = dates.parsed(texts, bool(encoder.dayfirst))
    if encoder.dayfirst is None:
        found = np.where(np.isnat(found), dates.parsed(texts, True), found)
    return _unread(texts, np.isnat(found))


def refuse_most(
    encoder: Encoder, column: pa.ChunkedArray, unread: NDArray[np.bool_], begin: int = 0
) -> None:
    """Refuse texts most of which are not what the column held in training.

    `unread`, shape (b,), is which of them; `begin` is the number of rows before them. A few, such
    as a word in the one row that is predicted, are missing, if some were in training.
    """
    lost = int(unread.sum())
    if isinstance(encoder, Text) or not lost or (lost < FEW and encoder.missing):
        return
    texts = text(column).combine_chunks()
    present = ~absent(texts).to_numpy(zero_copy_only=False)
    if 2 * lost > present.sum():
        how = "dates" if isinstance(encoder, Time) else "numbers with decimal points"
        if isinstance(encoder, Number) and encoder.comma:
            how = "numbers with decimal commas"
        unit = f" in {encoder.unit}" if isinstance(encoder, Number) and encoder.unit else ""
        first = int(np.argmax(unread))
        raise InvalidData(
            f"Column {encoder.name!r} has texts such as {brief(texts[first].as_py())!r} in row "
            f"{begin + first + 1:,}, where the model was trained with {how}{unit}; write them so."
        )


def _unread(texts: pa.Array, failed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which texts could not be read and are no signs for a missing value."""
    if not failed.any():
        return failed
    found: NDArray[np.bool_] = failed & ~absent(texts).to_numpy(zero_copy_only=False)
    return found


def _filled(values: Floats, fill: tuple[float, ...], missing: bool) -> Floats:
    absent = np.isnan(values[:, 0])
    if absent.any():
        values = np.where(absent[:, None], fill, values)
    return np.column_stack([values, absent]) if missing else values
