"""Numbers among the texts of a column, by their unit: sums that can be merged in any order."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sepgp.data.columns.numbers import TRUTH, Quantities, base, factor
from sepgp.data.columns.reading import Reading
from sepgp.data.scaling import Floats

UNITS = 8
"""Units that are told apart: the most frequent."""


@dataclass(frozen=True)
class Amounts:
    """The numbers of a column: those of each unit apart, since they cannot be compared."""

    by_unit: dict[str, Reading]
    """Of each, its own numbers alone; an empty text is for numbers without a unit."""
    examples: dict[str, str]
    """A text of every unit."""
    unread: Reading
    """Without a number: the texts that are none, and the rows without a text."""

    @classmethod
    def of(
        cls,
        found: Quantities,
        texts: pa.Array,
        rows: NDArray[np.int_],
        heavy: Floats,
        lost: float,
    ) -> Self:
        """Of what texts say, rows and weight of each, shape (b,), and weight of other rows."""
        parts, examples, others = {}, {}, np.ones(len(texts), bool)
        counts = {unit: int(rows[found.of_unit(unit)].sum()) for unit in found.names}
        for unit in sorted(filter(counts.get, counts), key=lambda u: (-counts[u], u))[:UNITS]:
            mine = found.of_unit(unit)
            others &= ~mine
            examples[unit] = texts[int(np.argmax(mine))].as_py()
            part = found.values[mine, None], np.ones(mine.sum(), bool), texts
            bounds = int(rows[mine & found.bounds].sum())
            parts[unit] = Reading.of(*part, rows[mine], heavy[mine], 0.0, unit, bounds)
        rest, none = texts.filter(pa.array(others)), np.empty((0, 1))
        nothing = np.zeros(len(rest), bool)
        unread = Reading.of(none, nothing, rest, rows[others], heavy[others], lost)
        return cls(parts, examples, unread)

    def __add__(self, other: Self) -> Self:
        """Of both sets of rows together."""
        parts, unread = dict(self.by_unit), self.unread + other.unread
        for unit, part in other.by_unit.items():
            parts[unit] = parts[unit] + part if unit in parts else part
        examples = other.examples | self.examples
        frequent = sorted(parts, key=lambda unit: (-parts[unit].count, unit))
        for unit in frequent[UNITS:]:
            unread = unread.with_missing(parts.pop(unit).moments.weight, examples.pop(unit))
        return type(self)(parts, examples, unread)

    def __mul__(self, factor: float) -> Self:
        """Of the same rows with all weights multiplied by a factor."""
        parts = {unit: part * factor for unit, part in self.by_unit.items()}
        return replace(self, by_unit=parts, unread=self.unread * factor)

    @property
    def reading(self) -> Reading:
        """All numbers that can be given in one unit: the one in which most can.

        Without its multiple, if there are as many: 5k is 5000, as it is where columns are numbers.
        """
        if not self.by_unit:
            return self.unread
        unit = max(self.by_unit, key=lambda unit: (self._count(unit), self.by_unit[unit].count))
        if self._count(base(unit)) >= self._count(unit):
            unit = base(unit)
        total = self.unread
        for name, part in self.by_unit.items():
            times = self._factor(name, unit)
            if np.isnan(times):
                total = total.with_missing(part.moments.weight, self.examples[name])
            else:
                total = total + part.times(times)
        return replace(total, unit=unit)

    def _count(self, unit: str) -> int:
        """Rows with a number that can be given in a unit."""
        found = [name for name in self.by_unit if not np.isnan(self._factor(name, unit))]
        return sum(self.by_unit[name].count for name in found)

    def _factor(self, unit: str, other: str) -> float:
        """What numbers in a unit are multiplied by to have them in another."""
        plain = self.by_unit[unit].moments
        if not unit and other == TRUTH and plain.low[0] >= 0 and plain.high[0] <= 1:
            return 1.0
        return factor(unit, other)
