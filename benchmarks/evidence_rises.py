"""How far log Z_q of batch SEP falls on its way, on the paper's UCI sets.

The splits and the setting of uci_table.py. A fall is the distance of a step below the highest of
the steps before it, of those after the first 30, in % of the range of the whole curve. The data
folder is `SEPGP_DATA`, or ../shared/data.

    python benchmarks/evidence_rises.py [--methods sep ep] [--splits 20] [--jobs 2]
"""

import argparse

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.model_selection import StratifiedShuffleSplit
from uci_table import DATA, SETS

from sepgp import GPClassifier
from sepgp.experiments.catalogue import load

FIRST = 30


def deepest_fall(log_evidence: ArrayLike) -> float:
    """In % of the range."""
    values = np.asarray(log_evidence)
    later = values[FIRST:]
    return float(100 * (np.maximum.accumulate(later) - later).max() / np.ptp(values))


def one_fit(name: str, split: int, splits: int, method: str) -> tuple[float, float, int]:
    """Deepest fall, log Z_q at the end, and the number of moves taken back, of one fit."""
    torch.set_num_threads(1)
    X, y = load(name, DATA)[:2]
    shuffle = StratifiedShuffleSplit(splits, test_size=0.1, random_state=0)
    train = list(shuffle.split(X, y))[split][0]
    model = GPClassifier(
        method=method,
        n_inducing=round(0.15 * len(train)),
        batch_size=len(train),
        max_iter=250,
        random_state=split,
    ).fit(X[train], y[train])
    evidence = model.history_["log_evidence"]
    repeated = int((np.diff(evidence) == 0).sum())
    return deepest_fall(evidence), float(evidence[-1]), repeated


def main() -> None:
    """Print a line per set and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=["sep"])
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    print("set         method  deepest fall %: worst   mean   log Z_q at the end   taken back")
    for name in arguments.sets:
        for method in arguments.methods:
            fits = Parallel(arguments.jobs)(
                delayed(one_fit)(name, split, arguments.splits, method)
                for split in range(arguments.splits)
            )
            fall, end, back = np.array(fits).T
            print(
                f"{name:11s} {method:6s} {fall.max():23.2f} {fall.mean():6.2f} {end.mean():20.2f}"
                f" {back.mean():12.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
