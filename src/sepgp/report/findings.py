"""Everything that the report says, found in one pass over the rows."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sepgp.data.encoding import canonical
from sepgp.data.rows import Block
from sepgp.data.rows import Rows as Source
from sepgp.data.rows.base import joined, taken
from sepgp.data.sample import Sample
from sepgp.data.scaling import Floats
from sepgp.errors import InvalidData
from sepgp.evaluation.advice import advice
from sepgp.evaluation.confusion import Confusion
from sepgp.evaluation.metrics import Estimate, class_codes, metrics
from sepgp.evaluation.relevance import relevance
from sepgp.evaluation.tally import Tally
from sepgp.evaluation.two_classes import chance_of_calibration_error
from sepgp.evaluation.uncertainty import Uncertainty, uncertainty
from sepgp.model import Model
from sepgp.report.columns import Column, Rows, columns
from sepgp.report.dependence import DRAWS, Curve, Map, curve, decision_map, grid
from sepgp.report.posterior import draw

CURVES = 9
"""Columns whose curves are drawn."""
BACKGROUND = 300
"""Rows that a curve of two classes is averaged over; a map takes a quarter of them."""
SHOWN = 10
"""Rows in either list of uncertain rows."""


class UncertainRows(NamedTuple):
    """Rows that the model is unsure of, the most unsure first."""

    numbers: NDArray[np.int64]
    """Which rows of the data they are, counted from 1."""
    X: Rows
    y: NDArray[np.int64]
    """The numbers of their classes."""
    said: NDArray[np.int64]
    """Those of their most probable classes."""
    p: Floats
    """Probability of the second of two classes, or of the most probable of many."""
    parts: Uncertainty

    def first(self, by: str) -> "UncertainRows":
        """The `SHOWN` rows that have most of one kind of uncertainty."""
        where = np.argsort(-getattr(self.parts, by), kind="stable")[:SHOWN]
        X = taken(self.X, where)
        if isinstance(X, pa.Table):
            X = canonical(X)
        parts = Uncertainty(*(part[where] for part in self.parts))
        y, said = self.y[where], self.said[where]
        return UncertainRows(self.numbers[where], X, y, said, self.p[where], parts)


class Findings(NamedTuple):
    """What the page shows."""

    name: str
    """Of the data."""
    n_rows: int
    """Of positive weight."""
    weighted: bool
    """Whether rows have weights of their own."""
    scores: dict[str, Estimate]
    """As `sepgp evaluate` gives them."""
    chance: float
    """The calibration error that right probabilities would have here."""
    tally: Tally
    """Of the second of two classes, or of whether the most probable of many was right."""
    confusion: Confusion
    noise: float
    """Mean over all rows, in bits."""
    ignorance: float
    most_uncertain: UncertainRows
    most_ignorant: UncertainRows
    sample: Block
    relevance: dict[str, float]
    """The share of every column; empty if the kernel does not tell."""
    ranked: list[Column]
    """The columns, the most relevant first."""
    advice: str
    """What would help most."""
    curves: list[Curve]
    map: Map | None


def findings(
    model: Model, source: Source, progress: Callable[[int], None] | None = None
) -> Findings:
    """Go over all rows once, block by block, and look closer at a sample of them.

    `progress` is called after every block with the number of rows so far. Memory is that of a
    block, of the sample, and 8C + 24 bytes per row with C classes. Cost: a prediction per row and
    about 150,000 more (50,000 if C > 2), and the intervals of the scores.
    """
    seen = _Seen(model)
    for numbers, block in _labelled(model, source, progress):
        seen.add(numbers, block)
    if not seen.predictions:
        raise InvalidData(f"{source.name} has no rows of positive weight; give data that has some.")
    p, loss, codes, weight = map(np.concatenate, zip(*seen.predictions, strict=True))
    drawn = seen.sample.block()
    shares = relevance(model)
    ranked = sorted(columns(model), key=lambda column: -shares.get(column.name, 0.0))
    curves, map_ = _dependence(model, drawn, ranked)
    noise, ignorance = seen.bits / seen.tally.total
    return Findings(
        name=source.name,
        n_rows=len(codes),
        weighted=bool((weight != 1).any()),
        scores=metrics(p, loss, codes, weight),
        chance=chance_of_calibration_error(p[:, 1] if p.shape[1] == 2 else p.max(1), weight),
        tally=seen.tally,
        confusion=seen.confusion,
        noise=float(noise),
        ignorance=float(ignorance),
        most_uncertain=seen.first("total" if len(model.classes) == 2 else "noise"),
        most_ignorant=seen.first("ignorance"),
        sample=drawn,
        relevance=shares,
        ranked=ranked,
        advice=advice(model, drawn.X, float(noise), float(ignorance), shares),
        curves=curves,
        map=map_,
    )


def _labelled(
    model: Model, source: Source, progress: Callable[[int], None] | None
) -> Iterator[tuple[NDArray[np.int64], Block]]:
    """Blocks of the rows that have weight, with class numbers for labels, and the rows' numbers."""
    n_read = 0
    for block in source.blocks():
        where = np.flatnonzero(block.weight > 0)
        if len(where):
            kept = block if len(where) == len(block) else block.take(where)
            _check_width(model, source, kept)
            codes = class_codes(model.classes, kept.y, source.name)
            yield n_read + 1 + where, Block(model.schema.values(kept.X), codes, kept.weight)
        n_read += len(block)
        if progress is not None:
            progress(n_read)


class _Seen:
    """What is kept of the rows of all blocks."""

    def __init__(self, model: Model) -> None:
        self.model = model
        C, none = len(model.classes), np.empty(0, np.int64)
        self.sample = Sample(seed=0)
        self.tally = Tally.of(np.empty(0), none == 1, np.empty(0))
        self.confusion = Confusion.of(np.empty((0, C)), none, np.empty(0))
        self.bits = np.zeros(2)
        self.predictions: list[tuple[Floats, Floats, NDArray[np.int64], Floats]] = []
        self.uncertain: dict[str, list[UncertainRows]] = {}

    def add(self, numbers: NDArray[np.int64], block: Block) -> None:
        """Predict the rows of a block."""
        likelihood, codes, weight = self.model.likelihood, np.asarray(block.y), block.weight
        mean, variance = self.model.latent(block.X)
        probabilities = likelihood.probabilities(mean, variance)
        said = probabilities.argmax(1)
        if len(self.model.classes) == 2:
            p, event = probabilities[:, 1], codes == 1
            parts = uncertainty(mean, variance, p)
        else:
            p, event = probabilities[np.arange(len(said)), said], codes == said
            parts = uncertainty(mean, variance, probabilities)
        self.sample.add(block)
        self.tally = self.tally.plus(Tally.of(p, event, weight))
        self.confusion = self.confusion.plus(Confusion.of(probabilities, codes, weight))
        self.bits += [weight @ parts.noise, weight @ parts.ignorance]
        loss = -likelihood.log_probability(codes, mean, variance)
        self.predictions.append((probabilities, loss, codes, weight))
        rows = UncertainRows(numbers, block.X, codes, said, p, parts)
        for by in ("total", "noise", "ignorance"):
            self.uncertain.setdefault(by, []).append(rows.first(by))

    def first(self, by: str) -> UncertainRows:
        """The rows that have most of one kind of uncertainty."""
        numbers, X, *arrays, parts = zip(*self.uncertain[by], strict=True)
        codes, said, p = map(np.concatenate, arrays)
        both = Uncertainty(*map(np.concatenate, zip(*parts, strict=True)))
        return UncertainRows(np.concatenate(numbers), joined(X), codes, said, p, both).first(by)


def _dependence(model: Model, drawn: Block, ranked: list[Column]) -> tuple[list[Curve], Map | None]:
    """Curves of the first columns that have different values in a sample, and a map of two."""
    size = BACKGROUND if len(model.classes) == 2 else BACKGROUND // 3
    background = np.arange(len(drawn))[:: max(1, len(drawn) // size)][:size]
    behind, few_behind = drawn.take(background), drawn.take(background[::4])
    grids = {c.position: grid(drawn.X, c) for c in ranked[: 4 * CURVES]}
    moving = [c for c in ranked if len(grids.get(c.position, ())) > 1][:CURVES]
    draws = draw(model, DRAWS) if len(model.classes) == 2 else None
    map_ = None
    if len(moving) > 1:
        first, second, *_ = moving
        map_ = decision_map(model, few_behind.X, few_behind.weight, first, second, drawn.X)
    curves = [curve(model, draws, behind.X, behind.weight, c, grids[c.position]) for c in moving]
    return curves, map_


def _check_width(model: Model, source: Source, block: Block) -> None:
    width = block.X.num_columns if isinstance(block.X, pa.Table) else block.X.shape[1]
    if width != model.schema.n_columns:
        raise InvalidData(
            f"{source.name} has {width} columns besides the target, but the model was trained with "
            f"{model.schema.n_columns}; give the same columns."
        )
