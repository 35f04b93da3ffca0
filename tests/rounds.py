"""Rows in partitions, and a training in rounds over them in one process, for tests."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.backends.backend import Here
from sepgp.backends.fit import Given, fit
from sepgp.backends.loop import Plan
from sepgp.backends.partitions import Partition
from sepgp.model import Model
from sepgp.training.fit import Run
from sepgp.training.settings import Settings

CASES = {
    "sep": {},
    "a site per part": {"n_factors": "part"},
    "a site per class": {"n_factors": "class"},
    "adf": {"method": "adf", "max_iter": 7},
    "ep": {"method": "ep"},
}


def sines(n: int, n_classes: int = 2, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows in three dimensions, and which of some noisy sines is the largest."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    phase = 2 * np.pi * np.arange(n_classes) / n_classes
    f = np.sin(2 * X[:, :1] + phase) + X[:, 1:2] * np.cos(phase)
    return X, (f + 0.5 * random.normal(size=f.shape)).argmax(1)


def partitions(X: Any, y: Any, count: int) -> list[Partition]:
    """Arrays in so many partitions."""
    pairs = zip(np.array_split(X, count), np.array_split(y, count), strict=True)
    return [Partition(f"partition {i} of X", *pair) for i, pair in enumerate(pairs)]


def options(X: Any, **changes: Any) -> dict[str, Any]:
    """Those of a quick training."""
    return {"n_inducing": 10, "inducing": X[:10], "max_iter": 21, "batch_size": 50} | changes


def fit_in_rounds(
    given: list[Partition],
    n_parts: int | None = 3,
    local_steps: int = 4,
    backend: Any = None,
    run: Run | None = None,
    quorum: float = 1.0,
    **changes: Any,
) -> Model:
    """The model of a quick training."""
    run = run or Run(random_state=0)
    plan = Plan(n_parts, local_steps, quorum)
    return fit(Settings(**changes), Given(given), None, run, plan, backend or Here())
