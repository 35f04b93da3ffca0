"""Rows that are ready for training: checked, with class numbers, in memory or as a stream."""

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from sepgp.data import checks, stream_source
from sepgp.data.array_source import ArraySource
from sepgp.data.batches import MINIBATCH, Batching
from sepgp.data.columns.texts import AS_FOUND, Choices
from sepgp.data.columns.verdict import Note
from sepgp.data.encoding import Encoding, text
from sepgp.data.moments import resistant, standardization
from sepgp.data.rows.base import Block, Rows
from sepgp.data.rows.cached import CachedRows
from sepgp.data.rows.checked import CheckedRows
from sepgp.data.sample import Sample
from sepgp.data.scaling import Floats, Scaling
from sepgp.data.split import Draw, SplitRows, held_out_share
from sepgp.data.stream_source import StreamSource
from sepgp.data.subset import Subset
from sepgp.data.survey import Arrays, Survey, survey
from sepgp.errors import InvalidData
from sepgp.means import Halves

MEASURED = 10_000
"""Rows held out that the model is measured on during training."""


class ArrayData(NamedTuple):
    """Rows in memory, all of positive weight."""

    X: NDArray[Any]
    """Features, shape (n, d), not scaled."""
    y: NDArray[np.int64]
    """Class numbers 0 … C−1, shape (n,)."""
    weight: Floats
    classes: NDArray[Any]
    """The labels, sorted, shape (C,)."""
    encoding: Encoding | None = None
    score: Floats | None = None
    """What a classifier says of the rows, shape (n,), or (n, C): see `sepgp.means`."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.y)

    def sample(self) -> Arrays:
        """Rows to start from: all of them."""
        return self.X, self.y, self.weight

    def take(self, where: NDArray[Any] | slice) -> "ArrayData":
        """Some of the rows."""
        score = None if self.score is None else self.score[where]
        rows = self.X[where], self.y[where], self.weight[where]
        return ArrayData(*rows, self.classes, self.encoding, score)

    def scaling(self) -> Scaling:
        """The standardisation of the features."""
        return resistant(standardization(self.X, self.weight), self.X)

    def source(self, how: Batching) -> ArraySource:
        """Batches for training."""
        return ArraySource(self.X, self.y, self.weight, how, self.score)

    def digest(self) -> str:
        """Differs for different rows. Cost O(nd)."""
        total = hashlib.sha256(repr((self.X.shape, self.classes.tolist())).encode())
        for begin in range(0, len(self.y), 65_536):
            part = slice(begin, begin + 65_536)
            # Classes by odd numbers, −1 and 1 if there are two, as in files of earlier versions.
            for array in (self.X[part], 2.0 * self.y[part] - 1, self.weight[part]):
                total.update(np.ascontiguousarray(array, np.float64).data)
        return total.hexdigest()


@dataclass(frozen=True)
class Surveyed:
    """Rows of which nothing is here but what one pass over them found."""

    name: str
    """What messages call them."""
    survey: Survey

    n_rows = property(attrgetter("survey.n_rows"))
    classes = property(attrgetter("survey.classes"))
    encoding = property(attrgetter("survey.encoding"))

    def sample(self) -> Arrays:
        """Rows to start from: some, drawn at random."""
        return self.survey.arrays(self.survey.sample, self.name)

    def scaling(self) -> Scaling:
        """The standardisation of the features."""
        return resistant(self.survey.scaling, self.sample()[0])

    def digest(self) -> str:
        """Differs for different rows."""
        return self.survey.digest


@dataclass(frozen=True)
class StreamData(Surveyed):
    """Rows that are read anew in every epoch."""

    rows: Rows
    scorer: Halves | None = None
    """Who scores the rows, where a classifier gives a prior mean."""

    def source(self, how: Batching) -> StreamSource:
        """Batches for training."""
        return StreamSource(self.rows, self.survey, how, self.scorer)

    def take(
        self, chosen: Callable[[NDArray[np.int64]], NDArray[np.bool_]]
    ) -> tuple[NDArray[Any], NDArray[np.int64], Floats, NDArray[np.int64]]:
        """The rows of positive weight that are chosen by their numbers, and these. Cost O(nd)."""
        begin, parts = 0, []
        for block in self.rows.blocks():
            numbers = np.arange(begin, begin + len(block))
            block = block.learned_from(begin)
            begin += len(block)
            where = np.flatnonzero(chosen(numbers))
            X, y, weight = self.survey.arrays(block.take(where), self.name)
            kept = weight > 0
            parts.append((X[kept], y[kept], weight[kept], numbers[where[kept]]))
        X, y, weight, numbers = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return X, y, weight, numbers


Data = ArrayData | StreamData


def prepare(
    rows: Rows,
    class_weight: dict[Any, float] | str | None,
    seed: int,
    encoding: Encoding | None = None,
    batch_size: int = MINIBATCH,
    fraction: float | str = 0.0,
    choices: Choices = AS_FOUND,
    in_order: bool = False,
) -> tuple[Data, ArrayData | None]:
    """Rows for training, without a fraction of them; and at most `MEASURED` of those held out.

    They are in memory if a batch or the shuffle buffer holds them, else a stream. `encoding` is
    the one to use; by default it is made from the rows. `fraction`: see `held_out_share`.
    Which rows are held out, and whose labels a label mean leaves out, goes by their places, so a
    stream must then have the same order in every reading; and where it has to be `in_order`.
    """
    share = held_out_share(fraction, rows.n_rows, batch_size)
    checked = CheckedRows(rows, in_order or share > 0)
    sample, rows = Sample(seed, MEASURED), checked
    cached = CachedRows(rows, stream_source.MEMORY)

    def training(rows: Rows, others: Callable[[Block], None] | None = None) -> Rows:
        return SplitRows(rows, share, seed, False, others) if share else rows

    found = survey(training(cached, sample.add), class_weight, seed, encoding, choices)
    if found.encoding is not None and found.encoding.by_label:
        checked.in_order = True
    for note in found.notes:
        warnings.warn(note.sentence(_row_of(cached, note)), stacklevel=2)
    held_out = None
    if share:
        if not len(sample):
            raise nothing_held_out(share, rows.name)
        arrays = found.arrays(sample.block(), rows.name)
        held_out = ArrayData(*arrays, found.classes, found.encoding)
    n_bytes = 8 * found.n_kept * (len(found.scaling.mean) + 3)
    if found.n_kept <= batch_size or n_bytes <= stream_source.MEMORY:
        return _in_memory(training(cached), found), held_out
    return StreamData(rows.name, found, training(rows)), held_out


def split(data: ArrayData, share: float, seed: int) -> tuple[ArrayData, ArrayData]:
    """Rows in memory without a share of them; and at most `MEASURED` of those held out."""
    held_out = Draw(share, seed).held_out(data.y)
    if not held_out.any():
        raise nothing_held_out(share, "X")
    what, remedy = f"validation_fraction={share}", "lower it or give more rows"
    checks.every_class(data.y[~held_out], data.classes, what, remedy)
    measured = np.flatnonzero(held_out)
    if len(measured) > MEASURED:
        chosen = np.random.default_rng((seed, 2)).choice(measured, MEASURED, replace=False)
        measured = np.sort(chosen)
    kept = np.flatnonzero(~held_out)
    X: Any = Subset(data.X, kept)  # a copy would take as much memory as all rows
    return data._replace(X=X, y=data.y[kept], weight=data.weight[kept]), data.take(measured)


def nothing_held_out(share: float, name: str) -> InvalidData:
    """The complaint about a share of so few rows that it has none."""
    return InvalidData(
        f"validation_fraction={share} holds out no row of {name}; "
        "raise it, give more rows, or set it to 0."
    )


def _row_of(rows: Rows, note: Note) -> int | None:
    """The row of the text that a note is about, counted from 1."""
    begin = 0
    for block in rows.blocks():
        where = pc.index(text(block.X[note.column]), note.example).as_py()
        if where >= 0:
            return int(begin + where + 1)
        begin += len(block)
    return None


def _in_memory(rows: Rows, found: Survey) -> ArrayData:
    begin, parts = 0, []
    for block in rows.blocks():
        arrays = found.arrays(block.learned_from(begin), rows.name)
        begin += len(block)
        kept = arrays[2] > 0
        parts.append(tuple(array[kept] for array in arrays))
    if sum(len(y) for _, y, _ in parts) != found.n_kept:
        raise checks.changed_rows(rows.name, found.n_rows)
    X, y, weight = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return ArrayData(X, y, weight, found.classes, found.encoding)
