"""From variational inference to EP: powers between 0 and 1, on equal terms.

The paper's seven UCI sets in batch mode, as in Table 1 with m = 15 %, and MNIST and airline delays
in minibatches, as in Figure 2. All runs of a split have the same kernel, start, optimiser and
number of steps; only the power of the row factor differs, or the method.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import ShuffleSplit

from sepgp.classifier import GPClassifier
from sepgp.data.scaling import Floats
from sepgp.evaluation.two_classes import calibration_gaps
from sepgp.experiments import figure2, splits, table1
from sepgp.experiments.catalogue import load
from sepgp.experiments.cells import Cell, Result
from sepgp.experiments.pages import markdown_table, table_of, write_csv, write_text
from sepgp.experiments.splits import Split
from sepgp.experiments.style import drawing, images
from sepgp.gp.kernels import RBF

TITLE = "Powers: from variational inference to EP"
SMALL = tuple(name for name in table1.SETS if name != "australian")
"""The paper's sets, Australian as the paper must have had it."""
LARGE = ("mnist", "airline")
RUNS: dict[str, Result] = {
    "0": {"method": "sep", "power": 0.0},
    ".25": {"method": "sep", "power": 0.25},
    ".5": {"method": "sep", "power": 0.5},
    ".75": {"method": "sep", "power": 0.75},
    "1": {"method": "sep", "power": 1.0},
    "EP": {"method": "ep", "power": 1.0},
    "ADF": {"method": "adf", "power": 1.0},
}
"""By what the tables call them: the powers are those of SEP."""
REFERENCE = "1"
"""What the others are compared with, split by split."""
SHARE = 15
"""Inducing points of the small sets, in per cent of the training rows."""
SPLITS = 20
SEEDS = 2
"""Runs on each large set, which has one split; they differ in batches and first points."""
STEPS = 500
"""On the large sets."""
MEASURES = {
    "nll": "Negative log-likelihood of test rows",
    "error": "Error",
    "ece": "Expected calibration error",
    "seconds": "Processor seconds",
}


def cells(quick: bool = False) -> list[Cell]:
    """A cell is one training. The quick run has two splits or seeds, and fewer steps.

    On the large sets EP is left out: it meets too few of two million rows for a comparison.
    """
    small = {"seed": table1.SEED, "start": table1.LENGTHSCALE, "share": SHARE} | table1.SETTINGS
    grid = [
        Cell(f"{name}-{run}-{split:02d}", fit, {"name": name, "run": run, "split": split} | small)
        for split in range(2 if quick else SPLITS)
        for name in SMALL
        for run in RUNS
    ]
    size = {"n_inducing": figure2.INDUCING, "batch_size": figure2.BATCH}
    size["max_iter"] = STEPS // 4 if quick else STEPS
    for name in LARGE:
        large = figure2.SETTINGS[name] | {"site_step": figure2.SITE_STEP} | size
        grid += [
            Cell(
                f"{name}-{run}-{seed:02d}",
                fit_large,
                {"name": name, "run": run, "split": seed, "settings": large},
                cost=3 if quick else 12,
            )
            for seed in range(2 if quick else SEEDS)
            for run in RUNS
            if run != "EP"
        ]
    return grid


def fit(
    data: Path | None,
    name: str,
    run: str,
    split: int,
    seed: int,
    start: float,
    share: int,
    **settings: Any,
) -> Result:
    """Train on one split of a small set, with the start and the settings of Table 1."""
    X, y = load(name, data)[:2]
    parts = ShuffleSplit(split + 1, test_size=0.1, random_state=seed)
    train, test = list(parts.split(X))[split]
    sizes: Result = {"n_inducing": round(share / 100 * len(train)), "batch_size": len(train)}
    model = GPClassifier(kernel=RBF(start), random_state=split, **RUNS[run], **sizes, **settings)
    return looked_at(model, Split(X[train], y[train], X[test], y[test]))


def fit_large(data: Path | None, name: str, run: str, split: int, settings: Result) -> Result:
    """Train on a large set in minibatches; `split` is the seed."""
    model = GPClassifier(validation_fraction=0.0, random_state=split, **RUNS[run], **settings)
    return looked_at(model, splits.large_split(name, data))


def looked_at(model: GPClassifier, split: Split) -> Result:
    """Train; NLL, error and processor seconds, and what the calibration error is made of."""
    result = splits.trained(model, split)
    y, p = split.y_test.astype(np.float64), model.predict_proba(split.X_test)[:, 1]
    gaps = calibration_gaps(p, y, np.ones(len(y)))
    return result | {"test_rows": len(y), "gaps": gaps.tolist()}


def summary(fits: Any) -> Any:
    """Means and standard errors over splits, a row for each set and run.

    `difference` is that of the NLL from SEP's, `REFERENCE`, in the same split. The calibration
    error is that of the test rows of all splits together, since a split has too few of them; its
    standard error is by the jackknife.
    """
    base = fits[fits.run == REFERENCE].set_index(["name", "split"]).nll
    where = pd.MultiIndex.from_frame(fits[["name", "split"]])
    fits = fits.assign(difference=fits.nll - base.reindex(where).to_numpy())
    rows = []
    for (name, run), own in fits.groupby(["name", "run"], sort=False):
        row: Result = {"set": name, "run": run, "splits": len(own)}
        for measure in ("nll", "difference", "error", "seconds"):
            row |= {measure: own[measure].mean(), f"{measure}_se": own[measure].sem()}
        gaps, sizes = np.array(own.gaps.tolist()), own.test_rows.to_numpy(np.float64)
        row["ece"], row["ece_se"] = pooled_calibration_error(gaps, sizes)
        rows.append(row)
    return pd.DataFrame(rows)


def pooled_calibration_error(gaps: Floats, sizes: Floats) -> tuple[float, float]:
    """Of the test rows of all splits, and its standard error by leaving out a split at a time.

    `gaps`, shape (splits, bins), are those of `calibration_gaps`; `sizes`, shape (splits,), count
    test rows.
    """
    total, k = gaps.sum(0), len(sizes)
    whole = np.abs(total).sum() / sizes.sum()
    without = np.abs(total - gaps).sum(1) / (sizes.sum() - sizes)
    return float(whole), float(np.sqrt((k - 1) / k * np.square(without - without.mean()).sum()))


def averages(rows: Any) -> Any:
    """Means over the small sets for each run; standard errors are for other splits of these."""
    small = rows[rows.set.isin(SMALL)]
    groups = small.groupby("run", sort=False)
    means = groups[[*MEASURES, "difference"]].mean()
    errors = {
        f"{measure}_se": np.sqrt(groups[f"{measure}_se"].agg(lambda se: np.square(se).sum()))
        / groups.size()
        for measure in means
    }
    return means.assign(**errors).reset_index()


def report(grid: list[Cell], results: Mapping[str, Result], stem: Path) -> list[Path]:
    """Write the table, the trainings behind it, a plot and a page; return their paths."""
    fits = table_of(grid, results)
    rows = summary(fits)
    table = write_csv(stem.with_suffix(".csv"), rows)
    columns = ["name", "run", "split", "nll", "error", "seconds"]
    all_fits = write_csv(stem.with_name(f"{stem.name}_fits.csv"), fits[columns])
    page = write_text(stem.with_suffix(".md"), text(rows, stem.name))
    return [table, all_fits, *plot(rows, stem), page]


def text(rows: Any, stem: str) -> str:
    """The page: a table for each measure, and the differences from SEP."""
    mean = averages(rows).assign(set="mean of the seven")
    small, large = rows[rows.set.isin(SMALL)], rows[rows.set.isin(LARGE)]
    rows = pd.concat([small, mean, large])
    names = [*RUNS]
    steps = table1.SETTINGS["max_iter"]
    parts = [
        f"# {TITLE}\n",
        f"Power 0 is variational inference, power 1 is SEP; the powers between are power EP with a "
        f"tied site. Seven UCI sets: {small.splits.iloc[0]} random 90/10 splits, m = {SHARE} % of "
        f"the rows, {steps} steps with all rows, as in Table 1. MNIST, odd against even, and "
        f"airline delays: m = {figure2.INDUCING}, {STEPS} minibatches of {figure2.BATCH}, "
        f"{large.splits.iloc[0]} runs with other seeds on the same 10,000 test rows. In brackets "
        "is the standard error of a mean over splits or runs. Seconds are those of the processor, "
        "one thread.\n",
        f"![Difference from SEP, set by set]({stem}.png)\n",
        "## Difference of the NLL from that of power 1, in the same splits\n",
        markdown_table(["set", *names], _lines(rows, names, "difference", "+")),
    ]
    for measure, title in MEASURES.items():
        table = markdown_table(["set", *names], _lines(rows, names, measure))
        parts += [f"## {title}\n", table]
    return "\n".join(parts)


def _lines(rows: Any, names: list[str], measure: str, sign: str = "") -> list[list[str]]:
    """A line for each set, an entry for each run."""
    digits = 2 if measure == "seconds" else 4

    def entry(row: Any) -> str:
        return f"{row[measure]:{sign}.{digits}f} ({row[f'{measure}_se']:.{digits}f})"

    lines = []
    for name, own in rows.groupby("set", sort=False):
        found = own.set_index("run")
        lines.append(
            [name, *(entry(found.loc[run]) if run in found.index else "—" for run in names)]
        )
    return lines


def plot(rows: Any, stem: Path) -> list[Path]:
    """A panel for each set: how far each run's NLL is from SEP's, with paired standard errors."""
    with drawing(stem, 3, 3, width=11, height=8) as (_, axes):
        for axis, name in zip(axes.flat, (*SMALL, *LARGE), strict=True):
            own = rows[rows.set == name].set_index("run")
            for x, run in enumerate(RUNS):
                if run in own.index:
                    colour = "#d55e00" if run == REFERENCE else "#0072b2" if x < 5 else "#7f7f7f"
                    look = {"fmt": "o" if x < 5 else "s", "color": colour}
                    axis.errorbar(x, own.difference[run], own.difference_se[run], **look)
            axis.axhline(0, color="black", linewidth=0.8)
            axis.set_xticks(range(len(RUNS)), [*RUNS])
            axis.set_title(name.replace("_paper", ", the paper's target"))
        for axis in axes[:, 0]:
            axis.set_ylabel("NLL less that of power 1")
        for axis in axes[-1]:
            axis.set_xlabel("power, and the other methods")
    return images(stem)
