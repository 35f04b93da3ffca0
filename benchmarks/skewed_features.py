"""Skewed features beside their logarithms: held-out NLL with them and without, fold by fold.

The default kernel of many classes sees them; the same kernel by its name, "rbf+matern32", does not.
Only the training part of the split of `many_classes.py` is used: a fifth of it is held out in turn.

    python benchmarks/skewed_features.py [--sets segment …] [--folds 5] [--rows 700] [--m 70]
"""

import argparse

import numpy as np
import torch
from many_classes import SMALL, rows
from sklearn.metrics import log_loss

from sepgp import GPClassifier

FOLDS = 5
"""In one order of the rows; more folds are of another order."""
KERNELS = {"once": "rbf+matern32", "twice": "auto"}


def held_out(name: str, fold: int, most: int, settings: dict[str, int]) -> dict[str, float]:
    """NLL of a fold after training on at most so many of the other rows, by what is seen."""
    X, y, _, _ = rows(name)
    order = np.random.default_rng(100 + fold // FOLDS).permutation(len(y))
    begin, end = (place * len(y) // FOLDS for place in (fold % FOLDS, fold % FOLDS + 1))
    aside, train = order[begin:end], np.delete(order, slice(begin, end))[:most]
    nll = {}
    for seen, kernel in KERNELS.items():
        model = GPClassifier(kernel=kernel, random_state=0, **settings).fit(X[train], y[train])
        nll[seen] = log_loss(y[aside], model.predict_proba(X[aside]), labels=model.classes_)
    return nll


def main() -> None:
    """Print a line per set: the mean over the folds, and in how many logarithms were better."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SMALL)
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--rows", type=int, default=700, help="to train on, at most")
    parser.add_argument("--m", type=int, default=70)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    settings = {"n_inducing": arguments.m, "max_iter": arguments.steps}
    for name in arguments.sets:
        folds = [held_out(name, f, arguments.rows, settings) for f in range(arguments.folds)]
        once, twice = (np.array([nll[seen] for nll in folds]) for seen in KERNELS)
        print(
            f"{name:9s} once {once.mean():.4f}  twice {twice.mean():.4f}  "
            f"lower in {np.sum(twice < once)} of {len(folds)} folds, equal in "
            f"{np.sum(twice == once)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
