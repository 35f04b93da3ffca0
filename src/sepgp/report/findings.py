"""Everything that the report says, found in one pass over the rows."""

from collections.abc import Callable
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
from sepgp.evaluation.metrics import Estimate, metrics, second_class
from sepgp.evaluation.relevance import relevance
from sepgp.evaluation.tally import Tally
from sepgp.evaluation.uncertainty import Uncertainty, uncertainty
from sepgp.model import Model
from sepgp.report.columns import Column, Rows, columns
from sepgp.report.dependence import DRAWS, Curve, Map, curve, decision_map, grid
from sepgp.report.posterior import draw

CURVES = 9
"""Columns whose curves are drawn."""
BACKGROUND = 300
"""Rows that a curve is averaged over; a map takes a quarter of them."""
SHOWN = 10
"""Rows in either list of uncertain rows."""


class UncertainRows(NamedTuple):
    """Rows that the model is unsure of, the most unsure first."""

    numbers: NDArray[np.int64]
    """Which rows of the data they are, counted from 1."""
    X: Rows
    y: NDArray[np.bool_]
    p: Floats
    """Probability of the second class."""
    parts: Uncertainty

    def first(self, by: str) -> "UncertainRows":
        """The `SHOWN` rows that have most of one kind of uncertainty."""
        where = np.argsort(-getattr(self.parts, by), kind="stable")[:SHOWN]
        X = taken(self.X, where)
        if isinstance(X, pa.Table):
            X = canonical(X)
        parts = Uncertainty(*(part[where] for part in self.parts))
        return UncertainRows(self.numbers[where], X, self.y[where], self.p[where], parts)


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
    tally: Tally
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
    curves: list[Curve]
    map: Map | None


def findings(
    model: Model, source: Source, progress: Callable[[int], None] | None = None
) -> Findings:
    """Go over all rows once, block by block, and look closer at a sample of them.

    `progress` is called after every block with the number of rows so far. Memory is that of a
    block, of the sample, and 25 bytes per row. Cost: a prediction per row and about 150,000 more,
    and the intervals of the scores.
    """
    tally, totals, n_read = Tally.of(np.empty(0), np.empty(0, bool), np.empty(0)), np.zeros(2), 0
    sample = Sample(seed=0)
    seen: list[tuple[Floats, NDArray[np.bool_], Floats]] = []
    uncertain: list[UncertainRows] = []
    ignorant: list[UncertainRows] = []
    for block in source.blocks():
        numbers = n_read + 1 + np.flatnonzero(block.weight > 0)
        n_read += len(block)
        if not len(numbers):
            continue
        if len(numbers) < len(block):
            block = block.take(np.flatnonzero(block.weight > 0))
        y, weight = second_class(model.classes, block.y, source.name), block.weight
        block = Block(block.X, y, weight)
        _check_width(model, source, block)
        mean, variance = model.latent(block.X)
        p = model.likelihood.probabilities(mean, variance)[:, 1]
        tally = tally.plus(Tally.of(p, y, weight))
        parts = uncertainty(mean, variance, p)
        totals += [weight @ parts.noise, weight @ parts.ignorance]
        sample.add(block)
        seen.append((model.likelihood.log_probabilities(mean, variance), y, weight))
        rows = UncertainRows(numbers, block.X, y, p, parts)
        uncertain.append(rows.first("total"))
        ignorant.append(rows.first("ignorance"))
        if progress is not None:
            progress(n_read)
    if not uncertain:
        raise InvalidData(f"{source.name} has no rows of positive weight; give data that has some.")
    log_p, y, weight = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    drawn = sample.block()
    shares = relevance(model)
    ranked = sorted(columns(model), key=lambda column: -shares.get(column.name, 0.0))
    curves, map_ = _dependence(model, drawn, ranked)
    return Findings(
        source.name,
        len(y),
        bool((weight != 1).any()),
        metrics(log_p, y, weight),
        tally,
        float(totals[0] / tally.total),
        float(totals[1] / tally.total),
        _joined(uncertain).first("total"),
        _joined(ignorant).first("ignorance"),
        drawn,
        shares,
        ranked,
        curves,
        map_,
    )


def _dependence(model: Model, drawn: Block, ranked: list[Column]) -> tuple[list[Curve], Map | None]:
    """Curves of the first columns that have different values in a sample, and a map of two."""
    background = np.arange(len(drawn))[:: max(1, len(drawn) // BACKGROUND)][:BACKGROUND]
    behind, few_behind = drawn.take(background), drawn.take(background[::4])
    grids = {c.position: grid(drawn.X, c) for c in ranked[: 4 * CURVES]}
    moving = [c for c in ranked if len(grids.get(c.position, ())) > 1][:CURVES]
    draws = draw(model, DRAWS)
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


def _joined(found: list[UncertainRows]) -> UncertainRows:
    numbers, X, y, p, parts = zip(*found, strict=True)
    both = (np.concatenate(part) for part in zip(*parts, strict=True))
    arrays = (np.concatenate(numbers), joined(X), np.concatenate(y), np.concatenate(p))
    return UncertainRows(*arrays, Uncertainty(*both))
