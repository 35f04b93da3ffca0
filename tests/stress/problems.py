"""A random problem for every seed: rows, labels, weights and settings, each out of a few kinds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse
from numpy.typing import NDArray

from sepgp import kernels

Array = NDArray[Any]
MOST_WORK = 2e7
"""Rows × (features + inducing points × classes) × steps: about a quarter of a second."""


@dataclass(frozen=True)
class Problem:
    """What is fitted, and what is known about it."""

    kinds: dict[str, str]
    """What was drawn, by what it is about."""
    X: Any
    y: Any
    weight: Array | None
    settings: dict[str, Any]
    test: Any
    """Rows like those of training, in the same form."""
    test_codes: Array
    """Numbers of their classes, shape (k,)."""
    classes: Array
    """The labels, sorted."""
    features: Array
    """All rows as numbers, those of training first, shape (n + k, d)."""
    wrapped: Callable[[Array], Any]
    """From numbers to the form of X."""
    learnable: bool
    """Whether labels depend on the rows, and steps and rows suffice to learn it."""
    tame: bool
    """Whether no limit of floating point is near, so that answers must agree closely."""


def chosen(rng: np.random.Generator, **odds: float) -> str:
    """One of some names, by odds."""
    names, values = list(odds), np.array(list(odds.values()))
    return str(rng.choice(names, p=values / values.sum()))


def problem(seed: int) -> Problem:
    """The problem of a seed."""
    rng = np.random.default_rng(seed)
    kinds: dict[str, str] = {}
    n = round(10 ** rng.uniform(0.31, 3.0)) if rng.random() < 0.9 else int(rng.integers(2, 5))
    if rng.random() < 0.02:
        n = 5000
    easy = rng.random() < 0.2
    if easy:
        n = int(rng.integers(200, 800))
    d = min(500, round(10 ** rng.uniform(0, 2.7 if rng.random() < 0.1 else 1.1)))
    d = min(d, 5) if easy else d
    n_classes = 2 if rng.random() < 0.7 else int(rng.integers(3, 31 if rng.random() < 0.2 else 6))
    n_classes = max(2, min(n_classes, n))
    k = 200
    Z = _features(rng, n + k, d, kinds)
    codes = _codes(rng, Z, n, n_classes, kinds)
    X = _nasty(rng, Z, n, kinds)
    labels = _labels(rng, n_classes, kinds)
    weight = _weights(rng, codes[:n], kinds)
    settings = _settings(rng, n, d, n_classes, kinds)
    form = chosen(
        rng, array=5, fortran=1, view=1, read_only=1, float16=0.5, float32=1, sparse=0.5, pandas=1,
        nullable=0.5, categories=0.5, polars=0.7, arrow=0.7, lists=0.3,
    )  # fmt: skip
    kinds["form"], kinds["classes"] = form, "2" if n_classes == 2 else "3 to 30"
    kinds["rows"] = "1 to 20" if n <= 20 else "21 to 300" if n <= 300 else "301 to 5000"
    kinds["features"] = "1 to 10" if d <= 10 else "11 to 500"
    if form in ("float16", "float32"):
        most = {"float16": 6e4, "float32": 3e38}[form]
        X = np.clip(X, -most, most)
    if form == "categories":
        X = np.column_stack([X[:, 1:], np.digitize(Z[:, 0], [-1, 0, 1]).astype(float)])
    wrapped = WRAPPERS[form]
    plain = (
        kinds["columns"] in ("plain", "duplicate", "constant", "integers")
        and kinds["scale"] in ("one", "mixed")
        and kinds["weight"] in ("none", "like")
        and kinds["rate"] in ("default", "low")
        and form not in ("float16",)
    )
    steps, m = settings["max_iter"], settings["n_inducing"]
    passes = steps * min(n, settings["batch_size"] or n) / n
    learnable = (
        plain
        and kinds["labels depend"] in ("smooth", "separable")
        and n >= 60 * n_classes
        and d <= 5
        and m >= 5
        and steps >= 20
        and passes >= 3
        and kinds["kernel"] != "linear"
        and settings["method"] != "adf"
        and form != "categories"
    )
    return Problem(
        kinds, wrapped(X[:n]), labels[codes[:n]], weight, settings, wrapped(X[n:]), codes[n:],
        np.sort(labels), X, wrapped, learnable, plain,
    )  # fmt: skip


def _features(rng: np.random.Generator, n: int, d: int, kinds: dict[str, str]) -> Array:
    shape = chosen(rng, normal=5, uniform=1, heavy=1, clusters=1)
    kinds["shape"] = shape
    if shape == "uniform":
        return np.asarray(rng.uniform(-2, 2, (n, d)))
    if shape == "heavy":
        return np.asarray(rng.standard_t(1.5, (n, d)))
    Z = rng.normal(size=(n, d))
    return Z + 4 * rng.integers(0, 3, (n, 1)) if shape == "clusters" else Z


def _codes(
    rng: np.random.Generator, Z: Array, n: int, n_classes: int, kinds: dict[str, str]
) -> Array:
    """Numbers of classes of all rows, each among the first n."""
    how = chosen(rng, smooth=4, separable=2, noise=2, rare=1)
    kinds["labels depend"] = how
    score = np.clip(Z[:, 0], -3, 3) + (0 if how == "separable" else 0.5) * rng.normal(size=len(Z))
    if how == "noise":
        score = rng.normal(size=len(Z))
    edges = np.quantile(score, np.arange(1, n_classes) / n_classes)
    codes = np.digitize(score, edges)
    if how == "rare":
        codes = (rng.random(len(Z)) < 1e-4).astype(int)
    if len(np.unique(codes[:n])) < n_classes:
        codes[rng.permutation(n)[:n_classes]] = np.arange(n_classes)
    return codes


def _nasty(rng: np.random.Generator, Z: Array, n: int, kinds: dict[str, str]) -> Array:
    X, d = Z.copy(), Z.shape[1]
    how = chosen(rng, plain=5, constant=1, duplicate=1, collinear=1, equal=0.5, outliers=1,
                 integers=1, booleans=0.5, offset=1)  # fmt: skip
    kinds["columns"] = how
    if how == "constant":
        X[:, -1] = X[0, -1] if d > 1 else X[:, -1]
    elif how == "duplicate":
        X = np.column_stack([X, X[:, 0]])
    elif how == "collinear":
        X = np.column_stack([X, X @ rng.normal(size=(d, 1))])
    elif how == "equal":
        X[:n] = X[0]
    elif how == "outliers":
        X[rng.integers(0, n, max(1, n // 100)), rng.integers(0, d)] = 1e12
    elif how == "integers":
        X = np.round(3 * X)
    elif how == "booleans":
        X = (X > 0).astype(float)
    elif how == "offset":
        X += 10 ** rng.uniform(0, 9)
    scale = chosen(rng, one=5, mixed=2, tiny=1, huge=1)
    kinds["scale"] = scale
    if scale == "mixed":
        X = X * 10.0 ** rng.integers(-6, 7, X.shape[1])
    elif scale in ("tiny", "huge"):
        X = X * (1e-300 if scale == "tiny" else 1e280)
    return np.asarray(X)


def _labels(rng: np.random.Generator, n_classes: int, kinds: dict[str, str]) -> Array:
    kind = chosen(rng, integers=3, texts=2, booleans=0.5, floats=0.5, negative=0.5, large=0.5)
    if kind == "booleans" and n_classes > 2:
        kind = "integers"
    kinds["labels"] = kind
    numbers = np.arange(n_classes)
    return {
        "integers": lambda: numbers,
        "texts": lambda: np.array([f"class <{i:02}> é" for i in numbers], object),
        "booleans": lambda: numbers.astype(bool),
        "floats": lambda: numbers.astype(float),
        "negative": lambda: numbers - n_classes,
        "large": lambda: numbers + 2**40,
    }[kind]()


def _weights(rng: np.random.Generator, codes: Array, kinds: dict[str, str]) -> Array | None:
    how = chosen(rng, none=6, like=1, zeros=1, wild=0.7)
    kinds["weight"] = how
    n = len(codes)
    if how == "none":
        return None
    if how == "like":
        return np.asarray(rng.uniform(0.5, 2, n))
    weight = rng.integers(0, 3, n).astype(float) if how == "zeros" else 10 ** rng.uniform(-6, 6, n)
    _, first = np.unique(codes, return_index=True)
    weight[first] = np.maximum(weight[first], 1e-6 if how == "wild" else 1.0)
    return np.asarray(weight)


def _settings(
    rng: np.random.Generator, n: int, d: int, n_classes: int, kinds: dict[str, str]
) -> dict[str, Any]:
    method = chosen(rng, sep=5, ep=2, adf=1)
    kernel = chosen(rng, auto=4, rbf=1, matern12=1, matern52=1, sum=1, linear=0.7, product=0.5,
                    white=0.5)  # fmt: skip
    rate = chosen(rng, default=6, low=1, high=1)
    power = 1.0
    if n_classes == 2 and method != "adf" and rng.random() < 0.15:
        power = float(rng.choice([0.0, 0.5, 0.9]))
    kinds |= {"method": method, "kernel": kernel, "rate": rate, "power": str(power)}
    batch_size = None if rng.random() < 0.5 else int(rng.integers(1, max(2, n)))
    m = int(rng.choice([1, 2, 5, 20, 50, n, 2 * n], p=[0.05, 0.05, 0.2, 0.35, 0.2, 0.1, 0.05]))
    m = min(m, 100 if n_classes == 2 else max(2, 300 // n_classes))
    cost = min(n, batch_size or n) * (d + m * n_classes) + n_classes * m * m * 10
    steps = int(np.clip(MOST_WORK / cost, 2, 25))
    kinds["batch"] = "all" if batch_size is None else "one" if batch_size == 1 else "some"
    kinds["dtype"] = chosen(rng, float64=3, float32=1)
    return {
        "method": method,
        "kernel": KERNELS.get(kernel, lambda: kernel)(),
        "n_inducing": m,
        "inducing": chosen(rng, kmeans=3, random=1),
        "batch_size": batch_size,
        "max_iter": steps,
        "learning_rate": {"default": None, "low": 1e-6, "high": 10 ** rng.uniform(0, 1)}[rate],
        "optimizer": "adam" if rng.random() < 0.9 else "sign",
        "standardize": bool(rng.random() < 0.9),
        "dtype": kinds["dtype"],
        "power": power,
        "n_factors": 2 if method == "sep" and rng.random() < 0.1 else 1,
        "site_step": [0.01, "paper", "average"][int(rng.choice(3, p=[0.8, 0.1, 0.1]))],
        "random_state": int(rng.integers(2**31)),
    }


KERNELS: dict[str, Callable[[], Any]] = {
    "sum": lambda: "rbf+matern32",
    "linear": lambda: kernels.Linear() + kernels.Constant(),
    "product": lambda: kernels.RBF() * kernels.Matern12() + kernels.Constant(),
    "white": lambda: kernels.Matern32() + kernels.White(0.1),
}


def _named(X: Array) -> dict[str, Array]:
    return {f"column {i}": X[:, i] for i in range(X.shape[1])}


def _read_only(X: Array) -> Array:
    X = X.copy()
    X.setflags(write=False)
    return X


def _categories(X: Array) -> pd.DataFrame:
    table = pd.DataFrame(_named(X))
    levels = np.array(["low", "mid", "high", "top"])
    table["level"] = pd.Categorical(levels[X[:, -1].astype(int)], levels)
    return table.drop(columns=f"column {X.shape[1] - 1}") if X.shape[1] > 1 else table


WRAPPERS: dict[str, Callable[[Array], Any]] = {
    "array": lambda X: X,
    "fortran": np.asfortranarray,
    "view": lambda X: np.repeat(np.repeat(X, 2, 0), 2, 1)[::2, ::2],
    "read_only": _read_only,
    "float16": lambda X: X.astype(np.float16),
    "float32": lambda X: X.astype(np.float32),
    "sparse": lambda X: scipy.sparse.csr_matrix(X),
    "pandas": lambda X: pd.DataFrame(_named(X)),
    "nullable": lambda X: pd.DataFrame(_named(X)).astype("Float64"),
    "categories": _categories,
    "polars": lambda X: pl.DataFrame(_named(X)),
    "arrow": lambda X: pa.table(_named(X)),
    "lists": lambda X: X.tolist(),
}
