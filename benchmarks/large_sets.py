"""Test negative log-likelihood on MNIST (odd against even) and the airline delays, by passes.

MNIST: m = 200, batch 200, 60,000/10,000, ten epochs. Airline: m = 200, 10,000 random test rows,
one pass over the others. The test rows are only looked at, never used to choose anything.

    python benchmarks/large_sets.py [mnist] [airline] [--method sep] [--batch-size N]
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss

from sepgp import GPClassifier
from sepgp.experiments.catalogue import load

DATA = Path(os.environ.get("SEPGP_DATA", Path(__file__).parents[2] / "shared" / "data"))
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def mnist() -> Split:
    """The split that MNIST comes with."""
    X, y, _, n_train = load("mnist", DATA)
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def airline() -> Split:
    """10,000 rows chosen at random for the test, the others to train."""
    X, y = load("airline", DATA)[:2]
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:10_000], order[10_000:]
    return X[train], y[train], X[test], y[test]


def report(name: str, split: Split, epochs: float, method: str, batch_size: int) -> None:
    """Fit, and print test negative log-likelihood, error and speed."""
    X, y, X_test, y_test = split
    steps = round(epochs * -(-len(y) // batch_size))
    model = GPClassifier(
        method=method,
        n_inducing=200,
        batch_size=batch_size,
        max_iter=steps,
        validation_fraction=0.0,
        random_state=0,
    )
    begin = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    probability = model.predict_proba(X_test)
    predict = time.perf_counter() - begin
    nll = log_loss(y_test, probability)
    error = np.mean((probability[:, 1] > 0.5) != y_test)
    rejected = int(model.history_["rejected"].sum())
    print(
        f"{name:8s} {method} batch {batch_size}: NLL {nll:.4f}, error {100 * error:.2f} %, "
        f"{steps} steps = {epochs:g} epochs in {seconds:.0f} s ({epochs * len(y) / seconds:,.0f} "
        f"rows/s), predict {len(y_test) / predict:,.0f} rows/s, {rejected} steps rejected",
        flush=True,
    )


def main() -> None:
    """Print a line per set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=["mnist", "airline"])
    parser.add_argument("--method", default="sep")
    parser.add_argument("--batch-size", type=int, default=200)
    arguments = parser.parse_args()
    for name in arguments.sets:
        load, epochs = {"mnist": (mnist, 10.0), "airline": (airline, 1.0)}[name]
        report(name, load(), epochs, arguments.method, arguments.batch_size)


if __name__ == "__main__":
    main()
