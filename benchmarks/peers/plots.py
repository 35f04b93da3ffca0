"""Pictures of what was measured."""

from pathlib import Path
from typing import Any

import report
import speed
from contest import FIRST_LOOK

from sepgp.experiments.style import drawing, images

COLOURS = {
    "sepgp": "#d55e00",
    "sepgp float32": "#e69f00",
    "gpflow": "#0072b2",
    "gpytorch": "#009e73",
    "gpflow robust-max": "#0072b2",
    "gpflow softmax": "#56b4e9",
    "gpytorch softmax": "#009e73",
    "one against the rest": "#cc79a7",
    "logistic regression": "#7f7f7f",
    "boosted trees": "#333333",
    "exact process": "#cc79a7",
}
"""Told apart by the colour-blind too."""
MARKERS = {"logistic regression": "s", "boosted trees": "D", "exact process": "v"}
MARKERS |= {"one against the rest": "v"}
OPEN = {"linestyle": "", "marker": "o", "fillstyle": "none"}
ROOM = 0.06
"""Of the height of a panel, above and below what matters."""


def draw_curves(results: dict[str, Any], stem: Path) -> list[Path]:
    """A panel for each set: test NLL against seconds."""
    columns = min(2, len(results))
    rows = -(-len(results) // columns)
    with drawing(stem, rows, columns, width=6 * columns, height=4.5 * rows) as (figure, axes):
        for axis in axes.flat[len(results) :]:
            axis.set_axis_off()
        for axis, (name, result) in zip(axes.flat, results.items(), strict=False):
            _panel(axis, name, result)
        handles: dict[str, Any] = {}
        for axis in axes.flat:
            handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=2 * columns,
            frameon=False,
        )
    return images(stem)


def _panel(axis: Any, name: str, result: dict[str, Any]) -> None:
    shown: list[float] = []
    for contestant, entries in result["curves"].items():
        looks = report.averaged(entries, "points")
        budgets = report.averaged(entries, "budgets")
        if not looks:
            continue
        colour, label = COLOURS[contestant], report.named(contestant)
        axis.plot(*_xy(looks), color=colour, marker=".", markersize=4, label=label)
        if budgets:
            axis.plot(*_xy(budgets), **OPEN, color=colour)
        # What happens in the first tenth of the time may leave the panel at the top.
        shown += [p.nll for p in looks if p.seconds >= 0.1 * result["seconds"]]
        shown += [p.nll for p in budgets]
    axis.plot([], [], **OPEN, color="black", label="a whole run of that length")
    last = result["seconds"]
    for model, entry in result["others"].items():
        if entry.error is None:
            seconds, nll = entry.result["seconds"], entry.result["nll"]
            last = max(last, seconds)
            style = {"color": COLOURS[model], "marker": MARKERS[model], "linestyle": ":"}
            axis.plot([seconds, 1e4], [nll, nll], markevery=[0], label=report.named(model), **style)
            shown.append(nll)
    goal = report.target(result)
    if goal is not None:
        axis.axhline(
            goal, color="black", linewidth=0.8, linestyle="--", label="lowest of the peers"
        )
    if shown:
        low, high = min(shown), max(shown)
        room = ROOM * (high - low)
        axis.set_ylim(low - room, high + room)
    axis.set_xscale("log")
    axis.set_xlim(0.9 * FIRST_LOOK, 1.1 * last)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_title(name)
    axis.set_xlabel("seconds of training")
    axis.set_ylabel("negative test log-likelihood")


def _xy(points: list[report.Point]) -> tuple[list[float], list[float]]:
    return [p.seconds for p in points], [p.nll for p in points]


def draw_speed(results: dict[str, Any], stem: Path) -> list[Path]:
    """Bars: rows per second of each library at its fastest, in steps and in predictions."""
    panels: list[tuple[str, dict[str, tuple[float, str]]]] = []
    for batch in speed.BATCHES if results.get("steps") else ():
        best: dict[str, tuple[float, str]] = {}
        for row in report.step_rows(results["steps"]):
            rate = batch / row.seconds
            if row.batch == batch and rate > best.get(row.contestant, (0.0, ""))[0]:
                best[row.contestant] = rate, row.label
        panels.append((f"training steps, batch {batch:,}", best))
    if results.get("predict"):
        rates = report.predict_rows(results["predict"])
        panels.append(("predictions", {r.contestant: (r.rate, r.dtype) for r in rates}))
    with drawing(stem, 1, len(panels), width=4 * len(panels), height=3.5) as (_, axes):
        for axis, (title, best) in zip(axes.flat, panels, strict=True):
            names = [f"{report.named(c)}\n{label}" for c, (_, label) in best.items()]
            heights = [rate for rate, _ in best.values()]
            bars = axis.bar(names, heights, color=[COLOURS[c] for c in best])
            axis.bar_label(bars, [f"{height:,.0f}" for height in heights])
            axis.tick_params(axis="x", labelsize=7)
            axis.yaxis.set_major_formatter("{x:,.0f}")
            axis.margins(y=0.15)
            axis.set_title(f"{title}, rows per second")
            axis.grid(axis="x", visible=False)
    return images(stem)
