"""How large boosted trees should be where they give a prior mean: NLL of rows kept aside.

Half of the rows of the training part train, as with `mean="trees"`; a tenth, at most 50,000, are
kept aside. The test rows of `tables.py` take no part. A setting is leaves, learning rate and
rounds, of which early stopping may leave out some.

    OMP_NUM_THREADS=1 python benchmarks/tree_sizes.py [NAME ...] [--settings 31,.1,100 ...]
"""

import argparse
import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from tables import SETS, splits

SETTINGS = ["31,.1,100", "31,.1,300", "63,.1,300", "127,.1,300", "255,.2,100", "1023,.3,60"]


def compare(name: str, settings: list[str]) -> None:
    """Print a line for each setting on one set."""
    X, y = next(splits(name, 1))[:2]
    order = np.random.default_rng(1).permutation(len(y))
    n_aside = min(50_000, len(y) // 10)
    aside, half = order[:n_aside], order[n_aside : (len(y) + n_aside) // 2]
    for setting in settings:
        leaves, rate, rounds = setting.split(",")
        begin = time.perf_counter()
        trees = HistGradientBoostingClassifier(
            max_leaf_nodes=int(leaves),
            learning_rate=float(rate),
            max_iter=int(rounds),
            random_state=0,
        ).fit(X[half], y[half])
        seconds = time.perf_counter() - begin
        nll = log_loss(y[aside], trees.predict_proba(X[aside]))
        print(
            f"{name:15s} {len(half):8,d} × {X.shape[1]:3d}  {setting:12s} "
            f"{trees.n_iter_:3d} rounds {seconds:6.1f} s  NLL {nll:.4f}",
            flush=True,
        )


def main() -> None:
    """Print the lines of each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--settings", nargs="+", default=SETTINGS)
    arguments = parser.parse_args()
    for name in arguments.sets:
        compare(name, arguments.settings)


if __name__ == "__main__":
    main()
