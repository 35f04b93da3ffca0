"""Figure 2: MNIST and airline delays, negative test log-likelihood against training time.

Minibatches of 200 rows, and for MNIST all rows in one batch too. The run also records how much
memory each method takes, which is what SEP is for.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sepgp.experiments import splits
from sepgp.experiments.cells import Cell, Result
from sepgp.experiments.curves import forget_peak_memory, learning_curve, peak_memory
from sepgp.experiments.pages import markdown_table, write_csv, write_text
from sepgp.experiments.paper import METHODS
from sepgp.experiments.style import COLOURS, drawing, images, look
from sepgp.training.settings import Settings

TITLE = "Figure 2: negative test log-likelihood against training time"
INDUCING = 200
BATCH = 200
LINEAR = "logistic regression"
EARLIEST = 0.4
"""Seconds at which the plots begin, a little before the second look."""
LOOKS = 25
"""How often a run looks at the test rows, at times with equal ratios."""
PANELS = {
    "mnist": "MNIST, minibatches of 200",
    "mnist-batch": "MNIST, all 60,000 rows in a batch",
    "airline": "Airline delays, minibatches of 200",
}
SECONDS = {"mnist": 60.0, "mnist-batch": 80.0, "airline": 60.0}
"""Of training, in each panel."""
QUICK_SECONDS = {"mnist": 10.0, "mnist-batch": 20.0, "airline": 10.0}
SETTINGS = {
    panel: {"n_inducing": INDUCING, "kernel": "rbf", "learning_rate": rate}
    for panel, rate in {"mnist": 0.03, "mnist-batch": 0.2, "airline": 0.03}.items()
}
SITE_STEP = 0.02
"""The floor under SEP's site step; see `GPClassifier`."""


def cells(quick: bool = False) -> list[Cell]:
    """A cell is one run. The quick run is the same, but shorter.

    On airline, SEP runs a second time with the paper's site step, ρ = s/n.
    """
    seconds = QUICK_SECONDS if quick else SECONDS
    runs: list[tuple[str, str, str | float]] = [
        *((panel, method, SITE_STEP) for panel in PANELS for method in METHODS),
        ("airline", "sep", "paper"),
    ]
    grid = [
        Cell(
            f"{panel}-{method}-{step}",
            curve,
            {"panel": panel, "seconds": seconds[panel], "batch": BATCH, "looks": LOOKS}
            | {"settings": SETTINGS[panel] | {"method": method, "site_step": step}},
            cost=seconds[panel] + 15,
        )
        for panel, method, step in runs
    ]
    return [*grid, Cell("airline-linear", linear, {"name": "airline"}, cost=20)]


def curve(
    data: Path | None, panel: str, seconds: float, batch: int, looks: int, settings: Result
) -> Result:
    """One run: points of its curve, what its sites hold, and the most memory it took."""
    forget_peak_memory()
    name, _, whole = panel.partition("-")
    split = splits.large_split(name, data)
    size, times = len(split.y) if whole else batch, np.geomspace(0.5, seconds, looks)
    points, state = learning_curve(split, Settings(**settings), size, times)
    return {
        "points": [list(point) for point in points],
        "site_bytes": sum(t.numel() * t.element_size() for t in state.sites if t is not None),
        "peak_bytes": peak_memory(),
    }


def linear(data: Path | None, name: str) -> Result:
    """Logistic regression on standardised features."""
    forget_peak_memory()
    model = make_pipeline(StandardScaler(), LogisticRegression())
    result = splits.trained(model, splits.large_split(name, data))
    points = [[result["seconds"], 1, result["nll"]]]
    return {"points": points, "site_bytes": 0, "peak_bytes": peak_memory()}


def report(grid: list[Cell], results: Mapping[str, Result], stem: Path) -> list[Path]:
    """Write the curves, the memory, two plots and a page; return their paths."""
    runs = [(*_run(cell), results[cell.name]) for cell in grid]
    looks = [(panel, run, *point) for panel, run, result in runs for point in result["points"]]
    curves = pd.DataFrame(looks, columns=["panel", "run", "seconds", "steps", "nll"])
    sizes = ["site_bytes", "peak_bytes"]
    held = [(panel, run, *(result[size] for size in sizes)) for panel, run, result in runs]
    memory = pd.DataFrame(held, columns=["panel", "run", *sizes])
    tables = [
        write_csv(stem.with_suffix(".csv"), curves),
        write_csv(stem.with_name(f"{stem.name}_memory.csv"), memory),
    ]
    page = write_text(stem.with_suffix(".md"), text(curves, memory, stem.name))
    return [*tables, *plot(curves, memory, stem), page]


def _run(cell: Cell) -> tuple[str, str]:
    """The panel and the label of a run."""
    if cell.run is linear:
        return "airline", LINEAR
    settings = cell.arguments["settings"]
    variant = ", ρ = s/n" if settings["site_step"] == "paper" else ""
    return cell.arguments["panel"], settings["method"].upper() + variant


def text(curves: Any, memory: Any, stem: str) -> str:
    """The page: curves, and a table of times and memory."""
    times = (1, 2, 5, 10, 30)
    runs = curves.groupby(["panel", "run"])
    lines = []
    for _, panel, run, *sizes in memory.itertuples():
        looks = runs.get_group((panel, run))
        nll = [looks.nll[looks.seconds <= time].tail(1) for time in times]
        before = [f"{value.item():.4f}" if len(value) else "—" for value in nll]
        end = [f"{looks.nll.iloc[-1]:.4f}", f"{looks.steps.iloc[-1]:,}"]
        lines.append([PANELS[panel], run, *before, *end, *map(_megabytes, sizes)])
    header = ["set", "method", *(f"{time} s" for time in times), "end", "steps"]
    header += ["sites, MB", "peak, MB"]
    return f"""\
# {TITLE}

Mean over 10,000 test rows, m = {INDUCING}. Looking at the test rows is not timed. The peak is \
that of the whole process, libraries and data included. The paper shows a plot and prints no \
numbers. The airline plot ends a little above logistic regression: what is worse is cut off.

![Curves, and memory of the sites]({stem}.png)

{markdown_table(header, lines)}
{_past_linear(curves)}"""


def _past_linear(curves: Any) -> str:
    """A sentence: when each method is first seen to be better than logistic regression."""
    (level,) = curves.nll[curves.run == LINEAR]
    times = []
    for run, looks in curves[curves.panel == "airline"].groupby("run", sort=False):
        better = looks.seconds[looks.nll < level]
        if run != LINEAR:
            times.append(f"{run} {better.iloc[0]:.1f} s" if len(better) else f"{run} never")
    return (
        f"The first look at which a method is better than logistic regression "
        f"({level:.4f}) on airline: {'; '.join(times)}.\n"
    )


def _megabytes(size: float | None) -> str:
    if size is None or math.isnan(size):
        return "—"
    return f"{size / 1e6:,.1f}" if size < 1e7 else f"{size / 1e6:,.0f}"


def plot(curves: Any, memory: Any, stem: Path) -> list[Path]:
    """A panel for each set and mode, and the memory of the sites in the last."""
    from matplotlib.ticker import NullFormatter

    with drawing(stem, 2, 2, width=11, height=8) as (_, axes):
        panels = dict(zip(PANELS, axes.flat, strict=False))
        for (panel, run), looks in curves.groupby(["panel", "run"], sort=False):
            if run == LINEAR:
                level = looks.nll.iloc[-1]
                panels[panel].axhline(level, color="black", linestyle=":", label=run)
                continue
            method, _, variant = run.partition(",")
            line = {"linestyle": "--" if variant else "-", "markersize": 4, "label": run}
            panels[panel].plot(looks.seconds, looks.nll, **line, **look(method.lower()))
        for panel, axis in panels.items():
            axis.set(title=PANELS[panel], xlabel="training time in seconds", xscale="log")
            axis.set_ylabel("negative test log-likelihood")
            axis.xaxis.set_major_formatter("{x:g}")
            axis.legend()
        mnist = curves[curves.panel.str.startswith("mnist")]
        for axis in axes[0]:  # the same scales, so that the two modes can be compared
            axis.set(yscale="log", xlim=(EARLIEST, 1.1 * mnist.seconds.max()))
            axis.set_ylim(mnist.nll.min() / 1.1, min(1.1 * mnist.nll.max(), 1.0))
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("{x:.2g}")
        lowest = curves.nll[(curves.panel == "airline") & (curves.run != LINEAR)].min()
        axes[1, 0].set_xlim(left=EARLIEST)
        axes[1, 0].set_ylim(lowest / 1.005, 1.07 * level)
        axes[1, 0].xaxis.set_minor_formatter(NullFormatter())
        _plot_memory(axes[1, 1], memory)
    return images(stem)


def _plot_memory(axis: Any, memory: Any) -> None:
    kept = memory[memory.run.str.lower().isin(METHODS)]
    sizes = kept.site_bytes / 1e6
    places = [4 * (i // 3) + i % 3 for i in range(len(kept))]
    bars = axis.bar(places, sizes, color=kept.run.str.lower().map(COLOURS))
    axis.bar_label(bars, [f"{size:,.1f}" if size < 10 else f"{size:,.0f}" for size in sizes])
    axis.set(yscale="log", title="What the sites take in memory, megabytes")
    axis.set_ylim(top=4 * max(sizes))
    axis.set_xticks(places, kept.run)
    for i, name in enumerate(("MNIST, minibatches", "MNIST, batch", "airline")):
        where = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        axis.annotate(name, (4 * i + 1, 0), (0, -28), ha="center", **where)
    axis.grid(axis="x", visible=False)
