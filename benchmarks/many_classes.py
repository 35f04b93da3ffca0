"""Many classes: test negative log-likelihood, error and seconds, beside what else people take.

sepgp, sepgp with boosted trees as a prior mean, sepgp with a kernel for each class, one sepgp
against the rest for each class, boosted trees and logistic regression, on one split of 80/20
(MNIST: its own; airline: 10,000 rows to test). One setting for all sets, and for the pixels of
MNIST sepgp on their principal components too. The test rows are only looked at, never used to
choose anything. First come two lines with the time of a step with ten classes as a multiple of one
with two, taken in turns.

    python benchmarks/many_classes.py [--sets vehicle …] [--only sepgp …] [--seconds 60]
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sepgp import GPClassifier
from sepgp.data.batches import Batch
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.kernels import MANY_FEATURES, Matern32
from sepgp.likelihoods import for_classes
from sepgp.training.memory import keep_freed_memory
from sepgp.training.settings import Settings
from sepgp.training.step import Engine

DATA = Path(os.environ.get("SEPGP_DATA", Path(__file__).parents[2] / "shared" / "data"))
SMALL = ("vehicle", "segment", "satimage", "texture")
SECONDS = {"mnist": 3.0}
"""Multiples of the seconds that a set gets."""
COMPONENTS, COMPONENTS_SECONDS = 60, 10.0
"""Principal components of the pixels, and the seconds that finding them may take."""
STEPS = 250
"""With a prior mean, at most: on held-out training rows of segment 600 were no better than 200."""
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def rows(name: str) -> Split:
    """Training rows and labels, test rows and labels."""
    if name == "mnist":
        stored = np.load(DATA / "mnist.npz")
        X, X_test = (
            stored[f"X_{part}"].reshape(-1, 784).astype(np.float32) / 255
            for part in ("train", "test")
        )
        return X, stored["y_train"], X_test, stored["y_test"]
    if name == "airline":
        X = pd.read_parquet(DATA / "airline_2008_jan_apr.parquet").iloc[:, :-1].to_numpy(np.float32)
        delay = pd.read_parquet(DATA / "airline_2008_jan_apr_extra.parquet")["arr_delay"]
        y, n_test = np.digitize(delay, [1, 16, 61]), 10_000
    else:
        table = pd.read_parquet(DATA / "multiclass" / f"{name}.parquet")
        X, y = table.iloc[:, :-1].to_numpy(float), table.iloc[:, -1].to_numpy()
        n_test = len(y) // 5
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:n_test], order[n_test:]
    return X[train], y[train], X[test], y[test]


def of_components(seconds: float) -> object:
    """sepgp on principal components, with settings that held-out training rows of MNIST chose."""
    model = GPClassifier(
        n_inducing=400,
        batch_size=1000,
        kernel="rbf",
        standardize=False,
        time_budget=seconds - COMPONENTS_SECONDS,
        random_state=0,
    )
    return make_pipeline(PCA(COMPONENTS), model)


def contestants(seconds: float, n_classes: int, n_features: int) -> dict[str, Callable[[], object]]:
    """Estimators by name. Those with a budget have it; one against the rest shares it out."""
    wide = {"sepgp, principal components": lambda: of_components(seconds)}
    return (wide if n_features > MANY_FEATURES else {}) | {
        "sepgp": lambda: GPClassifier(time_budget=seconds, random_state=0),
        "sepgp, mean of trees": lambda: GPClassifier(
            mean="trees", max_iter=STEPS, time_budget=seconds, random_state=0
        ),
        "sepgp, float32": lambda: GPClassifier(
            time_budget=seconds, dtype="float32", random_state=0
        ),
        "sepgp, a kernel each": lambda: GPClassifier(
            time_budget=seconds, shared_kernel=False, random_state=0
        ),
        "one against the rest": lambda: OneVsRestClassifier(
            GPClassifier(time_budget=seconds / n_classes, random_state=0)
        ),
        "boosted trees": lambda: HistGradientBoostingClassifier(random_state=0),
        "logistic regression": lambda: make_pipeline(
            StandardScaler(), LogisticRegression(max_iter=1000)
        ),
    }


def compare(name: str, only: list[str], seconds: float) -> None:
    """Fit the contestants on a set, and print a line for each."""
    X, y, X_test, y_test = rows(name)
    seconds *= SECONDS.get(name, 1.0)
    classes = np.unique(y)
    for who, make in contestants(seconds, len(classes), X.shape[1]).items():
        if only and who not in only:
            continue
        model = make()
        begin = time.perf_counter()
        model.fit(X, y)
        fitted = time.perf_counter() - begin
        begin = time.perf_counter()
        p = model.predict_proba(X_test)
        predicted = time.perf_counter() - begin
        error = np.mean(classes[p.argmax(1)] != y_test)
        print(
            f"{name:9s} {len(y):9,} rows, {len(classes):2d} classes  {who:27s} "
            f"NLL {log_loss(y_test, p, labels=classes):.4f}  error {100 * error:5.2f} %  "
            f"fit {fitted:5.1f} s  predict {len(y_test) / predicted:9,.0f} rows/s",
            flush=True,
        )


def step(n_classes: int, dtype: torch.dtype) -> Callable[[], None]:
    """A function that takes one SEP step, m = 200, with a batch of 2,000 of 100,000 rows."""
    rng = np.random.default_rng(0)
    X, Z = (torch.as_tensor(rng.normal(size=(count, 8))) for count in (2000, 200))
    y = torch.as_tensor(rng.integers(0, n_classes, 2000))
    batch = Batch(X.to(dtype), y, torch.ones(2000, dtype=dtype), None)
    kernel = Matern32(lengthscale=8.0**0.5)
    kernel.start(Z)
    engine = Engine.of(Settings(), for_classes(n_classes), Hyperparameters(kernel, Z))
    state = engine.init(200, 100_000, minibatch=True)

    def take() -> None:
        nonlocal state
        state, info = engine.step(state, batch, 100_000.0, rate=1e-6)
        assert info.ok

    return take


def step_ratio(dtype: torch.dtype, rounds: int = 60) -> None:
    """Print the least seconds of a step with ten classes and with two, taken in turns."""
    steps = {n_classes: step(n_classes, dtype) for n_classes in (2, 10)}
    best = dict.fromkeys(steps, np.inf)
    for _ in range(rounds):
        for n_classes, take in steps.items():
            begin = time.perf_counter()
            take()
            best[n_classes] = min(best[n_classes], time.perf_counter() - begin)
    print(
        f"A step, m = 200, batch 2,000, {str(dtype)[6:]}: 2 classes {1e3 * best[2]:.1f} ms, "
        f"10 classes {1e3 * best[10]:.1f} ms, {best[10] / best[2]:.2f} times"
    )


def main() -> None:
    """Compare on the sets that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=[*SMALL, "mnist", "airline"])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    keep_freed_memory()
    for dtype in (torch.float64, torch.float32):
        step_ratio(dtype)
    for name in given.sets:
        compare(name, given.only, given.seconds)


if __name__ == "__main__":
    main()
