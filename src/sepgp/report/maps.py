"""Maps: the plane of two columns in colours."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from sepgp.data.scaling import Floats
from sepgp.report.columns import Column, Rows, Value, values
from sepgp.report.dependence import Map
from sepgp.report.figures import level, value_ticks
from sepgp.report.svg import Pair, Plot, shortened

DOTS = 250
"""Rows that are drawn."""
SHADES = 21
"""Colours of an amount."""
TICKS = 5
"""On an axis, at most."""
LEAST = 8
"""Cells that a region of one class needs to have its tag."""


def amounts(found: Map, amount: Floats, scale: Pair, style: str) -> Plot:
    """An amount, shape (ys, xs), in shades between two numbers."""
    low, high = scale
    shades = np.clip((amount - low) / (high - low) * SHADES, 0, SHADES - 1).astype(int)
    return _filled(found, [[f"{style}{shade}" for shade in row] for row in shades])


def with_dots(plot: Plot, found: Map, X: Rows, codes: NDArray[Any]) -> Plot:
    """The map with some of the rows in the colours of their classes, the first or the second."""
    for x, y, code in _rows(plot, found, X, codes, DOTS):
        plot.dot(x, y, f"row {'second' if code else 'first'} fill", 2.2)
    return plot


def round_ends(amount: Floats) -> Pair:
    """Tenths around all of some shares, for the scale of a map."""
    low, high = math.floor(10 * amount.min()) / 10, math.ceil(10 * amount.max()) / 10
    return low, max(high, low + 0.1)


def classes(found: Map, tags: list[str], X: Rows, codes: NDArray[Any]) -> Plot:
    """The most probable class at every place, fainter where it is less probable.

    Regions have borders and the tags of their classes, and rows are the tags of theirs.
    """
    best = found.p.argmax(2)
    sure = np.clip(np.ceil(10 * found.p.max(2)), 3, 10).astype(int)
    pairs = (zip(*rows, strict=True) for rows in zip(best, sure, strict=True))
    plot = _filled(found, [[f"k{c} o{shade}" for c, shade in row] for row in pairs])
    px = [plot.px(x) for x in _edges(found.x, found.xs)]
    py = [plot.py(y) for y in _edges(found.y, found.ys)]
    upright = zip(*np.nonzero(np.diff(best, axis=1)), strict=True)
    level_ = zip(*np.nonzero(np.diff(best, axis=0)), strict=True)
    borders = [f"M{px[i + 1]:.1f} {py[j]:.1f}V{py[j + 1]:.1f}" for j, i in upright]
    borders += [f"M{px[i]:.1f} {py[j + 1]:.1f}H{px[i + 1]:.1f}" for j, i in level_]
    plot.add(f'<path class="border" d="{"".join(borders)}"/>')
    for x, y, code in _rows(plot, found, X, codes, DOTS // 2):
        plot.text(plot.px(x), plot.py(y) + 3, tags[int(code)], "tag tiny")
    for code, j, i in _regions(best):
        plot.text((px[i] + px[i + 1]) / 2, (py[j] + py[j + 1]) / 2 + 5, tags[code], "tag large")
    return plot


def present(found: Map) -> set[int]:
    """The classes that are the most probable ones somewhere on the map."""
    return set(found.p.argmax(2).ravel().tolist())


def _regions(best: NDArray[np.int_]) -> Iterator[tuple[int, int, int]]:
    """The class of every region that is large enough, and the cell that lies deepest in it."""
    for code in np.unique(best).tolist():
        labelled, n_regions = ndimage.label(best == code)
        for region in range(1, n_regions + 1):
            inside = np.pad(labelled == region, 1)
            if inside.sum() >= min(LEAST, best.size // 8):
                depth = ndimage.distance_transform_edt(inside)[1:-1, 1:-1]
                j, i = np.unravel_index(depth.argmax(), depth.shape)
                yield code, int(j), int(i)


def _filled(found: Map, styles: list[list[str]]) -> Plot:
    """The plane of two columns, every cell in its style; neighbours of one style are one box."""
    x, y = found.x, found.y
    x_edges, y_edges = _edges(x, found.xs), _edges(y, found.ys)
    names = [shortened(column.name, 40) for column in (x, y)]
    left = {"text": 102, "time": 84, "number": 58}[y.kind]
    bottom = 84 if x.kind == "text" else 40
    ends = (x_edges[0], x_edges[-1]), (y_edges[0], y_edges[-1])
    plot = Plot(*ends, f"Map of {names[0]} and {names[1]}", (380, 300 + bottom), left, bottom)
    xticks = [] if x.kind == "text" else _ticks(x, found.xs, plot.x)
    if y.kind == "text":
        plot.axes(names[0], "", xticks, [(i, level(y, v)) for i, v in enumerate(found.ys)])
    else:
        plot.axes(names[0], names[1], xticks, _ticks(y, found.ys, plot.y))
    if x.kind == "text":
        for i, value in enumerate(found.xs):
            plot.text(plot.px(i) + 4, plot.bottom + 10, level(x, value), anchor="end", turn=-40)
    plot.box(plot.x, plot.y, "paper")  # hides the lines of the axes behind faint colours
    for row, band in zip(styles, pairwise(y_edges), strict=True):
        changes = [i for i in range(1, len(row)) if row[i] != row[i - 1]]
        for begin, end in pairwise([0, *changes, len(row)]):
            plot.box((x_edges[begin], x_edges[end]), band, f"cell {row[begin]}")
    return plot


def _ticks(column: Column, at: list[Value], ends: Pair) -> list[tuple[float, str]]:
    """The values themselves if they are few, as 0 and 1 of a boolean, else round ones."""
    if column.kind == "number" and len(at) <= TICKS:
        return [(v, level(column, v)) for v in np.array(at, np.float64).tolist()]
    return value_ticks(column, *ends, most=TICKS)


def _edges(column: Column, at: list[Value]) -> Floats:
    """The borders of cells around values."""
    if column.kind == "text":
        return np.arange(len(at) + 1, dtype=np.float64) - 0.5
    known = np.array(at, np.float64)
    middle = (known[1:] + known[:-1]) / 2
    return np.array([2 * known[0] - middle[0], *middle, 2 * known[-1] - middle[-1]])


def _rows(plot: Plot, found: Map, X: Rows, codes: NDArray[Any], most: int) -> Iterator[Any]:
    """Place and class of some of the rows that lie on the map, where neither column is text."""
    if "text" in (found.x.kind, found.y.kind):
        return
    step = max(1, len(codes) // most)
    columns = (values(X, found.x)[::step], values(X, found.y)[::step], codes[::step])
    for x, y, code in zip(*columns, strict=True):
        if plot.x[0] <= x <= plot.x[1] and plot.y[0] <= y <= plot.y[1]:
            yield x, y, code
