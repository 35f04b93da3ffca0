"""A table and the ways to hand it over, for the tests of sources."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.testing import assert_array_equal
from quick import blobs, quick

from sepgp import GPClassifier

X, Y = blobs(60, d=3)
W = np.random.default_rng(1).uniform(0.1, 2, 60)
NAMES = ["age", "height", "size"]
TABLE = pd.DataFrame(X, columns=NAMES).assign(late=Y)
WEIGHTED = TABLE.assign(w=W)
REAL = TABLE.assign(
    colour=["red", "blue", None] * 20,
    day=pd.date_range("2008-01-01", periods=60).where(X[:, 0] > -1),
    size=np.where(X[:, 2] > 2, np.nan, X[:, 2]),
    true=X[:, 1] > 0,
)


def model(**changes) -> GPClassifier:
    return quick(**({"n_inducing": 5, "max_iter": 3} | changes))


def parameters(fitted: GPClassifier) -> list:
    return [fitted.inducing_points_, *(p.detach().numpy() for p in fitted.kernel_.parameters())]


def assert_same(actual: GPClassifier, expected: GPClassifier) -> None:
    """The same numbers to the last bit."""
    for a, b in zip(parameters(actual), parameters(expected), strict=True):
        assert_array_equal(a, b)
    assert_array_equal(actual.classes_, expected.classes_)


def blocks(*parts, sizes=(7, 20, 33)):
    """A function that gives rows in blocks of these sizes."""
    edges = np.cumsum((0, *sizes))

    def function():
        for begin, end in itertools.pairwise(edges):
            yield tuple(part[begin:end] for part in parts)

    return function


def memmap(array: np.ndarray) -> np.memmap:
    mapped = np.memmap("rows.bin", array.dtype, "w+", shape=array.shape)
    mapped[:] = array
    return mapped


def parquet(path="rows.parquet", table=TABLE, **options) -> str:
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path, **options)
    return path


def hive(column: str) -> None:
    """Files in folders that are named after the values of a column."""
    for value, part in REAL.groupby(column, dropna=False):
        folder = "__HIVE_DEFAULT_PARTITION__" if pd.isna(value) else value
        path = Path("hive") / f"{column}={folder}"
        path.mkdir(parents=True)
        parquet(path / "part.parquet", part.drop(columns=column))
