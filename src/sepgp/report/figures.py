"""The figures of the report, each as an SVG drawing."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.data.scaling import Floats
from sepgp.evaluation.tally import Tally
from sepgp.report.columns import Column, Rows, Value, count, moment, number, said, values
from sepgp.report.dependence import Curve, Map
from sepgp.report.svg import Pair, Plot, shares, shortened, ticks

MOST_POINTS = 300
"""Of a line."""
DOTS = 250
"""Rows that are drawn on the map."""
SHADES = 21
"""Colours of a map."""
HISTOGRAM = 50
"""Bars to either side."""
FIRST_RECALL = 0.01
"""Below it precision is that of a handful of rows, and jumps."""


def learning_curve(history: Mapping[str, NDArray[Any]], n_rows: float) -> Plot:
    """Log evidence per row against the step: every step, and a running mean."""
    kept = np.isfinite(history["log_evidence"]) & ~history["rejected"].astype(bool)
    steps = history["iteration"][kept].astype(float)
    evidence = history["log_evidence"][kept] / n_rows
    sums = np.cumsum(np.append(0.0, evidence))
    ends = np.arange(1, len(steps) + 1)
    begins = np.maximum(ends - max(1, len(steps) // 25), 0)
    smooth = (sums[ends] - sums[begins]) / (ends - begins)
    low, high = np.quantile(evidence, [0.03, 1.0]) if len(steps) else (0.0, 1.0)
    room = 0.05 * (high - low)
    x, y = (0.0, steps[-1] if len(steps) else 1.0), (low - room, high + room)
    plot = Plot(x, y, "Log evidence per row against training steps", (380, 270), 64)
    plot.axes("step of training", "log evidence per row")
    few = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), MOST_POINTS)).astype(int))
    plot.line(zip(steps[few], np.clip(evidence, *plot.y)[few], strict=True), "faint")
    few = few[smooth[few] >= plot.y[0]]  # the first steps are far below
    plot.line(zip(steps[few], smooth[few], strict=True), "second")
    return plot


def reliability(tally: Tally, label: str) -> Plot:
    """What was stated against what was observed."""
    bins = tally.reliability()
    stated_name = f"stated probability of {shortened(label, 24)}"
    plot = _unit_square("Reliability diagram", stated_name, "observed share", 0, 1)
    for rows, stated, observed, low, high in zip(*bins, strict=True):
        plot.line([(stated, low), (stated, high)], "error")
        size = 2.5 + 6 * np.sqrt(rows / bins.rows.max())
        title = f"stated {stated:.1%}, observed {observed:.1%} of {count(rows)} rows"
        plot.dot(stated, observed, "second fill", round(float(size), 1), title)
    return plot


def roc(tally: Tally) -> Plot:
    """True against false positive rate."""
    plot = _unit_square("ROC curve", "false positive rate", "true positive rate", 0, 1)
    if all(tally.totals):
        _line_with_ring(plot, *tally.roc(), "at-roc")
    return plot


def precision_recall(tally: Tally) -> Plot:
    """Precision against recall."""
    first, second = tally.totals
    share = second / (first + second)
    plot = _unit_square("Precision and recall", "recall", "precision", share, share)
    if second:
        recall, precision = tally.precision_recall()
        seen = recall >= FIRST_RECALL
        _line_with_ring(plot, recall[seen], precision[seen], "at-pr")
    return plot


def _unit_square(label: str, xlabel: str, ylabel: str, begin: float, end: float) -> Plot:
    """A plot of shares with a dashed line from one height to another."""
    plot = Plot((0, 1), (0, 1), label, size=(380, 330), left=54)
    plot.axes(xlabel, ylabel, shares(), shares())
    plot.line([(0, begin), (1, end)], "ideal")
    return plot


def _line_with_ring(plot: Plot, x: Floats, y: Floats, name: str) -> None:
    """A line of at most about `MOST_POINTS` points, and a ring that the page's script moves."""
    cells = np.round(np.column_stack([x, y]) * MOST_POINTS / 2)
    seen = np.append(True, np.diff(cells, axis=0).any(1))
    seen[-1] = True
    plot.line(zip(x[seen], y[seen], strict=True), "second")
    plot.add(f'<circle id="{name}" class="marker" cx="-9" cy="-9" r="6" {plot.sides}/>')


def histogram(tally: Tally, classes: tuple[str, str]) -> Plot:
    """How often each probability is stated: the second class upwards, the first downwards."""
    first, second = tally.histogram(HISTOGRAM) / tally.total
    highest = 1.08 * max(first.max(), second.max())
    plot = Plot((0, 1), (-highest, highest), "Histogram of probabilities", (380, 210), 54)
    yticks = [(v, f"{100 * abs(v):g} %") for v, _ in ticks(-highest, highest, 5)]
    plot.axes("stated probability", "share of rows", shares(), yticks)
    for k, (down, up) in enumerate(zip(first, second, strict=True)):
        x = (k + 0.08) / HISTOGRAM, (k + 0.92) / HISTOGRAM
        if up:
            plot.box(x, (0, up), "second fill")
        if down:
            plot.box(x, (-down, 0), "first fill")
    plot.line([(0, 0), (1, 0)], "zero")
    middle = f"M{plot.px(0.5):.1f} {plot.top}V{plot.bottom}"
    plot.add(f'<path id="cut" class="cut" d="{middle}" {plot.sides}/>')
    plot.text(plot.right, plot.top + 10, shortened(classes[1], 30), "key second", "end")
    plot.text(plot.right, plot.bottom - 5, shortened(classes[0], 30), "key first", "end")
    return plot


def dependences(curves: list[Curve]) -> list[Plot]:
    """The curves of columns with their bands, all to the same scale."""
    highest = max((float(curve.high.max()) for curve in curves), default=0.0)
    top = next(top for top in (0.1, 0.2, 0.3, 0.5, 0.75, 1.0) if highest <= top)
    return [(_levels if c.column.kind == "text" else _dependence)(c, top) for c in curves]


def _dependence(curve: Curve, top: float) -> Plot:
    """A line over numbers or times; what is missing stands beside it."""
    xs = [float(value) for value in curve.values if value is not None]
    missing = list(range(len(xs), len(curve.values)))
    name = shortened(curve.column.name, 34)
    low, high = xs[0], xs[-1]
    room = (high - low) * (0.26 if missing else 0.0)
    plot = Plot((low, high + room), (0, top), f"Dependence on {name}", (280, 190), 42, 38)
    if len(xs) <= 4 and curve.column.kind == "number":
        xticks = [(x, number(x)) for x in xs]
    else:  # a date at the end would run into "missing"
        whole = not missing or curve.column.kind != "time"
        xticks = _value_ticks(curve.column, low, high if whole else low + 0.72 * (high - low))
    plot.axes(name, "", xticks, shares(top, _share_step(top)))
    if len(xs) > 1:
        plot.area(zip(xs, curve.high, strict=False), zip(xs, curve.low, strict=False), "band")
    plot.line(zip(xs, curve.p, strict=False), "second")
    if len(xs) <= 12:
        for i, x in enumerate(xs):
            plot.dot(x, curve.p[i], "second fill", 2.5, _says(curve, i))
    for i in missing:
        x = high + 0.6 * room
        plot.line([(x, curve.low[i]), (x, curve.high[i])], "error")
        plot.dot(x, curve.p[i], "second fill", 3.5, _says(curve, i))
        plot.text(plot.px(x), plot.bottom + 15, "missing")
    return plot


def _levels(curve: Curve, top: float) -> Plot:
    """One line per text, from the most frequent down."""
    n = len(curve.values)
    name = shortened(curve.column.name, 34)
    size = (280, max(190, 18 * n + 60))
    plot = Plot((0, top), (n - 0.4, -0.6), f"Dependence on {name}", size, 108, 38)
    yticks = [(float(i), _level(curve.column, v)) for i, v in enumerate(curve.values)]
    plot.axes(name, "", shares(top, 2 * _share_step(top)), yticks)
    for i in range(n):
        plot.line([(curve.low[i], i), (curve.high[i], i)], "error wide")
        plot.dot(curve.p[i], i, "second fill", 4, _says(curve, i))
    return plot


def decision_map(found: Map, amount: Floats, scale: Pair, style: str) -> Plot:
    """The plane of two columns with an amount, shape (ys, xs), in shades between two numbers."""
    x, y = found.x, found.y
    x_edges, y_edges = _edges(x, found.xs), _edges(y, found.ys)
    names = [shortened(column.name, 40) for column in (x, y)]
    left = {"text": 102, "time": 84, "number": 58}[y.kind]
    bottom = 84 if x.kind == "text" else 40
    ends = (x_edges[0], x_edges[-1]), (y_edges[0], y_edges[-1])
    plot = Plot(*ends, f"Map of {names[0]} and {names[1]}", (380, 300 + bottom), left, bottom)
    xticks = [] if x.kind == "text" else _value_ticks(x, *plot.x, most=5)
    if y.kind == "text":
        plot.axes(names[0], "", xticks, [(i, _level(y, v)) for i, v in enumerate(found.ys)])
    else:
        plot.axes(names[0], names[1], xticks, _value_ticks(y, *plot.y, most=5))
    if x.kind == "text":
        for i, value in enumerate(found.xs):
            plot.text(plot.px(i) + 4, plot.bottom + 10, _level(x, value), anchor="end", turn=-40)
    low, high = scale
    shades = np.clip((amount - low) / (high - low) * SHADES, 0, SHADES - 1).astype(int)
    for row, band in zip(shades, pairwise(y_edges), strict=True):
        # Neighbours of one shade are one box.
        for begin, end in pairwise([0, *(np.flatnonzero(np.diff(row)) + 1), len(row)]):
            plot.box((x_edges[begin], x_edges[end]), band, f"cell {style}{row[begin]}")
    return plot


def with_rows(plot: Plot, found: Map, X: Rows, second: NDArray[Any]) -> Plot:
    """The map with some of the rows in the colours of their classes, where there is no text."""
    if "text" in (found.x.kind, found.y.kind):
        return plot
    step = max(1, len(second) // DOTS)
    x, y, second = values(X, found.x)[::step], values(X, found.y)[::step], second[::step]
    inside = (x >= plot.x[0]) & (x <= plot.x[1]) & (y >= plot.y[0]) & (y <= plot.y[1])
    for i in np.flatnonzero(inside):
        plot.dot(x[i], y[i], f"row {'second' if second[i] else 'first'} fill", 2.2)
    return plot


def round_ends(amount: Floats) -> Pair:
    """Tenths around all of some shares, for the scale of a map."""
    low, high = math.floor(10 * amount.min()) / 10, math.ceil(10 * amount.max()) / 10
    return low, max(high, low + 0.1)


def _edges(column: Column, at: list[Value]) -> Floats:
    """The borders of cells around values."""
    if column.kind == "text":
        return np.arange(len(at) + 1, dtype=np.float64) - 0.5
    known = np.array(at, np.float64)
    middle = (known[1:] + known[:-1]) / 2
    return np.array([2 * known[0] - middle[0], *middle, 2 * known[-1] - middle[-1]])


def _level(column: Column, value: Value) -> str:
    return shortened(said(column, value), 14)


def _says(curve: Curve, i: int) -> str:
    interval = f"{curve.low[i]:.1%} to {curve.high[i]:.1%}"
    return f"{said(curve.column, curve.values[i])}: {curve.p[i]:.1%} ({interval})"


def _value_ticks(column: Column, low: float, high: float, most: int = 4) -> list[tuple[float, str]]:
    if column.kind != "time":
        return ticks(low, high, most) if high > low else [(low, number(low))]
    places = np.linspace(low, high, 2 if most < 5 else 3)
    return [(float(v), moment(v)[:10]) for v in places]


def _share_step(top: float) -> float:
    return 0.25 if top > 0.3 else 0.1 if top > 0.1 else 0.05
