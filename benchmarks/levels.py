"""Text columns of 5, 50, 5,000 and 500,000 levels: NLL beside boosted trees, and peak memory.

Tables are made at random: two columns of numbers, one of which counts, and four of text, of which
all, some or none count; in the last table labels are random. Trees are scikit-learn's
`HistGradientBoostingClassifier()` with its `TargetEncoder()` for text. "Without" is sepgp without
label means. The best that can be is the NLL of the probabilities that labels were drawn from.

Peak memory and seconds are those of the command `sepgp train` on CSV files, in a process of its
own; the 500,000 levels of the smaller file are left out, as nearly every row has another one.

    python benchmarks/levels.py [--rows 20000] [--steps 300] [--files 100000 1000000]
"""

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder

import sepgp
from sepgp.data import survey

LEVELS = (5, 50, 5_000, 500_000)
TABLES = {"all count": LEVELS, "some count": (5, 5_000), "labels are random": None}
TEST = 10_000
MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Runs a command from a small process: what this one holds would count as its peak."""


def made(n_rows: int, counts: tuple[int, ...] | None, seed: int = 0) -> tuple[Any, Any, Any]:
    """A table, its labels, and the probabilities that these were drawn from."""
    random = np.random.default_rng(seed)
    table = {name: random.normal(size=n_rows) for name in ("counts", "noise")}
    f = np.sin(2 * table["counts"])
    for size in LEVELS:
        level, effect = random.integers(0, size, n_rows), random.normal(size=size)
        table[f"of {size}"] = np.char.add("level ", level.astype(str))
        f = f + (0.8 * effect[level] if counts is not None and size in counts else 0.0)
    p = np.full(n_rows, 0.4) if counts is None else 1 / (1 + np.exp(-f))
    return pd.DataFrame(table), (random.random(n_rows) < p).astype(int), p


def trees(X: pd.DataFrame, y: NDArray[Any]) -> Any:
    """Boosted trees with target encoding."""
    texts = [name for name in X if name.startswith("of ")]
    encoder = make_column_transformer((TargetEncoder(), texts), remainder="passthrough")
    return make_pipeline(encoder, HistGradientBoostingClassifier()).fit(X, y)


def process(X: pd.DataFrame, y: NDArray[Any], steps: int, most_labels: int) -> Any:
    """The settings of `sepgp train`, with label means for up to so many classes."""
    before, survey.MOST_LABELS = survey.MOST_LABELS, most_labels
    settings = {"max_iter": steps, "validation_fraction": 0.1, "random_state": 0}
    model = sepgp.GPClassifier(**settings).fit(X, y)
    survey.MOST_LABELS = before
    return model


def command(path: Path, steps: int) -> tuple[float, float, Any]:
    """Peak memory of `sepgp train` in MB, its seconds, and the model."""
    out = path.with_suffix(".sepgp")
    options = ["--target", "y", "--out", str(out), "-q", "--steps", str(steps)]
    begin = time.perf_counter()
    words = [sys.executable, "-W", "ignore", "-m", "sepgp", "train", path, *options]
    run = subprocess.run([sys.executable, "-c", MEASURE, *words], check=True, capture_output=True)
    return int(run.stdout) / 1024, time.perf_counter() - begin, sepgp.load(out)


def main() -> None:
    """Print a line per table, and one per file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--files", type=int, nargs="*", default=[100_000, 1_000_000])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, counts in TABLES.items() if given.rows else ():
        X, y, p = made(given.rows + TEST, counts)
        train, test = slice(0, given.rows), slice(given.rows, None)
        share = np.full(TEST, y[train].mean())
        said = [log_loss(y[test], share), log_loss(y[test], p[test])]
        for most in (survey.MOST_LABELS, 0):
            model = process(X[train], y[train], given.steps, most)
            said.append(log_loss(y[test], model.predict_proba(X[test])))
        said.append(log_loss(y[test], trees(X[train], y[train]).predict_proba(X[test])))
        words = ("class frequencies", "best", "sepgp", "without", "trees")
        line = ", ".join(f"{w} {v:.4f}" for w, v in zip(words, said, strict=True))
        print(f"{given.rows:,} rows, {name}: NLL of {line}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in given.files:
            X, y, p = made(n_rows + TEST, LEVELS)
            path = Path(folder) / f"{n_rows}.csv"
            X[:n_rows].assign(y=y[:n_rows]).to_csv(path, index=False)
            peak, seconds, model = command(path, given.steps)
            X, y, p = X[n_rows:], y[n_rows:], p[n_rows:]
            nll, best = log_loss(y, model.predict_proba(X)), log_loss(y, p)
            print(
                f"{n_rows:,} rows ({path.stat().st_size / 2**20:.0f} MB): sepgp train, peak "
                f"{peak:.0f} MB, {seconds:.0f} s, NLL {nll:.4f}, best {best:.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
