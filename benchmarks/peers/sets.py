"""The data sets, prepared once for all contestants: same rows, same scaling, same start."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import make_classification

from sepgp.data.moments import standardization
from sepgp.experiments.splits import TEST_ROWS, Split, large_split
from sepgp.gp.inducing import start_points
from sepgp.training.start import MAX_ROWS

FOLDER = Path(__file__).parent / ".prepared"
INDUCING = 200
SHARES = {"airline": 1.0, "mnist": 0.5, "nycflights13": 0.4, "synthetic": 0.2}
"""Sets, and the share of the training time that each gets."""
SPEED = "speed"
"""The set on which steps and predictions are timed."""


def synthetic(data: Path | None) -> Split:
    """19,000 rows of 10 features to train with, made by scikit-learn's generator."""
    X, y = make_classification(
        19_000 + TEST_ROWS,
        10,
        n_informative=6,
        n_redundant=2,
        n_clusters_per_class=8,
        flip_y=0.05,
        random_state=0,
    )
    y = y.astype(np.int8)
    return Split(X[TEST_ROWS:], y[TEST_ROWS:], X[:TEST_ROWS], y[:TEST_ROWS])


def speed(data: Path | None) -> Split:
    """200,000 rows of 8 normal features, with a label that depends on all of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 8))
    f = np.sin(X).sum(1) + 0.5 * rng.normal(size=len(X))
    y = (f > 0).astype(np.int8)
    return Split(X, y, X[:TEST_ROWS], y[:TEST_ROWS])


MADE: dict[str, Callable[[Path | None], Split]] = {"synthetic": synthetic, SPEED: speed}


def prepare(name: str, data: Path | None) -> Path:
    """A folder with the rows of a set and where training starts, made on first use.

    Features are standardised, with far values drawn in, as `GPClassifier` does; inducing points
    start at its k-means centres, and length-scales where its kernel starts.
    """
    folder = FOLDER / name
    if (folder / "ready").exists():
        return folder
    print(f"Preparing {name}", flush=True)
    split = MADE[name](data) if name in MADE else large_split(name, data)
    weight = np.ones(len(split.y))
    scaling = standardization(split.X, weight)
    rng = np.random.RandomState(0)
    some = np.arange(len(split.y))
    if len(some) > MAX_ROWS:
        some = np.sort(rng.choice(some, MAX_ROWS, replace=False))
    Z = start_points(
        "kmeans", scaling.apply(split.X[some]), split.y[some], weight[some], INDUCING, rng
    )
    arrays = {
        "Z": Z,
        "lengthscale": np.sqrt(torch.pdist(torch.as_tensor(Z)).median()),
        "y": split.y,
        "y_test": split.y_test,
    }
    for part, rows in (("X", split.X), ("X_test", split.X_test)):
        scaled = scaling.apply(rows)
        arrays |= {f"{part}_{t}": scaled.astype(t) for t in ("float64", "float32")}
    folder.mkdir(parents=True, exist_ok=True)
    for key, array in arrays.items():
        np.save(folder / f"{key}.npy", array)
    (folder / "ready").touch()
    return folder
