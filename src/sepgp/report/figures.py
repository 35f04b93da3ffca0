"""The figures of the report, each as an SVG drawing."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.data.scaling import Floats
from sepgp.evaluation.tally import Tally
from sepgp.report.columns import Column, Rows, count, moment, number, values
from sepgp.report.dependence import Curve, Map, Value
from sepgp.report.svg import Plot, shares, shortened, ticks

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
    plot = Plot(x, y, "Log evidence per row against training steps", left=64)
    plot.axes("step of training", "log evidence per row")
    few = _thinned(len(steps))
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
        plot.line(_thin_line(*tally.roc()), "second")
        plot.add(_marker(plot, "roc"))
    return plot


def precision_recall(tally: Tally) -> Plot:
    """Precision against recall."""
    first, second = tally.totals
    share = second / (first + second)
    plot = _unit_square("Precision and recall", "recall", "precision", share, share)
    if second:
        recall, precision = tally.precision_recall()
        seen = recall >= FIRST_RECALL
        plot.line(_thin_line(recall[seen], precision[seen]), "second")
        plot.add(_marker(plot, "pr"))
    return plot


def _unit_square(label: str, xlabel: str, ylabel: str, begin: float, end: float) -> Plot:
    """A plot of shares with a dashed line from one height to another."""
    plot = Plot((0, 1), (0, 1), label, size=(380, 330), left=54)
    plot.axes(xlabel, ylabel, shares(), shares())
    plot.line([(0, begin), (1, end)], "ideal")
    return plot


def histogram(tally: Tally, classes: tuple[str, str]) -> Plot:
    """How often each probability is stated: the second class upwards, the first downwards."""
    first, second = tally.histogram(HISTOGRAM) / tally.total
    highest = 1.08 * max(first.max(), second.max())
    plot = Plot((0, 1), (-highest, highest), "Histogram of probabilities", (380, 210), 54)
    yticks = [(v, name.lstrip("-")) for v, name in _percent(ticks(-highest, highest, 5))]
    plot.axes("stated probability", "share of rows", shares(), yticks)
    for k in range(HISTOGRAM):
        x = (k + 0.08) / HISTOGRAM, (k + 0.92) / HISTOGRAM
        if second[k]:
            plot.box(x, (0, second[k]), "second fill")
        if first[k]:
            plot.box(x, (-first[k], 0), "first fill")
    plot.line([(0, 0), (1, 0)], "zero")
    plot.add(
        f'<path id="cut" class="cut" d="M{plot.px(0.5):.1f} {plot.top}V{plot.bottom}" '
        f'data-left="{plot.left}" data-right="{plot.right}"/>'
    )
    plot.text(plot.right, plot.top + 10, shortened(classes[1], 30), "key second", "end")
    plot.text(plot.right, plot.bottom - 5, shortened(classes[0], 30), "key first", "end")
    return plot


def dependence(curve: Curve, top: float) -> Plot:
    """The curve of one column with its band."""
    size, left = (280, 190), 42
    if curve.column.kind == "text":
        return _levels(curve, top, size)
    missing = [i for i, value in enumerate(curve.values) if value is None]
    xs = [float(value) for value in curve.values if value is not None]
    present = list(range(len(xs)))  # what is missing comes last
    name = shortened(curve.column.name, 34)
    low, high = xs[0], xs[-1]
    room = (high - low) * (0.26 if missing else 0.0)
    plot = Plot((low, high + room), (0, top), f"Dependence on {name}", size, left, 38)
    last = high
    if missing and curve.column.kind == "time":  # a date at the end would run into "missing"
        last = low + 0.72 * (high - low)
    xticks = _value_ticks(curve.column, low, last)
    if len(xs) <= 4 and curve.column.kind == "number":
        xticks = [(x, number(x)) for x in xs]
    plot.axes(name, "", xticks, shares(top, _share_step(top)))
    if len(xs) > 1:
        upper, lower = (zip(xs, e[present], strict=True) for e in (curve.high, curve.low))
        plot.area(upper, lower, "band")
    plot.line(zip(xs, curve.p[present], strict=True), "second")
    if len(xs) <= 12:
        for x, i in zip(xs, present, strict=True):
            plot.dot(x, curve.p[i], "second fill", 2.5, _says(curve, i))
    for i in missing:
        x = high + 0.6 * room
        plot.line([(x, curve.low[i]), (x, curve.high[i])], "error")
        plot.dot(x, curve.p[i], "second fill", 3.5, _says(curve, i))
        plot.text(plot.px(x), plot.bottom + 15, "missing", anchor="middle")
    return plot


def _levels(curve: Curve, top: float, size: tuple[int, int]) -> Plot:
    """One line per text, from the most frequent down."""
    n = len(curve.values)
    height = max(size[1], 18 * n + 60)
    name = shortened(curve.column.name, 34)
    plot = Plot((0, top), (n - 0.4, -0.6), f"Dependence on {name}", (size[0], height), 108, 38)
    names = ["missing" if v is None else shortened(str(v), 14) for v in curve.values]
    yticks = [(float(i), text) for i, text in enumerate(names)]
    plot.axes(name, "", shares(top, 2 * _share_step(top)), yticks)
    for i in range(n):
        plot.line([(curve.low[i], i), (curve.high[i], i)], "error wide")
        plot.dot(curve.p[i], i, "second fill", 4, _says(curve, i))
    return plot


def decision_map(found: Map, which: str, X: Rows, y: NDArray[np.bool_]) -> Plot:
    """The plane of two columns: the probability, or how little was learned there."""
    amount, (low, high) = (found.p, (0.0, 1.0)) if which == "p" else unlearned(found)
    x_edges, y_edges = _edges(found.x, found.xs), _edges(found.y, found.ys)
    names = [shortened(column.name, 40) for column in (found.x, found.y)]
    left = {"text": 102, "time": 84, "number": 58}[found.y.kind]
    bottom = 84 if found.x.kind == "text" else 40
    label = f"Map of {names[0]} and {names[1]}"
    ends = (x_edges[0], x_edges[-1]), (y_edges[0], y_edges[-1])
    plot = Plot(*ends, label, (380, 300 + bottom), left, bottom)
    shades = np.clip((amount - low) / (high - low) * SHADES, 0, SHADES - 1).astype(int)
    style = "d" if which == "p" else "s"
    for j, row in enumerate(shades):
        # Neighbours of one shade are one box.
        for begin, end in pairwise([0, *(np.flatnonzero(np.diff(row)) + 1), len(row)]):
            x = float(x_edges[begin]), float(x_edges[end])
            plot.box(x, (float(y_edges[j]), float(y_edges[j + 1])), f"cell {style}{row[begin]}")
    text_x = found.x.kind == "text"
    xticks = [] if text_x else _value_ticks(found.x, *plot.x, most=5)
    yticks = [(float(i), _level(v)) for i, v in enumerate(found.ys)]
    if found.y.kind != "text":
        yticks = _value_ticks(found.y, *plot.y, most=5)
    plot.axes(names[0], names[1] if found.y.kind != "text" else "", xticks, yticks, lines=False)
    if text_x:
        for i, value in enumerate(found.xs):
            place, level = plot.px(i) + 4, plot.bottom + 10
            turn = f' transform="rotate(-40 {place:.1f} {level})"'
            plot.text(place, level, _level(value), anchor="end", more=turn)
    if which == "p" and "text" not in (found.x.kind, found.y.kind):
        _dots(plot, found, X, y)
    return plot


def unlearned(found: Map) -> tuple[Floats, tuple[float, float]]:
    """How little was learned at each place of the map, and round numbers around it."""
    low = np.floor(10 * found.unlearned.min()) / 10
    high = np.ceil(10 * found.unlearned.max()) / 10
    return found.unlearned, (float(low), float(max(high, low + 0.1)))


def _dots(plot: Plot, found: Map, X: Rows, y: NDArray[np.bool_]) -> None:
    step = max(1, len(y) // DOTS)
    places = np.column_stack([values(X, found.x), values(X, found.y)])[::step]
    low, high = np.array([plot.x, plot.y]).T
    for (x_, y_), second in zip(places, y[::step], strict=True):
        if low[0] <= x_ <= high[0] and low[1] <= y_ <= high[1]:
            plot.dot(x_, y_, f"row {'second' if second else 'first'} fill", 2.2)


def _edges(column: Column, at: list[Value]) -> Floats:
    """The borders of cells around values."""
    if column.kind == "text":
        return np.arange(len(at) + 1, dtype=np.float64) - 0.5
    known = np.array([float(v) for v in at if v is not None])
    middle = (known[1:] + known[:-1]) / 2
    first, last = known[0] - (middle[0] - known[0]), known[-1] + (known[-1] - middle[-1])
    return np.concatenate([[first], middle, [last]])


def _level(value: Value) -> str:
    return "missing" if value is None else shortened(str(value), 13)


def _says(curve: Curve, i: int) -> str:
    value = curve.values[i]
    if value is None:
        value = "missing"
    elif isinstance(value, float):
        value = moment(value) if curve.column.kind == "time" else number(value)
    return f"{value}: {curve.p[i]:.1%} ({curve.low[i]:.1%} to {curve.high[i]:.1%})"


def _value_ticks(column: Column, low: float, high: float, most: int = 4) -> list[tuple[float, str]]:
    if column.kind != "time":
        return ticks(low, high, most) if high > low else [(low, number(low))]
    places = np.linspace(low, high, 3)
    return [(float(v), moment(v)[:10]) for v in (places[:: 2 if most < 5 else 1])]


def _percent(places: list[tuple[float, str]]) -> list[tuple[float, str]]:
    return [(v, f"{100 * v:g} %") for v, _ in places]


def _share_step(top: float) -> float:
    return 0.25 if top > 0.3 else 0.1 if top > 0.1 else 0.05


def _marker(plot: Plot, name: str) -> str:
    """A ring that the page's script moves to where the threshold is."""
    places = {"left": plot.left, "right": plot.right, "top": plot.top, "bottom": plot.bottom}
    data = "".join(f' data-{side}="{place}"' for side, place in places.items())
    return f'<circle id="at-{name}" class="marker" cx="-9" cy="-9" r="6"{data}/>'


def _thinned(n: int) -> NDArray[np.int_]:
    return np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).astype(int))


def _thin_line(x: Floats, y: Floats) -> list[tuple[float, float]]:
    """A line without points that cannot be seen: at most about `MOST_POINTS` of them."""
    cells = np.round(np.column_stack([x, y]) * MOST_POINTS / 2)
    kept = np.append(True, np.diff(cells, axis=0).any(1))
    kept[-1] = True
    return list(zip(x[kept].tolist(), y[kept].tolist(), strict=True))
