"""What rows must look like to a model, and how they become features."""

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from sepgp.data import checks
from sepgp.data.columns.texts import AS_FOUND, Choices
from sepgp.data.encoding import Encoding, kind, lacking, numbers, other_kind
from sepgp.data.rows import Rows, arrow, in_memory, is_table, open_rows
from sepgp.data.rows.table import selected
from sepgp.data.summary import Summary
from sepgp.data.watched import Watch, WatchedRows
from sepgp.errors import InvalidData

OWNER = "GPClassifier"
"""Whom scikit-learn's sentences are about."""


@dataclass(frozen=True)
class Schema:
    """The columns of rows, and how they become features."""

    n_columns: int
    names: tuple[str, ...] | None
    """None if the rows came without names."""
    encoding: Encoding | None
    """How columns of a table become features; None for arrays and tables of plain numbers."""

    @property
    def columns(self) -> list[tuple[str, str, int]]:
        """Name, kind of values and number of features of every column."""
        if self.encoding is None:
            names = self.names or [f"feature {i}" for i in range(self.n_columns)]
            return [(name, "number", 1) for name in names]
        pairs = zip(self.encoding.kinds, self.encoding.encoders, strict=True)
        return [(name, kind_, len(encoder.features)) for (name, kind_), encoder in pairs]

    def features(self, X: Any) -> NDArray[Any]:
        """The features of rows X, shape (n, d), not scaled; refuses rows of another schema."""
        X = in_memory(X)
        if is_table(X) and self.encoding is not None:
            return self.encoding.encode(arrow(X))
        if self.encoding is not None and not self.encoding.plain:
            raise InvalidData(
                f"X is a {type(X).__name__} without column names, but the model was trained with a "
                f"table; give a table with the columns {', '.join(self.encoding.columns)}."
            )
        rows = matrix(self._named(X), self.names)
        if rows.shape[1] != self.n_columns:
            raise InvalidData(
                f"X has {rows.shape[1]} features, but {OWNER} is expecting {self.n_columns} "
                "features as input; give the columns that it was trained with."
            )
        return rows

    def values(self, X: Any) -> Any:
        """Rows of this schema as they are read: see `Encoding.values`."""
        return X if self.encoding is None else self.encoding.values(arrow(X))

    def blocks(self, source: Any) -> Iterator[NDArray[Any]]:
        """The features of a source's rows, in their own order, block by block.

        The source is opened at once, so that a wrong path is an error of the call.
        """
        rows = source if isinstance(source, Rows) else open_rows(source, columns=self.names)
        watched = WatchedRows(rows, self.encoding)
        return (self.features(block.X) for block in watched.blocks())

    def warn_of_strange(self, X: Any) -> None:
        """Warn of values of a table in memory that cannot be used as they are.

        A lazy frame is left alone, since it would be collected once more.
        """
        if self.encoding is not None and not hasattr(X, "collect") and is_table(X):
            watch = Watch(self.encoding)
            watch.see(arrow(X))
            watch.warn()

    def same(self, other: "Schema") -> bool:
        """Whether rows of the other schema have the same features."""
        if self.encoding is not None and self.encoding is other.encoding:
            return True
        plain = all(s.encoding is None or s.encoding.plain for s in (self, other))
        named = self.names is None or other.names is None or self.names == other.names
        return plain and named and self.n_columns == other.n_columns

    def _named(self, X: Any) -> Any:
        """The columns of a table of plain numbers, found by their names as in one with text."""
        if isinstance(X, pa.Table) and self.names is None:  # a block of a source
            return np.asarray(X)
        found = names_of(X)
        if found is None or self.names is None:
            if found is not None:
                _warn(f"X has feature names, but {OWNER} was fitted without feature names")
            elif self.names is not None:
                _warn(f"X does not have valid feature names, but {OWNER} was fitted with them")
            return X
        for name in self.names:
            if name not in found:
                raise lacking(name)
        X = X if found == self.names else selected(X, self.names)
        for name, field in zip(self.names, arrow(X[:0]).schema, strict=True):
            if not_plain(field.type, name):
                raise other_kind(name, f"times ({field.type})", "number")
        return X


def is_source(X: Any) -> TypeGuard[str | os.PathLike[str] | Rows | Callable[..., Any]]:
    """Whether X is read block by block: a path, opened rows, a function or an iterator."""
    return isinstance(X, str | os.PathLike | Rows | Iterator) or callable(X)


def schema_of(encoding: Encoding | None, n_columns: int) -> Schema:
    """The schema of rows whose encoding is known; None is for rows without names."""
    if encoding is None:
        return Schema(n_columns, None, None)
    return Schema(len(encoding.columns), encoding.columns, encoding)


def read(X: Any, choices: Choices = AS_FOUND) -> tuple[Schema, NDArray[Any]]:
    """The schema of rows X in memory, and their features, shape (n, d), not scaled."""
    if needs_encoding(X) or choices.read:
        table = arrow(X)
        as_text = [name for name, kind in choices.read.items() if kind in ("text", "date")]
        encoding, notes = Summary.of(table, np.ones(len(table)), as_text).encoding(choices)
        assert encoding is not None
        for note in notes:
            warnings.warn(note.sentence(None), stacklevel=2)
        return schema_of(encoding, 0), encoding.encode(table)
    names = names_of(X)
    rows = matrix(X, names)
    return Schema(rows.shape[1], names, None), rows


def needs_encoding(X: Any) -> bool:
    """Whether X is a table whose columns are not all plain numbers.

    Arrow's tables always are encoded: these are what sources give, whose later blocks may have
    missing values.
    """
    if not is_table(X):
        return False
    table = arrow(X)
    if not len(table) or not table.num_columns:
        return False
    return isinstance(X, pa.Table) or any(
        kind(table[name].type, name) != "number"
        or not_plain(table[name].type, name)
        or np.isnan(numbers(table[name], name)).any()
        for name in table.column_names
    )


def names_of(X: Any) -> tuple[str, ...] | None:
    """The names of a table's columns, if all are text."""
    if not is_table(X):
        return None
    names = tuple(X.column_names if isinstance(X, pa.Table) else X.columns)
    text = [isinstance(name, str) for name in names]
    if any(text) and not all(text):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but X has "
            "columns of other types; convert them by X.columns = X.columns.astype(str)."
        )
    return names if names and all(text) else None


def matrix(X: Any, names: tuple[str, ...] | None) -> NDArray[Any]:
    """Rows X of finite numbers as an array of shape (n, d)."""
    dtype = getattr(X, "dtype", None)
    if getattr(dtype, "kind", "") in ("m", "M"):
        raise InvalidData(f"X has times ({dtype}); convert them to numbers, or give a table.")
    try:
        rows: NDArray[Any] = check_array(
            X, dtype="numeric", ensure_all_finite=False, input_name="X", estimator=OWNER
        )
        if rows.dtype == object:  # of a table with categories
            rows = rows.astype(np.float64)
    except ValueError:
        checks.numeric_columns(X)
        raise
    checks.finite_columns(rows, names)
    return rows


def not_plain(dtype: pa.DataType, name: str) -> bool:
    """Whether a column of this type has times or durations, which are numbers only by a unit."""
    return kind(dtype, name) == "time" or pa.types.is_temporal(dtype)


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)
