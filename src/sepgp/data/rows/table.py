"""Rows of a table in memory."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Number
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sepgp.data import checks
from sepgp.data.columns.numbers import parsed
from sepgp.data.rows.base import Block, RowsInMemory, Wanted
from sepgp.data.scaling import Floats
from sepgp.errors import InvalidData, reason


class TableRows(RowsInMemory):
    """A table in memory, of pandas, polars, pyarrow or anything with Arrow's interface.

    Labels and weights are columns of it, or arrays of shape (n,).
    """

    def __init__(
        self,
        data: Any,
        target: str | None = None,
        columns: Sequence[str] | None = None,
        weight: str | Floats | None = None,
        y: NDArray[Any] | None = None,
        drop_unlabelled: bool = False,
    ) -> None:
        table = arrow(data)
        super().__init__(len(table))
        self.target = target
        name = weight if isinstance(weight, str) else None
        wanted = Wanted(target, columns, name, drop_unlabelled)
        self._columns = wanted.among(table.column_names, self.name)
        self._table = table.select(self._columns.all)
        self._beside = y, None if isinstance(weight, str) else weight
        self.schema = table.select(self._columns.features).schema

    def _block(self, part: slice) -> Block:
        y, weight = (None if array is None else array[part] for array in self._beside)
        return self._columns.block(self._table[part], self.name).beside(y, weight, self.name)


def in_memory(data: Any) -> Any:
    """A lazy frame of polars as the frame it stands for, and what is sparse as dense."""
    if hasattr(data, "collect") and hasattr(data, "collect_schema"):
        return data.collect()
    if _is_pandas(data) and hasattr(data, "columns"):
        return _with(data, {n: data[n].sparse.to_dense() for n in _sparse(data)})
    sparse = sys.modules.get("scipy.sparse")  # which is imported if there is such a matrix
    return data.toarray() if sparse is not None and sparse.issparse(data) else data


def is_table(data: Any) -> bool:
    """Whether data is a table with named columns."""
    return hasattr(data, "columns") and (hasattr(data, "__arrow_c_stream__") or _is_pandas(data))


def _is_pandas(data: Any) -> bool:
    return hasattr(data, "iloc")


def selected(data: Any, names: Sequence[str]) -> Any:
    """The columns of these names of a table in memory."""
    return data.select(list(names)) if hasattr(data, "select") else data[list(names)]


def arrow(data: Any, name: str = "X") -> pa.Table:
    """A table of pandas, polars or another library as one of Arrow."""
    names = data.column_names if hasattr(data, "column_names") else data.columns
    checks.unique_names(list(map(str, names)), name)
    try:
        if _is_pandas(data):  # its index is not a column
            data = _without_mixtures(in_memory(data))
            return pa.Table.from_pandas(data, preserve_index=False)
        return without_views(pa.table(data))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        where = f", {error.args[1]}" if len(error.args) > 1 else ""  # pandas' column
        raise InvalidData(
            f"{name} has a column of mixed or unknown values ({reason(error)}{where}); "
            "give every column one type."
        ) from error


def _without_mixtures(data: Any) -> Any:
    """A table of pandas with text instead of objects where some are text and others numbers.

    Numbers are written with a decimal comma if the texts have it.
    """
    plain = {}
    for name in data.columns:
        column = data[name]
        if column.dtype == "object":
            known = column.dropna()
            kinds = set(map(type, known))
            if str in kinds and len(kinds) > 1 and all(issubclass(k, str | Number) for k in kinds):
                texts = pa.array([v for v in known if isinstance(v, str)], pa.large_string())
                points, commas = (parsed(texts, comma).values for comma in (False, True))
                point = "," if np.isnan(points).sum() > np.isnan(commas).sum() else "."
                written = partial(_written, point=point)
                plain[name] = column.map(written, na_action="ignore")
    return _with(data, plain)


def _sparse(data: Any) -> list[Any]:
    """The names of columns of pandas that are sparse."""
    pairs = zip(data.columns, data.dtypes, strict=True)
    return [name for name, dtype in pairs if type(dtype).__name__ == "SparseDtype"]


def _with(data: Any, columns: Mapping[Any, Any]) -> Any:
    """A table of pandas with some columns in the place of those of the same names."""
    if columns:
        data = data.copy(deep=False)
        for name, column in columns.items():
            data[name] = column
    return data


def _written(value: Any, point: str) -> str:
    if isinstance(value, str):
        return value
    return str(int(value) if isinstance(value, bool) else value).replace(".", point)


def without_views(table: pa.Table) -> pa.Table:
    """The same table with plain text instead of views of text, which few functions can handle."""
    for number, field in enumerate(table.schema):
        column = table[number]
        if pa.types.is_dictionary(field.type) and pa.types.is_string_view(field.type.value_type):
            chunks = [c.dictionary.cast(pa.large_string()).take(c.indices) for c in column.chunks]
            column = pa.chunked_array(chunks, pa.large_string())
        elif pa.types.is_string_view(field.type):
            column = column.cast(pa.large_string())
        else:
            continue
        table = table.set_column(number, field.name, column)
    return table
