"""Table 1 with many classes: four sets, three methods, three numbers of inducing points.

Does the paper's finding hold there: is SEP like EP, and ADF worse with many inducing points? In
batch mode, over 20 random splits. EP keeps two numbers for each row and class and is the dearest,
so at most 700 rows are trained on; what is left is for the test.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedShuffleSplit

from sepgp.classifier import GPClassifier
from sepgp.experiments.catalogue import load
from sepgp.experiments.cells import Cell, Result
from sepgp.experiments.pages import markdown_table, table_of, write_csv, write_text
from sepgp.experiments.paper import METHODS
from sepgp.experiments.splits import Split, trained
from sepgp.experiments.style import drawing, images, look

TITLE = "Many classes: EP, SEP and ADF"
SETS = {"vehicle": 4, "segment": 7, "satimage": 6, "texture": 11}
"""With their numbers of classes."""
SHARES = (5, 10, 20)
"""Inducing points, in per cent of the training rows."""
SPLITS = 20
SEED = 2015
TRAIN, TEST = 700, 2000
"""Rows at most."""
SETTINGS = {"kernel": "rbf", "max_iter": 100}
"""One for all sets, methods and numbers of inducing points: the paper's kernel, else defaults."""
COLUMNS = ["name", "share", "method", "split", "nll", "error", "seconds"]


def cells(quick: bool = False) -> list[Cell]:
    """A cell is one training. The quick run has two splits, and leaves m = 20 % out."""
    fixed = {"seed": SEED, "train": TRAIN, "test": TEST, "settings": SETTINGS}
    return [
        Cell(
            f"{name}-{share}-{method}-{split:02d}",
            fit,
            {"name": name, "share": share, "method": method, "split": split} | fixed,
            cost=n_classes * (10 + share**2),
        )
        for split in range(2 if quick else SPLITS)
        for share in (SHARES[:2] if quick else SHARES)
        for name, n_classes in SETS.items()
        for method in METHODS
    ]


def fit(
    data: Path | None,
    name: str,
    share: int,
    method: str,
    split: int,
    seed: int,
    train: int,
    test: int,
    settings: Result,
) -> Result:
    """Train on one split. All methods of a split start from the same inducing points."""
    X, y = load(name, data)[:2]
    n_train = min(train, round(0.9 * len(y)))
    sizes = {"train_size": n_train, "test_size": min(test, len(y) - n_train)}
    parts = StratifiedShuffleSplit(split + 1, **sizes, random_state=seed)
    kept, left = list(parts.split(X, y))[split]
    model = GPClassifier(
        method=method,
        n_inducing=round(share / 100 * n_train),
        batch_size=n_train,
        random_state=split,
        **settings,
    )
    return trained(model, Split(X[kept], y[kept], X[left], y[left]))


def summary(fits: Any) -> Any:
    """Means and standard errors over splits, a row for each set, number of points and method.

    `difference` is that of the NLL from EP's in the same split.
    """
    base = fits[fits.method == "ep"].set_index(["name", "share", "split"]).nll
    where = pd.MultiIndex.from_frame(fits[["name", "share", "split"]])
    fits = fits.assign(difference=fits.nll - base.reindex(where).to_numpy())
    groups = fits.rename(columns={"name": "set"}).groupby(["set", "share", "method"], sort=False)
    return groups.agg(
        splits=("nll", "size"),
        nll=("nll", "mean"),
        standard_error=("nll", "sem"),
        difference=("difference", "mean"),
        difference_error=("difference", "sem"),
        error=("error", "mean"),
        seconds=("seconds", "mean"),
    ).reset_index()


def averages(rows: Any) -> Any:
    """Means over the sets, for each number of points and method."""
    squares = rows.assign(
        standard_error=rows.standard_error**2, difference_error=rows.difference_error**2
    )
    groups = squares.groupby(["share", "method"], sort=False)
    means = groups[["nll", "difference", "error", "seconds"]].mean()
    errors = np.sqrt(groups[["standard_error", "difference_error"]].sum()).div(
        groups.size(), axis=0
    )
    return means.join(errors).reset_index().assign(set="mean of the four")


def report(grid: list[Cell], results: Mapping[str, Result], stem: Path) -> list[Path]:
    """Write the table, the trainings behind it, a plot and a page; return their paths."""
    fits = table_of(grid, results)
    rows = summary(fits)
    table = write_csv(stem.with_suffix(".csv"), rows)
    all_fits = write_csv(stem.with_name(f"{stem.name}_fits.csv"), fits[COLUMNS])
    page = write_text(stem.with_suffix(".md"), text(rows, stem.name))
    return [table, all_fits, *plot(rows, stem), page]


def text(rows: Any, stem: str) -> str:
    """The page: a table for each number of inducing points."""
    parts = [
        f"# {TITLE}\n",
        f"Mean negative log-likelihood of test rows over {rows.splits[0]} random stratified "
        f"splits, with the standard error of the mean in brackets, after {SETTINGS['max_iter']} "
        f"steps in batch mode. At most {TRAIN} rows are for training, so "
        f"that EP stays affordable, and at most {TEST:,} others for the test. Differences are "
        "from EP in the same splits, with their own standard errors. Seconds are those of the "
        "processor, one thread.\n",
        f"![NLL, set by set]({stem}.png)\n",
    ]
    header = ["set", *(m.upper() for m in METHODS), "ADF − EP", "SEP − EP"]
    header += [f"error, {m.upper()}" for m in METHODS] + [f"seconds, {m.upper()}" for m in METHODS]
    for share, own in pd.concat([rows, averages(rows)]).groupby("share", sort=False):
        lines = [_line(name, of_set) for name, of_set in own.groupby("set", sort=False)]
        parts += [f"## m = {share} %\n", markdown_table(header, lines)]
    return "\n".join(parts)


def _line(name: str, rows: Any) -> list[str]:
    own = {row.method: row for row in rows.itertuples()}
    methods = [own[method] for method in METHODS]
    return [
        name,
        *(f"{row.nll:.4f} ({row.standard_error:.4f})" for row in methods),
        *(
            f"{own[method].difference:+.4f} ({own[method].difference_error:.4f})"
            for method in ("adf", "sep")
        ),
        *(f"{100 * row.error:.2f} %" for row in methods),
        *(f"{row.seconds:.1f}" for row in methods),
    ]


def plot(rows: Any, stem: Path) -> list[Path]:
    """A panel for each set: a line for each method."""
    with drawing(stem, 1, len(SETS), width=11, height=3.4) as (_, axes):
        for axis, (name, n_classes) in zip(axes[0], SETS.items(), strict=True):
            for method in METHODS:
                own = rows[(rows.set == name) & (rows.method == method)]
                style = {"capsize": 2, "label": method.upper()} | look(method)
                axis.errorbar(own.share, own.nll, own.standard_error, **style)
            shares = sorted(rows.share.unique())
            axis.set_xticks(shares, [f"{share} %" for share in shares])
            axis.set(title=f"{name}, {n_classes} classes", xlabel="inducing points")
        axes[0, 0].set_ylabel("negative test log-likelihood")
        axes[0, 0].legend()
    return images(stem)
