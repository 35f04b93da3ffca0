"""What all contestants share: the tasks, the clock, and how they talk with the driver.

Imported in every environment, so it needs NumPy and SciPy alone. A contestant's script calls
`serve`, which reads one JSON request a line and answers each with one line.
"""

import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, log_softmax, logsumexp

Floats = NDArray[np.floating[Any]]
Settings = dict[str, Any]
FIRST_LOOK = 0.5
"""Seconds of training before the test rows are first looked at."""
RAMP_STEPS = 10
SAMPLES = 200
"""Of f, for the probabilities of a softmax."""
PREDICT_STEPS = 20
"""Training steps of the model whose predictions are timed."""
PREDICT_SECONDS = 2.0
"""For which predictions are repeated."""


class Rows(NamedTuple):
    """A prepared data set: standardised features, labels 0 … C−1, and where training starts."""

    X: Floats
    y: NDArray[np.int8]
    X_test: Floats
    y_test: NDArray[np.int8]
    Z: Floats
    """Inducing points, shape (m, d)."""
    lengthscale: float
    """Of every feature."""
    n_classes: int


class Contestant(Protocol):
    """A model under training."""

    def warm_up(self) -> None:
        """Do all that a first step does, such as compiling, and learn nothing."""

    def step(self, scale: float) -> None:
        """Learn from the next minibatch, with the learning rates times `scale`."""

    def nll(self, X: Floats, y: NDArray[np.int8]) -> float:
        """Mean negative log-likelihood of rows with their labels, as the model is now."""

    def predictor(self, chunk: int) -> Callable[[Floats], Floats]:
        """A function from rows to probabilities, as fast as the library can, `chunk` at a time."""


Make = Callable[[Rows, Settings, int], Contestant]
"""A contestant from rows, settings and a seed."""


def read(folder: str, dtype: str, validation: bool = False) -> Rows:
    """Rows from a folder that the driver has prepared.

    For `validation` the test rows stay away: the last tenth of the training rows, at most 10,000,
    takes their place.
    """

    def array(name: str) -> Any:
        return np.load(Path(folder, f"{name}.npy"))

    X, y = array(f"X_{dtype}"), array("y")
    n_classes = int(y.max()) + 1
    if validation:
        kept = len(y) - min(10_000, len(y) // 10)
        X, X_test, y, y_test = X[:kept], X[kept:], y[:kept], y[kept:]
    else:
        X_test, y_test = array(f"X_test_{dtype}"), array("y_test")
    start = array("Z"), float(array("lengthscale"))
    return Rows(X, y, X_test, y_test, *start, n_classes)


def lengthscales(rows: Rows, settings: Settings) -> list[Floats]:
    """Where the length-scales of every kernel start, each of shape (d,): apart, as in sepgp."""
    return [np.full(rows.Z.shape[1], rows.lengthscale * 3.0**k) for k in range(settings["kernels"])]


def minibatches(n: int, size: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Numbers of rows, `size` at a time, without end; every epoch has a fresh order."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(n)
        yield from (order[i : i + size] for i in range(0, n - size + 1, size))


def probit_nll(mean: Floats, variance: Floats, y: NDArray[np.int8]) -> float:
    """Mean negative log-likelihood of labels 0 and 1, from the moments of f; exact far out too."""
    mean, variance = mean.astype(np.float64), variance.astype(np.float64)
    return float(-np.mean(log_ndtr((2.0 * y - 1) * mean / np.sqrt(1 + variance))))


def softmax_nll(mean: Floats, variance: Floats, y: NDArray[np.int8]) -> float:
    """Mean negative log-likelihood of classes 0 … C−1, from the moments of f, shape (n, C).

    p is the mean of the softmax over samples of f, the same for every contestant and look.
    """
    random = np.random.default_rng(0)
    mean, deviation = mean.astype(np.float64), np.sqrt(variance.astype(np.float64))
    log_p = np.empty((SAMPLES, len(y)))
    for one in log_p:
        f = mean + deviation * random.standard_normal(mean.shape)
        one[:] = log_softmax(f, 1)[np.arange(len(y)), y]
    return float(-np.mean(logsumexp(log_p, 0) - math.log(SAMPLES)))


def rows_per_second(predict: Callable[[Floats], Floats], X: Floats) -> float:
    """How many rows a function predicts: the median of calls, after one that is not counted."""
    predictions = predict(X)
    if len(predictions) != len(X) or not np.isfinite(predictions).all():
        raise FloatingPointError("the predictions are not finite")
    seconds: list[float] = []
    while sum(seconds) < PREDICT_SECONDS:
        begin = time.perf_counter()
        predict(X)
        seconds.append(time.perf_counter() - begin)
    return len(X) / float(np.median(seconds))


def cosine(done: float) -> float:
    """From 1 to 0 along half a cosine, as `done` goes from 0 to 1."""
    return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def ramp(step: int) -> float:
    """From 0.001 to 1 in the first steps, as natural gradients need it."""
    return 10.0 ** min(0.0, 3 * (step / RAMP_STEPS - 1))


def train(
    contestant: Contestant,
    rows: Rows,
    schedule: str,
    seconds: float,
    looks: int,
    now: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Train for some seconds; points of [time of the look, clock, steps, test NLL].

    The clock, whose time is `now()`, runs in training steps alone: looking at the test rows is not
    counted, nor is a first step that learns nothing, in which some libraries compile. A run that
    breaks down keeps the points before that.
    """
    contestant.warm_up()
    times = list(np.geomspace(min(FIRST_LOOK, seconds), seconds, looks)) if looks > 1 else [seconds]
    points: list[list[float]] = []
    clock, steps = 0.0, 0
    try:
        while times:
            scale = cosine(clock / seconds) if schedule == "cosine" else 1.0
            begin = now()
            contestant.step(scale)
            clock += now() - begin
            steps += 1
            if clock >= times[0]:
                passed = [t for t in times if t <= clock]
                times = times[len(passed) :]
                nll = contestant.nll(rows.X_test, rows.y_test)
                if not math.isfinite(nll):
                    raise FloatingPointError("the predictions are not finite")
                points.append([passed[-1], clock, steps, nll])
    except Exception as error:
        traceback.print_exc()
        return {"points": points, "error": sentence(error)}
    return {"points": points, "error": None}


def peak_memory() -> int:
    """Bytes that this process has held at most, its libraries included."""
    try:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak


def sentence(error: Exception) -> str:
    """The kind of an error and the line that says what it is; TensorFlow puts it near the end."""
    lines = [line.strip() for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith("[[")] or ["-"]
    return f"{type(error).__name__}: {lines[-1 if lines[0].endswith(':') else 0][:200]}"


class Tasks:
    """What a driver may ask of a Gaussian process contestant."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._kept: dict[str, Any] = {}
        self._libraries = peak_memory()

    def curve(
        self,
        folder: str,
        settings: Settings,
        seconds: float,
        looks: int,
        seed: int = 0,
        validation: bool = False,
        processor: bool = False,
    ) -> dict[str, Any]:
        """Train for some seconds and look at the test rows some times, the last at the end.

        With `processor` the seconds are those of the processor, for a machine that has other work.
        """
        rows = read(folder, settings["dtype"], validation)
        contestant = self._make(rows, settings, seed)
        now = time.process_time if processor else time.perf_counter
        return train(contestant, rows, settings["schedule"], seconds, looks, now)

    def steps(self, folder: str, settings: Settings, seconds: float) -> float:
        """Median seconds of a training step. The model is kept from one request to the next."""
        key = json.dumps(["steps", folder, settings])
        if key not in self._kept:
            contestant = self._make(read(folder, settings["dtype"]), settings, 0)
            contestant.warm_up()
            self._kept[key] = contestant
        taken: list[float] = []
        # At so small a rate the model stays where it is, and with it what a step costs.
        while sum(taken) < seconds or len(taken) < 5:
            begin = time.perf_counter()
            self._kept[key].step(1e-3)
            taken.append(time.perf_counter() - begin)
        return float(np.median(taken))

    def predict(self, folder: str, settings: Settings, chunk: int, rows: int) -> float:
        """Rows per second from an array of features to an array of probabilities."""
        contestant, X = self.trained(folder, settings)
        return rows_per_second(contestant.predictor(chunk), X[:rows])

    def trained(self, folder: str, settings: Settings) -> tuple[Any, Floats]:
        """A model for predictions, and rows. It is kept from one request to the next."""
        key = json.dumps(["predict", folder, settings])
        if key not in self._kept:
            data = read(folder, settings["dtype"])
            contestant = self._make(data, settings, 0)
            contestant.warm_up()
            for _ in range(PREDICT_STEPS):
                contestant.step(1.0)
            self._kept[key] = contestant, data.X
        kept: tuple[Any, Floats] = self._kept[key]
        return kept

    def memory(self) -> dict[str, int]:
        """Bytes held at most: now, and before there were any rows."""
        return {"peak": peak_memory(), "libraries": self._libraries}


def serve(tasks: Any) -> None:
    """Answer requests until there are no more: {"task": name, ...} by {"result"} or {"error"}."""
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)  # what a library prints is no reply
        for line in sys.stdin:
            request = json.loads(line)
            try:
                reply = {"result": getattr(tasks, request.pop("task"))(**request)}
            except Exception as error:
                traceback.print_exc()
                reply = {"error": sentence(error)}
            print(json.dumps(reply), file=replies, flush=True)
