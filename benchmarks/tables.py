"""sepgp beside boosted trees and logistic regression on all binary sets, after the same seconds.

Every set has one test set, chosen by a fixed seed or given with the set, which chooses nothing; the
seven UCI sets have several. Each model gets the raw features. Trees have their defaults, early
stopping included, or 300 rounds, or are tuned: random settings, the best by validation rows, until
the seconds are over. Printed for each: test negative log-likelihood (NLL), error, expected
calibration error (ECE), seconds of fit and of prediction; and the difference of NLL to the trees
with its 95 % interval by paired bootstrap over test rows. LightGBM takes part if it is installed.

    python benchmarks/tables.py [--sets …] [--models …] [--seconds 60] [--splits 5] [--out FILE]
"""

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from defaults import LARGE, MIDDLE, SMALL, read
from large_sets import airline, mnist
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sepgp import GPClassifier
from sepgp.evaluation.two_classes import calibration_error

SETS = [*SMALL, *MIDDLE, *LARGE]
REFERENCE = "trees"
BOOTSTRAPS = 1000
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray, float], Any]


class Line(NamedTuple):
    """One model on one split."""

    set: str
    split: int
    model: str
    budget: float
    nll: float
    error: float
    ece: float
    fit: float
    predict: float
    gap: float
    """NLL less that of the trees on the same rows."""
    low: float
    high: float


def splits(name: str, count: int) -> Iterator[Arrays]:
    """Training and test rows: X, y, X_test, y_test. Small sets have `count` of them."""
    if name in LARGE:
        yield {"mnist": mnist, "airline": airline}[name]()
        return
    X, y = read(name)
    for seed in range(count if name in SMALL else 1):
        parts = train_test_split(
            X, y, test_size=min(10_000, len(y) // 10), stratify=y, random_state=seed
        )
        yield parts[0], parts[2], parts[1], parts[3]


def process(X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
    """sepgp with its defaults; where all rows are in every step, its default number of steps."""
    budget = {} if len(y) <= 2000 else {"time_budget": seconds}
    return GPClassifier(random_state=0, **budget).fit(X, y)


def with_trees(X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
    """sepgp with boosted trees as its prior mean."""
    budget = {} if len(y) <= 2000 else {"time_budget": seconds}
    return GPClassifier(random_state=0, mean="trees", **budget).fit(X, y)


def trees(X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
    """scikit-learn's boosted trees with their defaults, 100 rounds."""
    return HistGradientBoostingClassifier(random_state=0).fit(X, y)


def more_trees(X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
    """scikit-learn's boosted trees with three times the rounds."""
    return HistGradientBoostingClassifier(max_iter=300, random_state=0).fit(X, y)


def tuned_trees(X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
    """The best of random settings on a tenth of the rows, as many as the seconds allow."""
    begin, random = time.perf_counter(), np.random.default_rng(0)
    X_fit, X_valid, y_fit, y_valid = train_test_split(X, y, test_size=0.1, random_state=0)
    best, last = (np.inf, trees(X, y, 0)), 0.0
    while time.perf_counter() - begin + last < seconds:
        started = time.perf_counter()
        model = HistGradientBoostingClassifier(
            learning_rate=float(np.exp(random.uniform(np.log(0.02), np.log(0.2)))),
            max_iter=int(random.choice([100, 200, 400, 800])),
            max_leaf_nodes=int(random.choice([7, 15, 31, 63, 127])),
            min_samples_leaf=int(random.choice([5, 20, 50])),
            l2_regularization=float(random.choice([0.0, 1.0, 10.0])),
            early_stopping=True,
            random_state=0,
        ).fit(X_fit, y_fit)
        nll = log_loss(y_valid, model.predict_proba(X_valid)[:, 1])
        best = min(best, (nll, model), key=lambda pair: pair[0])
        last = time.perf_counter() - started
    return best[1]


def lightgbm(X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
    """LightGBM with its defaults."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=0, verbose=-1).fit(X, y)


def logistic(X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
    """Logistic regression on standardised features."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(X, y)


MODELS: dict[str, Fit] = {
    REFERENCE: trees,
    "trees, 300 rounds": more_trees,
    "tuned trees": tuned_trees,
    "lightgbm": lightgbm,
    "logistic": logistic,
    "sepgp": process,
    "sepgp, mean=trees": with_trees,
}


def gap(losses: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
    """The mean difference of two models' losses of the same rows, and its 95 % interval."""
    difference = losses - others
    random = np.random.default_rng(0)
    n = len(difference)
    means = [difference[random.integers(0, n, n)].mean() for _ in range(BOOTSTRAPS)]
    return float(difference.mean()), *map(float, np.quantile(means, [0.025, 0.975]))


def compare(name: str, models: list[str], seconds: float, count: int) -> Iterator[Line]:
    """Fit all models to all splits of a set."""
    for split, (X, y, X_test, y_test) in enumerate(splits(name, count)):
        X, X_test = (part.reshape(len(part), -1) for part in (X, X_test))
        losses: dict[str, np.ndarray] = {}
        for model in models:
            begin = time.perf_counter()
            try:
                fitted = MODELS[model](X, y, seconds)
            except ImportError as error:
                print(f"{model} takes no part: {error}", flush=True)
                continue
            middle = time.perf_counter()
            p = fitted.predict_proba(X_test)[:, 1]
            end = time.perf_counter()
            p = np.clip(p.astype(np.float64), 1e-15, 1 - 1e-15)
            losses[model] = -np.where(y_test > 0, np.log(p), np.log1p(-p))
            yield Line(
                name,
                split,
                model,
                seconds,
                float(losses[model].mean()),
                float(np.mean((p > 0.5) != (y_test > 0))),
                calibration_error(p, (y_test > 0).astype(float), np.ones(len(p))),
                middle - begin,
                end - middle,
                *gap(losses[model], losses.get(REFERENCE, losses[model])),
            )


def main() -> None:
    """Print a line per set, split and model, and keep them in a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    print("set              model                  NLL    error  ECE    fit s  predict s  − trees")
    for name in arguments.sets:
        for line in compare(name, arguments.models, arguments.seconds, arguments.splits):
            print(
                f"{line.set:16s} {line.model:18s} {line.nll:8.4f} {100 * line.error:6.2f}% "
                f"{line.ece:6.4f} {line.fit:7.1f} {line.predict:7.2f}   "
                f"{line.gap:+.4f} [{line.low:+.4f}, {line.high:+.4f}]",
                flush=True,
            )
            if arguments.out is not None:
                fresh = not arguments.out.exists()
                with arguments.out.open("a", newline="") as file:
                    writer = csv.writer(file)
                    if fresh:
                        writer.writerow(Line._fields)
                    writer.writerow(line)


if __name__ == "__main__":
    main()
