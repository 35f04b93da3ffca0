"""The pass over a stream that comes before training: labels, encoding, scaling and a sample."""

import hashlib
import json
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sepgp.data.encoding import Encoding, simple
from sepgp.data.rows import Block, Rows
from sepgp.data.scaling import Floats, Scaling
from sepgp.data.summary import Levels, Summary
from sepgp.errors import InvalidData, InvalidParameter

SAMPLE = 20_000
"""Rows in the sample."""


class Survey(NamedTuple):
    """What training has to know about a stream before it starts."""

    classes: NDArray[Any]
    """The two labels, sorted."""
    class_weight: Floats
    """A factor on the weight of each class, shape (2,)."""
    encoding: Encoding | None
    """None if the rows come as arrays."""
    scaling: Scaling
    """The standardisation of the features."""
    counts: NDArray[np.int_]
    """Rows in each piece."""
    n_kept: int
    """Rows of positive weight."""
    total_weight: float
    sample: Block
    """At most `SAMPLE` rows of positive weight, drawn at random, as they were read."""
    digest: str
    """Differs for other labels, counts and sums of the rows; not for another order in a piece."""

    def signs(self, y: NDArray[Any], name: str) -> Floats:
        """Labels as −1 and 1, shape (b,)."""
        signs = np.where(y == self.classes[1], 1.0, -1.0)
        known = (signs > 0) | (y == self.classes[0])
        if not known.all():
            raise InvalidData(
                f"{name} has the label {y[~known].tolist()[0]!r}, but the classes are "
                f"{self.classes.tolist()}; correct the label or drop the row."
            )
        return signs

    def weights(self, block: Block, signs: Floats) -> Floats:
        """Weights of a block's rows, shape (b,), with those of their classes."""
        factors: Floats = self.class_weight[(signs > 0).astype(int)]
        return block.weight * factors

    def features(self, X: pa.Table | NDArray[Any]) -> NDArray[Any]:
        """The features of rows, shape (b, d), not scaled."""
        return X if self.encoding is None else self.encoding.encode(X)


def survey(
    rows: Rows,
    class_weight: dict[Any, float] | str | None = None,
    seed: int = 0,
    encoding: Encoding | None = None,
) -> Survey:
    """Go over all rows once. Memory O(d) beside the sample. Cost O(nd).

    Sums are kept for each class apart, since weights of the classes may depend on how many rows
    they have. `encoding` is the one to use; by default it is made from the rows.
    """
    summaries: dict[Any, Summary] = {}
    totals: dict[Any, int] = {}
    labels: NDArray[Any] | None = None
    counts = np.zeros(rows.n_pieces, dtype=int)
    sample = Sample(seed)
    for piece in range(rows.n_pieces):
        for block in rows.read(piece):
            if not len(block):
                continue
            if block.y is None:
                raise unlabelled(rows)
            y, weight = block.y, block.weight
            if encoding is not None and isinstance(block.X, pa.Table):
                encoding.check(block.X.schema)
                block = replace(block, X=block.X.select(encoding.columns))
            counts[piece] += len(block)
            found = distinct(y, rows.name)
            labels = found if labels is None else _union(labels, found, rows.name)
            if len(labels) > 2:
                some = ", ".join(repr(label) for label in labels[:3].tolist())
                raise InvalidData(
                    f"Only binary classification is supported, and {rows.name} has "
                    f"{len(labels):,} labels within its first {counts.sum():,} rows ({some}"
                    f"{' and others' if len(labels) > 3 else ''}); choose two or merge them."
                )
            for label in found:
                where = y == label
                totals[label] = totals.get(label, 0) + int(where.sum())
                where &= weight > 0
                if where.any():
                    part = Summary.of(_filtered(block.X, where), weight[where])
                    summaries[label] = summaries[label] + part if label in summaries else part
            sample.add(block)
    if labels is None:
        raise InvalidData(f"{rows.name} has no rows; give a source that has some.")
    if len(labels) < 2:
        raise InvalidData(
            f"{rows.name} has rows of one class only ({labels.tolist()[0]!r}); "
            "a classifier needs rows of two classes."
        )
    if len(summaries) < 2:
        raise InvalidData(
            f"{rows.name} has rows of both classes, but weights of 0 for all rows of one; "
            "give both classes positive weight."
        )
    factors = _class_weights(class_weight, labels, totals)
    merged = summaries[labels[0]] * factors[0] + summaries[labels[1]] * factors[1]
    if encoding is None:
        encoding = merged.encoding()
    return Survey(
        labels,
        factors,
        encoding,
        merged.scaling(encoding),
        counts,
        merged.count,
        merged.total,
        sample.block(),
        _digest(counts, labels, summaries),
    )


def unlabelled(rows: Rows) -> InvalidData:
    """The complaint about rows without labels."""
    return InvalidData(
        f"{rows.name} has no labels; name their column by target, or give blocks (X, y)."
    )


def changed(rows: Rows, survey: Survey) -> InvalidData:
    """The complaint about rows that are not those of the survey any more."""
    return InvalidData(
        f"{rows.name} has not the {survey.counts.sum():,} rows that it had at first, or other "
        "weights; give the same rows at every reading."
    )


def distinct(y: NDArray[Any], name: str) -> NDArray[Any]:
    """The different labels among y, shape (b,), sorted."""
    try:
        return np.unique(y)
    except TypeError as error:
        raise InvalidData(
            f"{name} has labels that cannot be compared with each other; give all of them one type."
        ) from error


def _union(a: NDArray[Any], b: NDArray[Any], name: str) -> NDArray[Any]:
    texts = [array.dtype.kind in "OUS" for array in (a, b)]
    both = [array.astype(object) if any(texts) else array for array in (a, b)]
    return distinct(np.concatenate(both), name)


def _class_weights(
    given: dict[Any, float] | str | None, labels: NDArray[Any], totals: dict[Any, int]
) -> Floats:
    if given is None:
        return np.ones(2)
    if isinstance(given, str):  # "balanced"
        return np.array([sum(totals.values()) / (2 * totals[label]) for label in labels])
    unknown = [label for label in given if label not in totals]
    if unknown and not all(label in given for label in labels):
        raise InvalidParameter(
            f"class_weight has a weight for {unknown[0]!r}, but the classes are "
            f"{labels.tolist()}; name the classes as they are in the data."
        )
    factors = np.array([float(given.get(label, 1.0)) for label in labels])
    if (factors == 0).any():
        raise InvalidData(
            "class_weight leaves rows of one class only; give both classes positive weight."
        )
    return factors


def _filtered(X: pa.Table | NDArray[Any], where: NDArray[np.bool_]) -> Any:
    if isinstance(X, pa.Table):
        return X if where.all() else X.filter(pa.array(where))
    return np.ascontiguousarray(X[where], np.float64)


class Sample:
    """At most `SAMPLE` rows, those with the smallest of random keys: a uniform sample of a stream.

    Rows of weight zero are left out. `size` is another number of rows.
    """

    def __init__(self, seed: int, size: int | None = None) -> None:
        self._size = SAMPLE if size is None else size
        self._rng = np.random.default_rng((seed, 0))
        self._keys: list[Floats] = []
        self._blocks: list[Block] = []
        self._limit = 1.0

    def add(self, block: Block) -> None:
        """Let the rows of a block take part."""
        keys = self._rng.random(len(block))
        where = np.flatnonzero((keys < self._limit) & (block.weight > 0))
        if len(where):
            self._keys.append(keys[where])
            taken = block.take(where)
            if isinstance(taken.X, pa.Table):
                taken = replace(taken, X=simple(taken.X))
            self._blocks.append(taken)
        if len(self) > 4 * self._size:
            self._shrink()

    def __len__(self) -> int:
        return sum(map(len, self._keys))

    def block(self) -> Block:
        """The sample of all rows so far, of which there must be some."""
        self._shrink()
        return self._blocks[0]

    def _shrink(self) -> None:
        keys = np.concatenate(self._keys)
        kept = np.sort(np.argsort(keys)[: self._size])
        self._blocks = [_joined(self._blocks).take(kept)]
        self._keys = [keys[kept]]
        if len(kept) == self._size:
            self._limit = keys[kept].max()


def _joined(blocks: list[Block]) -> Block:
    """Blocks one after the other as one. Tables are `simple`, so that types differ by null only."""
    parts = [block.X for block in blocks]
    X = (
        pa.concat_tables(parts, promote_options="default")
        if isinstance(parts[0], pa.Table)
        else np.concatenate(parts)
    )
    y = np.concatenate([block.y for block in blocks if block.y is not None])
    return Block(X, y, np.concatenate([block.weight for block in blocks]))


def _digest(counts: NDArray[np.int_], labels: NDArray[Any], summaries: dict[Any, Summary]) -> str:
    text: list[Any] = [counts.tolist()]
    for label in labels:
        text.append([str(label), summaries[label].total])
        for part in summaries[label].parts:
            if isinstance(part, Levels):
                text.append([part.name, sorted(part.weight.items()), part.missing])
            else:
                text.append([part.mean.tolist(), part.squares.tolist(), part.missing.tolist()])
    return hashlib.sha256(json.dumps(text).encode()).hexdigest()
