"""The figures of a report on more than two classes.

Colours alone cannot tell many classes apart, least of all to people who are colour-blind: every
class has a tag, and tags stand on all figures.
"""

from itertools import islice, pairwise, product
from string import ascii_uppercase

import numpy as np

from sepgp.data.scaling import Floats
from sepgp.evaluation.confusion import Confusion
from sepgp.evaluation.tally import Reliability, Tally
from sepgp.report.columns import count
from sepgp.report.dependence import Curve
from sepgp.report.figures import level, value_ticks
from sepgp.report.svg import Pair, Plot, shares, shortened, ticks

STACKED = 10
"""Classes that a stack tells apart; the others are one part."""
LISTED = 30
"""Classes that figures show, at most."""
WRITTEN = 12
"""Classes up to which shares are written into the cells of a matrix."""


def tags(names: list[str]) -> list[str]:
    """A short name for every class: its own if all are short enough, or else letters."""
    if max(map(len, names)) <= (4 if len(names) <= WRITTEN else 3):
        return names
    size = next(size for size in (1, 2, 3) if 26**size >= len(names))
    letters = islice(product(ascii_uppercase, repeat=size), len(names))
    return ["".join(some) for some in letters]


def listed(confusion: Confusion) -> list[int]:
    """The classes that figures show: all, or those with most mistakes, in their own order."""
    wrong = confusion.counts.sum(0) + confusion.totals - 2 * np.diag(confusion.counts)
    chosen = np.argsort(-wrong, kind="stable")[:LISTED]
    return sorted(int(code) for code in chosen)


def confusion_matrix(confusion: Confusion, codes: list[int], tags: list[str]) -> Plot:
    """Of every class, which share of its rows was said to be of which."""
    n = len(codes)
    plot = Plot((0, n), (n, 0), "Confusion matrix", (380, 380), 46, 46)
    long = 7 * max(len(tags[code]) for code in codes) * n > plot.right - plot.left
    for place, code in enumerate(codes):
        x = plot.px(place + 0.5)
        if long:
            plot.text(x + 4, plot.bottom + 5, tags[code], anchor="end", turn=-90)
        else:
            plot.text(x, plot.bottom + 14, tags[code])
        plot.text(plot.left - 6, plot.py(place + 0.5) + 4, tags[code], anchor="end")
    plot.axes("predicted class", "true class", [], [])
    totals = confusion.totals
    for i, true in enumerate(codes):
        for j, said in enumerate(codes):
            rows = confusion.counts[true, said]
            if not rows:
                continue
            share = rows / totals[true]
            style = f"{'right' if true == said else 'wrong'} o{np.ceil(10 * np.sqrt(share)):.0f}"
            title = f"{count(rows)} rows, {share:.1%} of class {tags[true]}, as {tags[said]}"
            plot.box((j + 0.03, j + 0.97), (i + 0.97, i + 0.03), style, title)
            if n <= WRITTEN and share >= 0.005:
                middle = plot.px(j + 0.5), plot.py(i + 0.5) + 4
                plot.text(*middle, f"{100 * share:.0f}", "ink")
    return plot


def reliability(bins: Reliability, label: str) -> Plot:
    """Stated against observed of one class, small."""
    plot = Plot((0, 1), (0, 1), f"Reliability of {label}", (150, 150), 10, 10)
    plot.axes("", "", [], [])
    plot.line([(0, 0), (1, 1)], "ideal")
    for rows, stated, observed, low, high in zip(*bins, strict=True):
        plot.line([(stated, low), (stated, high)], "error thin")
        size = round(float(2 + 2 * np.sqrt(rows / bins.rows.max())), 1)
        title = f"predicted {stated:.1%}, observed {observed:.1%} of {count(rows)} rows"
        plot.dot(stated, observed, "second fill", size, title)
    return plot


def abstention(tally: Tally) -> Plot:
    """The error among the rows that it is surest of, against their share."""
    kept, error = tally.abstention()
    top = max(0.01, 1.1 * float(error[kept > 0.02].max(initial=0.0)))
    plot = Plot((0, 1), (0, top), "Error of the most confident", (380, 270), 54)
    yticks = [(v, f"{100 * v:g} %") for v, _ in ticks(0.0, top, 5)]
    plot.axes("coverage: share of the rows", "error among them", shares(), yticks)
    seen = np.unique(np.linspace(0, len(kept) - 1, 300).astype(int))
    plot.line(zip(kept[seen], np.minimum(error[seen], top), strict=True), "second")
    return plot


def dependence(curve: Curve, tags: list[str]) -> Plot:
    """The share of the classes at each value of a column, stacked: those whose shares change most.

    The rest of them, where there are more, is left empty.
    """
    change = np.ptp(curve.p, axis=0)
    codes = sorted(np.argsort(-change, kind="stable")[:STACKED].tolist())
    tops = np.cumsum(np.column_stack([np.zeros(len(curve.p)), curve.p[:, codes]]), axis=1)
    if curve.column.kind == "text" or len(curve.values) <= 4:
        return _bars(curve, tops, codes, tags)
    name = shortened(curve.column.name, 34)
    xs = [float(value) for value in curve.values if value is not None]
    missing = len(xs) < len(curve.values)
    room = 0.2 * (xs[-1] - xs[0]) if missing else 0.0
    plot = Plot((xs[0], xs[-1] + room), (0, 1), f"Dependence on {name}", (280, 190), 42, 38)
    plot.axes(name, "", value_ticks(curve.column, xs[0], xs[-1]), shares(1.0, 0.25))
    for code, (low, high) in zip(codes, pairwise(tops[: len(xs)].T), strict=True):
        plot.area(zip(xs, high, strict=True), zip(xs, low, strict=True), f"k{code}")
        widest = int(np.argmax(high - low))
        if plot.py(low[widest]) - plot.py(high[widest]) > 12:
            place = min(max(plot.px(xs[widest]), plot.left + 9), plot.px(xs[-1]) - 9)
            plot.text(place, plot.py((low[widest] + high[widest]) / 2) + 4, tags[code], "tag")
    if missing:
        _bar(plot, (xs[-1] + 0.4 * room, xs[-1] + room), tops[-1], codes, tags, upright=True)
        plot.text(plot.px(xs[-1] + 0.6 * room), plot.bottom + 15, "missing")
    return plot


def _bars(curve: Curve, tops: Floats, codes: list[int], tags: list[str]) -> Plot:
    """A bar for every value, from the most frequent down."""
    name, n = shortened(curve.column.name, 34), len(curve.values)
    size = (280, max(120, 22 * n + 60))
    plot = Plot((0, 1), (n - 0.4, -0.6), f"Dependence on {name}", size, 108, 38)
    yticks = [(float(i), level(curve.column, value)) for i, value in enumerate(curve.values)]
    plot.axes(name, "", shares(1.0, 0.5), yticks)
    for i in range(n):
        _bar(plot, (i + 0.4, i - 0.4), tops[i], codes, tags, upright=False)
    return plot


def _bar(
    plot: Plot, side: Pair, tops: Floats, codes: list[int], tags: list[str], upright: bool
) -> None:
    """One stacked bar, with the tags of the parts that are large enough."""
    for code, (low, high) in zip(codes, pairwise(tops.tolist()), strict=True):
        x, y = (side, (low, high)) if upright else ((low, high), side)
        plot.box(x, y, f"k{code}")
        if high - low > 0.09:
            middle = plot.px((x[0] + x[1]) / 2), plot.py((y[0] + y[1]) / 2) + 4
            plot.text(*middle, tags[code], "tag")
