"""The pass over a stream that comes before training: labels, encoding, scaling and a sample."""

import functools
import hashlib
import json
import math
import operator
from collections.abc import Collection, Generator
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sepgp.data import checks
from sepgp.data.columns.texts import AS_FOUND, Choices, Meanings, Texts
from sepgp.data.columns.verdict import Note, may_be_levels
from sepgp.data.encoding import Encoding
from sepgp.data.label_means import Learned, label_means, prior_strength
from sepgp.data.level_counts import LevelCounts
from sepgp.data.prefetch import prefetch
from sepgp.data.rows.base import Block, Rows
from sepgp.data.sample import Sample
from sepgp.data.scaling import Floats, Scaling
from sepgp.data.summary import Summary, meanings
from sepgp.errors import InvalidData, InvalidParameter

MOST_LABELS = 32
"""With more classes levels have no label means: there is one for each class but the first."""
AHEAD = 2
"""Blocks that are read while an earlier one is looked at."""
Arrays = tuple[NDArray[Any], NDArray[np.int64], Floats]
"""Features of shape (k, d), class numbers and weights, each of shape (k,)."""


class Survey(NamedTuple):
    """What training has to know about a stream before it starts."""

    classes: NDArray[Any]
    """The labels, sorted, shape (C,)."""
    class_weight: Floats
    """A factor on the weight of each class, shape (C,)."""
    encoding: Encoding | None
    """None if the rows come as arrays."""
    training: Encoding | None
    """The same for the rows that it was learned from, whose folds are known."""
    scaling: Scaling
    """The standardisation of the features."""
    counts: NDArray[np.int_]
    """Rows in each piece."""
    n_kept: int
    """Rows of positive weight."""
    total_weight: float
    sample: Block
    """Some rows of positive weight, drawn at random, as they were read."""
    notes: list[Note]
    """What to say about columns."""
    digest: str
    """Differs for other labels, counts and sums of the rows; not for another order in a piece."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.counts.sum())

    def codes(self, y: NDArray[Any] | None, name: str) -> NDArray[np.int64]:
        """Labels as class numbers 0 … C−1, shape (b,)."""
        return checks.class_codes(checks.labelled(y, name), self.classes, name)

    def arrays(self, block: Block, name: str) -> Arrays:
        """The rows of a block, not scaled, with the weights of their classes in theirs."""
        encoding = self.encoding if block.fold is None else self.training
        X = block.X if encoding is None else encoding.encode(block.X, block.fold)
        codes = self.codes(block.y, name)
        return X, codes, block.weight * self.class_weight[codes]


class _Classes:
    """Rows by their labels: how many, and what the summary of those of positive weight is."""

    def __init__(self, name: str, as_text: Collection[str]) -> None:
        self._name, self._as_text = name, as_text
        self._labels: NDArray[Any] | None = None
        self.counts: dict[Any, int] = {}
        self.summaries: dict[Any, Summary] = {}
        self._meanings: dict[str, Meanings | None] = {}
        """Of the texts of the last block, which those of the next one are like."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_meanings": {}}  # workers send what they have seen, not how

    def add(self, block: Block) -> None:
        """Add the rows of a block."""
        y = checks.labelled(block.y, self._name)
        found = checks.distinct(y, self._name)
        known = found if self._labels is None else _union(self._labels, found, self._name)
        checks.several_classes(known, self._name, sum(self.counts.values()) + len(block))
        self._labels = known
        self._meanings = meanings(block.X, self._as_text, self._meanings)
        for label in found:
            where = y == label
            self.counts[label] = self.counts.get(label, 0) + int(where.sum())
            where &= block.weight > 0
            if where.any():
                rows, weight = _filtered(block.X, where), block.weight[where]
                part = Summary.of(rows, weight, self._as_text, self._meanings)
                before = self.summaries.get(label)
                self.summaries[label] = part if before is None else before + part

    def merge(self, other: "_Classes") -> None:
        """Add the rows that another one has seen."""
        if other._labels is None:
            return
        known = other._labels
        if self._labels is not None:
            known = _union(self._labels, known, self._name)
        checks.several_classes(known, self._name, sum((self.counts | other.counts).values()))
        self._labels = known
        for label, count in other.counts.items():
            self.counts[label] = self.counts.get(label, 0) + count
        for label, part in other.summaries.items():
            before = self.summaries.get(label)
            self.summaries[label] = part if before is None else before + part

    def levelled(self) -> list[str]:
        """Text columns whose texts may be levels, as most that were met are no quantities."""
        parts: dict[str, list[Texts]] = {}
        for summary in self.summaries.values():
            for (name, _), part in zip(summary.columns or (), summary.parts, strict=False):
                if isinstance(part, Texts):
                    parts.setdefault(name, []).append(part)
        return [name for name, found in parts.items() if may_be_levels(found)]

    def labels(self) -> NDArray[Any]:
        """All labels, sorted, shape (C,)."""
        if self._labels is None:
            raise InvalidData(f"{self._name} has no rows; give a source that has some.")
        checks.several_classes(self._labels, self._name, n_rows=sum(self.counts.values()))
        checks.warn_of_single(self.counts, self._name)
        weighted = [code for code, c in enumerate(self._labels) if c in self.summaries]
        checks.every_class(np.array(weighted, int), self._labels, f"The weight in {self._name}")
        return self._labels


class Findings:
    """What was seen of some rows so far; those of several parts of the rows can be merged.

    Sums are kept for each class apart, since weights of the classes may depend on how many rows
    they have. `encoding` is the one to use; by default it is made from the rows and the choices.
    Other parts have other numbers of their `stream`. Memory O(Cd) beside the sample.
    """

    def __init__(
        self,
        name: str,
        seed: int = 0,
        encoding: Encoding | None = None,
        choices: Choices = AS_FOUND,
        stream: int = 0,
    ) -> None:
        self._encoding, self._choices = encoding, choices
        self._by_class = _Classes(name, read_as_text(choices, encoding))
        self._levels = LevelCounts()
        self._sample, self._stream = Sample(seed, stream=stream), stream
        self._counts: dict[int, int] = {}

    def add(self, piece: int, block: Block) -> None:
        """Add the rows of a block of a piece. Cost O(bd)."""
        if not len(block):
            return
        if self._encoding is not None and isinstance(block.X, pa.Table):
            self._encoding.check(block.X)
            block = replace(block, X=block.X.select(self._encoding.columns))
        block = block.learned_from(sum(self._counts.values()), self._stream)
        self._counts[piece] = self._counts.get(piece, 0) + len(block)
        self._by_class.add(block)
        if isinstance(block.X, pa.Table):
            self._levels.add(block, self._levelled & {*block.X.column_names})
        self._sample.add(block)

    @property
    def _levelled(self) -> set[str]:
        """Columns whose levels are counted."""
        if self._encoding is not None:
            return {*self._encoding.by_label}
        chosen = self._choices.read
        by_choice = {name for name, kind in chosen.items() if kind == "text"}
        return by_choice | ({*self._by_class.levelled()} - chosen.keys())

    def merge(self, other: "Findings") -> None:
        """Add what was seen of other pieces."""
        self._counts |= other._counts
        self._by_class.merge(other._by_class)
        self._levels.merge(other._levels)
        self._sample.merge(other._sample)

    def survey(self, n_pieces: int, class_weight: dict[Any, float] | str | None = None) -> Survey:
        """What follows from the rows of all pieces."""
        encoding, notes = self._encoding, list[Note]()
        labels = self._by_class.labels()
        summaries = [self._by_class.summaries[label] for label in labels]
        factors = class_factors(class_weight, labels, self._by_class.counts)
        total = functools.reduce(operator.add, map(operator.mul, summaries, factors))
        if encoding is None:
            encoding, notes = total.encoding(self._choices, len(labels) <= MOST_LABELS)
        learned = self._learned(encoding, total, labels, factors)
        training = encoding
        if encoding is not None and learned:
            training = encoding.with_means({name: m.by_fold for name, m in learned.items()})
            if self._encoding is None:
                encoding = encoding.with_means({name: m.of_all for name, m in learned.items()})
        counts = np.array([self._counts.get(piece, 0) for piece in range(n_pieces)], dtype=int)
        return Survey(
            labels,
            factors,
            encoding,
            training,
            total.scaling(encoding, {name: m.facets for name, m in learned.items()}),
            counts,
            total.count,
            float(total.total),
            self._sample.block(),
            notes,
            _digest(counts, labels, summaries, encoding),
        )

    def _learned(
        self, encoding: Encoding | None, total: Summary, labels: NDArray[Any], factors: Floats
    ) -> dict[str, Learned]:
        """Label means of the columns that have more levels than are told apart.

        Where the encoding is given, its label means are of rows that may be these: then all rows
        of training have those of other folds of theirs.
        """
        found = {}
        more = total.more_levels(encoding) if self._encoding is None else self._levelled
        for name in more if len(labels) <= MOST_LABELS else ():
            levels = self._levels.by_class(name, labels)
            if levels is None:
                continue
            keys, weight, bits = levels
            # Rows of a weight of 1 on average, of which the strength of the prior is a number.
            weight = weight * factors * (total.count / total.total)
            strength = prior_strength(weight.sum(1))
            if math.isfinite(strength) or self._encoding is not None:
                missing = total.missing(name) * total.count / total.total
                found[name] = label_means((keys, weight, bits), labels, missing, strength)
        return found


def survey(
    rows: Rows,
    class_weight: dict[Any, float] | str | None = None,
    seed: int = 0,
    encoding: Encoding | None = None,
    choices: Choices = AS_FOUND,
) -> Survey:
    """Go over all rows once. Memory O(Cd) beside the sample and some blocks. Cost O(nd).

    Files and arrays are read ahead, in another thread. A function of the user's may need this one.
    """
    found, blocks = Findings(rows.name, seed, encoding, choices), _blocks(rows)
    with closing(prefetch(blocks, AHEAD) if rows.splittable else blocks) as ahead:
        for piece, block in ahead:
            found.add(piece, block)
    return found.survey(rows.n_pieces, class_weight)


def _blocks(rows: Rows) -> Generator[tuple[int, Block]]:
    for piece in range(rows.n_pieces):
        for block in rows.read(piece):
            yield piece, block


def read_as_text(choices: Choices, encoding: Encoding | None) -> set[str]:
    """Columns of numbers that are read as text or dates."""
    if encoding is not None:
        return {e.name for e in encoding.encoders if getattr(e, "of_numbers", False)}
    return {name for name, kind in choices.read.items() if kind in ("text", "date")}


def _union(a: NDArray[Any], b: NDArray[Any], name: str) -> NDArray[Any]:
    texts = [labels.dtype.kind in "OUS" for labels in (a, b)]
    both = [labels.astype(object) if any(texts) else labels for labels in (a, b)]
    return checks.distinct(np.concatenate(both), name)


def class_factors(
    given: dict[Any, float] | str | None, labels: NDArray[Any], counts: dict[Any, int]
) -> Floats:
    """The weights of classes, by the number of rows that each label has: shape (C,)."""
    if given is None:
        return np.ones(len(labels))
    if isinstance(given, str):  # "balanced"
        n_rows = sum(counts.values())
        return np.array([n_rows / (len(labels) * counts[label]) for label in labels])
    unknown = [label for label in given if label not in counts]
    if unknown and not all(label in given for label in labels):
        raise InvalidParameter(
            f"class_weight has a weight for {unknown[0]!r}, but the classes are "
            f"{labels.tolist()}; name the classes as they are in the data."
        )
    factors = np.array([float(given.get(label, 1.0)) for label in labels])
    checks.every_class(np.flatnonzero(factors), labels, "class_weight")
    return factors


def _filtered(X: pa.Table | NDArray[Any], where: NDArray[np.bool_]) -> Any:
    if isinstance(X, pa.Table):
        return X if where.all() else X.filter(pa.array(where))
    return np.ascontiguousarray(X[where], np.float64)


def _digest(
    counts: NDArray[np.int_],
    labels: NDArray[Any],
    summaries: list[Summary],
    encoding: Encoding | None,
) -> str:
    text: list[Any] = [counts.tolist(), None if encoding is None else encoding.to_json()]
    for label, summary in zip(labels, summaries, strict=True):
        text.append([str(label), summary.total, *(part.facts() for part in summary.parts)])
    return hashlib.sha256(json.dumps(text).encode()).hexdigest()
