"""The figures of the report, each as an SVG drawing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.data.scaling import Floats
from sepgp.evaluation.tally import Tally
from sepgp.report.columns import Column, Value, count, moment, number, said
from sepgp.report.dependence import Curve
from sepgp.report.svg import Plot, shares, shortened, ticks

MOST_POINTS = 300
"""Of a line."""
HISTOGRAM = 50
"""Bars to either side."""
FIRST_RECALL = 0.01
"""Below it precision is that of a handful of rows, and jumps."""


def learning_curve(history: Mapping[str, NDArray[Any]], n_rows: float) -> Plot:
    """Log evidence per row against the step: every step, and a running mean.

    With it the log-likelihood of held-out rows, in the steps that measured it.
    """
    kept = np.isfinite(history["log_evidence"]) & ~history["rejected"].astype(bool)
    steps = history["iteration"][kept].astype(float)
    evidence = history["log_evidence"][kept] / n_rows
    sums = np.cumsum(np.append(0.0, evidence))
    ends = np.arange(1, len(steps) + 1)
    begins = np.maximum(ends - max(1, len(steps) // 25), 0)
    smooth = (sums[ends] - sums[begins]) / (ends - begins)
    measured = np.isfinite(history["validation_nll"])
    held_out = -history["validation_nll"][measured]
    low, high = np.quantile(evidence, [0.03, 1.0]) if len(steps) else (0.0, 1.0)
    low, high = min([low, *held_out[1:]]), max([high, *held_out])  # the first is far below
    room = 0.05 * (high - low)
    x, y = (0.0, steps[-1] if len(steps) else 1.0), (low - room, high + room)
    plot = Plot(x, y, "Log evidence per row against training steps", (380, 270), 64)
    plot.axes("step of training", "nats per row" if len(held_out) else "log evidence per row")
    few = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), MOST_POINTS)).astype(int))
    plot.line(zip(steps[few], np.clip(evidence, *plot.y)[few], strict=True), "faint")
    few = few[smooth[few] >= plot.y[0]]  # the first steps are far below
    plot.line(zip(steps[few], smooth[few], strict=True), "second")
    if len(held_out):
        _held_out(plot, history["iteration"][measured], held_out)
        plot.text(plot.right, plot.bottom - 8, "log evidence", "key second", "end")
        plot.text(plot.right, plot.bottom - 22, "held-out rows", "key first", "end")
    return plot


def _held_out(plot: Plot, steps: NDArray[Any], values: Floats) -> None:
    """Dots for the log-likelihood of held-out rows, and a ring around the best."""
    for step, value in zip(steps, values, strict=True):
        if value >= plot.y[0]:
            plot.dot(step, value, "first fill", 2.5, f"step {step}: NLL {-value:.4f}")
    best = int(np.argmax(values))
    plot.dot(steps[best], values[best], "chosen", 5.5, f"kept: step {steps[best]}")


def reliability(tally: Tally, label: str) -> Plot:
    """What was predicted against what was observed."""
    bins = tally.reliability()
    stated_name = f"predicted probability of {shortened(label, 24)}"
    plot = unit_square("Reliability diagram", stated_name, "observed share", 0, 1)
    for rows, stated, observed, low, high in zip(*bins, strict=True):
        plot.line([(stated, low), (stated, high)], "error")
        size = 2.5 + 6 * np.sqrt(rows / bins.rows.max())
        title = f"predicted {stated:.1%}, observed {observed:.1%} of {count(rows)} rows"
        plot.dot(stated, observed, "second fill", round(float(size), 1), title)
    return plot


def roc(tally: Tally) -> Plot:
    """True against false positive rate."""
    plot = unit_square("ROC curve", "false positive rate", "true positive rate", 0, 1)
    if all(tally.totals):
        _line_with_ring(plot, *tally.roc(), "at-roc")
    return plot


def precision_recall(tally: Tally) -> Plot:
    """Precision against recall."""
    first, second = tally.totals
    share = second / (first + second)
    plot = unit_square("Precision and recall", "recall", "precision", share, share)
    if second:
        recall, precision = tally.precision_recall()
        seen = recall >= FIRST_RECALL
        _line_with_ring(plot, recall[seen], precision[seen], "at-pr")
    return plot


def unit_square(label: str, xlabel: str, ylabel: str, begin: float, end: float) -> Plot:
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


def histogram(tally: Tally, classes: Sequence[str], threshold: bool) -> Plot:
    """How often each probability is predicted: the second class upwards, the first downwards.

    Bars are shares of the rows of their own class, and either half has its own scale, so that a
    rare class can be read too. With `threshold` there is a line that the page's script moves.
    """
    totals = np.maximum(tally.counts.sum(1), 1e-300)
    first, second = tally.histogram(HISTOGRAM) / totals[:, None]
    plot = Plot((0, 1), (-1.1, 1.1), "Histogram of probabilities", (380, 210), 54)
    yticks = [(0.0, "0 %")]
    for side, bars in ((1, second), (-1, first)):
        highest = float(bars.max()) or 1.0
        yticks += [(side * v / highest, f"{100 * v:g} %") for v, _ in ticks(0, highest, 3) if v]
    plot.axes("predicted probability", "share of its rows", shares(), yticks)
    for side, bars, name in ((1, second, "second"), (-1, first, "first")):
        for k in np.flatnonzero(bars):
            low, high = sorted((0.0, side * bars[k] / bars.max()))
            plot.box(((k + 0.08) / HISTOGRAM, (k + 0.92) / HISTOGRAM), (low, high), f"{name} fill")
        # The name of the class stands where its bars are lower.
        left = bars[: HISTOGRAM // 3].max() <= bars[-HISTOGRAM // 3 :].max()
        place, anchor = (plot.left + 4, "start") if left else (plot.right, "end")
        height = plot.top + 10 if side > 0 else plot.bottom - 5
        plot.text(place, height, shortened(classes[side > 0], 30), f"key {name}", anchor)
    plot.line([(0, 0), (1, 0)], "zero")
    if threshold:
        middle = f"M{plot.px(0.5):.1f} {plot.top}V{plot.bottom}"
        plot.add(f'<path id="cut" class="cut" d="{middle}" {plot.sides}/>')
    return plot


def dependences(curves: list[Curve]) -> list[Plot]:
    """The curves of columns with their bands, all to the same scale."""
    highest = max((float(curve.high.max()) for curve in curves), default=0.0)
    top = next(top for top in (0.1, 0.2, 0.3, 0.5, 0.75, 1.0) if highest <= top)
    few = [curve.column.kind == "text" or len(curve.values) <= 4 for curve in curves]
    return [(_levels if f else _dependence)(c, top) for f, c in zip(few, curves, strict=True)]


def _dependence(curve: Curve, top: float) -> Plot:
    """A line over numbers or times; what is missing stands beside it."""
    xs = [float(value) for value in curve.values if value is not None]
    missing = list(range(len(xs), len(curve.values)))
    name = shortened(curve.column.name, 34)
    low, high = xs[0], xs[-1]
    room = (high - low) * (0.26 if missing else 0.0)
    plot = Plot((low, high + room), (0, top), f"Dependence on {name}", (280, 190), 42, 38)
    # A date at the end would run into "missing".
    whole = not missing or curve.column.kind != "time"
    xticks = value_ticks(curve.column, low, high if whole else low + 0.72 * (high - low))
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
    """One line per value: for texts, from the most frequent down, and where there are few."""
    n = len(curve.values)
    name = shortened(curve.column.name, 34)
    size = (280, max(190, 18 * n + 60))
    plot = Plot((0, top), (n - 0.4, -0.6), f"Dependence on {name}", size, 108, 38)
    yticks = [(float(i), level(curve.column, v)) for i, v in enumerate(curve.values)]
    plot.axes(name, "", shares(top, 2 * _share_step(top)), yticks)
    for i in range(n):
        plot.box((0, curve.p[i]), (i + 0.3, i - 0.3), "band")
        plot.line([(curve.low[i], i), (curve.high[i], i)], "error wide")
        plot.dot(curve.p[i], i, "second fill", 4, _says(curve, i))
    return plot


def level(column: Column, value: Value) -> str:
    """A value as it stands beside an axis."""
    return shortened(said(column, value), 14)


def _says(curve: Curve, i: int) -> str:
    interval = f"{curve.low[i]:.1%} to {curve.high[i]:.1%}"
    return f"{said(curve.column, curve.values[i])}: {curve.p[i]:.1%} ({interval})"


def value_ticks(column: Column, low: float, high: float, most: int = 4) -> list[tuple[float, str]]:
    """Round numbers or dates along an axis."""
    if column.kind != "time":
        return ticks(low, high, most) if high > low else [(low, number(low))]
    places = np.linspace(low, high, 2 if most < 5 else 3)
    return [(float(v), moment(v)[:10]) for v in places]


def _share_step(top: float) -> float:
    return 0.25 if top > 0.3 else 0.1 if top > 0.1 else 0.05
