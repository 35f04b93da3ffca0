"""What users hand to `fit`, `partial_fit` and the predictions, checked and made ready."""

import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from sepgp.data import checks, stream_source
from sepgp.data.array_source import merge_duplicates
from sepgp.data.batches import MINIBATCH
from sepgp.data.encoding import Encoding, Number, kind, left_out, numbers
from sepgp.data.prepared import ArrayData, Data, prepare, split
from sepgp.data.rows import ArrayRows, Rows, TableRows, arrow, is_table, open_rows
from sepgp.data.scaling import Floats
from sepgp.data.summary import Summary
from sepgp.errors import InvalidData, InvalidParameter

IDENTIFIERS = 200
"""Rows from which on a column can be told to be an identifier."""


def is_source(X: Any) -> bool:
    """Whether X is read block by block: a path, opened rows, a function or an iterator."""
    return isinstance(X, str | os.PathLike | Rows | Iterator) or callable(X)


def training_data(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    target: str | None,
    columns: Sequence[str] | None,
    seed: int,
    warm: bool,
) -> tuple[Data, ArrayData | None]:
    """The rows to fit, and some of those that `validation_fraction` keeps aside.

    Sets what the model knows of its columns, unless it is `warm`.
    """
    aside, share = None, model.validation_fraction
    named = target is not None or columns is not None or isinstance(sample_weight, str)
    if not (named or is_source(X) or _large(X) or _encoded(model, X, warm)):
        whole = _labelled(model, X, y, sample_weight, reset=not warm)
        if share:
            whole, aside = split(whole, share, seed)
        return _without_repeats(model, whole), aside
    rows = training_rows(X, y, sample_weight, target, columns)
    encoding = model.encoding_ if warm and rows.schema is not None else None
    size = MINIBATCH if model.batch_size is None else model.batch_size
    data, aside = prepare(rows, model.class_weight, seed, encoding, size, share)
    n_features = data.sample()[0].shape[1]
    if warm:
        _same_columns(model, data.encoding, n_features)
    else:
        _set_columns(model, data.encoding, n_features)
    return _without_repeats(model, data) if isinstance(data, ArrayData) else data, aside


def training_rows(
    X: Any,
    y: Any,
    sample_weight: Any,
    target: str | None = None,
    columns: Sequence[str] | None = None,
) -> Rows:
    """Rows with their labels, from whatever holds them."""
    if is_source(X):
        if y is not None:
            raise InvalidData(
                "y is given beside a source of rows; leave it out and name the column of the "
                "labels by target."
            )
        if sample_weight is not None and not isinstance(sample_weight, str):
            raise InvalidData(
                "sample_weight is an array beside a source of rows; name the column of the weights."
            )
        rows = open_rows(X, target, columns, sample_weight)
        if rows.schema is None and columns is not None:
            raise InvalidParameter(
                f"columns names columns, but {rows.name} gives arrays without names; "
                "leave it out or give tables."
            )
        return rows
    if not is_table(X):
        if target is not None or columns is not None or isinstance(sample_weight, str):
            raise InvalidParameter(
                "target, columns and a text as sample_weight name columns, but X is a "
                f"{type(X).__name__} without names; give a table, or y and weights as arrays."
            )
        return ArrayRows(X, _labels(y, len(X)), _weights(sample_weight, len(X)))
    table = arrow(X)
    if target is not None and y is not None:
        raise InvalidData("y and target are both given; give the labels once.")
    labels = _labels(y, len(table)) if target is None else None
    if not isinstance(sample_weight, str):
        sample_weight = _weights(sample_weight, len(table))
    return TableRows(table, target, columns, sample_weight, labels)


def block_data(model: Any, X: Any, y: Any, sample_weight: Any, reset: bool) -> ArrayData:
    """A part of all rows, in memory, with labels y, shape (n,), maybe of one class only.

    `reset` says that the model's columns are those of X.
    """
    return _without_repeats(model, _labelled(model, X, y, sample_weight, reset, partial=True))


def _labelled(
    model: Any, X: Any, y: Any, sample_weight: Any, reset: bool, partial: bool = False
) -> ArrayData:
    """Rows in memory with labels y, shape (n,); those of weight zero are left out.

    `partial` says that the rows are a part of all rows, and may have one of the known classes
    only.
    """
    rows = features(model, X, reset, y)
    labels = checks.labels(column_or_1d(y, warn=True), len(rows))
    check_classification_targets(labels)
    if partial and hasattr(model, "classes_"):
        classes = model.classes_
    else:
        classes = checks.distinct(labels, "y")
        checks.two_classes(classes)
    remedy = "name both classes in the first call of partial_fit"
    codes = checks.class_codes(labels, classes, remedy=remedy)
    weight = np.ones(len(rows))
    if sample_weight is not None:
        weight = checks.weights(sample_weight, len(rows))
    if model.class_weight is not None:
        weight *= compute_sample_weight(model.class_weight, labels)
    kept = weight > 0
    if not kept.any():
        raise InvalidData("sample_weight is zero for every row; give some rows positive weight.")
    if not partial:
        checks.every_class(codes[kept], classes, "sample_weight")
    if not kept.all():
        rows, codes, weight = rows[kept], codes[kept], weight[kept]
    return ArrayData(rows, codes, weight, classes, model.encoding_)


def features(model: Any, X: Any, reset: bool = False, y: Any = "") -> NDArray[Any]:
    """The features of rows X, shape (n, d), not scaled.

    `reset` makes the encoding of a table from X itself; otherwise the model's is used.
    """
    if _encoded(model, X, known=not reset):
        table = arrow(X)
        if reset:
            _set_columns(model, Summary.of(table, np.ones(len(table))).encoding())
        encoding: Encoding = model.encoding_
        return encoding.encode(table)
    if reset:
        model.encoding_ = None
    elif model.encoding_ is not None and not model.encoding_.plain:
        raise InvalidData(
            f"X is a {type(X).__name__} without column names, but the model was trained with a "
            f"table; give a table with the columns {', '.join(model.encoding_.columns)}."
        )
    elif isinstance(X, pa.Table) and not hasattr(model, "feature_names_in_"):
        X = np.asarray(X)
    return _matrix(model, X, reset, y)


def _matrix(model: Any, X: Any, reset: bool, y: Any) -> NDArray[Any]:
    try:
        rows: NDArray[Any] = validate_data(
            model,
            X,
            y=None if y is None else "no_validation",
            reset=reset,
            dtype="numeric",
            ensure_all_finite=False,
        )
        if rows.dtype == object:  # of a table with categories
            rows = rows.astype(np.float64)
    except ValueError:
        checks.numeric_columns(X)
        raise
    checks.finite_columns(rows, getattr(model, "feature_names_in_", None))
    return rows


def feature_blocks(model: Any, X: Any) -> Iterator[NDArray[Any]]:
    """The features of a source's rows, in their own order, block by block.

    The source is opened at once, so that a wrong path is an error of the call.
    """
    names = getattr(model, "feature_names_in_", None)
    rows = X if isinstance(X, Rows) else open_rows(X, columns=names)
    return (features(model, block.X) for block in rows.blocks())


def _encoded(model: Any, X: Any, known: bool) -> bool:
    """Whether X is a table whose columns need an encoding, or have one that is `known`.

    Tables of plain numbers do not, unless they are Arrow's: these are what sources give, whose
    later blocks may have missing values.
    """
    if not is_table(X):
        return False
    if known:
        return model.encoding_ is not None
    table = arrow(X)
    if not len(table) or not table.num_columns:
        return False
    if isinstance(X, pa.Table):
        return True
    return any(
        kind(table[name].type, name) != "number" or np.isnan(numbers(table[name], name)).any()
        for name in table.column_names
    )


def warn_of_identifiers(model: Any, rows: NDArray[Any]) -> None:
    """Warn if a named column of features, shape (n, d), is a row number or the like."""
    names: Any = getattr(model, "feature_names_in_", ())
    if model.encoding_ is not None:
        numeric = {e.name for e in model.encoding_.encoders if isinstance(e, Number)}
        names = [name if name in numeric else None for name in model.encoding_.features]
    for name, column in zip(names, rows.T, strict=False):
        if name is not None and _identifies(column):
            warnings.warn(
                f"Column {name!r} has another whole number in every row, as an identifier has; if "
                f"it is one, {left_out(name)}.",
                stacklevel=2,
            )


def _identifies(column: NDArray[Any]) -> bool:
    """Whether values, shape (n,), are whole numbers that all differ, and enough to tell."""
    few = column[:IDENTIFIERS]
    whole = len(few) == IDENTIFIERS and bool((few == np.round(few)).all())
    return whole and len(np.unique(few)) == len(few) and len(np.unique(column)) == len(column)


def _large(X: Any) -> bool:
    return isinstance(X, np.memmap) and X.nbytes > stream_source.MEMORY


def _labels(y: Any, n_rows: int) -> NDArray[Any]:
    if y is None:
        raise InvalidData("y is not given; give the labels as y or name their column by target.")
    labels = checks.labels(column_or_1d(y, warn=True), n_rows)
    check_classification_targets(labels)
    return labels


def _weights(sample_weight: Any, n_rows: int) -> Floats | None:
    return None if sample_weight is None else checks.weights(sample_weight, n_rows)


def _same_columns(model: Any, encoding: Encoding | None, n_features: int) -> None:
    """Refuse rows with other features than those of the model to go on from."""
    if encoding is not None and encoding is model.encoding_:
        return
    names = getattr(model, "feature_names_in_", None)
    if (
        not all(e is None or e.plain for e in (encoding, model.encoding_))
        or n_features != model.n_features_in_
        or (encoding is not None and names is not None and encoding.columns != tuple(names))
    ):
        raise InvalidData(
            "X has other columns than the model to go on from; give the same columns, or set "
            "warm_start=False."
        )


def _set_columns(model: Any, encoding: Encoding | None, n_features: int = 0) -> None:
    model.encoding_ = encoding
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    model.n_features_in_ = n_features
    if encoding is not None:
        model.n_features_in_ = len(encoding.columns)
        model.feature_names_in_ = np.array(encoding.columns, dtype=object)


def _without_repeats(model: Any, data: ArrayData) -> ArrayData:
    if len(data.y) > min(model.batch_size or MINIBATCH, MINIBATCH):
        return data
    X, y, weight = merge_duplicates(*data.sample())
    return data._replace(X=X, y=y, weight=weight)
