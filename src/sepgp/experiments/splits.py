"""The large sets, split into rows to train with and 10,000 rows to test with."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sepgp.experiments.catalogue import load

TEST_ROWS = 10_000


class Split(NamedTuple):
    """Rows to train with, and rows to test with."""

    X: NDArray[Any]
    """Shape (n, d)."""
    y: NDArray[np.int8]
    """Labels 0 and 1, shape (n,)."""
    X_test: NDArray[Any]
    """Shape (t, d)."""
    y_test: NDArray[np.int8]
    """Shape (t,)."""


def large_split(name: str, data: Path | None, rows: int | None = None) -> Split:
    """A large set of the catalogue, its training rows in a random order that is always the same.

    A set that comes with a split keeps it; of any other, random rows are for the test. With
    `rows`, only the first so many rows of the random order are for training: a smaller number
    gives a part of a larger one's.
    """
    X, y, _, n_train = load(name, data)
    order = np.random.default_rng(0).permutation(n_train or len(y))
    test = order[:TEST_ROWS] if n_train is None else np.arange(n_train, len(y))
    train = (order[TEST_ROWS:] if n_train is None else order)[:rows]
    return Split(X[train], y[train], X[test], y[test])


def trained(model: Any, split: Split) -> dict[str, float]:
    """Train a classifier and look at its test rows; the time is that of the processor."""
    begin = time.process_time()
    model.fit(split.X, split.y)
    seconds = time.process_time() - begin
    log_p = model.predict_log_proba(split.X_test)
    nll = -np.mean(log_p[np.arange(len(log_p)), split.y_test])
    error = np.mean(log_p.argmax(1) != split.y_test)
    return {"nll": float(nll), "error": float(error), "seconds": seconds}
