"""How the probability changes when one or two columns take other values."""

from typing import NamedTuple

import numpy as np

from sepgp.data.rows.base import joined
from sepgp.data.scaling import Floats
from sepgp.model import Model
from sepgp.report.columns import Column, Rows, Value, levels, replaced, values
from sepgp.report.posterior import Draws, probabilities, unlearned

POINTS = {"number": 25, "time": 60}
"""Values of a column that a curve has at most; times have seasons."""
LEVELS = 12
"""Texts of a column that are shown."""
CELLS = 32
"""Values along one side of the map."""
DRAWS = 200
"""Functions from the posterior that a band is made of."""


class Curve(NamedTuple):
    """The probabilities at each value of a column, averaged over rows."""

    column: Column
    values: list[Value]
    """In ascending order, or texts from the most frequent down; what is missing comes last."""
    p: Floats
    """Of the second of two classes, shape (values,), or of all of many, shape (values, C)."""
    low: Floats
    """Lower end of the 90 % interval that the posterior gives to the average; with many classes
    it is the average itself."""
    high: Floats


class Map(NamedTuple):
    """The mean probabilities over the values of two columns, arrays of shape (ys, xs)."""

    x: Column
    y: Column
    xs: list[Value]
    ys: list[Value]
    p: Floats
    """Of the second of two classes, or of all of many, then of shape (ys, xs, C)."""
    unlearned: Floats
    """Mean of f's standard deviation over what it was before training."""


def grid(X: Rows, column: Column, even: int | None = None) -> list[Value]:
    """Values at which to look at a column: its quantiles, or the most frequent texts.

    With `even`, this many values at the same distances, where the column holds no text.
    """
    if column.kind == "text":
        return list(levels(X, column, LEVELS))
    known = values(X, column)
    chosen = np.unique(known[~np.isnan(known)])
    if len(chosen) > LEVELS and even is not None:
        low, high = np.nanquantile(known, [0.02, 0.98])
        chosen = np.linspace(low, high, even)
    elif len(chosen) > LEVELS:
        chosen = np.nanquantile(known, np.linspace(0.02, 0.98, POINTS[column.kind]))
    return [float(value) for value in np.unique(chosen)]


def curve(
    model: Model, draws: Draws | None, X: Rows, weight: Floats, column: Column, at: list[Value]
) -> Curve:
    """Partial dependence with n weighted rows X at some values. Cost: n predictions each.

    The band is that of the average, so it knows that f at one row says something of f at others.
    It needs draws of f, which are those of two classes.
    """
    if column.missing or None in at:  # which comes last
        at = [*(value for value in at if value is not None), None]
    rows = joined([replaced(X, column, value) for value in at])
    share = weight / weight.sum()
    p = _averages(model, rows, share)
    if draws is None:
        return Curve(column, at, p, p, p)
    drawn = share @ probabilities(model, draws, rows).reshape(len(at), len(share), -1)
    low, high = np.quantile(drawn, [0.05, 0.95], axis=1)
    return Curve(column, at, p, low, high)


def decision_map(model: Model, X: Rows, weight: Floats, x: Column, y: Column, sample: Rows) -> Map:
    """The mean over weighted rows X at each pair of values, chosen by a larger sample."""
    share = weight / weight.sum()
    xs, ys = (grid(sample, column, CELLS) for column in (x, y))
    p, left = [], []
    for value in ys:
        fixed = replaced(X, y, value)
        rows = joined([replaced(fixed, x, v) for v in xs])
        p.append(_averages(model, rows, share))
        left.append(unlearned(model, rows).reshape(len(xs), -1) @ share)
    return Map(x, y, xs, ys, np.array(p), np.array(left))


def _averages(model: Model, rows: Rows, share: Floats) -> Floats:
    """Averages over every len(share) rows: of the second class, shape (k,), or of all, (k, C)."""
    p = model.probabilities(rows)
    p = p.reshape(-1, len(share), p.shape[1])
    averages: Floats = np.einsum("kbc,b->kc", p, share)
    return averages[:, 1] if averages.shape[1] == 2 else averages
