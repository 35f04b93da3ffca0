"""Rows that are ready for training: checked, with labels −1 and 1, in memory or as a stream."""

import hashlib
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sepgp.data import stream
from sepgp.data.arrays import ArraySource
from sepgp.data.batch import MINIBATCH
from sepgp.data.encoding import Encoding
from sepgp.data.parts import Part, lots
from sepgp.data.rows import Block, Rows
from sepgp.data.scaling import Floats, Scaling, standardization
from sepgp.data.stream import StreamSource
from sepgp.data.survey import Sample, Survey, changed, survey, unlabelled
from sepgp.errors import InvalidData

Arrays = tuple[NDArray[Any], Floats, Floats]
"""Features of shape (k, d), labels −1 and 1 and weights, each of shape (k,)."""
MEASURED = 10_000
"""Rows kept aside that the model is measured on during training."""


class ArrayData(NamedTuple):
    """Rows in memory, all of positive weight."""

    X: NDArray[Any]
    """Features, shape (n, d), not scaled."""
    y: Floats
    weight: Floats
    classes: NDArray[Any]
    encoding: Encoding | None = None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.y)

    def sample(self) -> Arrays:
        """Rows to start from: all of them."""
        return self.X, self.y, self.weight

    def scaling(self) -> Scaling:
        """The standardisation of the features."""
        return standardization(self.X, self.weight)

    def source(
        self, scaling: Scaling, batch_size: int, seed: int, dtype: torch.dtype, device: str
    ) -> ArraySource:
        """Batches for training."""
        return ArraySource(self.X, self.y, self.weight, scaling, batch_size, seed, dtype, device)

    def digest(self) -> str:
        """Differs for different rows. Cost O(nd)."""
        total = hashlib.sha256(repr((self.X.shape, self.classes.tolist())).encode())
        for begin in range(0, len(self.y), 65_536):
            part = slice(begin, begin + 65_536)
            for array in (self.X, self.y, self.weight):
                total.update(np.ascontiguousarray(array[part], np.float64).data)
        return total.hexdigest()


class StreamData(NamedTuple):
    """Rows that are read anew in every epoch."""

    rows: Rows
    survey: Survey

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.survey.counts.sum())

    @property
    def classes(self) -> NDArray[Any]:
        """The two labels, sorted."""
        return self.survey.classes

    @property
    def encoding(self) -> Encoding | None:
        """From columns to features."""
        return self.survey.encoding

    def sample(self) -> Arrays:
        """Rows to start from: some, drawn at random."""
        return _arrays(self.survey, self.survey.sample, self.rows)

    def scaling(self) -> Scaling:
        """The standardisation of the features."""
        return self.survey.scaling

    def source(
        self, scaling: Scaling, batch_size: int, seed: int, dtype: torch.dtype, device: str
    ) -> StreamSource:
        """Batches for training."""
        return StreamSource(self.rows, self.survey, scaling, batch_size, seed, dtype, device)

    def digest(self) -> str:
        """Differs for different rows."""
        return self.survey.digest


Data = ArrayData | StreamData


def prepare(
    rows: Rows,
    class_weight: dict[Any, float] | str | None,
    seed: int,
    encoding: Encoding | None = None,
    batch_size: int = MINIBATCH,
) -> Data:
    """Rows for training: in memory if a batch or the shuffle buffer holds them, else as a stream.

    `encoding` is the one to use; by default it is made from the rows.
    """
    return _data(rows, survey(rows, class_weight, seed, encoding), batch_size)


def prepare_part(
    rows: Rows,
    share: float,
    class_weight: dict[Any, float] | str | None,
    seed: int,
    encoding: Encoding | None = None,
    batch_size: int = MINIBATCH,
) -> tuple[Data, ArrayData]:
    """As `prepare`, without a share of the rows; and at most `MEASURED` of those kept aside."""
    kept = Sample(seed, MEASURED)
    seen_once = Part(rows, share, seed, kept_aside=False, others=kept.add)
    found = survey(seen_once, class_weight, seed, encoding)
    if not len(kept):
        raise nothing_aside(share, rows.name)
    aside = ArrayData(*_arrays(found, kept.block(), rows), found.classes, found.encoding)
    return _data(Part(rows, share, seed, kept_aside=False), found, batch_size), aside


def split(data: ArrayData, share: float, seed: int) -> tuple[ArrayData, ArrayData]:
    """Rows in memory without a share of them; and at most `MEASURED` of those kept aside."""
    drawn = lots(seed).random(len(data.y))
    aside = drawn < share
    if not aside.any():
        raise nothing_aside(share, "X")
    if len(np.unique(data.y[~aside])) < 2:
        raise InvalidData(
            f"validation_fraction={share} leaves rows of one class only to learn from; "
            "lower it or give more rows."
        )
    measured = drawn <= np.sort(drawn[aside])[:MEASURED][-1]
    train, kept = (
        data._replace(X=data.X[where], y=data.y[where], weight=data.weight[where])
        for where in (~aside, measured)
    )
    return train, kept


def nothing_aside(share: float, name: str) -> InvalidData:
    """The complaint about a share of so few rows that it has none."""
    return InvalidData(
        f"validation_fraction={share} keeps no row of {name} aside; "
        "raise it, give more rows, or set it to 0."
    )


def _data(rows: Rows, found: Survey, batch_size: int) -> Data:
    n_bytes = 8 * found.n_kept * (len(found.scaling.mean) + 3)
    if found.n_kept > batch_size and n_bytes > stream.MEMORY:
        return StreamData(rows, found)
    X, y, weight = [], [], []
    for block in rows.blocks():
        features, signs, weights = _arrays(found, block, rows)
        kept = weights > 0
        X.append(features[kept])
        y.append(signs[kept])
        weight.append(weights[kept])
    if sum(map(len, X)) != found.n_kept:
        raise changed(rows, found)
    joined = (np.concatenate(X), np.concatenate(y), np.concatenate(weight))
    return ArrayData(*joined, found.classes, found.encoding)


def _arrays(found: Survey, block: Block, rows: Rows) -> Arrays:
    """The rows of a block as the survey says they are to be read."""
    if block.y is None:
        raise unlabelled(rows)
    signs = found.signs(block.y, rows.name)
    return found.features(block.X), signs, found.weights(block, signs)
