"""Training with pauses to look at the test rows; only the training is timed."""

import ctypes
import gc
import math
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from numpy.typing import NDArray

from sepgp.data.batches import Batching
from sepgp.data.prepared import ArrayData
from sepgp.data.scaling import Floats
from sepgp.data.schema import Schema
from sepgp.experiments.splits import Split
from sepgp.training.fit import engine_of
from sepgp.training.memory import keep_freed_memory
from sepgp.training.monitor import Monitor
from sepgp.training.schedule import Schedule
from sepgp.training.settings import Settings
from sepgp.training.start import from_rows
from sepgp.training.step import TrainingState

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
    split: Split, settings: Settings, batch_size: int, times: Floats, seed: int = 0
) -> tuple[list[Point], TrainingState]:
    """Train until the last of `times`, in seconds, and look at the test rows at each of them.

    Starts as `GPClassifier` does with the same settings; that start is the same for all methods and
    is not timed. Where a step takes longer than the pause between two times, one look serves both.
    The time is that of the processor, so that nothing else on the machine counts.
    """
    keep_freed_memory()
    budget = float(times[-1])
    data, test = _data(split.X, split.y), _data(split.X_test, split.y_test)
    schema = Schema(split.X.shape[1], None, None)
    start = from_rows(settings, data, schema, None, np.random.RandomState(seed))
    engine, rate = engine_of(settings, start), Schedule.of(settings, 1).rate
    source = data.source(Batching(start.scaling, batch_size, seed))
    looks = test.source(Batching(start.scaling, CHUNK, seed))
    monitor = Monitor(engine.hyper, start.likelihood, looks)
    batches = source.batches()
    points: list[Point] = []

    begin = time.process_time()
    state = engine.init(len(start.Z), source.n_rows, source.batches_per_epoch > 1)
    clock = time.process_time() - begin
    while clock < budget:
        begin = time.process_time()
        falling = rate * 0.5 * (1 + math.cos(math.pi * clock / budget))
        state, _ = engine.step(state, next(batches), source.total_weight, falling)
        passed = clock
        clock += time.process_time() - begin
        if np.any((times > passed) & (times <= clock)) or not points:
            # The sites were refined under the hyper-parameters from before the last move.
            _, nll = monitor.measure(None, state.iteration, state.last_xi, state.sites)
            points.append(Point(clock, state.iteration, nll))
    return points, state


def _data(X: NDArray[Any], y: NDArray[np.int8]) -> ArrayData:
    return ArrayData(X, y.astype(np.int64), np.ones(len(y)), np.arange(2))


def forget_peak_memory() -> None:
    """Let `peak_memory` begin anew, in a process that may have done other work before."""
    gc.collect()
    pyarrow.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError, TypeError):  # on Linux alone
        ctypes.CDLL(None).malloc_trim(0)  # memory that is free goes back to the system
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory() -> int | None:
    """Bytes that this process has held at most since then; None where the system does not say."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    return 1024 * int(found[1]) if found else None
