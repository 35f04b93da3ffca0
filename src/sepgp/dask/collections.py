"""Collections of Dask as partitions of rows, and predictions that stay collections."""

import os
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

from sepgp.backends.partitions import Partition, file_partitions
from sepgp.data.rows.base import Wanted
from sepgp.errors import InvalidData, InvalidParameter
from sepgp.model import Model

EVERYTHING = Wanted()
"""No column is named."""


def is_collection(X: Any) -> bool:
    """Whether X is a collection of Dask, whose rows are elsewhere or not computed yet."""
    return bool(dask.is_dask_collection(X))


def delayed_partitions(
    X: Any, y: Any = None, sample_weight: Any = None, wanted: Wanted = EVERYTHING
) -> list[Partition]:
    """The partitions of Dask arrays and DataFrames, each part of them delayed.

    Labels and weights have chunks like the rows, or are cut so if all sizes are known.
    """
    if isinstance(X, str | os.PathLike):
        if sample_weight is not None:
            raise InvalidData(
                "sample_weight is given beside a path; name the column of the weights, as in "
                "sample_weight='weight'."
            )
        return file_partitions(os.fspath(X), wanted)
    named = wanted.target is not None or wanted.columns is not None or wanted.weight is not None
    if isinstance(X, dd.DataFrame):
        X, wanted = _chosen(X, wanted)
        rows = X.to_delayed()
        sizes = (np.nan,) * len(rows)
    elif isinstance(X, da.Array) and X.ndim == 2:
        if named:
            raise InvalidParameter(
                "target, columns and a text as sample_weight name columns, but X is a Dask array "
                "without names; give a Dask DataFrame, or y and weights as Dask arrays."
            )
        X = X.rechunk({1: -1})
        rows, sizes = X.to_delayed().ravel().tolist(), X.chunks[0]
    else:
        shape = f" of shape {X.shape}" if isinstance(X, da.Array) else ""
        raise InvalidData(
            f"X is a {type(X).__name__}{shape}; give a Dask array of shape (rows, features), a "
            "Dask DataFrame or the path of files, and for rows in memory use GPClassifier."
        )
    labels = _beside(y, "y", len(rows), sizes)
    weights = _beside(sample_weight, "sample_weight", len(rows), sizes)
    return [
        Partition(f"partition {i} of X", *parts, wanted)
        for i, parts in enumerate(zip(rows, labels, weights, strict=True))
    ]


def _chosen(X: Any, wanted: Wanted) -> tuple[Any, Wanted]:
    """A DataFrame with the columns that the user has named, and the names of all of them."""
    columns = wanted.among([str(column) for column in X.columns], "X")
    if wanted.columns is not None:
        X = X[columns.all]
    return X, wanted._replace(columns=columns.features)


def _beside(values: Any, name: str, count: int, sizes: Sequence[float]) -> list[Any]:
    """Labels or weights of every partition, delayed; None where there are none."""
    if values is None:
        return [None] * count
    if isinstance(values, dd.DataFrame) and len(values.columns) == 1:
        values = values[values.columns[0]]
    if isinstance(values, da.Array) and values.ndim == 1:
        if not np.isnan([*sizes, *values.chunks[0]]).any() and sum(sizes) == len(values):
            values = values.rechunk((sizes,))
        parts = values.to_delayed().ravel().tolist()
    elif isinstance(values, dd.Series):
        parts = values.to_delayed()
    else:
        raise InvalidData(
            f"{name} is a {type(values).__name__}; give a Dask array or Series with a value for "
            "each row of X."
        )
    if len(parts) != count:
        raise InvalidData(
            f"{name} has {len(parts)} partitions and X has {count}, whose sizes are not known or "
            "do not agree; give both the same chunks, after compute_chunk_sizes() if they are "
            "unknown."
        )
    return list(parts)


def lazily(
    model: Model, X: Any, function: Callable[[Model, Any], Any], dtype: Any, columns: Any = None
) -> Any:
    """What a function of the model gives for each partition, as a collection of the kind of X.

    It has a column for each of `columns`, or is one-dimensional if these are None.
    """
    sent = dask.delayed(model, name=f"sepgp-model-{uuid.uuid4().hex}", traverse=False)
    if isinstance(X, da.Array):
        X = X.rechunk({1: -1})
        shape = {"drop_axis": 1} if columns is None else {"chunks": (X.chunks[0], (len(columns),))}
        empty = np.empty((0,) if columns is None else (0, len(columns)), dtype)
        options = {"function": function, "model": sent, "empty": empty}
        return X.map_blocks(_of_array, dtype=dtype, meta=empty, name=None, **options, **shape)
    if columns is None:
        meta: Any = pd.Series([], dtype=dtype, name=function.__name__)
    else:
        meta = pd.DataFrame(np.empty((0, len(columns)), dtype), columns=columns)
    return X.map_partitions(_of_table, sent, function, meta, meta=meta)


def _of_array(block: Any, function: Any, model: Model, empty: Any) -> Any:
    return function(model, block) if len(block) else empty


def _of_table(part: Any, model: Model, function: Any, meta: Any) -> Any:
    if not len(part):
        return meta
    values = function(model, part)
    if isinstance(meta, pd.Series):
        return pd.Series(values, index=part.index, dtype=meta.dtype, name=meta.name)
    return pd.DataFrame(values, index=part.index, columns=meta.columns)
