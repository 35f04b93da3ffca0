"""Columns that look like identifiers bring a warning, and no others do."""

import warnings

import numpy as np
import pandas as pd
import pytest
from quick import blobs, quick

X, Y = blobs(250)
TABLE = pd.DataFrame(X, columns=["age", "size"])
NUMBERS = np.random.default_rng(0).permutation(250) + 10_000


def fitted(table, **settings):
    quick(max_iter=1, **settings).fit(table, Y)


@pytest.mark.parametrize("text", [False, True], ids=["plain", "with text"])
def test_a_whole_number_that_is_another_in_every_row_brings_a_warning(text) -> None:
    table = TABLE.assign(id=NUMBERS)
    if text:
        table = table.assign(colour=np.where(Y, "red", "blue"))
    with pytest.warns(UserWarning, match=r"^Column 'id' has a different whole .* --drop 'id'"):
        fitted(table)


def test_files_and_blocks_bring_it_once(tmp_path) -> None:
    path = tmp_path / "rows.parquet"
    TABLE.assign(id=NUMBERS, late=Y).to_parquet(path)
    for train in (quick(max_iter=1).fit, quick(max_iter=1).partial_fit):
        with pytest.warns(UserWarning, match="Column 'id'") as found:
            train(path, target="late")
        assert len(found) == 1


@pytest.mark.parametrize(
    "table",
    [
        TABLE,
        TABLE.assign(year=1900 + NUMBERS % 100),
        TABLE.assign(day=pd.date_range("2020-01-01", periods=250)),
        TABLE.assign(one_is_twice=np.where(NUMBERS == 10_000, 10_001, NUMBERS)),
        np.column_stack([X, NUMBERS]),
    ],
    ids=["fractions", "repeats", "dates", "one repeat", "no names"],
)
def test_other_columns_bring_none(table) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(table)


def test_few_rows_cannot_tell() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick(max_iter=1).fit(TABLE.assign(id=NUMBERS)[:199], Y[:199])
