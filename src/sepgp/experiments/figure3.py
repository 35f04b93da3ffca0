"""Figure 3: MNIST with more and more training rows and inducing points, in minibatches.

Runs go over their rows twenty times, or for 400 steps if that is more: EP renews the site of a row
once in a pass, so with the same number of steps for all, large sets would end before its sites
have settled.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sepgp.classifier import GPClassifier
from sepgp.experiments import splits
from sepgp.experiments.cells import Cell, Result
from sepgp.experiments.pages import markdown_table, table_of, write_csv, write_text
from sepgp.experiments.paper import METHODS
from sepgp.experiments.style import drawing, images, look

TITLE = "Figure 3: MNIST, training rows and inducing points"
ROWS = (1_000, 3_000, 10_000, 20_000)
INDUCING = (50, 100, 200, 400)
BATCH = 200
PASSES = 20
LEAST_STEPS = 400
QUICK_STEPS = 250
SETTINGS: dict[str, Any] = {"kernel": "rbf", "learning_rate": 0.03, "site_step": 0.02}
COLUMNS = ["rows", "inducing", "method", "nll", "error", "seconds", "state_size"]


def cells(quick: bool = False) -> list[Cell]:
    """A cell is one run. The quick run has fewer sizes and steps."""
    steps = {n: QUICK_STEPS if quick else max(LEAST_STEPS, PASSES * n // BATCH) for n in ROWS}
    return [
        Cell(
            f"{rows}-{inducing}-{method}",
            fit,
            {"rows": rows, "inducing": inducing, "method": method}
            | {"steps": steps[rows], "batch": BATCH, "settings": SETTINGS},
            cost=steps[rows] * (1 + (inducing / 100) ** 1.5),
        )
        for inducing in ((50, 200) if quick else INDUCING)
        for rows in ((1_000, 20_000) if quick else ROWS)
        for method in METHODS
    ]


def fit(
    data: Path | None, rows: int, inducing: int, method: str, steps: int, batch: int, settings: Any
) -> Result:
    """Train on the first rows of a random order of MNIST, and look at its 10,000 test rows."""
    sizes: Result = {"n_inducing": inducing, "batch_size": batch, "max_iter": steps}
    model = GPClassifier(
        method=method, validation_fraction=0.0, random_state=0, **sizes, **settings
    )
    result = splits.trained(model, splits.large_split("mnist", data, rows))
    return result | {"state_size": int(model.history_["state_size"][-1])}


def report(grid: list[Cell], results: Mapping[str, Result], stem: Path) -> list[Path]:
    """Write the numbers, a plot and a page; return their paths."""
    runs = table_of(grid, results)
    table = write_csv(stem.with_suffix(".csv"), runs[COLUMNS])
    nll = runs.pivot(index=["inducing", "rows", "steps"], columns="method", values="nll")
    page = write_text(stem.with_suffix(".md"), text(nll, stem.name))
    return [table, *plot(nll, stem), page]


def text(nll: Any, stem: str) -> str:
    """The page: the numbers, and how far ADF and SEP are from EP."""
    lines = [
        [f"{n:,}", str(m), f"{steps:,}", *(f"{row[method]:.4f}" for method in METHODS)]
        + [f"{row[method] - row['ep']:+.4f}" for method in ("adf", "sep")]
        for (m, n, steps), row in nll.iterrows()
    ]
    header = ["n", "m", "steps", *(method.upper() for method in METHODS), "ADF − EP", "SEP − EP"]
    return f"""\
# {TITLE}

Negative log-likelihood of the 10,000 test rows after training with minibatches of {BATCH} rows. \
The paper shows a plot and prints no numbers.

![Negative log-likelihood against training rows]({stem}.png)

{markdown_table(header, lines)}"""


def plot(nll: Any, stem: Path) -> list[Path]:
    """A panel for each number of inducing points: a line for each method."""
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    points = nll.index.unique("inducing")
    width = 2.8 * len(points) + 0.6
    with drawing(stem, 1, len(points), width, height=3.6, sharey=True) as (_, axes):
        for axis, (m, lines) in zip(axes[0], nll.groupby("inducing"), strict=True):
            sizes = lines.index.get_level_values("rows")
            for method in METHODS:
                axis.plot(sizes, lines[method], label=method.upper(), **look(method))
            axis.set(xscale="log", yscale="log", title=f"m = {m}", xlabel="training rows n")
            axis.set_xticks(sizes, [f"{n // 1000}k" for n in sizes])
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.yaxis.set_major_formatter(ScalarFormatter())
            axis.yaxis.set_minor_formatter(ScalarFormatter())
        axes[0, 0].set_ylabel("negative test log-likelihood")
        axes[0, 0].legend()
    return images(stem)
