"""The data sets, prepared once for all contestants: same rows, same scaling, same start."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import make_classification

from sepgp.data.moments import standardization
from sepgp.data.scaling import Floats, Scaling
from sepgp.experiments.catalogue import data_folder, described, load
from sepgp.experiments.splits import TEST_ROWS, Split, large_split
from sepgp.gp.inducing import start_points
from sepgp.training.start import MAX_ROWS

FOLDER = Path(__file__).parent / ".prepared"
INDUCING = 200
SHARES = {"airline": 1.0, "mnist": 0.5, "nycflights13": 0.4, "synthetic": 0.2}
"""Sets, and the share of the training time that each gets."""
MANY = {"digits": 1.0, "delays": 0.5, "satimage": 0.3, "texture": 0.3, "segment": 0.3}
"""Sets with many classes, and the share of the training time that each gets."""
EDGES = [1, 16, 61]
"""Minutes at which a delay is of the next class."""
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


def digits(data: Path | None) -> Split:
    """MNIST with its ten classes and its own split."""
    file = described("mnist").file
    stored = np.load(data_folder(data, file) / file)
    X, X_test = (stored[f"X_{part}"].reshape(-1, 784) for part in ("train", "test"))
    order = np.random.default_rng(0).permutation(len(X))
    y, y_test = (stored[f"y_{part}"].astype(np.int8) for part in ("train", "test"))
    return Split(X[order], y[order], X_test, y_test)


def delays(data: Path | None) -> Split:
    """Airline delays in four classes: at most 0, up to 15, up to 60 and more minutes."""
    extra = "airline_2008_jan_apr_extra.parquet"
    minutes = pd.read_parquet(data_folder(data, extra) / extra)["arr_delay"]
    y = np.digitize(minutes, EDGES).astype(np.int8)
    return _split(load("airline", data).X, y, TEST_ROWS)


def many(name: str, data: Path | None) -> Split:
    """A set of the catalogue with many classes, a fifth of its rows to test."""
    X, y = load(name, data)[:2]
    return _split(X, y, len(y) // 5)


def _split(X: np.ndarray, y: np.ndarray, n_test: int) -> Split:
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:n_test], order[n_test:]
    return Split(X[train], y[train], X[test], y[test])


MADE: dict[str, Callable[[Path | None], Split]] = {
    "synthetic": synthetic,
    SPEED: speed,
    "digits": digits,
    "delays": delays,
    **{name: partial(many, name) for name in ("satimage", "texture", "segment")},
}


def start(X: np.ndarray, y: np.ndarray) -> tuple[Scaling, Floats, float]:
    """Scaling, inducing points and length-scale to start from, as `GPClassifier` has them."""
    weight = np.ones(len(y))
    scaling = standardization(X, weight)
    rng = np.random.RandomState(0)
    some = np.arange(len(y))
    if len(some) > MAX_ROWS:
        some = np.sort(rng.choice(some, MAX_ROWS, replace=False))
    Z = start_points("kmeans", scaling.apply(X[some]), y[some], weight[some], INDUCING, rng)
    return scaling, Z, float(np.sqrt(torch.pdist(torch.as_tensor(Z)).median()))


def prepare(name: str, data: Path | None) -> Path:
    """A folder with the rows of a set and where training starts, made on first use.

    Features are standardised, with far values compressed, as `GPClassifier` does; inducing points
    start at its k-means centres, and length-scales where its kernel starts.
    """
    folder = FOLDER / name
    if (folder / "ready").exists():
        return folder
    print(f"Preparing {name}", flush=True)
    split = MADE[name](data) if name in MADE else large_split(name, data)
    scaling, Z, lengthscale = start(split.X, split.y)
    arrays = {
        "Z": Z,
        "lengthscale": lengthscale,
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
