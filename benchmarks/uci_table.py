"""Mean test negative log-likelihood on the paper's UCI sets: 20 splits, m = 15 %, 250 iterations.

One fixed setting for all sets and methods, in batch mode. Splits are stratified 90/10 splits
with a fixed seed. The data folder is `SEPGP_DATA`, or ../shared/data.

    python benchmarks/uci_table.py [--methods sep ep adf] [--splits 20] [--jobs 2]
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit

from sepgp import GPClassifier
from sepgp.experiments.catalogue import load

SETS = ["australian", "breast", "crabs", "heart", "ionosphere", "pima", "sonar"]
DATA = Path(os.environ.get("SEPGP_DATA", Path(__file__).parents[2] / "shared" / "data"))
Rows = tuple[NDArray[Any], NDArray[Any]]
"""And their labels."""


def problem(
    name: str, split: int, splits: int, method: str, seed: int = 0, **settings: Any
) -> tuple[GPClassifier, Rows, Rows]:
    """A classifier in the setting of all sets, and the rows and labels of a split."""
    torch.set_num_threads(1)
    X, y = load(name, DATA)[:2]
    shuffle = StratifiedShuffleSplit(splits, test_size=0.1, random_state=seed)
    train, test = list(shuffle.split(X, y))[split]
    model = GPClassifier(
        method=method,
        n_inducing=round(0.15 * len(train)),
        batch_size=len(train),
        max_iter=250,
        random_state=split,
        **settings,
    )
    return model, (X[train], y[train]), (X[test], y[test])


def one_fit(name: str, split: int, splits: int, method: str) -> tuple[float, float, float]:
    """Test negative log-likelihood, test error and seconds of one fit."""
    model, train, test = problem(name, split, splits, method)
    begin = time.perf_counter()
    model.fit(*train)
    seconds = time.perf_counter() - begin
    return log_loss(test[1], model.predict_proba(test[0])), float(1 - model.score(*test)), seconds


def line(fits: NDArray[np.float64]) -> str:
    """Mean, standard error, error and seconds of some fits."""
    nll, error, seconds = fits.T
    spread = nll.std(ddof=1) / np.sqrt(len(nll)) if len(nll) > 1 else 0.0
    return f"{nll.mean():8.4f} {spread:7.4f} {100 * error.mean():9.1f} {seconds.mean():9.2f}"


def table(
    about: str | None,
    methods: list[str],
    header: str,
    one_fit: Callable[[str, int, int, str], tuple[float, ...]],
    line: Callable[[NDArray[np.float64]], str],
) -> None:
    """Print a line per set and method, by what the command line asks for."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--methods", nargs="+", default=methods)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    print(f"set         method {header}")
    for name in arguments.sets:
        for method in arguments.methods:
            fits = Parallel(arguments.jobs)(
                delayed(one_fit)(name, split, arguments.splits, method)
                for split in range(arguments.splits)
            )
            print(f"{name:11s} {method:6s} {line(np.array(fits))}", flush=True)


if __name__ == "__main__":
    table(
        __doc__,
        ["sep", "ep", "adf"],
        "    NLL  ± s.e.   error %   seconds",
        one_fit,
        line,
    )
