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
from sepgp.data.rows import Rows
from sepgp.data.scaling import Floats, Scaling, standardization
from sepgp.data.stream import StreamSource
from sepgp.data.survey import Survey, changed, survey, unlabelled

Sample = tuple[NDArray[Any], Floats, Floats]
"""Features of shape (k, d), labels −1 and 1 and weights, each of shape (k,)."""


class ArrayData(NamedTuple):
    """Rows in memory, all of positive weight."""

    X: NDArray[Any]
    """Features, shape (n, d), not scaled."""
    y: Floats
    weight: Floats
    classes: NDArray[Any]
    encoding: Encoding | None = None

    def sample(self) -> Sample:
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
    def classes(self) -> NDArray[Any]:
        """The two labels, sorted."""
        return self.survey.classes

    @property
    def encoding(self) -> Encoding | None:
        """From columns to features."""
        return self.survey.encoding

    def sample(self) -> Sample:
        """Rows to start from: some, drawn at random."""
        block = self.survey.sample
        assert block.y is not None
        signs = self.survey.signs(block.y, self.rows.name)
        return self.survey.features(block.X), signs, self.survey.weights(block, signs)

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
    found = survey(rows, class_weight, seed, encoding)
    n_bytes = 8 * found.n_kept * (len(found.scaling.mean) + 3)
    if found.n_kept > batch_size and n_bytes > stream.MEMORY:
        return StreamData(rows, found)
    X, y, weight = [], [], []
    for block in rows.blocks():
        if block.y is None:
            raise unlabelled(rows)
        signs = found.signs(block.y, rows.name)
        weights = found.weights(block, signs)
        kept = weights > 0
        X.append(found.features(block.X)[kept])
        y.append(signs[kept])
        weight.append(weights[kept])
    if sum(map(len, X)) != found.n_kept:
        raise changed(rows, found)
    joined = (np.concatenate(X), np.concatenate(y), np.concatenate(weight))
    return ArrayData(*joined, found.classes, found.encoding)
