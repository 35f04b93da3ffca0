"""One way to read the texts of a column: sums that can be merged in any order."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sepgp.data.moments import Moments
from sepgp.data.scaling import Floats


@dataclass(frozen=True)
class Reading:
    """What one way to read texts makes of them."""

    moments: Moments
    count: int
    """Texts that can be read so."""
    failed: str | None
    """One that cannot."""
    unit: str = ""
    """Of numbers."""
    bounds: int = 0
    """Texts that say that the number is less, or more."""

    @classmethod
    def of(
        cls,
        values: Floats,
        right: NDArray[np.bool_],
        texts: pa.Array,
        rows: NDArray[np.int_],
        heavy: Floats,
        lost: float,
        unit: str = "",
        bounds: int = 0,
    ) -> Self:
        """Of texts, whether they are read, and rows and weight of each, all of shape (b,).

        `values`, shape (k, p), are those of the texts that are read; `lost` is the weight of rows
        without a text.
        """
        failed = None if right.all() else texts[int(np.argmin(right))].as_py()
        gap = np.full((1, values.shape[1]), np.nan)
        unread = float(heavy[~right].sum()) + lost
        moments = Moments.of(np.vstack([values, gap]), np.append(heavy[right], unread))
        return cls(moments, int(rows[right].sum()), failed, unit, bounds)

    def __add__(self, other: Self) -> Self:
        """Of both sets of rows together."""
        return type(self)(
            self.moments + other.moments,
            self.count + other.count,
            other.failed if self.failed is None else self.failed,
            self.unit or other.unit,
            self.bounds + other.bounds,
        )

    def __mul__(self, factor: float) -> Self:
        """Of the same rows with all weights multiplied by a factor."""
        return replace(self, moments=self.moments * factor)

    def times(self, factor: float) -> Self:
        """Of the same texts in another unit: all numbers multiplied by a factor."""
        return self if factor == 1.0 else replace(self, moments=self.moments.times(factor))

    def with_missing(self, weight: Floats, failed: str | None) -> Self:
        """The same, and other texts of this weight, shape (1,), one of which is `failed`."""
        moments = replace(self.moments, missing=self.moments.missing + weight)
        return replace(self, moments=moments, failed=self.failed or failed)
