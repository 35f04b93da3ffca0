"""What the texts of a column say about how to read it: sums that can be merged in any order."""

import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sepgp.data.columns import dates, numbers
from sepgp.data.columns.amounts import Amounts
from sepgp.data.columns.levels import fold
from sepgp.data.columns.missing import absent
from sepgp.data.columns.reading import Reading
from sepgp.data.scaling import Floats

LEVELS = 32
"""The most frequent texts of a column that get a feature of their own."""
MOST_LEVELS = 1000
"""Different texts of a column that are counted, at least; of more, the most frequent."""
NUMBER_LEVELS = 128
"""The same of texts that are numbers, most likely."""
LOOKED_AT = 1000
"""Texts of a block that are looked at to see whether most differ."""
REMEMBERED = 20_000
"""Texts whose meanings are kept for the blocks that follow, at most."""
SKETCH = 1024
"""Smallest hashes that are kept to estimate how many different texts there are."""


class Choices(NamedTuple):
    """What a user says about how to read columns."""

    read: Mapping[str, str] = {}
    """Columns by name, each "number", "text", "date" or "drop"."""
    dayfirst: bool | None = None
    """Whether dates such as 3/4/2021 begin with the day; None if the dates themselves decide."""


AS_FOUND = Choices()
"""As the values of the columns suggest."""


class Meanings:
    """What texts may stand for, found once for all who ask; it takes a tenth of a second at least.

    Parameters
    ----------
    texts : array of text
        All of them, each once.
    """

    def __init__(self, texts: pa.Array) -> None:
        self.texts = texts

    @classmethod
    def of(cls, column: pa.Array, known: Self | None = None) -> Self | None:
        """Of the texts of a column; None for numbers that are read faster one by one.

        Those of an earlier block are `known`, and stay so as long as they are not too many.
        """
        if _differ(column):
            return None
        texts = column.unique().drop_null()
        texts = texts.filter(pc.invert(absent(texts)))
        if known is None:
            return cls(texts)
        new = texts.filter(pc.invert(pc.is_in(texts, value_set=known.texts)))
        if not len(new):
            return known
        together = pa.concat_arrays([known.texts, new])
        return cls(together if len(together) <= REMEMBERED else texts)

    def places(self, texts: pa.Array) -> NDArray[np.int_]:
        """Where these texts are."""
        return np.asarray(pc.index_in(texts, value_set=self.texts).to_numpy())

    @cached_property
    def points(self) -> numbers.Quantities:
        """Numbers with decimal points."""
        return numbers.parsed(self.texts)

    @cached_property
    def commas(self) -> numbers.Quantities:
        """Numbers with decimal commas."""
        return numbers.with_commas(self.texts, self.points)

    @cached_property
    def times(self) -> tuple[NDArray[np.datetime64], ...]:
        """Times with the month first, and with the day."""
        return tuple(dates.parsed(self.texts, first) for first in (False, True))


@dataclass(frozen=True)
class Texts:
    """The texts of a column: how many, how often, and what each way to read them makes of them."""

    n_rows: int
    """Rows that have a text."""
    shapes: Counter[str]
    """Rows with "codes", that is digits with zeros in front, "pairs" of numbers, "months" such as
    03.2021, "whole" numbers, and "long" ones of these, with more than three digits."""
    missing: float
    """Weight of the rows without a text."""
    levels: Counter[str]
    """Weight of every text, or of the most frequent."""
    sketch: NDArray[np.uint32]
    """The smallest hashes of texts that are no numbers, sorted."""
    numbers: tuple[Amounts, Amounts]
    """With decimal points, and with decimal commas."""
    times: tuple[Reading, Reading]
    """With the month first, and with the day."""

    @classmethod
    def of(
        cls,
        column: pa.Array,
        weight: Floats,
        dated: bool = False,
        meanings: Meanings | None = None,
    ) -> Self:
        """Of texts and their weights, shape (b,). Cost O(b), and more for every different text.

        `dated` is whether digits alone may be dates, and `meanings` are those of more texts.
        """
        texts, rows, heavy, lost = _different(column, weight)
        place: NDArray[np.int_] | slice = slice(None)
        if meanings is None:
            meanings = Meanings(texts)
        else:
            place = meanings.places(texts)
        points, commas = meanings.points.take(place), meanings.commas.take(place)
        # The rule are numbers; what else they may be would cost time.
        months = len(texts) > 0 and numbers.has_shape(texts[:LOOKED_AT], numbers.MONTH).all()
        most = max(int(rows[found.of_unit("")].sum()) for found in (points, commas))
        plain = 2 * most > rows.sum() and not dated and not months
        shapes = _shapes(texts, rows, points.values, commas.values, plain)
        never = np.full(len(texts), np.datetime64("NaT", "us"))
        times = [never, never] if plain else [found[place] for found in meanings.times]
        few = plain and not shapes["codes"]
        frequent = np.argsort(-heavy, kind="stable")[: NUMBER_LEVELS if few else MOST_LEVELS]
        levels: Counter[str] = Counter()
        shares: list[Any] = heavy[frequent].tolist()
        for name, value in zip(texts.take(frequent).to_pylist(), shares, strict=True):
            levels[name] += value
        sketch = np.empty(0, np.uint32) if plain else _hashes(texts)
        weights = texts, rows, heavy, lost

        def reading(found: NDArray[np.datetime64]) -> Reading:
            right = ~np.isnat(found)
            return Reading.of(dates.features(found[right]), right, *weights)

        return cls(
            int(rows.sum()),
            shapes,
            lost,
            levels,
            sketch,
            (Amounts.of(points, *weights), Amounts.of(commas, *weights)),
            (reading(times[0]), reading(times[1])),
        )

    def __add__(self, other: Self) -> Self:
        """Of both sets of rows together."""
        levels = Counter(self.levels)
        for level, weight in other.levels.items():
            levels[level] += weight
        if len(levels) > 2 * MOST_LEVELS:
            levels = Counter(dict(levels.most_common(MOST_LEVELS)))
        return type(self)(
            self.n_rows + other.n_rows,
            self.shapes + other.shapes,
            self.missing + other.missing,
            levels,
            np.union1d(self.sketch, other.sketch)[:SKETCH],
            (self.numbers[0] + other.numbers[0], self.numbers[1] + other.numbers[1]),
            (self.times[0] + other.times[0], self.times[1] + other.times[1]),
        )

    def __mul__(self, factor: float) -> Self:
        """Of the same rows with all weights multiplied by a factor."""
        return replace(
            self,
            missing=self.missing * factor,
            levels=Counter({level: weight * factor for level, weight in self.levels.items()}),
            numbers=(self.numbers[0] * factor, self.numbers[1] * factor),
            times=(self.times[0] * factor, self.times[1] * factor),
        )

    @classmethod
    def nothing(cls, weight: float) -> Self:
        """Of rows of this weight, none of which has a text."""
        return cls.of(pa.nulls(1, pa.large_string()), np.array([weight]))

    def facts(self) -> list[Any]:
        """What tells these texts from others, in terms of JSON."""
        return [sorted(self.levels.items()), self.missing, self.numbers[0].reading.moments.facts()]

    def folded(self) -> Self:
        """The same, with texts that differ in case or spaces only as one."""
        levels: Counter[str] = Counter()
        for level, weight in self.levels.items():
            levels[fold(level)] += weight
        return replace(self, levels=levels)

    @property
    def frequent(self) -> tuple[str, ...]:
        """The texts that get a feature of their own, the most frequent first."""
        ordered = sorted(self.levels, key=lambda level: (-self.levels[level], level))
        return tuple(ordered[:LEVELS])

    @property
    def other(self) -> float:
        """The share of the others in the weight of all texts."""
        moments = self.times[0].moments
        total = float(moments.weight[0] + moments.missing[0]) - self.missing
        return 1 - sum(self.levels[level] for level in self.frequent) / total if total else 0.0

    @property
    def n_levels(self) -> float:
        """How many different texts there are, about."""
        if len(self.sketch) < SKETCH:
            return max(len(self.levels), len(self.sketch))
        return (SKETCH - 1) * 2.0**32 / float(self.sketch[-1])


def _different(
    column: pa.Array, weight: Floats
) -> tuple[pa.Array, NDArray[np.int_], Floats, float]:
    """The different texts, rows and weight of each, and weight of the rows without one.

    Numbers most of which differ are not put together: that would cost more than to take each.
    """
    if _differ(column):
        here = column.is_valid().to_numpy(zero_copy_only=False)
        lost = float(weight[~here].sum())
        return column.drop_null(), np.ones(here.sum(), int), weight[here], lost
    coded = column.dictionary_encode()
    known = coded.dictionary
    place = coded.indices.fill_null(len(known)).to_numpy()
    rows, weights = (np.bincount(place, w, len(known) + 1) for w in (None, weight))
    nothing = np.append(absent(known).to_numpy(zero_copy_only=False), True)
    texts = known.filter(pa.array(~nothing[:-1]))
    return texts, rows[~nothing], weights[~nothing], float(weights[nothing].sum())


def _differ(column: pa.Array) -> bool:
    """Whether a column has numbers most of which differ."""
    some = column[:LOOKED_AT]
    return 2 * len(some.unique()) > len(some) and numbers.plain(column)


def _shapes(
    texts: pa.Array, rows: NDArray[np.int_], points: Floats, commas: Floats, plain: bool
) -> Counter[str]:
    """Rows by what their texts look like; `plain` is whether most are numbers."""
    whole = points == commas  # with neither a point nor a comma
    found = {"whole": whole, "long": whole & (np.abs(points) >= 1000)}
    found["codes"] = numbers.has_shape(texts, numbers.CODE)
    if not plain:
        found["pairs"] = numbers.has_shape(texts, numbers.PAIR)
        found["months"] = numbers.has_shape(texts, numbers.MONTH)
    return Counter({name: int(rows[where].sum()) for name, where in found.items()})


def _hashes(texts: pa.Array) -> NDArray[np.uint32]:
    values = (zlib.crc32(text.encode()) for text in texts.to_pylist())
    return np.unique(np.fromiter(values, np.uint32, len(texts)))[:SKETCH]
