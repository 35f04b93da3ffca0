"""Training with pauses to look at the test rows; only the training is timed."""

import math
import sys
import time
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_ndtr

from sepgp.data.array_source import ArraySource
from sepgp.data.scaling import Floats, standardization
from sepgp.experiments.splits import Split
from sepgp.gp.fitc import Natural
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.inducing import start_points
from sepgp.gp.kernels import RBF
from sepgp.gp.predictor import predict, predictor
from sepgp.training import loop as training
from sepgp.training.memory import keep_freed_memory

CHUNK = 2_000
"""Test rows predicted at a time."""


class Point(NamedTuple):
    """What is known at one time of training."""

    seconds: float
    """Of processor time in training so far, from the making of the sites on."""
    steps: int
    nll: float
    """Mean negative log-likelihood of the test rows."""


def learning_curve(
    split: Split,
    settings: training.Settings,
    n_inducing: int,
    batch_size: int,
    times: Floats,
    seed: int = 0,
) -> tuple[list[Point], training.TrainingState]:
    """Train until the last of `times`, in seconds, and look at the test rows at each of them.

    Starts from k-means centres and an RBF kernel, as `GPClassifier` does; that start is the same
    for all methods and is not timed. Where a step takes longer than the pause between two times,
    one look serves both. The time is that of the processor, so that nothing else on the machine
    counts; it is the time on the wall for one thread on a quiet machine.
    """
    keep_freed_memory()
    budget = float(times[-1])
    y, weight = split.y.astype(np.int64), np.ones(len(split.y))
    scaling = standardization(split.X, weight)
    rng = np.random.RandomState(seed)
    Z = torch.as_tensor(start_points("kmeans", split.X, y, weight, n_inducing, rng, scaling))
    kernel = RBF()
    kernel.start(Z)
    hyper = Hyperparameters(kernel, Z)
    source = ArraySource(split.X, y, weight, scaling, batch_size, seed)
    test = scaling.apply(split.X_test)
    batches = source.batches()
    points: list[Point] = []

    begin = time.process_time()
    state = training.init(settings, hyper, len(Z), source)
    clock = time.process_time() - begin
    while clock < budget:
        begin = time.process_time()
        rate = settings.learning_rate * 0.5 * (1 + math.cos(math.pi * clock / budget))
        state, _ = training.step(settings, hyper, state, next(batches), source.total_weight, rate)
        passed = clock
        clock += time.process_time() - begin
        if np.any((times > passed) & (times <= clock)) or not points:
            points.append(Point(clock, state.iteration, _nll(hyper, state, test, split.y_test)))
    return points, state


def _nll(
    hyper: Hyperparameters, state: training.TrainingState, X: Floats, y: NDArray[np.int8]
) -> float:
    """Mean negative log-likelihood of labels 0 and 1, shape (t,), at scaled rows, shape (t, d)."""
    # The sites were refined under the hyper-parameters from before the last move.
    kernel, Z = hyper.model(state.last_xi)
    total = 0.0
    with torch.no_grad():
        folded = predictor(kernel, Z, Natural(state.sites.Lambda, state.sites.b))
        for begin in range(0, len(X), CHUNK):
            x = torch.as_tensor(X[begin : begin + CHUNK])
            mean, variance = predict(folded, kernel(Z, x), kernel.diag(x))
            z = (mean / torch.sqrt(1 + variance)).numpy()
            total -= log_ndtr((2.0 * y[begin : begin + CHUNK] - 1) * z).sum()
    return float(total / len(X))


def peak_memory() -> int | None:
    """Bytes of memory that this process has held at most; None where the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
