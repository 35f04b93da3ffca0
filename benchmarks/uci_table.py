"""Mean test negative log-likelihood on the paper's UCI sets: 20 splits, m = 15 %, 250 iterations.

One fixed setting for all sets and methods, in batch mode. Splits are stratified 90/10 splits
with a fixed seed. The data folder is `SEPGP_DATA`, or ../shared/data.

    python benchmarks/uci_table.py [--methods sep ep adf] [--splits 20] [--jobs 2]
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit

from sepgp import GPClassifier
from sepgp.experiments.catalogue import load

SETS = ["australian", "breast", "crabs", "heart", "ionosphere", "pima", "sonar"]
DATA = Path(os.environ.get("SEPGP_DATA", Path(__file__).parents[2] / "shared" / "data"))


def one_fit(name: str, split: int, splits: int, method: str) -> tuple[float, float, float]:
    """Test negative log-likelihood, test error and seconds of one fit."""
    torch.set_num_threads(1)
    X, y = load(name, DATA)[:2]
    shuffle = StratifiedShuffleSplit(splits, test_size=0.1, random_state=0)
    train, test = list(shuffle.split(X, y))[split]
    model = GPClassifier(
        method=method,
        n_inducing=round(0.15 * len(train)),
        batch_size=len(train),
        max_iter=250,
        random_state=split,
    )
    begin = time.perf_counter()
    model.fit(X[train], y[train])
    seconds = time.perf_counter() - begin
    probability = model.predict_proba(X[test])
    return log_loss(y[test], probability), float(1 - model.score(X[test], y[test])), seconds


def main() -> None:
    """Print a line per set and method: mean, standard error, error, seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=["sep", "ep", "adf"])
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    print("set         method     NLL  ± s.e.   error %   seconds")
    for name in arguments.sets:
        for method in arguments.methods:
            fits = Parallel(arguments.jobs)(
                delayed(one_fit)(name, split, arguments.splits, method)
                for split in range(arguments.splits)
            )
            nll, error, seconds = np.array(fits).T
            spread = nll.std(ddof=1) / np.sqrt(len(nll)) if len(nll) > 1 else 0.0
            print(
                f"{name:11s} {method:6s} {nll.mean():8.4f} {spread:7.4f} {100 * error.mean():9.1f}"
                f" {seconds.mean():9.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
