"""A prior mean from boosted trees: scores of new rows by the folds' classifiers, or by one of all.

A model has five classifiers, each fitted without a fold of the rows, and new rows get the mean of
their scores. Beside it stands the same model with one classifier that is fitted on all rows. Test
rows take no part: sets with many classes have a fifth of the training rows of `many_classes.py`
held out in turn, and sets with two classes a fifth of those of `tables.py` in one split. NLL of
held-out rows of the process alone too, and differences by pairs of rows with twice their standard
error.

    OMP_NUM_THREADS=1 python benchmarks/fold_scores.py [NAME ...] [--folds 5] [--steps 200]
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from many_classes import SMALL, rows
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from tables import splits

from sepgp import GPClassifier

TWO = ("higgs_7500", "eeg_eye", "bank_marketing", "credit_default")
Held = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def held_out(name: str, n_folds: int) -> Iterator[Held]:
    """Rows to train on and their class numbers, and the same of rows to compare on."""
    if name in TWO:
        X, y = next(splits(name, 1))[:2]
        y = (y > 0).astype(int)
        fit, aside = train_test_split(
            np.arange(len(y)), test_size=min(10_000, len(y) // 5), stratify=y, random_state=1
        )
        yield X[fit], y[fit], X[aside], y[aside]
        return
    X, y, _, _ = rows(name)
    y = np.unique(y, return_inverse=True)[1]
    order = np.random.default_rng(100).permutation(len(y))
    for fold in range(n_folds):
        begin, end = (place * len(y) // 5 for place in (fold, fold + 1))
        aside, fit = order[begin:end], np.delete(order, slice(begin, end))
        yield X[fit], y[fit], X[aside], y[aside]


def losses(name: str, n_folds: int, steps: int) -> dict[str, np.ndarray]:
    """−log p(y) of every held-out row, by model."""
    found: dict[str, list[np.ndarray]] = {"process": [], "all rows": [], "folds": []}
    settings = {"n_inducing": 200, "max_iter": steps, "random_state": 0}
    for X, y, X_aside, y_aside in held_out(name, n_folds):

        def loss(model: GPClassifier, X: np.ndarray = X_aside, y: np.ndarray = y_aside):
            return -np.log(np.maximum(model.predict_proba(X)[np.arange(len(y)), y], 1e-12))

        found["process"].append(loss(GPClassifier(**settings).fit(X, y)))
        model = GPClassifier(mean="trees", **settings).fit(X, y)
        found["folds"].append(loss(model))
        mean = model.model_.mean
        one = clone(mean.classifiers[0]).fit(X, y)
        model.model_ = replace(model.model_, mean=replace(mean, classifiers=(one,)))
        found["all rows"].append(loss(model))
    return {who: np.concatenate(parts) for who, parts in found.items()}


def main() -> None:
    """Print a line per set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=[*SMALL, *TWO])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    for name in given.sets:
        found = losses(name, given.folds, given.steps)
        line = [f"{name:15s}", *(f"{who} {loss.mean():.4f}" for who, loss in found.items())]
        for other in ("process", "all rows"):
            rise = found["folds"] - found[other]
            error = 2 * rise.std() / np.sqrt(len(rise))
            line.append(f"folds − {other} {rise.mean():+.4f} ± {error:.4f}")
        print(" | ".join(line), flush=True)


if __name__ == "__main__":
    main()
