"""sepgp beside boosted trees, other processes and logistic regression on all 20 binary sets.

Every set has one test set, chosen by a fixed seed or given with the set, which chooses nothing; the
seven UCI sets and banknote have 20, of which slow models see one or five. Each model gets the raw
features and the same seconds; on sets of up to 2,000 rows, where sepgp takes a few seconds as it
comes, the others get five. Trees have their defaults, early stopping included, or 300 rounds, or
are tuned: random settings, the best by validation rows, until the seconds are over. Several
--seconds are taken one after the other, the small sets with the first alone. With --folds 10, a
middle-sized set is cut into ten folds, each of which is the test set once: few test rows say little
of calibration.

Printed for each: test negative log-likelihood (NLL), error, expected calibration error (ECE), the
ECE that right probabilities would have by chance, seconds of fit and of prediction; and the
difference of NLL to the trees with its 95 % interval by paired bootstrap over the test rows of all
splits. Then, for each set, whether sepgp is below the trees, level with them (the interval holds 0)
or above; and at the end on how many sets, for each of the --seconds. With --out, the lines of each
set are added to a file, so that the same command goes on where it was stopped, and the end is about
all lines that the file has.

LightGBM, XGBoost, GPyTorch and GPBoost take part if they are installed:
`pip install --no-deps -r benchmarks/requirements-tables.txt`.

    python benchmarks/tables.py [--sets …] [--models …] [--seconds 60 10] [--splits 20] [--folds 10]
        [--out FILE]
"""

import argparse
import math
import time
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from defaults import LARGE, MIDDLE, SMALL, read
from large_sets import airline, mnist
from sklearn.model_selection import StratifiedKFold, train_test_split
from table_models import ALL_ROWS, MODELS, MOST_SPLITS, OURS, REFERENCE, UNTIMED

from sepgp.evaluation.two_classes import calibration_error, chance_of_calibration_error

SETS = [*SMALL, *MIDDLE, *LARGE]
RIPLEY = 200
"""Rows of pima_ripley to train with; the others are the test set that it comes with."""
FEW_SECONDS = 5.0
"""On small sets, for models that take all seconds they get."""
MANY_ROWS = 5_000
"""Calibration is judged on sets of more rows."""
BOOTSTRAPS = 1000
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Answer(NamedTuple):
    """What a model says of the test rows of a split."""

    p: np.ndarray
    """Probabilities of class 1, shape (t,)."""
    y: np.ndarray
    fit: float
    """Seconds."""
    predict: float

    @property
    def losses(self) -> np.ndarray:
        """−log p(y) of every row."""
        return -np.where(self.y > 0, np.log(self.p), np.log1p(-self.p))


class Line(NamedTuple):
    """One model on the test rows of all splits of a set that it has seen."""

    set: str
    rows: int
    """For training and test together."""
    splits: int
    model: str
    budget: float
    nll: float
    error: float
    ece: float
    chance: float
    """The ECE that right probabilities would have on so many test rows."""
    fit: float
    predict: float
    gap: float
    """NLL less that of the trees on the same rows."""
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"{self.set:16s} {self.model:18s} {self.budget:4.0f} {self.nll:8.4f} "
            f"{100 * self.error:6.2f}% "
            f"{self.ece:6.4f} {self.chance:6.4f} {self.fit:7.1f} {self.predict:7.2f}   "
            f"{self.gap:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"
        )


def splits(name: str, count: int, folds: int = 1) -> Iterator[Arrays]:
    """Training and test rows: X, y, X_test, y_test.

    Small sets have `count` of them, and middle-sized ones as many as there are folds, whose test
    rows are all rows.
    """
    if name in LARGE:
        X, y, X_test, y_test = {"mnist": mnist, "airline": airline}[name]()
        yield X.reshape(len(X), -1), y, X_test.reshape(len(X_test), -1), y_test
        return
    X, y = read(name)
    if name == "pima_ripley":
        yield X[:RIPLEY], y[:RIPLEY], X[RIPLEY:], y[RIPLEY:]
        return
    if name in MIDDLE and folds > 1:
        for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y):
            yield X[train], y[train], X[test], y[test]
        return
    for seed in range(count if name in SMALL else 1):
        parts = train_test_split(
            X, y, test_size=min(10_000, len(y) // 10), stratify=y, random_state=seed
        )
        yield parts[0], parts[2], parts[1], parts[3]


def answer(model: str, split: Arrays, seconds: float) -> Answer:
    """Fit a model to a split."""
    X, y, X_test, y_test = split
    begin = time.perf_counter()
    fitted = MODELS[model](X, y, seconds)
    middle = time.perf_counter()
    p = fitted.predict_proba(X_test)[:, 1].astype(np.float64)
    end = time.perf_counter()
    if not np.isfinite(p).all():
        raise FloatingPointError("the predictions are not finite")
    return Answer(np.clip(p, 1e-15, 1 - 1e-15), y_test, middle - begin, end - middle)


def compare(
    name: str, models: list[str], budgets: list[float], count: int, folds: int
) -> Iterator[Line]:
    """Fit all models to all splits of a set. One that fails in a split is left out from there.

    Those that take what time they need are fitted once for all budgets.
    """
    answers: dict[tuple[str, float], list[Answer]] = {}
    failed: set[str] = set()
    for number, split in enumerate(splits(name, count, folds)):
        n_rows = len(split[1]) + len(split[3])
        for model, seconds in product(models, budgets):
            given = answers.setdefault((model, seconds), [])
            if model in failed or number >= MOST_SPLITS.get(model, math.inf):
                continue
            if model in UNTIMED and seconds != budgets[0]:
                given.append(answers[model, budgets[0]][-1])
                continue
            allowed = min(seconds, FEW_SECONDS) if len(split[1]) <= ALL_ROWS else seconds
            try:
                given.append(answer(model, split, allowed))
            except Exception as error:  # whatever a library may raise
                failed.add(model)
                print(f"{name:16s} {model}: none, {type(error).__name__}: {error}", flush=True)
    for (model, seconds), given in answers.items():
        others = answers.get((REFERENCE, seconds)) or given
        yield line(name, n_rows, model, seconds, given, others[: len(given)])


def line(
    name: str, rows: int, model: str, seconds: float, given: list[Answer], others: list[Answer]
) -> Line:
    """What comes out of a model's answers, beside those of the trees on the same splits."""
    if not given:
        return Line(name, rows, 0, model, seconds, *[math.nan] * (len(Line._fields) - 5))
    p, y = (np.concatenate(parts) for parts in zip(*(one[:2] for one in given), strict=True))
    losses, reference = (
        np.concatenate([one.losses for one in several]) for several in (given, others)
    )
    return Line(
        name,
        rows,
        len(given),
        model,
        seconds,
        float(losses.mean()),
        float(np.mean((p > 0.5) != (y > 0))),
        calibration_error(p, (y > 0).astype(float), np.ones(len(p))),
        chance_of_calibration_error(p, np.ones(len(p))),
        float(np.mean([one.fit for one in given])),
        float(np.mean([one.predict for one in given])),
        *gap(losses, reference),
    )


def gap(losses: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
    """The mean difference of two models' losses of the same rows, and its 95 % interval."""
    difference = losses - others
    random = np.random.default_rng(0)
    n = len(difference)
    means = [difference[random.integers(0, n, n)].mean() for _ in range(BOOTSTRAPS)]
    return float(difference.mean()), *map(float, np.quantile(means, [0.025, 0.975]))


def verdict(line: Line) -> str:
    """Where a model stands beside the trees on a set."""
    where = "below" if line.high < 0 else "above" if line.low > 0 else "level with"
    return f"  {line.set}, {line.budget:g} s: {line.model} is {where} the trees"


def is_done(lines: pd.DataFrame, name: str, models: list[str], budgets: list[float]) -> bool:
    """Whether there are lines of all models for a set, of those that failed too."""
    of_set = lines[lines["set"] == name]
    return set(product(models, budgets)) <= set(zip(of_set.model, of_set.budget, strict=True))


def summary(lines: pd.DataFrame, model: str) -> str:
    """On how many sets a model is at or below the trees, and its worst gap and calibration."""
    own = lines[lines.model == model].set_index("set")
    worst, many = own.gap.idxmax(), own[own.rows > MANY_ROWS]
    text = (
        f"{model}: at or below the trees within noise on {(own.low <= 0).sum()} of {len(own)} sets "
        f"(of {len(SETS)}), NLL lower on {(own.gap < 0).sum()}; "
        f"worst gap {own.gap[worst]:+.4f} ({worst})"
    )
    if len(many):
        worst = many.ece.idxmax()
        text += (
            f"; worst ECE with more than {MANY_ROWS:,} rows {many.ece[worst]:.4f} ({worst}, "
            f"{many.chance[worst]:.4f} by chance)"
        )
    return text


def main() -> None:
    """Print lines and a verdict for each set, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--seconds", type=float, nargs="+", default=[60.0])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--folds", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    names = "s      NLL  error  ECE    chance   fit s predict s  − trees"
    print(f"{'set':16s} {'model':18s}    {names}")
    lines = pd.DataFrame(columns=Line._fields)
    if arguments.out is not None and arguments.out.exists():
        lines = pd.read_csv(arguments.out)
    for name in arguments.sets:
        budgets = arguments.seconds[:1] if name in SMALL else arguments.seconds
        if is_done(lines, name, arguments.models, budgets):
            continue
        drawn = arguments.splits, arguments.folds
        found = list(compare(name, arguments.models, budgets, *drawn))
        for one in found:
            print(one, flush=True)
        for one in found:
            if one.model in OURS and REFERENCE in arguments.models:
                print(verdict(one), flush=True)
        lines = pd.concat([lines, pd.DataFrame(found)]) if len(lines) else pd.DataFrame(found)
        if arguments.out is not None:
            fresh = not arguments.out.exists()
            pd.DataFrame(found).to_csv(arguments.out, mode="a", header=fresh, index=False)
    for seconds, model in product(arguments.seconds, OURS):
        of_these = lines[(lines.budget == seconds) | lines["set"].isin(SMALL)]
        of_these = of_these.drop_duplicates(["set", "model"], keep="last")
        if (of_these.model == model).any() and (of_these.model == REFERENCE).any():
            print(f"{seconds:g} s: {summary(of_these, model)}")


if __name__ == "__main__":
    main()
