"""The default kernel of more than 100 features: held-out NLL of an RBF beside a Matérn 3/2 kernel.

Pixels of MNIST with three targets, and tables that are made wide: by all products of two columns,
or as 128 noisy mixtures of them. Training rows only, a sixth of them held out in each of two draws,
a short time budget; run it with OMP_NUM_THREADS=1. The data folder is `SEPGP_DATA`, or
../shared/data.

    python benchmarks/wide_tables.py [--seconds 4]
"""

import argparse
from collections.abc import Callable

import numpy as np
from defaults import read
from many_classes import rows as ten_digits
from sklearn.datasets import make_classification
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from sepgp import GPClassifier

KERNELS = "rbf", "matern32"
DRAWS = 2
MIXTURES, NOISE = 128, 0.3
DIGITS = 30_000
Rows = tuple[np.ndarray, np.ndarray]


def products(X: np.ndarray) -> np.ndarray:
    """All columns and products of two of them."""
    return PolynomialFeatures(2, include_bias=False).fit_transform(
        StandardScaler().fit_transform(X)
    )


def mixtures(X: np.ndarray) -> np.ndarray:
    """Random directions, with noise."""
    random = np.random.default_rng(0)
    directions = random.normal(size=(X.shape[1], MIXTURES)) / X.shape[1] ** 0.5
    noise = NOISE * random.normal(size=(len(X), MIXTURES))
    return StandardScaler().fit_transform(X) @ directions + noise


def widened(name: str, widen: Callable[[np.ndarray], np.ndarray]) -> Rows:
    """A table with more columns."""
    X, y = read(name)
    return widen(X), y


def digits(target: Callable[[np.ndarray], np.ndarray]) -> Rows:
    """Pixels, and a question about their digit."""
    X, digit = ten_digits("mnist")[:2]
    return X[:DIGITS], target(digit[:DIGITS]).astype(int)


SETS: dict[str, Callable[[], Rows]] = {
    "MNIST, odd": lambda: digits(lambda y: y % 2 == 1),
    "MNIST, above 4": lambda: digits(lambda y: y > 4),
    "MNIST, 3 or 8": lambda: digits(lambda y: (y == 3) | (y == 8)),
    "make_classification": lambda: make_classification(
        20_000, 200, n_informative=20, n_clusters_per_class=6, random_state=0
    ),
    "electricity, mixtures": lambda: widened("electricity", mixtures),
    "EEG, products": lambda: widened("eeg_eye", products),
    "EEG, mixtures": lambda: widened("eeg_eye", mixtures),
    "HTRU2, mixtures": lambda: widened("htru2", mixtures),
    "credit, products": lambda: widened("credit_default", products),
    "Higgs, products": lambda: widened("higgs_7500", products),
}


def held_out_nll(X: np.ndarray, y: np.ndarray, kernel: str, seconds: float, seed: int) -> float:
    """Of a sixth of the rows, after a training on the others."""
    order = np.random.default_rng(seed).permutation(len(y))
    held_out, kept = np.split(order, [len(y) // 6])
    model = GPClassifier(kernel=kernel, time_budget=seconds, random_state=seed)
    log_p = model.fit(X[kept], y[kept]).predict_log_proba(X[held_out])
    return -float(np.mean(log_p[np.arange(len(held_out)), y[held_out]]))


def main() -> None:
    """Print a line for each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    seconds = parser.parse_args().seconds
    print(f"{'set':22s} columns  " + "  ".join(f"{kernel:8s}" for kernel in KERNELS))
    for name, rows in SETS.items():
        X, y = rows()
        nll = [
            np.mean([held_out_nll(X, y, kernel, seconds, seed) for seed in range(DRAWS)])
            for kernel in KERNELS
        ]
        print(
            f"{name:22s} {X.shape[1]:7d}  " + "     ".join(f"{one:.4f}" for one in nll), flush=True
        )


if __name__ == "__main__":
    main()
