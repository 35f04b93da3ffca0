"""Where rows come from: `open_rows`, and one module for each kind of source."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sepgp.data.rows.array import ArrayRows
from sepgp.data.rows.base import Block, Rows, Wanted
from sepgp.data.rows.csv import CSVRows
from sepgp.data.rows.feather import FeatherRows
from sepgp.data.rows.files import common_format, find_files, keys_above
from sepgp.data.rows.function import CallableRows
from sepgp.data.rows.json import JSONRows
from sepgp.data.rows.parquet import ParquetRows
from sepgp.data.rows.table import TableRows, arrow, in_memory, is_table
from sepgp.errors import InvalidData, InvalidParameter

__all__ = ["ArrayRows", "Block", "CallableRows", "Rows", "TableRows"]
__all__ += ["arrow", "in_memory", "is_table", "open_rows"]

Reader = Callable[[list[str], Wanted], Rows]
READERS: dict[str, Reader] = {"CSV": CSVRows, "Feather": FeatherRows, "JSON lines": JSONRows}


def open_rows(
    data: Any,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    drop_unlabelled: bool = False,
) -> Rows:
    """Rows from whatever holds them.

    Parameters
    ----------
    data : path, table, callable or Rows
        A file of Parquet, CSV, Feather or JSON lines, a folder of them (of Parquet also with hive
        partitions, `year=2008/`, as columns), a pattern such as "flights/*.parquet", a table in
        memory (pandas, polars, pyarrow), or a function that returns an iterator of blocks: see
        `CallableRows`.
    target : str, optional
        The column that holds the labels.
    columns : list of str, optional
        The columns to learn from; all but `target` and `weight` when not given.
    weight : str, optional
        The column that holds the weights of the rows.
    drop_unlabelled : bool
        Whether rows that have no label in `target` are left out; otherwise they are refused.
    """
    data, wanted = in_memory(data), Wanted(target, columns, weight, drop_unlabelled)
    if isinstance(data, Rows):
        if wanted != Wanted():
            raise InvalidParameter(
                "target, columns and weight belong to open_rows(...) when X was opened by it; "
                "name them there."
            )
        return data
    if isinstance(data, str | os.PathLike):
        path = os.fspath(data)
        files = find_files(path)
        form = common_format(files, path)
        if form == "Parquet":
            return ParquetRows(files, wanted, keys_above(path))
        return READERS[form](files, wanted)
    if is_table(data):
        return TableRows(data, target, columns, weight, drop_unlabelled=drop_unlabelled)
    if callable(data):
        return CallableRows(data, wanted)
    if isinstance(data, Iterator):
        raise InvalidData(
            f"X is a {type(data).__name__}, which can be read only once; "
            "give a function that returns a fresh one."
        )
    raise InvalidData(
        f"X is a {type(data).__name__}; give an array, a table, a path or a function that returns "
        "an iterator of blocks."
    )
