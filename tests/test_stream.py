"""Rows that are read anew in every epoch: order, mixing, and equality with rows in memory."""

import threading
import warnings
from itertools import islice

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from quick import METHODS, assert_one_sentence, blobs, quick

from sepgp import GPClassifier, InvalidData
from sepgp.data import array_source, sample, survey
from sepgp.data import stream_source as stream
from sepgp.data.array_source import ArraySource
from sepgp.data.batches import Batching
from sepgp.data.prefetch import prefetch
from sepgp.data.prepared import ArrayData, StreamData, prepare
from sepgp.data.rows import ArrayRows, Rows, TableRows, base, lines, open_rows
from sepgp.data.rows import csv as csv_rows
from sepgp.data.rows import parquet as parquet_rows
from sepgp.data.rows.cached import CachedRows
from sepgp.data.scaling import identity
from sepgp.data.stream_source import StreamSource, strata

N = 300
X, Y = blobs(N, d=2)
ORDER = np.argsort(Y, kind="stable")
TABLE = pd.DataFrame(X, columns=["a", "b"]).assign(late=Y)
PIECE = 50


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """A buffer of 100 rows, pieces of 50, and three readers that give 16 rows at a time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stream, "MEMORY", 8 * 5 * 100)
    monkeypatch.setattr(stream, "READERS", 3)
    monkeypatch.setattr(stream, "CHUNK", 16)
    monkeypatch.setattr(base, "BLOCK", PIECE)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not any(thread.name.startswith("sepgp-reader") for thread in threading.enumerate())


def model(**changes) -> GPClassifier:
    return quick(**({"n_inducing": 5, "max_iter": 8, "batch_size": 40} | changes))


def parquet(table=TABLE, path="rows.parquet") -> str:
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    pq.write_table(arrow, path, row_group_size=PIECE)
    return path


def csv(table=TABLE) -> str:
    table.to_csv("rows.csv", index=False)
    return "rows.csv"


def blocks(X=X, Y=Y, size=70):
    def source():
        for begin in range(0, len(X), size):
            yield X[begin : begin + size], Y[begin : begin + size]

    return source


SOURCES = {
    "array": lambda: ArrayRows(X, Y),
    "table": lambda: TableRows(TABLE, "late"),
    "parquet": lambda: open_rows(parquet(), "late"),
    "csv": lambda: open_rows(csv(), "late"),
    "function": lambda: open_rows(blocks()),
}
EVERY_SOURCE = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


def opened(source: Rows, batch_size: int = 40, seed: int = 0, **options) -> StreamSource:
    """Batches of the rows as they are, not scaled."""
    found = survey.survey(source)
    return StreamSource(source, found, Batching(identity(2), batch_size, seed, **options))


def taken(source, count: int, start: int = 0) -> list:
    """Some batches."""
    batches = source.batches(start)
    got = list(islice(batches, count))
    batches.close()
    return got


def numbers(batches) -> np.ndarray:
    return np.concatenate([batch.rows.numpy() for batch in batches])


# --- order ----------------------------------------------------------------------------------


@EVERY_SOURCE
def test_every_epoch_visits_every_row_once(source, monkeypatch) -> None:
    monkeypatch.setattr(lines, "PIECE", 1000)
    source = opened(source())
    epoch = source.batches_per_epoch
    assert epoch == 8
    batches = taken(source, 3 * epoch)
    for i in range(3):
        part = batches[i * epoch : (i + 1) * epoch]
        order = numbers(part)
        assert_array_equal(np.sort(order), np.arange(N))
        assert_allclose(np.concatenate([batch.X for batch in part]), X[order], rtol=1e-12)
        assert_array_equal(np.concatenate([batch.y for batch in part]), Y[order])
        assert all((batch.weight == 1).all() for batch in part)


@EVERY_SOURCE
def test_every_epoch_has_a_fresh_order_that_the_seed_decides(source) -> None:
    source = source()
    first, again, other = (numbers(taken(opened(source, seed=s), 16)) for s in (1, 1, 2))
    assert_array_equal(first, again)
    assert (first != other).mean() > 0.9
    assert (first[:N] != first[N:]).mean() > 0.9


@EVERY_SOURCE
@pytest.mark.parametrize("start", [0, 3, 8, 13])
def test_batches_may_start_anywhere(source, start) -> None:
    source = opened(source())
    expected = taken(source, 20)[start:]
    actual = taken(source, 20 - start, start)
    for a, b in zip(actual, expected, strict=True):
        assert_array_equal(a.rows, b.rows)
        assert_array_equal(a.X, b.X)


@pytest.mark.parametrize("batch_size", [1, 7, 40, 100, 299, 150])
def test_batches_have_the_sizes_of_an_array(batch_size) -> None:
    arrays = ArraySource(X, Y, np.ones(N), Batching(identity(2), batch_size))
    streamed = opened(ArrayRows(X, Y), batch_size)
    assert streamed.batches_per_epoch == arrays.batches_per_epoch
    assert streamed.total_weight == arrays.total_weight
    count = streamed.batches_per_epoch
    sizes = [[len(batch.y) for batch in taken(s, count)] for s in (streamed, arrays)]
    assert sizes[0] == sizes[1]


def test_rows_of_no_weight_are_left_out() -> None:
    weight = np.where(np.arange(N) % 3 == 0, 0.0, 1.5)
    source = opened(ArrayRows(X, Y, weight))
    batches = taken(source, source.batches_per_epoch)
    assert source.batches_per_epoch == 5
    assert_array_equal(np.sort(numbers(batches)), np.flatnonzero(weight))
    assert all((batch.weight == 1.5).all() for batch in batches)
    assert source.total_weight == 300


def test_weights_of_classes_are_in_the_batches() -> None:
    found = survey.survey(ArrayRows(X, Y), {0: 3.0, 1: 0.5})
    source = StreamSource(ArrayRows(X, Y), found, Batching(identity(2), 40))
    for batch in taken(source, 8):
        assert_array_equal(batch.weight, np.where(batch.y > 0, 0.5, 3.0))


def test_class_sorted_rows_come_well_mixed(monkeypatch) -> None:
    monkeypatch.setattr(stream, "READERS", 8)
    monkeypatch.setattr(base, "BLOCK", 500)
    n = 10_000
    y = np.arange(n) >= 0.7 * n
    sorted_rows = ArrayRows(np.random.default_rng(0).normal(size=(n, 2)), y)
    source = opened(sorted_rows, 500)
    assert source._capacity <= n / 10
    for start in (0, 20):  # two epochs
        shares = [float((batch.y > 0).double().mean()) for batch in taken(source, 10, start)]
        # Rows drawn one by one would have a standard deviation of .02, blocks of 16 some .06.
        assert np.abs(np.array(shares) - 0.3).max() < 0.2
        assert np.abs(np.mean(shares) - 0.3) < 0.08


@pytest.mark.parametrize("counts", [[10], [1, 1], [0, 5, 0, 7, 0], [100, 3, 50], [2] * 9])
@pytest.mark.parametrize("n_strata", [1, 3, 8])
def test_strata_hold_every_row_once(counts, n_strata) -> None:
    parts = strata(np.array(counts), n_strata)
    found = [(r.piece, i) for part in parts for r in part for i in range(r.begin, r.end)]
    assert found == [(piece, i) for piece, count in enumerate(counts) for i in range(count)]
    sizes = [sum(r.end - r.begin for r in part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@EVERY_SOURCE
def test_pieces_may_be_read_from_anywhere(source) -> None:
    source = source()
    whole = list(source.read(0, size=16))
    labels = np.concatenate([block.y for block in whole])
    for skip in (0, 1, 16, 20, len(labels) - 1, len(labels)):
        parts = list(source.read(0, skip, 16))
        assert all(0 < len(part) <= 16 for part in parts)
        got = np.concatenate([labels[:0], *(part.y for part in parts)])
        assert_array_equal(got, labels[skip:])


# --- stream = array -------------------------------------------------------------------------


def fitted_parameters(fitted: GPClassifier) -> list:
    values = [*fitted.model_.sites[:2], fitted.model_.Z, *fitted.kernel_.parameters()]
    return [value.detach().numpy() for value in values]


def assert_identical(actual: GPClassifier, expected: GPClassifier) -> None:
    for a, b in zip(fitted_parameters(actual), fitted_parameters(expected), strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_blocks_give_identical_parameters(method) -> None:
    expected = model(method=method).fit(ArrayRows(X, Y))
    for source in (TableRows(TABLE, "late"), open_rows(parquet(), "late")):
        assert_identical(model(method=method).fit(source), expected)
    again = np.memmap("rows.bin", X.dtype, "w+", shape=X.shape)
    again[:] = X
    assert again.nbytes > stream.MEMORY
    assert_identical(model(method=method).fit(again, Y), expected)


def test_blocks_of_any_kind_give_identical_parameters(monkeypatch) -> None:
    monkeypatch.setattr(stream, "READERS", 1)
    monkeypatch.setattr(base, "BLOCK", N)
    monkeypatch.setattr(stream, "CHUNK", 30)
    expected = model().fit(ArrayRows(X, Y))
    pq.write_table(pa.Table.from_pandas(TABLE, preserve_index=False), "rows.parquet")
    for source in (blocks(size=N), "rows.parquet"):
        target = None if callable(source) else "late"
        assert_identical(model().fit(source, target=target), expected)
    # Texts are summed up by their values, so that the last digit of a scale may be another.
    read = model().fit(csv(), target="late")
    for a, b in zip(fitted_parameters(read), fitted_parameters(expected), strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@EVERY_SOURCE
@pytest.mark.filterwarnings("ignore:X has feature names")  # and arrays have none
def test_streams_train_as_well_as_arrays(source) -> None:
    assert isinstance(prepare(source(), None, 0, None, 40)[0], StreamData)

    def loss(fitted: GPClassifier) -> float:
        probabilities = np.concatenate(list(fitted.predict_proba(source())))
        return -float(np.log(probabilities[np.arange(N), Y]).mean())

    streamed, arrays = model(max_iter=30).fit(source()), model(max_iter=30).fit(X, Y)
    assert abs(loss(streamed) - loss(arrays)) < 0.02


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_method_trains_from_a_sorted_stream(method, dtype) -> None:
    path = parquet(TABLE.iloc[ORDER])
    fitted = model(method=method, dtype=dtype, max_iter=20).fit(path, target="late")
    assert not fitted.history_["rejected"].any()
    assert fitted.score(TABLE[["a", "b"]], Y) > 0.9


def test_float32_batches() -> None:
    batch = taken(opened(ArrayRows(X, Y), dtype=torch.float32), 1)[0]
    assert [part.dtype for part in batch[:3]] == [torch.float32, torch.int64, torch.float32]
    assert_array_equal(batch.X, X[batch.rows].astype(np.float32))


def test_rows_that_one_batch_holds_are_kept_in_memory() -> None:
    assert isinstance(prepare(ArrayRows(X, Y), None, 0, None, N)[0], ArrayData)
    assert isinstance(prepare(ArrayRows(X, Y), None, 0, None, N - 1)[0], StreamData)
    for method in METHODS:
        expected = model(method=method, batch_size=None).fit(X, Y)
        assert_identical(model(method=method, batch_size=None).fit(blocks()), expected)


@pytest.fixture
def parsed(monkeypatch) -> list:
    """The pieces of CSV files that are parsed, each time that they are."""
    pieces, parse = [], csv_rows.CSVRows._parse
    monkeypatch.setattr(
        csv_rows.CSVRows,
        "_parse",
        lambda rows, piece, types: (
            pieces.append(rows._pieces.index(piece)) or parse(rows, piece, types)
        ),
    )
    return pieces


@pytest.mark.parametrize("validation_fraction", [0.0, 0.3])
def test_rows_that_fit_are_parsed_once_after_their_types_are_found(
    validation_fraction, parsed, monkeypatch
) -> None:
    monkeypatch.setattr(stream, "MEMORY", 2**20)
    model(validation_fraction=validation_fraction).fit(csv(), target="late")
    assert parsed == [0, 0]


def test_rows_that_do_not_fit_are_dropped_and_read_again(parsed, monkeypatch) -> None:
    monkeypatch.setattr(lines, "PIECE", 4000)
    source = open_rows(csv(), "late")
    assert source.n_pieces == 4
    cached = CachedRows(source, N * 4 * 8 - 1)  # two features, label and weight
    parsed.clear()
    expected = [block.y for block in cached.blocks()]
    assert_array_equal(np.concatenate(expected), Y)
    assert parsed == [0, 1, 2, 3]
    assert not cached._pieces
    assert_array_equal(np.concatenate([block.y for block in cached.blocks()]), Y)
    assert parsed == 2 * [0, 1, 2, 3]


@EVERY_SOURCE
def test_cached_rows_are_those_of_the_source(source) -> None:
    source = source()
    cached = CachedRows(source, 2**20)
    for _ in range(2):
        for piece in range(source.n_pieces):
            for skip in (3, 0):
                pairs = zip(cached.read(piece, skip), source.read(piece, skip), strict=True)
                for actual, expected in pairs:
                    assert_array_equal(actual.X, expected.X)
                    assert_array_equal(actual.y, expected.y)


@pytest.mark.slow
def test_a_real_table_as_a_stream() -> None:
    real = TABLE.assign(
        colour=["red", "blue", None] * 100,
        day=pd.date_range("2008-01-01", periods=N, tz="Europe/Berlin"),
        a=np.where(X[:, 0] > 2, np.nan, X[:, 0]),
    )
    expected = model(batch_size=N).fit(real, target="late")
    for target, source in (("late", parquet(real)), ("late", lambda: [real[:80], real[80:]])):
        fitted = model().fit(source, target=target)
        assert fitted.encoding_.features == expected.encoding_.features
        assert fitted.score(real, Y) > 0.85
        assert_allclose(
            fitted.model_.scaling.mean, expected.model_.scaling.mean, rtol=1e-6, atol=1e-9
        )
        assert_allclose(fitted.model_.scaling.scale, expected.model_.scaling.scale, rtol=1e-6)


def test_the_sample_is_the_same_however_rows_are_cut(monkeypatch) -> None:
    monkeypatch.setattr(sample, "SAMPLE", 30)
    expected = survey.survey(ArrayRows(X, Y)).sample
    assert len(expected) == 30
    for size in (1, 7, 300):
        actual = survey.survey(open_rows(blocks(size=size))).sample
        assert_array_equal(actual.X, expected.X)
        assert_array_equal(actual.y, expected.y)


def test_the_sample_is_fair(monkeypatch) -> None:
    monkeypatch.setattr(sample, "SAMPLE", 100)
    monkeypatch.setattr(base, "BLOCK", 2000)
    source = ArrayRows(np.arange(20_000.0)[:, None], np.arange(20_000) % 2)
    means = [survey.survey(source, seed=seed).sample.X.mean() for seed in range(5)]
    assert abs(np.mean(means) - 10_000) < 1000  # three standard deviations are 775


def test_a_sample_of_blocks_of_various_types() -> None:
    def tables():
        yield TABLE.assign(c=pd.Categorical(["x", "y"] * 150), b=None)
        yield TABLE.assign(c=None, b=np.arange(N))
        yield TABLE.assign(c="z", b=True, a=np.float32(1))

    fitted = model().fit(tables, target="late")
    assert fitted.encoding_.encoders[2].levels == ("z", "x", "y")
    assert np.isfinite(fitted.predict_proba(TABLE.assign(c="x"))).all()


def test_the_digest_tells_rows_apart() -> None:
    def digest(X=X, Y=Y, weight=None):
        return survey.survey(ArrayRows(X, Y, weight)).digest

    changed = X.copy()
    changed[17, 1] += 1e-6
    others = [digest(changed), digest(X[:-1], Y[:-1]), digest(X, 1 - Y), digest(weight=2 * Y + 1)]
    assert len({digest(), *others}) == 5
    assert digest() == digest()


# --- reading ahead --------------------------------------------------------------------------


def readers() -> list:
    return [thread for thread in threading.enumerate() if thread.name.startswith("sepgp-reader")]


def test_reading_ahead_gives_the_same_items() -> None:
    assert list(prefetch((i for i in range(20)), 3)) == list(range(20))
    assert list(prefetch((i for i in ()), 3)) == []


@pytest.mark.parametrize("start", [0, 9])
def test_large_minibatches_are_scaled_ahead(start, monkeypatch) -> None:
    arrays = ArraySource(X, Y, np.ones(N), Batching(identity(2), 40))
    expected = taken(arrays, 10, start)
    monkeypatch.setattr(array_source, "LARGE", 80)
    scaling_threads = set()
    real = Batching.scaled

    def scaled(how, rows):
        scaling_threads.add(threading.current_thread().name)
        return real(how, rows)

    monkeypatch.setattr(Batching, "scaled", scaled)
    actual = taken(arrays, 10, start)
    assert all(name.startswith("sepgp-reader") for name in scaling_threads)
    for a, b in zip(actual, expected, strict=True):
        assert_array_equal(a.rows, b.rows)
        assert_array_equal(a.X, b.X)


def test_reading_ahead_is_bounded_and_ends_with_its_reader() -> None:
    made, closed = [], []

    def items():
        try:
            for i in range(1000):
                made.append(i)
                yield i
        finally:
            closed.append(threading.current_thread().name)

    ahead = prefetch(items(), 3)
    assert not readers()
    assert next(ahead) == 0
    assert len(readers()) == 1
    ahead.close()
    assert not readers()
    assert len(made) <= 6
    assert closed == ["sepgp-reader_0"]


def test_an_exception_comes_after_the_items_before_it() -> None:
    def items():
        yield 1
        yield 2
        raise KeyError("three")

    ahead = prefetch(items(), 3)
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(KeyError, match="three"):
        next(ahead)
    assert not readers()


class Stop:
    """A callback that ends training after some steps, in one way or another."""

    def __init__(self, how) -> None:
        self.how = how

    def __call__(self, record) -> bool:
        assert len(readers()) == 1
        if record.iteration < 5:
            return False
        if self.how is not None:
            raise self.how
        return True


@pytest.mark.parametrize("how", [None, KeyboardInterrupt, RuntimeError], ids=str)
def test_the_reading_thread_ends_with_training(how) -> None:
    fitted = model(callbacks=[Stop(how)], max_iter=100)
    if how is None:
        fitted.fit(ArrayRows(X, Y))
    else:
        with pytest.raises(how):
            fitted.fit(ArrayRows(X, Y))
    assert not readers()


# --- faults in a later epoch ----------------------------------------------------------------


def later(change, after: int = 3):
    """A function whose blocks are changed in a call after the first ones."""
    calls = []

    def source():
        calls.append(1)
        for number, block in enumerate(blocks()()):
            yield change(number, *block) if len(calls) > after else block

    return source


def raises(number, X, Y):
    if number == 2:
        raise OSError("the disk is gone")
    return X, Y


FAULTS = {
    "label": (lambda i, X, Y: (X, Y + 1), r"source\(\) has the label .*2.*, but the classes"),
    "text": (lambda i, X, Y: (X, Y.astype(str)), r"source\(\) has the label '0', but the classes"),
    "fewer": (
        lambda i, X, Y: (X[: 70 - i], Y[: 70 - i]),
        r"no longer has the 300 rows .*; give the same",
    ),
    "weights": (lambda i, X, Y: (X, Y, 0 * Y), r"source\(\) has other rows .*; give the same"),
    "flipped": (lambda i, X, Y: (X, 1 - Y), r"source\(\) has other rows .*; give the same"),
    "swapped": (lambda i, X, Y: (X[::-1], Y), r"source\(\) has other rows .*; give the same"),
    "unlabelled": (lambda i, X, Y: X, r"source\(\) has no labels; name"),
    "NaN": (lambda i, X, Y: (X * np.nan, Y), r"contains NaN in column 0 \(70 of 70 rows\); impute"),
    "columns": (lambda i, X, Y: (X[:, :1], Y), "other columns than its first block; give"),
    "exception": (raises, r"source\(\) raised OSError in block 3 \(the disk is gone\)"),
}


@pytest.mark.parametrize(("change", "match"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("after", [2, 4])
def test_a_fault_in_a_later_epoch_changes_nothing(change, match, after) -> None:
    fitted = model(max_iter=3, batch_size=N).fit(X, Y)
    before, state = fitted.predict_proba(X), dict(vars(fitted))
    fitted.set_params(max_iter=40, batch_size=40)
    with pytest.raises(InvalidData, match=match) as caught:
        fitted.fit(later(change, after))
    assert_one_sentence(str(caught.value))
    assert not readers()
    fitted.set_params(max_iter=3, batch_size=N)
    assert vars(fitted) == state
    assert_array_equal(fitted.predict_proba(X), before)


def test_a_file_that_is_truncated_during_training(tmp_path) -> None:
    path = tmp_path / parquet()
    content = path.read_bytes()
    fitted = model(max_iter=100, callbacks=[lambda r: path.write_bytes(content[:1500]) and None])
    with pytest.raises(
        InvalidData,
        match=r"rows.parquet (cannot be read \(.*replace|no longer has the 300|has other rows)",
    ) as caught:
        fitted.fit("rows.parquet", target="late")
    assert_one_sentence(str(caught.value))
    assert vars(fitted).keys() == fitted.get_params().keys()


def test_a_function_may_mix_its_rows_anew() -> None:
    random = np.random.default_rng(0)

    def mixed():
        order = random.permutation(N)
        return blocks(X[order], Y[order])()

    assert model(max_iter=40).fit(mixed).score(X, Y) > 0.9


IN_ORDER = {
    "held-out rows": {"validation_fraction": 0.2},
    "a prior mean": {"mean": "trees"},
    "label means": {},
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_a_function_that_mixed_its_rows_anew_trained_on_held_out_rows(name) -> None:
    """Which rows are held out goes by their places; so do folds of scores and of label means."""
    random, table = np.random.default_rng(0), TABLE
    if name == "label means":
        number = np.arange(N) % 40
        city = np.char.add("c", number.astype(str))
        table = TABLE.assign(city=city, late=np.where(number < 20, Y, 1))

    def mixed():
        yield table.iloc[random.permutation(N)]

    warnings.filterwarnings("ignore", message="Column 'city' is read as text")
    with pytest.raises(InvalidData, match=r"^mixed\(\) has other rows than at its first") as caught:
        model(max_iter=40, **IN_ORDER[name]).fit(mixed, target="late")
    assert_one_sentence(str(caught.value))


def test_text_in_a_file_that_is_not_utf8_was_a_fault_of_sepgp() -> None:
    words = pa.array([b"caf\xe9", b"tea"] * 30).cast(pa.string(), safe=False)
    table = pa.table({"a": words, "late": [0, 1] * 30})
    pq.write_table(table, "words.parquet")
    with pytest.raises(InvalidData, match="Column 'a' has text that is not UTF-8; con") as caught:
        model().fit("words.parquet", target="late")
    assert_one_sentence(str(caught.value))


def test_a_function_was_called_in_another_thread_before_training() -> None:
    """A connection to a database may be used in the thread that has made it alone."""
    seen = set()

    def rows():
        seen.add(threading.current_thread())
        yield X[:40], Y[:40]

    model().fit(rows)
    assert seen == {threading.current_thread()}


REPLACED = {
    "flipped": TABLE.assign(late=1 - Y),
    "another value": TABLE.assign(b=np.where(np.arange(N) == 123, 0.0, TABLE.b)),
    "another text": TABLE.assign(c=["u"] * 299 + ["v"]),
    "without a column": TABLE.drop(columns="a"),
    "fewer row groups": TABLE[:PIECE],
}


@pytest.mark.slow
@pytest.mark.parametrize("table", REPLACED.values(), ids=REPLACED)
def test_a_file_that_was_replaced_during_training_went_unnoticed(table) -> None:
    parquet(TABLE.assign(c="u"))

    def replace(record):
        if record.iteration == 20:
            parquet(table if "c" in table else table.assign(c="u"))

    fitted = model(max_iter=100, callbacks=[replace])
    with pytest.raises(InvalidData, match=r"rows.parquet has other rows than at its .*") as caught:
        fitted.fit("rows.parquet", target="late")
    assert_one_sentence(str(caught.value))
    assert not hasattr(fitted, "model_")


def test_a_file_that_was_replaced_while_it_was_read_was_said_to_be_damaged(monkeypatch) -> None:
    rows = open_rows(parquet(), target="late")
    footer = parquet_rows._footer

    def replaced(path, *version):
        found = footer(path, *version)
        parquet(TABLE[:PIECE])
        return found

    monkeypatch.setattr(parquet_rows, "_footer", replaced)
    with pytest.raises(InvalidData, match=r"rows.parquet has other rows than at its .*") as caught:
        list(rows.read(rows.n_pieces - 1))
    assert_one_sentence(str(caught.value))


def test_a_second_label_may_come_late_in_a_stream() -> None:
    fitted = model(max_iter=20).fit(blocks(X[ORDER], Y[ORDER]))
    assert fitted.score(X, Y) > 0.9
