"""`partial_fit` over a shuffled set in 50 pieces beside `fit` on all of it: test NLL and seconds.

OMP_NUM_THREADS=1 python benchmarks/online.py [mnist] [nycflights13] [--pieces 50]
"""

import argparse
import time

import numpy as np
from large_sets import DATA, Split, mnist
from sklearn.metrics import log_loss

from sepgp import GPClassifier
from sepgp.experiments.catalogue import load


def nycflights13() -> Split:
    """10,000 rows chosen at random for the test, the others to train."""
    X, y = load("nycflights13", DATA)[:2]
    order = np.random.default_rng(0).permutation(len(y))
    return X[order[10_000:]], y[order[10_000:]], X[order[:10_000]], y[order[:10_000]]


def main() -> None:
    """Print a line per set and way of training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=["mnist", "nycflights13"])
    parser.add_argument("--pieces", type=int, default=50)
    arguments = parser.parse_args()
    for name in arguments.sets:
        X, y, X_test, y_test = {"mnist": mnist, "nycflights13": nycflights13}[name]()
        order = np.random.default_rng(1).permutation(len(y))
        begin = time.perf_counter()
        model = GPClassifier(random_state=0)
        for piece in np.array_split(order, arguments.pieces):
            model.partial_fit(X[piece], y[piece], classes=[0, 1])
        seconds = time.perf_counter() - begin
        nll = log_loss(y_test, model.predict_proba(X_test))
        print(
            f"{name:12s} partial_fit in {arguments.pieces} pieces: NLL {nll:.4f}, {seconds:.0f} s",
            flush=True,
        )
        begin = time.perf_counter()
        model = GPClassifier(random_state=0).fit(X, y)
        seconds = time.perf_counter() - begin
        nll = log_loss(y_test, model.predict_proba(X_test))
        print(f"{name:12s} fit: NLL {nll:.4f}, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
