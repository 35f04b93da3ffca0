"""Time of one full training step as a multiple of one float64 product (m × m) · (m × batch).

A step is a site refinement, log Z_q, the gradient for every kernel parameter and inducing point,
and the optimiser's move. Both are the best of many repetitions in the same run, taken in turns.

    python benchmarks/step_time.py [--threads N]
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from sepgp import training
from sepgp.data.arrays import ArraySource
from sepgp.data.scaling import identity
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.kernels import RBF
from sepgp.memory import keep_freed_memory

CASES = [(50, 200, 8), (200, 200, 8), (200, 2000, 8), (400, 400, 8), (1000, 1000, 8)]


def full_step(m: int, batch_size: int, d: int, dtype: torch.dtype) -> Callable[[], None]:
    """A function that takes one SEP step, as one batch of many, on a problem of this size."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(batch_size, d))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=batch_size) > 0, 1.0, -1.0)
    Z = torch.as_tensor(rng.normal(size=(m, d)))
    kernel = RBF(lengthscale=2.0)
    kernel.start(Z)
    hyper = Hyperparameters(kernel, Z)
    source = ArraySource(X, y, np.ones(batch_size), identity(d), batch_size, dtype=dtype)
    batch = next(source.batches())
    settings = training.Settings()
    state = training.init(settings, hyper, m, source)
    n = 100.0 * batch_size

    def step() -> None:
        nonlocal state
        state, info = training.step(settings, hyper, state, batch, n, rate=1e-6)
        assert info.ok

    return step


def best_seconds(functions: list[Callable[[], object]], seconds: float = 2.0) -> list[float]:
    """The least time of each function, called in turns until the time is up."""
    best = [float("inf")] * len(functions)
    end = time.perf_counter() + seconds * len(functions)
    rounds = 0
    while rounds < 20 or time.perf_counter() < end:
        for i, function in enumerate(functions):
            begin = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - begin)
        rounds += 1
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    torch.set_num_threads(parser.parse_args().threads)
    keep_freed_memory()
    print(f"{torch.get_num_threads()} threads")
    print("    m  batch    d   product ms   float64 step ms  products   float32 step ms  products")
    for m, batch_size, d in CASES:
        left, right = (torch.randn(m, k, dtype=torch.float64) for k in (m, batch_size))
        product, double, single = best_seconds(
            [
                lambda left=left, right=right: left @ right,
                full_step(m, batch_size, d, torch.float64),
                full_step(m, batch_size, d, torch.float32),
            ]
        )
        print(
            f"{m:5d}  {batch_size:5d}  {d:3d}  {1e3 * product:11.3f}  {1e3 * double:16.2f}"
            f"  {double / product:8.1f}  {1e3 * single:16.2f}  {single / product:8.1f}"
        )


if __name__ == "__main__":
    main()
