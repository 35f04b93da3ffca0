"""Rows per second while other processes keep all cores busy, and the choice of threads.

python benchmarks/busy.py

On a quiet machine: the defaults of the library beside every fixed number of threads. Then the same
with one endless loop per core beside it, as a part of the quiet rate. Then the number of threads
under an affinity of one core.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from sepgp import GPClassifier, threads

SIZES = [(m, batch) for m in (50, 200, 800) for batch in (200, 2000)]
SECONDS = 4.0
ROUNDS, BUSY_ROUNDS = 11, 5
CORES = len(os.sched_getaffinity(0))


@contextmanager
def busy() -> Iterator[None]:
    """Two other processes that never rest, or one for each core if there are more."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(CORES)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def rows_per_second(m: int, batch: int, fixed: int | None) -> float:
    """Of training, by the steps of `SECONDS`; `fixed` threads, or as many as the library takes."""
    rng = np.random.RandomState(0)
    X = rng.randn(50_000, 8)
    y = X[:, 0] * X[:, 1] + 0.5 * rng.randn(len(X)) > 0
    model = GPClassifier(
        n_inducing=m,
        batch_size=batch,
        time_budget=SECONDS,
        max_iter=10**6,
        validation_fraction=0.0,
        random_state=0,
    )
    chosen = threads.Threads.now
    if fixed is not None:
        threads.Threads.now = property(lambda self: fixed)  # type: ignore[assignment]
    try:
        model.fit(X, y)
    finally:
        threads.Threads.now = chosen  # type: ignore[method-assign]
    seconds = model.history_["seconds"]
    return float(batch * (len(seconds) - 1) / (seconds[-1] - seconds[0]))


def main() -> None:
    torch.set_num_threads(CORES)
    rows_per_second(50, 200, None)
    choices = [*range(1, CORES + 1), None]
    print("m    batch  quiet: " + "  ".join(f"{t} threads" for t in choices[:-1]), end="")
    print("     defaults  of the best  busy  of quiet")
    for m, batch in SIZES:
        # Each number in each round, in turns the first: a shared machine changes all the time.
        quiet = np.empty((ROUNDS, len(choices)))
        for number in range(ROUNDS):
            for i in np.roll(range(len(choices)), number):
                quiet[number, i] = rows_per_second(m, batch, choices[i])
        with busy():
            loaded = np.median([rows_per_second(m, batch, None) for _ in range(BUSY_ROUNDS)])
        *fixed, free = np.median(quiet, axis=0)
        part = np.median(quiet[:, -1] / quiet[:, np.argmax(fixed)])
        print(f"{m:3}  {batch:5}  " + "  ".join(f"{rate:9,.0f}" for rate in fixed), end="")
        print(f"  {free:11,.0f}  {part:11.2f}  {loaded:7,.0f}  {loaded / free:.2f}", flush=True)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"threads allowed under an affinity of one core: {threads.allowed()}")


if __name__ == "__main__":
    main()
