"""The columns of a table become features, and the features are the same wherever they are made."""

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from quick import assert_one_sentence

from sepgp import InvalidData
from sepgp.data.columns.dates import DAY
from sepgp.data.columns.texts import LEVELS
from sepgp.data.encoding import (
    Encoding,
    Number,
    Text,
    Time,
    canonical,
    encoding_from_json,
)
from sepgp.data.rows import arrow
from sepgp.data.summary import Summary

DATES = [dt.date(1970, 1, 1), None, dt.date(2008, 2, 29)]
MOMENTS = [dt.datetime(2008, 7, 1, 6), None, dt.datetime(1969, 12, 31, 18)]
TABLE = pa.table(
    {
        "number": pa.array([1.5, None, 3.5]),
        "whole": pa.array([1, 2, 4], pa.int8()),
        "truth": [True, None, False],
        "price": [Decimal("1.25"), Decimal("2.25"), None],
        "wait": pa.array([dt.timedelta(seconds=90), None, dt.timedelta(0)], pa.duration("ms")),
        "clock": [dt.time(0, 1), dt.time(23), None],
        "day": DATES,
        "moment": pa.array(MOMENTS, pa.timestamp("ns")),
        "zoned": pa.array(MOMENTS, pa.timestamp("s", "Europe/Berlin")),
        "colour": ["red", None, "blue"],
        "shape": pa.array(["round", "flat", "round"]).dictionary_encode(),
        "nothing": pa.nulls(3),
    }
)


def made_from(table: pa.Table) -> Encoding:
    encoding, _ = Summary.of(table, np.ones(len(table))).encoding()
    assert encoding is not None
    return encoding


def encoded(values, dtype=None) -> np.ndarray:
    table = pa.table({"a": pa.array(values, dtype)})
    return made_from(table).encode(table)


# --- values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([1.5, -2.0], pa.float64(), [1.5, -2]),
        ([1.5, -2.0], pa.float16(), [1.5, -2]),
        ([1, 255], pa.uint8(), [1, 255]),
        ([2**60, 1], pa.int64(), [2.0**60, 1]),
        ([True, False], None, [1, 0]),
        ([Decimal("1.25"), Decimal("-3")], None, [1.25, -3]),
        ([dt.timedelta(minutes=2), dt.timedelta(days=-1)], pa.duration("us"), [120, -DAY]),
        ([dt.time(1, 0, 30), dt.time(0)], pa.time32("s"), [3630, 0]),
        ([dt.time(0, 0, 0, 250_000), dt.time(0)], pa.time64("ns"), [0.25, 0]),
    ],
    ids=str,
)
def test_a_column_of_numbers_is_a_feature(values, dtype, expected) -> None:
    assert_allclose(encoded(values, dtype), np.array(expected)[:, None], rtol=1e-15)
    coded = pa.table({"a": pa.array(values, dtype).dictionary_encode()})
    assert_array_equal(made_from(coded).encode(coded), encoded(values, dtype))


def test_missing_numbers_count_as_the_mean_and_have_an_indicator() -> None:
    assert_array_equal(encoded([1.0, None, 3.0]), [[1, 0], [2, 1], [3, 0]])
    assert_array_equal(encoded([1.0, np.nan, 3.0]), [[1, 0], [2, 1], [3, 0]])
    assert_array_equal(encoded([True, None, False, False]), [[1, 0], [1 / 3, 1], [0, 0], [0, 0]])


def test_dates_are_days_and_places_in_day_week_and_year() -> None:
    # 1970 began on a Thursday, three days after the beginning of a week.
    features = encoded([dt.date(1970, 1, 1), dt.date(1970, 1, 5)])
    turn = 2 * np.pi * 3 / 7
    assert_allclose(features[0], [0, 0, 1, np.sin(turn), np.cos(turn), 0, 1], atol=1e-12)
    assert_allclose(features[1][[0, 1, 2, 3, 4]], [4, 0, 1, 0, 1], atol=1e-12)
    noon = encoded([dt.datetime(1970, 1, 1, 12)])[0]
    assert_allclose(noon[:3], [0.5, 0, -1], atol=1e-12)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_unit_of_times_does_not_matter(unit) -> None:
    expected = encoded([dt.datetime(2008, 7, 1, 6)], pa.timestamp("us"))
    assert_array_equal(encoded([dt.datetime(2008, 7, 1, 6)], pa.timestamp(unit)), expected)


def test_times_with_a_zone_are_local_times() -> None:
    berlin = encoded([dt.datetime(2008, 7, 1, 6)], pa.timestamp("s", "Europe/Berlin"))
    assert_array_equal(berlin, encoded([dt.datetime(2008, 7, 1, 8)]))
    days = pd.DataFrame({"a": pd.to_datetime(["2008-07-01 06:00"]).tz_localize("Asia/Tokyo")})
    table = arrow(days)
    assert_array_equal(made_from(table).encode(table), encoded([dt.datetime(2008, 7, 1, 6)]))


def test_missing_times_are_at_the_mean_of_every_feature() -> None:
    features = encoded(MOMENTS)
    assert_array_equal(features[:, -1], [0, 1, 0])
    assert_allclose(features[1, :-1], features[[0, 2], :-1].mean(0))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["red", None, "blue", "red"]),
        pa.array(["red", None, "blue", "red"], pa.large_string()),
        pa.array(["red", None, "blue", "red"]).dictionary_encode(),
        pd.Series(["red", None, "blue", "red"]),
        pd.Series(["red", None, "blue", "red"], dtype=object),
        pd.Categorical(["red", None, "blue", "red"], categories=["green", "blue", "red"]),
    ],
    ids=["text", "large text", "dictionary", "pandas", "objects", "categories"],
)
def test_text_has_a_feature_per_level(column) -> None:
    table = pa.table({"a": column}) if isinstance(column, pa.Array) else None
    table = arrow(pd.DataFrame({"a": column})) if table is None else table
    encoding = made_from(table)
    assert encoding.encoders == (Text("a", ("red", "blue"), True),)
    expected = [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0], [1, 0, 0, 0]]
    assert_array_equal(encoding.encode(table), expected)


@pytest.mark.parametrize("dtype", [pa.string_view(), pa.dictionary(pa.int8(), pa.string_view())])
def test_text_of_polars(dtype) -> None:
    words = pa.array(["red", None, "blue"], pa.string_view())
    if pa.types.is_dictionary(dtype):
        levels = pa.array(["blue", "red"], pa.string_view())
        words = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), levels)
    table = arrow(pa.table({"a": words}))
    assert_array_equal(made_from(table).encode(table), [[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]])


def test_the_most_frequent_levels_are_kept_and_ties_are_in_order() -> None:
    words = [f"w{i:02}" for i in range(40)]
    encoding = made_from(pa.table({"a": [*words, *words, "w39"]}))
    assert encoding.encoders[0] == Text("a", ("w39", *words[: LEVELS - 1]), False)


def test_categories_of_numbers_are_numbers() -> None:
    table = arrow(pd.DataFrame({"a": pd.Categorical([3, 1, 3])}))
    assert_array_equal(made_from(table).encode(table)[:, 0], [3, 1, 3])


# --- prediction -----------------------------------------------------------------------------


def test_an_unseen_level_is_another() -> None:
    encoding = made_from(pa.table({"a": ["red", "blue", None]}))
    assert encoding.features == ("a = 'blue'", "a = 'red'", "a = another", "a is missing")
    assert_array_equal(encoding.encode(pa.table({"a": ["green"]})), [[0, 0, 1, 0]])


@pytest.mark.parametrize(
    ("seen", "expected"),
    [([1.0, 3.0], [2]), (["red", "blue"], [0, 0, 1]), ([True, False], [0.5])],
    ids=["number", "text", "truth value"],
)
def test_missing_for_the_first_time_is_the_mean_or_another(seen, expected) -> None:
    table = pa.table({"a": seen})
    for missing in (pa.array([None], table["a"].type), pa.nulls(1)):
        assert_array_equal(made_from(table).encode(pa.table({"a": missing})), [expected])


def test_missing_time_for_the_first_time_is_the_mean() -> None:
    table = pa.table({"a": [dt.date(2008, 1, 1), dt.date(2008, 1, 3)]})
    features = made_from(table).encode(table)
    assert_allclose(made_from(table).encode(pa.table({"a": pa.nulls(1)})), [features.mean(0)])


@pytest.mark.parametrize("nothing", [np.nan, None, pd.NA, pd.NaT])
@pytest.mark.parametrize("seen", [["red", "blue"], MOMENTS], ids=["text", "time"])
def test_a_column_of_pandas_without_any_value_was_refused_as_numbers(seen, nothing) -> None:
    encoding = made_from(pa.table({"a": seen}))
    expected = encoding.encode(pa.table({"a": pa.nulls(2)}))
    assert_array_equal(encoding.encode(arrow(pd.DataFrame({"a": [nothing] * 2}))), expected)


def test_a_column_without_any_value_is_constant() -> None:
    table = pa.table({"a": pa.nulls(2), "b": pa.array([None, None], pa.string())})
    encoding = made_from(table)
    assert encoding.encoders == (Number("a", (0.0,), True), Text("b", (), True))
    assert_array_equal(encoding.encode(table), [[0, 1, 0, 1]] * 2)


def test_columns_may_come_in_any_order_and_with_others() -> None:
    encoding = made_from(TABLE)
    mixed = TABLE.select(TABLE.column_names[::-1]).append_column("list", pa.array([[1]] * 3))
    assert_array_equal(encoding.encode(mixed), encoding.encode(TABLE))


def test_features_have_names() -> None:
    encoding = made_from(TABLE)
    assert encoding.columns == tuple(TABLE.column_names)
    assert encoding.encode(TABLE).shape == (3, len(encoding.features))
    assert len(set(encoding.features)) == len(encoding.features)
    assert encoding.features[:4] == ("number", "number is missing", "whole", "truth")
    assert {"day in days", "day in its week (cos)", "day is missing"} < set(encoding.features)
    assert "whole is missing" not in encoding.features


def test_plain_is_a_table_that_an_array_can_stand_for() -> None:
    assert made_from(TABLE.select(["whole"])).plain
    assert not any(made_from(TABLE.select([c])).plain for c in ("number", "day", "shape"))


def test_json_keeps_everything() -> None:
    encoding = made_from(TABLE)
    again = encoding_from_json(json.loads(json.dumps(encoding.to_json())))
    assert again == encoding
    assert {type(encoder) for encoder in again.encoders} == {Number, Time, Text}
    assert_array_equal(again.encode(TABLE), encoding.encode(TABLE))


def test_simple_tables_have_the_same_features() -> None:
    assert_array_equal(made_from(TABLE).encode(canonical(TABLE)), made_from(TABLE).encode(TABLE))
    assert canonical(canonical(TABLE)).schema == canonical(TABLE).schema


def test_no_rows_have_no_features() -> None:
    encoding = made_from(TABLE)
    assert encoding.encode(TABLE[:0]).shape == (0, len(encoding.features))
    assert encoding.encode(TABLE.schema.empty_table()).shape == (0, len(encoding.features))


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "given", "match"),
    [
        (
            [1.0],
            ["x"],
            "'a' has texts such as 'x' in row 1, .* trained with numbers .*; write",
        ),
        (["x"], [1], r"numbers \(int64\) in column 'a', where .* trained with text; convert"),
        (["x"], DATES[:1], r"times \(date32\[day\]\) in column 'a', .* with text; convert"),
        (DATES[:1], [0.0], r"numbers \(double\) in column 'a', .* trained with times; convert"),
    ],
    ids=["text", "number", "date", "number for date"],
)
def test_another_kind_of_column_is_refused(seen, given, match) -> None:
    with pytest.raises(InvalidData, match=match) as caught:
        made_from(pa.table({"a": seen})).encode(pa.table({"a": given}))
    assert_one_sentence(str(caught.value))


def test_a_lacking_column_is_refused() -> None:
    with pytest.raises(InvalidData, match=r"X has no column 'shape', which .*; add") as caught:
        made_from(TABLE).encode(TABLE.drop_columns(["shape"]))
    assert_one_sentence(str(caught.value))


@pytest.mark.parametrize(
    "column",
    [pa.array([[1]]), pa.array([{"x": 1}]), pa.array([b"x"])],
    ids=["list", "struct", "bytes"],
)
def test_values_that_are_no_feature_are_refused(column) -> None:
    with pytest.raises(
        InvalidData, match=r"Column 'a' has .*, which is neither .*columns=\["
    ) as caught:
        made_from(pa.table({"a": column}))
    assert_one_sentence(str(caught.value))


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_refused(value) -> None:
    match = r"infinity \(inf\) in column 'a' \(1 of 2 rows\); replace"
    with pytest.raises(InvalidData, match=match) as caught:
        encoded([1.0, value])
    assert_one_sentence(str(caught.value))


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(InvalidData, match="'a' whose zone 'Mars/Base' is unknown") as caught:
        encoded([dt.datetime(2008, 7, 1)], pa.timestamp("s", "Mars/Base"))
    assert_one_sentence(str(caught.value))


def test_text_that_is_not_utf8_is_refused() -> None:
    words = pa.array([b"caf\xe9"]).cast(pa.string(), safe=False)
    with pytest.raises(
        InvalidData, match="Column 'a' has text that is not UTF-8; convert"
    ) as caught:
        made_from(pa.table({"a": words}))
    assert_one_sentence(str(caught.value))
