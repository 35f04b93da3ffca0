"""How near a training step is to the machine's limit, and how its time grows.

A step is a site refinement, log Z_q, the gradient for every kernel parameter and inducing point,
and the optimiser's move: 7m² + 4md useful flops per row. The limit is the rate of a large matrix
product in the same type of numbers, by the library that is faster with it. A product here is one
(m × m) · (m × batch) in float64. All times are the best of many repetitions, taken in turns with
the product they are compared to. A third table has the parts of a step, each alone: what no
arrangement of them can go below. Then come steps with a power below 1, whose moments are by
quadrature, and at last what MKL alone, which torch takes its products to, would need for products
over rows in float32, for steps and for predictions.

    python benchmarks/fraction_of_peak.py [--threads N] [--tables powers]
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from sepgp import GPClassifier
from sepgp.data.array_source import ArraySource
from sepgp.data.batches import Batching
from sepgp.data.scaling import identity
from sepgp.gp import products
from sepgp.gp.fitc import congruent, gram
from sepgp.gp.hyperparameters import Hyperparameters, pull_back
from sepgp.gp.kernels import KERNELS
from sepgp.gp.products import product, product_over_rows
from sepgp.gp.whitened import congruent_lower, lower_times, upper_times
from sepgp.likelihoods import for_classes
from sepgp.training.memory import keep_freed_memory
from sepgp.training.settings import Settings
from sepgp.training.step import Engine

DTYPES = (torch.float64, torch.float32)
SIZES = ((50, 200), (200, 200), (50, 2000), (100, 2000), (200, 2000), (400, 2000), (1000, 2000))
SIZES += ((200, 20_000), (400, 20_000))
"""Inducing points m and batch."""
PARTS = ((200, 200), (200, 2000), (1000, 2000))
"""Inducing points m and batch of the steps that are taken apart."""
GROWTH = {
    "n": (10_000, 100_000, 1_000_000, 10_000_000),
    "m": (50, 100, 200, 400, 800),
    "d": (2, 8, 32, 128, 512),
    "batch": (200, 1000, 5000, 20_000),
}
USUAL = {"n": 100_000, "m": 200, "d": 8, "batch": 2000}


def full_step(
    n: int,
    m: int,
    d: int,
    batch: int,
    dtype: torch.dtype,
    kernel: str = "matern32",
    power: float = 1.0,
) -> Callable[[], None]:
    """A function that takes one SEP step with a minibatch, fetched from n rows of noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal(size=(n, d), dtype=np.float32)
    y = (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(np.int64)
    Z = torch.as_tensor(rng.normal(size=(m, d)))
    covariance = KERNELS[kernel](lengthscale=float(d) ** 0.5)
    covariance.start(Z)
    hyper = Hyperparameters(covariance, Z)
    source = ArraySource(X, y, np.ones(n), Batching(identity(d), batch, dtype=dtype))
    batches: Iterator = source.batches()
    engine = Engine.of(Settings(power=power), for_classes(2, power), hyper)
    state = engine.init(m, n, minibatch=True)

    def step() -> None:
        nonlocal state
        state, info = engine.step(state, next(batches), source.total_weight, rate=1e-6)
        assert info.ok

    return step


def one_product(m: int, k: int, dtype: torch.dtype) -> Callable[[], object]:
    """A function that takes one product (m × m) · (m × k)."""
    left, right = (torch.randn(m, size, dtype=dtype) for size in (m, k))
    return lambda: product(left, right)


def best_seconds(functions: list[Callable[[], object]], seconds: float = 2.0) -> list[float]:
    """The least time of each function, called in turns until the time is up."""
    best = [float("inf")] * len(functions)
    end = time.perf_counter() + seconds * len(functions)
    rounds = 0
    while rounds < 10 or time.perf_counter() < end:
        for i, function in enumerate(functions):
            begin = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - begin)
        rounds += 1
    return best


def fractions() -> None:
    """Print the part of the limit that a step reaches."""
    print("    m  batch  type      step ms  products  Gflop/s  limit  fraction")
    for m, batch in SIZES:
        flops = (7 * m * m + 4 * m * USUAL["d"]) * batch
        for dtype in DTYPES:
            step, unit, limit = best_seconds(
                [
                    full_step(10 * batch, m, USUAL["d"], batch, dtype),
                    one_product(m, batch, torch.float64),
                    one_product(1000, 1000, dtype),
                ]
            )
            rate, peak = flops / step / 1e9, 2e9 / limit / 1e9
            print(
                f"{m:5d}  {batch:5d}  {str(dtype)[6:]}  {1e3 * step:8.2f}  {step / unit:8.1f}"
                f"  {rate:7.1f}  {peak:5.0f}  {100 * rate / peak:6.0f} %",
                flush=True,
            )


def row_products(m: int, batch: int, dtype: torch.dtype) -> Callable[[], object]:
    """A function that takes the products over rows that a step takes.

    Direct: K⁻¹V, Σ\\V, a sum over rows of which a quarter is copied, and the adjoint of Kmm.
    Whitened has one more, for the adjoint of Kmb, and two of them are with triangular matrices.
    """
    S, V = torch.randn(m, m, dtype=dtype), torch.randn(m, batch, dtype=dtype)
    weight = torch.rand(batch, dtype=dtype)

    def all_products() -> None:
        product(S, V)
        if dtype == torch.float64:
            product(S, V)
        else:
            lower_times(S, V)
            upper_times(S, V)
        gram(V, weight)
        product_over_rows(V, V)

    return all_products


def square_products(m: int, dtype: torch.dtype) -> Callable[[], object]:
    """A function that takes the m × m products of a step: KΛK, or three with triangular L."""
    S = torch.randn(m, m, dtype=torch.float64)
    if dtype == torch.float64:
        return lambda: congruent(S, S)
    return lambda: [congruent_lower(S, S) for _ in range(3)]


def factorisations(m: int) -> Callable[[], object]:
    """A function that factorises and inverts two m × m matrices."""
    S = torch.randn(m, 2 * m, dtype=torch.float64)
    S = S @ S.T
    return lambda: [torch.cholesky_inverse(torch.linalg.cholesky_ex(S)[0]) for _ in range(2)]


def kernel_and_derivative(m: int, batch: int, dtype: torch.dtype) -> Callable[[], object]:
    """A function that takes the kernel matrices and pulls adjoints of them back."""
    Z, X = torch.randn(m, USUAL["d"], dtype=torch.float64), torch.randn(batch, USUAL["d"])
    covariance = KERNELS["matern32"]()
    covariance.start(Z)
    hyper, X = Hyperparameters(covariance, Z), X.to(dtype)

    def both() -> None:
        xi = hyper.start.clone().requires_grad_()
        for matrices in ((hyper.Kmm(xi),), hyper.Kmb(xi, X)):
            pull_back(xi, matrices, [part.detach() for part in matrices])

    return both


def parts() -> None:
    """Print the parts of a step, each measured alone, in milliseconds."""
    print("    m  batch  type     step  row products  m × m products  inverses  kernel   rest")
    for m, batch in PARTS:
        for dtype in DTYPES:
            step, *alone = best_seconds(
                [
                    full_step(10 * batch, m, USUAL["d"], batch, dtype),
                    row_products(m, batch, dtype),
                    square_products(m, dtype),
                    factorisations(m),
                    kernel_and_derivative(m, batch, dtype),
                ]
            )
            rows, square, inverses, kernel, rest = (1e3 * t for t in (*alone, step - sum(alone)))
            print(
                f"{m:5d}  {batch:5d}  {str(dtype)[6:]}  {1e3 * step:6.2f}  {rows:12.2f}"
                f"  {square:14.2f}  {inverses:8.2f}  {kernel:6.2f}  {rest:5.2f}",
                flush=True,
            )


def growth() -> None:
    """Print the time of a float64 step as a multiple of the usual one, one size after another."""
    print("usual: " + ", ".join(f"{name} = {value:,}" for name, value in USUAL.items()))
    usual = full_step(**USUAL, dtype=torch.float64)
    for name, values in GROWTH.items():
        parts = []
        for value in values:
            other = full_step(**USUAL | {name: value}, dtype=torch.float64)
            seconds, unit = best_seconds([other, usual], seconds=1.0)
            parts.append(f"{value:,}: {seconds / unit:.2f}")
        print(f"{name:>5} = " + ", ".join(parts), flush=True)


def powers() -> None:
    """Print the time of a step with each power as a multiple of that of SEP."""
    for dtype in DTYPES:
        values = (1.0, 0.0, 0.25, 0.5, 0.75)
        taken = best_seconds([full_step(**USUAL, dtype=dtype, power=power) for power in values])
        parts = [f"{p:g}: {t / taken[0]:.2f}" for p, t in zip(values, taken, strict=True)]
        print(f"{str(dtype)[6:]}, power 1 {1e3 * taken[0]:.2f} ms; " + ", ".join(parts), flush=True)


def by_mkl(function: Callable[[], object]) -> Callable[[], object]:
    """The same with all products by MKL."""

    def call() -> None:
        found, products._by_onednn = products._by_onednn, lambda: None
        try:
            function()
        finally:
            products._by_onednn = found

    return call


def predictions(m: int, d: int, n: int) -> Callable[[], object]:
    """A function that takes the probabilities of n rows, in float32."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal(size=(n, d), dtype=np.float32)
    few = X[:10_000]
    model = GPClassifier(n_inducing=m, kernel="matern32", dtype="float32", max_iter=5)
    model.fit(few, few[:, 0] > 0)
    return lambda: model.predict_proba(X)


def libraries() -> None:
    """Print times in float32, and those with MKL alone."""
    if products._by_onednn() is None:
        print("libraries: MKL is the faster one here, or the only one")
        return
    single = torch.float32
    measured = {}
    for m, batch in PARTS:
        size = f"m = {m:,}, {batch:,} rows"
        measured[f"one product, {size}"] = one_product(m, batch, single)
        measured[f"products of a step, {size}"] = row_products(m, batch, single)
        measured[f"step, {size}"] = full_step(10 * batch, m, USUAL["d"], batch, single)
    for m, d, n in ((200, 8, 200_000), (1000, 100, 20_000)):
        measured[f"predictions, m = {m:,}, {d} features, {n:,} rows"] = predictions(m, d, n)
    print("float32, ms                                                   MKL  faster  ratio")
    for name, function in measured.items():
        ours, mkl = best_seconds([function, by_mkl(function)])
        print(f"{name:56s}{1e3 * mkl:9.3f}{1e3 * ours:8.3f}{mkl / ours:7.2f}", flush=True)


TABLES = {
    "fractions": fractions,
    "growth": growth,
    "parts": parts,
    "powers": powers,
    "libraries": libraries,
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    keep_freed_memory()
    print(f"{torch.get_num_threads()} threads")
    for name in given.tables:
        TABLES[name]()


if __name__ == "__main__":
    main()
