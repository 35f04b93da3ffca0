"""Sums over blocks of rows are those over all rows, however the rows are cut."""

import datetime as dt
import itertools
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from quick import assert_one_sentence
from sklearn.utils import compute_sample_weight

from sepgp import InvalidData
from sepgp.data.columns import dates, numbers, texts
from sepgp.data.columns.texts import MOST_LEVELS, Choices, Meanings, Texts
from sepgp.data.encoding import Number, Text
from sepgp.data.moments import Moments, standardization
from sepgp.data.rows import ArrayRows, Block, TableRows
from sepgp.data.scaling import LARGEST
from sepgp.data.summary import Summary
from sepgp.data.survey import Findings, survey

FIELDS = ("weight", "mean", "squares", "low", "high", "missing")


def table(n: int = 200, seed: int = 0) -> pa.Table:
    """A table with every kind of column, most with missing values."""
    random = np.random.default_rng(seed)
    number = np.where(random.random(n) < 0.2, np.nan, random.normal(50, 3, n))
    words = np.array(["red", "green", "blue", None], dtype=object)
    start = dt.datetime(2008, 1, 1)
    hours = random.integers(0, 9000, n).tolist()
    return pa.table(
        {
            "number": pa.array(number, from_pandas=True),
            "whole": random.integers(0, 5, n),
            "same": np.full(n, 0.1),
            "truth": random.random(n) < 0.3,
            "when": [None if h < 500 else start + dt.timedelta(hours=h) for h in hours],
            "colour": words[random.integers(0, 4, n)].tolist(),
            "word": ["one"] * n,
            "rare": ["one"] * (n - 1) + ["two"],
            "nothing": pa.nulls(n),
        }
    )


@settings(max_examples=50, deadline=None)
@given(data=st.data(), n=st.integers(1, 40), mean=st.sampled_from([0.0, -3.0, 1e9]))
def test_moments_of_blocks_are_those_of_the_whole(data, n, mean) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    values = mean + random.normal(size=(n, 3))
    values[random.random((n, 3)) < data.draw(st.sampled_from([0.0, 0.3, 1.0]))] = np.nan
    weight = random.uniform(0.1, 5, n)
    cuts = sorted(data.draw(st.sets(st.integers(1, n - 1)))) if n > 1 else []
    parts = [
        Moments.of(rows, w)
        for rows, w in zip(np.split(values, cuts), np.split(weight, cuts), strict=True)
    ]
    order = random.permutation(len(parts))
    total = parts[order[0]]
    for i in order[1:]:
        total = total + parts[i]
    whole = Moments.of(values, weight)
    # A mean is known to its last digit alone, and squares about it change with it.
    digit = np.finfo(np.float64).eps * abs(mean)
    slack = {"mean": 1e-12 * abs(mean)}
    slack["squares"] = 4 * digit * np.sqrt(whole.weight * whole.squares) + whole.weight * digit**2
    for name in FIELDS:
        size = 1e-9 + np.max(slack.get(name, 0.0))
        expected = getattr(whole, name)
        assert_allclose(getattr(total, name), expected, rtol=1e-6, atol=size, err_msg=name)
    assert_array_equal(total.varies, whole.varies)


def test_moments_keep_their_digits_at_a_large_mean() -> None:
    random = np.random.default_rng(0)
    values = 1e9 + random.normal(size=(100_000, 1))
    weight = random.uniform(0.5, 2, len(values))
    total = Moments.of(values[:10], weight[:10])
    for begin in range(10, len(values), 9_999):
        part = slice(begin, begin + 9_999)
        total = total + Moments.of(values[part], weight[part])
    small = values[:, 0] - 1e9
    mean = np.average(small, weights=weight)
    assert_allclose(total.mean - 1e9, mean, atol=1e-6)
    assert_allclose(total.squares, weight @ np.square(small - mean), rtol=1e-9)


def test_moments_of_several_columns_are_those_of_each() -> None:
    random = np.random.default_rng(0)
    values, weight = random.normal(size=(30, 3)), random.random(30)
    values[3, 1] = np.nan
    together = Moments.of(values, weight)
    for i in range(3):
        alone = Moments.of(values[:, i : i + 1], weight)
        for name in FIELDS:
            assert_allclose(getattr(together, name)[i], getattr(alone, name)[0], rtol=1e-12)


def test_a_factor_on_the_weights() -> None:
    rows, weight = table(), np.random.default_rng(0).random(200)
    scaled, weighted = Summary.of(rows, weight) * 3.0, Summary.of(rows, 3.0 * weight)
    assert scaled.count == weighted.count == 200
    assert_allclose(scaled.total, weighted.total)
    encoding, _ = weighted.encoding()
    for actual, expected in zip(
        *(part.scaling(encoding)[:4] for part in (scaled, weighted)), strict=True
    ):
        assert_allclose(actual, expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_blocks", [1, pytest.param(7, marks=pytest.mark.slow)])
def test_scaling_is_that_of_the_encoded_matrix(weighted, n_blocks) -> None:
    rows = table()
    weight = np.random.default_rng(1).uniform(0.1, 3, 200) if weighted else np.ones(200)
    cuts = np.linspace(0, 200, n_blocks + 1).astype(int)
    parts = [Summary.of(rows[a:b], weight[a:b]) for a, b in itertools.pairwise(cuts)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    encoding, _ = total.encoding()
    assert encoding is not None
    scaling, expected = total.scaling(encoding), standardization(encoding.encode(rows), weight)
    assert_allclose(scaling.mean, expected.mean, rtol=1e-9, atol=1e-12)
    assert_allclose(scaling.scale, expected.scale, rtol=1e-9)
    assert_allclose(scaling.far, expected.far, rtol=1e-9)
    constant = dict(zip(encoding.features, scaling.scale, strict=True))
    for name in ("same", "word = 'one'", "word = another", "nothing", "nothing is missing"):
        assert constant[name] == LARGEST
    assert np.ptp(scaling.apply(encoding.encode(rows)), axis=0)[list(constant).index("same")] == 0


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 0.3}])
def test_scaling_with_weights_of_the_classes(class_weight) -> None:
    rows, random = table(), np.random.default_rng(2)
    y, weight = (random.random(200) < 0.2).astype(int), random.uniform(0, 2, 200)
    found = survey(TableRows(rows, None, None, weight, y), class_weight)
    assert found.encoding is not None
    total = weight if class_weight is None else weight * compute_sample_weight(class_weight, y)
    expected = standardization(found.encoding.encode(rows), total)
    assert_allclose(found.scaling.mean, expected.mean, rtol=1e-9, atol=1e-12)
    assert_allclose(found.scaling.scale, expected.scale, rtol=1e-9)
    assert_allclose(found.total_weight, total.sum())


@pytest.mark.parametrize("class_weight", [None, "balanced", {"a": 2.0, "c": 0.3}])
def test_any_number_of_classes(class_weight) -> None:
    random = np.random.default_rng(2)
    X, y = random.normal(size=(200, 2)), np.array(["a", "b", "c", "d"])[random.integers(0, 4, 200)]
    found = survey(ArrayRows(X, y), class_weight)
    weight = np.ones(200) if class_weight is None else compute_sample_weight(class_weight, y)
    assert found.classes.tolist() == ["a", "b", "c", "d"]
    expected = standardization(X, weight)
    assert_allclose(found.scaling.mean, expected.mean, rtol=1e-9)
    assert_allclose(found.scaling.scale, expected.scale, rtol=1e-9)
    codes = found.codes(y, "X")
    assert codes.dtype == np.int64
    assert_array_equal(found.classes[codes], y)
    assert_allclose(found.arrays(found.sample, "X")[2], weight)
    with pytest.raises(InvalidData, match="X has the label 'e', but the classes are"):
        found.codes(np.array(["a", "e"]), "X")


def test_scaling_of_an_array() -> None:
    random = np.random.default_rng(3)
    X = np.column_stack([1e9 + random.normal(size=100), random.integers(0, 3, 100), np.ones(100)])
    found = survey(ArrayRows(X, np.arange(100) % 2))
    expected = standardization(X, np.ones(100))
    assert found.encoding is None
    assert_allclose(found.scaling.mean, expected.mean, rtol=1e-15)
    assert_allclose(found.scaling.scale, expected.scale, rtol=1e-6)


def test_numbers_of_a_table_have_the_sums_of_an_array() -> None:
    X = np.random.default_rng(4).normal(size=(300, 3))
    y = np.arange(300) % 2
    columns = pa.table({name: X[:, i] for i, name in enumerate("abc")})
    arrays, tables = survey(ArrayRows(X, y)), survey(TableRows(columns, y=y))
    assert_array_equal(arrays.scaling.mean, tables.scaling.mean)
    assert_array_equal(arrays.scaling.scale, tables.scaling.scale)


@pytest.mark.parametrize("word", [1.5, "x", True, dt.date(2008, 1, 1)], ids=str)
def test_a_single_missing_value_of_small_weight_is_noticed(word) -> None:
    rows = pa.table({"a": [word] * 7 + [None] + [word] * 1000})
    for weight in (1.0, 1e-15):
        weights = np.ones(len(rows))
        weights[7] = weight
        total = Summary.of(rows[:500], weights[:500]) + Summary.of(rows[500:], weights[500:])
        encoding, _ = total.encoding()
        assert encoding is not None
        assert encoding.encoders[0].missing


def test_a_column_may_be_empty_in_some_blocks() -> None:
    for column in (["x", None, "y"], [1.5, None, 2.5], [dt.date(2008, 1, 1), None, None]):
        full, nothing = pa.table({"a": column}), pa.table({"a": pa.nulls(2)})
        expected = Summary.of(
            pa.concat_tables([full, nothing], promote_options="default"), np.ones(5)
        )
        encoding, _ = expected.encoding()
        for parts in ((full, nothing), (nothing, full)):
            a, b = (Summary.of(part, np.ones(len(part))) for part in parts)
            assert (a + b).encoding() == (encoding, [])
            for got, wanted in zip(
                (a + b).scaling(encoding)[:4], expected.scaling(encoding)[:4], strict=True
            ):
                assert_allclose(got, wanted)


def test_a_column_of_several_kinds_is_refused() -> None:
    a, b = (Summary.of(pa.table({"a": v}), np.ones(1)) for v in (["x"], [dt.date(2008, 1, 1)]))
    match = "a text in column 'a' of some rows and a time in others; give"
    with pytest.raises(InvalidData, match=match) as caught:
        a + b
    assert_one_sentence(str(caught.value))


@pytest.mark.slow
def test_a_text_that_differs_in_nearly_every_row_is_left_out() -> None:
    words = [f"id {i}" for i in range(10_000)]
    table = pa.table({"name": words, "x": np.arange(10_000.0)})
    parts = [
        Summary.of(table[i : i + 600], np.ones(len(table[i : i + 600])))
        for i in range(0, 10_000, 600)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert MOST_LEVELS <= len(total.parts[0].levels) <= 2 * MOST_LEVELS
    assert_allclose(total.parts[0].n_levels, 10_000, rtol=0.1)
    encoding, (note,) = total.encoding()
    assert encoding.columns == ("x",)
    assert encoding.left_out == (("name", "a different text in nearly every row"),)
    said = note.sentence(1)
    assert said.startswith(
        "Column 'name' has a different text in nearly every row, such as 'id 0' in"
    )
    assert_one_sentence(said)
    chosen, notes = total.encoding(Choices({"name": "text"}))
    assert chosen.columns == ("name", "x")
    assert notes == []


def test_nothing_but_columns_that_are_left_out_is_refused() -> None:
    words = pa.table({"name": [f"id {i}" for i in range(100)]})
    with pytest.raises(InvalidData, match=r"no column to learn from but .*'name'.*; add") as caught:
        Summary.of(words, np.ones(100)).encoding()
    assert_one_sentence(str(caught.value))


def test_the_most_frequent_of_many_texts_are_levels() -> None:
    random = np.random.default_rng(0)
    common = [f"city {i}" for i in range(5)]
    words = random.permutation([*common * 400, *(f"village {i}" for i in range(1500))])
    blocks = [Summary.of(pa.table({"a": part}), np.ones(len(part))) for part in np.split(words, 7)]
    total = blocks[0]
    for block in blocks[1:]:
        total = total + block
    (encoder,) = total.encoding()[0].encoders
    assert isinstance(encoder, Text)
    assert encoder.levels[:5] == tuple(common)


@pytest.mark.parametrize("date", ["06/07/2021", "6.7.21", "11-12-1999 23:59"])
def test_dates_that_nobody_can_read_are_no_text(date) -> None:
    total = Summary.of(pa.table({"since": [date, None, date]}), np.ones(3))
    match = f"Column 'since' has dates such as '{date}', which .* --dayfirst"
    with pytest.raises(InvalidData, match=match) as caught:
        total.encoding()
    assert_one_sentence(str(caught.value))
    for dayfirst in (True, False):
        (encoder,) = total.encoding(Choices(dayfirst=dayfirst))[0].encoders
        assert encoder.dayfirst == dayfirst
    never = Summary.of(pa.table({"since": [date, "never"]}), np.ones(2))
    assert isinstance(never.encoding()[0].encoders[0], Text)


@pytest.mark.parametrize(
    ("number", "value"), [("3,14", 3.14), ("-0,5", -0.5), ("1,234.5", 1234.5), ("1.234,50", 1234.5)]
)
def test_numbers_with_commas_are_no_text(number, value) -> None:
    table = pa.table({"size": [number, None, number]})
    (encoder,) = Summary.of(table, np.ones(3)).encoding()[0].encoders
    assert isinstance(encoder, Number)
    assert encoder.fill == (value,)
    large = Summary.of(pa.table({"size": [number, "large"]}), np.ones(2))
    assert isinstance(large.encoding()[0].encoders[0], Text)


NUMBERS = [
    "1",
    "2,5",
    "?",
    "x",
    "007",
    "3 kg",
    "4,5 kg",
    "yes",
    "12:30",
    "<7",
    None,
    "1.234",
    " 5 % ",
]
TIMES = ["28.02.2021", "3/4/2020", None, "Feb 3, 2020", "x", "2021-01-01 12:00"]


@pytest.mark.parametrize("words", [NUMBERS, TIMES], ids=["numbers", "times"])
def test_texts_of_blocks_are_those_of_the_whole(words) -> None:
    random = np.random.default_rng(0)
    column = pa.array(random.choice(words, 300).tolist(), pa.large_string())
    weight = random.uniform(0.1, 2, 300)
    whole = Texts.of(column, weight)
    parts = [Texts.of(column[a:b], weight[a:b]) for a, b in itertools.pairwise([0, 40, 90, 300])]
    total = (parts[2] + parts[0] + parts[1]) * 2.0
    for name in ("n_rows", "shapes", "n_levels"):
        assert getattr(total, name) == getattr(whole, name)
    assert_allclose(total.missing, 2 * whole.missing)
    assert_allclose([total.levels[w] for w in whole.levels], 2 * np.array([*whole.levels.values()]))
    readings = [[*(n.reading for n in t.numbers), *t.times] for t in (total, whole)]
    for a, b in zip(*readings, strict=True):
        assert a.count == b.count
        assert_allclose(a.moments.centre, b.moments.centre, atol=1e-12)
        assert_allclose(a.moments.deviation, b.moments.deviation, atol=1e-9)


MESSY = ["City 7", "$5.00", "1 280,85 €", "n/a", "<5", "3/4/2021", "Mar-21", "007", "2021", "x", ""]


def test_texts_of_a_part_mean_what_they_mean_among_all() -> None:
    random = np.random.default_rng(0)
    column = pa.array(random.choice(MESSY, 60), pa.large_string())
    part, weight = column[:25], random.random(25)
    alone, among = (Texts.of(part, weight, meanings=m) for m in (None, Meanings.of(column)))
    assert (among.n_rows, among.shapes, among.levels) == (alone.n_rows, alone.shapes, alone.levels)
    for ours, theirs in zip(among.numbers, alone.numbers, strict=True):
        assert ours.examples == theirs.examples
        assert ours.reading.moments.facts() == theirs.reading.moments.facts()
    for ours, theirs in zip(among.times, alone.times, strict=True):
        assert ours.moments.facts() == theirs.moments.facts()


def test_texts_were_read_anew_for_every_class(monkeypatch) -> None:
    """With eight classes and a time budget of 1 s, two columns of 5,000 texts took 3.4."""
    read, seen = dates.parsed, []
    monkeypatch.setattr(dates, "parsed", lambda *how: seen.append(how) or read(*how))
    y = np.arange(60) % 6
    survey(TableRows(pa.table({"a": [f"City {i % 9}" for i in range(60)], "y": y}), "y"))
    assert len(seen) == 2  # with the month first, and with the day


def test_texts_were_read_again_in_every_block(monkeypatch) -> None:
    parsed, read = numbers.parsed, []

    def watched(texts, *others, **more):
        read.append(len(texts))
        return parsed(texts, *others, **more)

    monkeypatch.setattr(numbers, "parsed", watched)
    blocks = ["red", "3 kg", None, "n/a", "red"], ["blue", "3 kg"], [f"t{i}" for i in range(30)]
    first, more, many = (pa.array(values, pa.large_string()) for values in blocks)
    known = Meanings.of(first)
    assert known is not None
    assert known.points.values.tolist()[1] == 3
    assert Meanings.of(first[:2], known) is known
    both = Meanings.of(more, known)
    assert both is not None
    assert both.texts.to_pylist() == ["red", "3 kg", "blue"]
    assert_array_equal(both.points.values, parsed(both.texts).values)
    assert read == [2, 3]
    monkeypatch.setattr(texts, "REMEMBERED", 20)
    afresh = Meanings.of(many, both)
    assert afresh is not None
    assert afresh.texts.equals(many)


def test_workers_do_not_send_what_texts_mean() -> None:
    found = Findings("y")
    table = pa.table({"a": ["red", "blue"] * 20})
    found.add(0, Block(table, np.array([0, 1] * 20), np.ones(40)))
    assert found._by_class._meanings["a"] is not None
    assert pickle.loads(pickle.dumps(found))._by_class._meanings == {}
