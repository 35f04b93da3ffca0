"""Figure 2: MNIST and airline delays, negative test log-likelihood against training time.

Minibatches of 200 rows, and for MNIST all rows in one batch too. The run also records how much
memory each method takes, which is what SEP is for.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sepgp.experiments.cells import Cell, Result
from sepgp.experiments.pages import markdown_table, write_csv, write_text
from sepgp.experiments.paper import METHODS

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
RATES = {"mnist": 0.03, "mnist-batch": 0.2, "airline": 0.03}
"""Learning rates of Adam at the start, for small minibatches and for all rows at once."""
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
            {"panel": panel, "method": method, "site_step": step}
            | {"seconds": seconds[panel], "rate": RATES[panel]}
            | {"inducing": INDUCING, "batch": BATCH, "looks": LOOKS},
            cost=seconds[panel] + 15,
        )
        for panel, method, step in runs
    ]
    return [*grid, Cell("airline-linear", linear, {"name": "airline"}, cost=20)]


def curve(
    data: Path | None, panel: str, method: str, site_step: str | float, rate: float, **sizes: Any
) -> Result:
    """One run: points of its curve, what its sites hold, and the most memory it took.

    `sizes` are `seconds`, `inducing`, `batch` and `looks`.
    """
    import numpy as np

    from sepgp.experiments.curves import forget_peak_memory, learning_curve, peak_memory
    from sepgp.experiments.splits import large_split
    from sepgp.training.settings import Settings

    forget_peak_memory()
    name, _, whole = panel.partition("-")
    split = large_split(name, data)
    steps: Result = {"learning_rate": rate, "site_step": site_step}
    settings = Settings(method=method, n_inducing=sizes["inducing"], kernel="rbf", **steps)
    size = len(split.y) if whole else sizes["batch"]
    times = np.geomspace(0.5, sizes["seconds"], sizes["looks"])
    points, state = learning_curve(split, settings, size, times)
    return {
        "points": [list(point) for point in points],
        "site_bytes": sum(t.numel() * t.element_size() for t in state.sites if t is not None),
        "peak_bytes": peak_memory(),
    }


def linear(data: Path | None, name: str) -> Result:
    """Logistic regression on standardised features."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from sepgp.experiments.curves import forget_peak_memory, peak_memory
    from sepgp.experiments.splits import large_split, trained

    forget_peak_memory()
    model = make_pipeline(StandardScaler(), LogisticRegression())
    result = trained(model, large_split(name, data))
    points = [[result["seconds"], 1, result["nll"]]]
    return {"points": points, "site_bytes": 0, "peak_bytes": peak_memory()}


def report(grid: list[Cell], results: Mapping[str, Result], stem: Path) -> list[Path]:
    """Write the curves, the memory, two plots and a page; return their paths."""
    runs = {_run(cell): results[cell.name] for cell in grid}
    curves = write_csv(
        stem.with_suffix(".csv"),
        ("panel", "run", "seconds", "steps", "nll"),
        ([*run, *point] for run, result in runs.items() for point in result["points"]),
    )
    memory = write_csv(
        stem.with_name(f"{stem.name}_memory.csv"),
        ("panel", "run", "site_bytes", "peak_bytes"),
        ([*run, result["site_bytes"], result["peak_bytes"]] for run, result in runs.items()),
    )
    page = write_text(stem.with_suffix(".md"), text(runs, stem.name))
    return [curves, memory, *plot(runs, stem), page]


Runs = Mapping[tuple[str, str], Result]
"""By panel and label."""


def _run(cell: Cell) -> tuple[str, str]:
    """The panel and the label of a run."""
    if cell.run is linear:
        return "airline", LINEAR
    label = cell.arguments["method"].upper()
    if cell.arguments["site_step"] == "paper":
        label += ", ρ = s/n"
    return cell.arguments["panel"], label


def _at(points: list[list[float]], seconds: float) -> str:
    """The last look before a time."""
    before = [nll for time, _, nll in points if time <= seconds]
    return f"{before[-1]:.4f}" if before else "—"


def text(runs: Runs, stem: str) -> str:
    """The page: curves, and a table of times and memory."""
    times = (1, 2, 5, 10, 30)
    lines = []
    for (panel, label), result in runs.items():
        _, steps, nll = result["points"][-1]
        looks = [_at(result["points"], time) for time in times]
        memory = [_megabytes(result[key]) for key in ("site_bytes", "peak_bytes")]
        lines.append([PANELS[panel], label, *looks, f"{nll:.4f}", f"{steps:,}", *memory])
    header = ["set", "method", *(f"{time} s" for time in times), "end", "steps"]
    header += ["sites, MB", "peak, MB"]
    return f"""\
# {TITLE}

Mean over 10,000 test rows, m = {INDUCING}. Looking at the test rows is not timed. The peak is \
that of the whole process, libraries and data included. The paper shows a plot and prints no \
numbers. The airline plot ends a little above logistic regression: what is worse is cut off.

![Curves, and memory of the sites]({stem}.png)

{markdown_table(header, lines)}
{_past_linear(runs)}"""


def _past_linear(runs: Runs) -> str:
    """A sentence: when each method is first seen to be better than logistic regression."""
    (_, _, linear_nll), *_ = runs["airline", LINEAR]["points"]
    times = []
    for (panel, label), result in runs.items():
        if panel == "airline" and label != LINEAR:
            better = [seconds for seconds, _, nll in result["points"] if nll < linear_nll]
            times.append(f"{label} {better[0]:.1f} s" if better else f"{label} never")
    return (
        f"The first look at which a method is better than logistic regression "
        f"({linear_nll:.4f}) on airline: {'; '.join(times)}.\n"
    )


def _megabytes(size: int | None) -> str:
    return "—" if size is None else f"{size / 1e6:,.1f}" if size < 1e7 else f"{size / 1e6:,.0f}"


def plot(runs: Runs, stem: Path) -> list[Path]:
    """A panel for each set and mode, and the memory of the sites in the last."""
    from matplotlib.ticker import NullFormatter

    from sepgp.experiments.style import drawing, images, look

    with drawing(stem, 2, 2, width=11, height=8) as (_, axes):
        for axis, (panel, title) in zip(axes.flat, PANELS.items(), strict=False):
            for (where, label), result in runs.items():
                if where != panel:
                    continue
                seconds, _, nll = zip(*result["points"], strict=True)
                if label == LINEAR:
                    axis.axhline(nll[-1], color="black", linestyle=":", label=label)
                    continue
                method, _, variant = label.partition(",")
                line = {"linestyle": "--" if variant else "-", "markersize": 4}
                axis.plot(seconds, nll, label=label, **line, **look(method.lower()))
            axis.set(title=title, xlabel="training time in seconds", xscale="log")
            axis.set_ylabel("negative test log-likelihood")
            axis.xaxis.set_major_formatter("{x:g}")
            axis.legend()
        for axis in axes[0]:  # the same scales, so that the two modes can be compared
            low, high = _limits(runs, "mnist", 2)
            xlim, ylim = (EARLIEST, _limits(runs, "mnist", 0)[1]), (low, min(high, 1.0))
            axis.set(yscale="log", xlim=xlim, ylim=ylim)
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("{x:.2g}")
        axes[1, 0].set_xlim(left=EARLIEST)
        low, _ = _limits(runs, "airline", 2)
        axes[1, 0].set_ylim(low, 1.07 * runs["airline", LINEAR]["points"][0][2])
        axes[1, 0].xaxis.set_minor_formatter(NullFormatter())
        _plot_memory(axes[1, 1], runs)
    return images(stem)


def _limits(runs: Runs, name: str, column: int) -> tuple[float, float]:
    """Of a column of the points of a set in all modes, with some room."""
    values = [
        point[column]
        for (panel, label), result in runs.items()
        if panel.startswith(name) and label != LINEAR
        for point in result["points"]
    ]
    room = 1.1 if name == "mnist" else 1.005
    return min(values) / room, max(values) * room


def _plot_memory(axis: Any, runs: Runs) -> None:
    from sepgp.experiments.style import COLOURS

    kept = [(panel, method) for panel in PANELS for method in METHODS]
    sizes = [runs[panel, method.upper()]["site_bytes"] / 1e6 for panel, method in kept]
    places = [4 * (i // 3) + i % 3 for i in range(len(kept))]
    bars = axis.bar(places, sizes, color=[COLOURS[method] for _, method in kept])
    axis.bar_label(bars, [f"{size:,.1f}" if size < 10 else f"{size:,.0f}" for size in sizes])
    axis.set(yscale="log", title="What the sites take in memory, megabytes")
    axis.set_ylim(top=4 * max(sizes))
    axis.set_xticks(places, [method.upper() for _, method in kept])
    for i, name in enumerate(("MNIST, minibatches", "MNIST, batch", "airline")):
        where = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        axis.annotate(name, (4 * i + 1, 0), (0, -28), ha="center", **where)
    axis.grid(axis="x", visible=False)
