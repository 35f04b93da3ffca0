"""Label means of levels: cross-fitted, smoothed, and the same wherever rows are met."""

import itertools
import math
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from quick import assert_one_sentence, quick
from rounds import fit_in_rounds
from scipy.stats import norm
from sklearn.metrics import log_loss
from test_models import rewritten

import sepgp
from sepgp import InvalidData
from sepgp.backends.partitions import Look, Partition, Recipe, look_at
from sepgp.cli.columns import _remark
from sepgp.data import label_means, stream_source
from sepgp.data import survey as survey_file
from sepgp.data.columns import levels as level_file
from sepgp.data.columns.levels import Levels
from sepgp.data.folds import FOLDS, fold_of
from sepgp.data.label_means import prior_strength, scores
from sepgp.data.prepared import ArrayData, StreamData, prepare
from sepgp.data.rows import TableRows, open_rows
from sepgp.data.rows.base import Wanted
from sepgp.data.survey import Findings, Survey, survey

ONE, REST = slice(0, 1), slice(1, None)

pytestmark = pytest.mark.filterwarnings("ignore:Column .* is read as text")


def towns(n: int, n_levels: int, n_classes: int = 2, seed: int = 0) -> pd.DataFrame:
    """Rows whose label y depends on their town, and a number that says nothing."""
    random = np.random.default_rng(seed)
    town = random.integers(0, n_levels, n)
    f = 1.5 * random.normal(size=(n_levels, n_classes))[town] + random.gumbel(size=(n, n_classes))
    names = np.array([f"town {chr(97 + i % 26)}{i}" for i in range(n_levels)])
    return pd.DataFrame({"a": random.normal(size=n), "town": names[town], "y": f.argmax(1)})


def surveyed(table: pd.DataFrame, **options) -> Survey:
    return survey(TableRows(pa.Table.from_pandas(table), "y"), **options)


def trained_on(found: Survey, table: pd.DataFrame) -> np.ndarray:
    """The features of the rows that a survey has seen."""
    rows = TableRows(pa.Table.from_pandas(table), "y")
    (block,) = rows.blocks()
    return found.arrays(block.learned_from(0), "X")[0]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), most=st.sampled_from([8, 50, 2**18]))
def test_levels_of_parts_are_those_of_the_whole(seed, most) -> None:
    random = np.random.default_rng(seed)
    texts = pa.array([None if i == 7 else f"t{i}" for i in random.integers(0, 60, 300)])
    rows = random.integers(0, 3, 300), fold_of(np.arange(300)), random.integers(0, 4, 300) * 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(level_file, "MOST", most)
        cuts = [0, *sorted(random.integers(0, 300, 3)), 300]
        parts = [
            Levels.of(texts[a:b], *(part[a:b] for part in rows))
            for a, b in itertools.pairwise(cuts)
        ]
        a, b, c, d = (parts[i] for i in random.permutation(4))
        whole, total = Levels.of(texts, *rows), (a + b) + (c + d)
        assert total.bits == whole.bits
        assert_array_equal(total.keys, whole.keys)
        assert_array_equal(total.weight, whole.weight)
        first, others = (Levels.of(texts[i], *(p[i] for p in rows)) for i in (ONE, REST))
        assert (first + others).bits == (others + first).bits == whole.bits
        keys, weight, bits = total.by_class(3)
    assert len(total.keys) <= most
    assert weight.size <= most * FOLDS
    assert bits == 32 or most < 2**18
    there = np.array([t is not None for t in texts.to_pylist()])
    assert weight.sum() == rows[2][there].sum()
    assert (np.diff(keys.astype(np.int64)) > 0).all()


@pytest.mark.slow
def test_classes_that_parts_meet_in_another_order_are_the_same() -> None:
    table = pa.Table.from_pandas(towns(2000, 60, 3))
    order = np.argsort(table["y"].to_numpy(), kind="stable")[::-1]
    found = []
    for rows in (table, table.take(order)):
        parts = [Findings("X", stream=i) for i in range(2)]
        for piece, part in enumerate(parts):
            (block,) = TableRows(rows[1000 * piece :][:1000], "y").blocks()
            part.add(piece, block)
        parts[0].merge(parts[1])
        found.append(parts[0].survey(2).encoding.encoders[1].means)
    assert_array_equal(found[0].keys, found[1].keys)
    assert_allclose(found[0].values, found[1].values)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("strength", [2.0, 30.0])
def test_the_strength_of_the_prior_is_found(strength, n_classes) -> None:
    random = np.random.default_rng(0)
    share = np.array([0.2, 0.8] if n_classes == 2 else [0.1, 0.3, 0.6])
    n = random.integers(1, 40, 3000)
    weight = np.array([random.multinomial(k, random.dirichlet(strength * share)) for k in n])
    assert_allclose(prior_strength(weight.astype(float)), strength, rtol=0.15)


@pytest.mark.parametrize("size", [1, 2, 50])
def test_levels_that_differ_by_chance_count_as_one(size) -> None:
    random = np.random.default_rng(0)
    weight = random.multinomial(size, [0.1, 0.9], 1000).astype(float)
    assert prior_strength(weight) == math.inf
    assert_array_equal(scores(weight, np.array([0.1, 0.9]), math.inf), 0.0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_label_means_are_those_of_the_other_folds(n_classes) -> None:
    """Row by row, from nothing but the labels of rows of the same level in other folds."""
    table = towns(400, 60, n_classes)
    found = surveyed(table)
    means = found.encoding.encoders[1].means
    assert len(means.labels) == n_classes - 1
    fold, y, town = fold_of(np.arange(400)), table["y"].to_numpy(), table["town"].to_numpy()
    share = np.bincount(y) / 400
    weight = pd.crosstab(town, y)
    strength = prior_strength(weight.to_numpy(float))
    assert math.isfinite(strength)

    def expected(others: np.ndarray) -> np.ndarray:
        counts = np.bincount(y[others], minlength=n_classes)
        p = (counts + strength * share) / (counts.sum() + strength)
        return norm.ppf(p[1:]) - norm.ppf(share[1:])

    same = town == town[:, None]
    trained = np.array([expected(same[i] & (fold != fold[i])) for i in range(400)])
    width = n_classes - 1
    X = trained_on(found, table)
    assert_allclose(X[:, -width:], trained, atol=1e-12)
    new = np.array([expected(same[i]) for i in range(400)])
    rows = pa.Table.from_pandas(table[["a", "town"]])
    assert_allclose(found.encoding.encode(rows)[:, -width:], new, atol=1e-12)
    # The scaling is that of the rows as they are trained on.
    assert_allclose(found.scaling.mean[-width:], trained.mean(0), atol=1e-12)
    assert_allclose(found.scaling.scale[-width:], trained.std(0))


def test_a_level_that_nobody_has_seen_is_at_the_class_frequency() -> None:
    found = surveyed(towns(2000, 60))
    table = pa.table({"a": [0.0] * 4, "town": ["Ur", None, "NA", " TOWN a0"]})
    *unknown, known = found.encoding.encode(table)[:, -1]
    assert unknown == [0.0, 0.0, 0.0]
    assert known != 0.0  # case and spaces do not count


def test_levels_beyond_the_most_share(monkeypatch) -> None:
    monkeypatch.setattr(level_file, "MOST", 100)
    means = surveyed(towns(3000, 80)).encoding.encoders[1].means
    assert len(means.keys) <= 50
    assert means.bits < 10


@pytest.mark.parametrize("factor", [10.0, 1e-6])
def test_weights_count_by_their_share(factor) -> None:
    table = towns(1000, 60)
    random = np.random.default_rng(0)
    weight, found = random.uniform(0.5, 2, 1000), []
    for times in (1.0, factor):
        rows = TableRows(pa.Table.from_pandas(table), "y", weight=weight * times)
        found.append(survey(rows).encoding.encoders[1].means.values)
    assert_allclose(found[0], found[1], rtol=1e-9)


@pytest.mark.slow
def test_tables_of_few_levels_or_random_labels_have_no_label_means() -> None:
    assert not surveyed(towns(2000, 30)).encoding.by_label
    random = np.random.default_rng(1)
    for per_level in (2, 20):
        table = towns(4000, 4000 // per_level).assign(y=random.integers(0, 2, 4000))
        assert not surveyed(table).encoding.by_label


@pytest.mark.slow
def test_many_classes_have_no_label_means(monkeypatch) -> None:
    table = towns(500, 60, 3)
    assert surveyed(table).encoding.by_label
    monkeypatch.setattr(survey_file, "MOST_LABELS", 2)
    assert not surveyed(table).encoding.by_label


@pytest.mark.slow
@pytest.mark.parametrize("per_level", [2, 10, 50])
def test_random_labels_lead_to_the_class_frequencies(per_level, monkeypatch) -> None:
    """With label means, though levels differ by chance only, which are hardly smoothed."""
    monkeypatch.setattr(label_means, "BY_CHANCE", -math.inf)
    random = np.random.default_rng(per_level)
    y = (random.random(6000) < 0.3).astype(int)
    table = towns(6000, 6000 // per_level)[["town"]]
    train, test = slice(0, 4000), slice(4000, None)
    model = quick(n_inducing=30, max_iter=100).fit(table[train], y[train])
    assert model.encoding_.by_label == ("town",)
    share = y[train].mean()
    p = model.predict_proba(table[test])[:, 1]
    gained = log_loss(y[test], np.full(2000, share)) - log_loss(y[test], p)
    assert abs(gained) < 0.004
    trained = trained_on(surveyed(table[train].assign(y=y[train])), table[train].assign(y=y[train]))
    assert abs(np.corrcoef(trained[:, -1], y[train])[0, 1]) < 3 / math.sqrt(4000)


@pytest.mark.slow
def test_levels_that_are_not_told_apart_count() -> None:
    table = towns(6000, 300)
    train, test = table[:4000], table[4000:]
    model = quick(n_inducing=30, max_iter=100).fit(train[["a", "town"]], train["y"])
    nll = log_loss(test["y"], model.predict_proba(test[["a", "town"]]))
    assert nll < log_loss(test["y"], np.full(2000, train["y"].mean())) - 0.12


@pytest.mark.slow
def test_rows_in_memory_and_in_a_stream_have_the_same_features(tmp_path, monkeypatch) -> None:
    table = towns(3000, 200)
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "t.parquet", row_group_size=700)
    table.to_csv(tmp_path / "t.csv", index=False)
    here, _ = prepare(TableRows(pa.Table.from_pandas(table), "y"), None, 0)
    assert isinstance(here, ArrayData)
    monkeypatch.setattr(stream_source, "MEMORY", 5_000)
    for name in ("t.parquet", "t.csv"):
        stream, _ = prepare(open_rows(tmp_path / name, "y"), None, 0, batch_size=100)
        assert isinstance(stream, StreamData)
        X, _, _, numbers = stream.take(lambda n: n % 2 == 0)
        assert_array_equal(X, here.X[::2])
        assert_array_equal(numbers, np.arange(0, 3000, 2))
        source = stream.source(stream_batching(stream))
        batch = next(source.batches())
        expected = stream.scaling().apply(here.X[batch.rows.numpy()])
        assert_allclose(batch.X.numpy(), expected)
        # A sample has the features of training too.
        rows = {tuple(row) for row in here.X}
        assert all(tuple(row) in rows for row in stream.sample()[0])


def stream_batching(stream: StreamData) -> stream_source.Batching:
    return stream_source.Batching(stream.scaling(), 100)


def test_held_out_rows_have_the_features_of_new_rows() -> None:
    data, held_out = prepare(
        TableRows(pa.Table.from_pandas(towns(2000, 100)), "y"), None, 0, fraction=0.2
    )
    values = data.encoding.encoders[1].means.values
    assert np.isin(held_out.X[:, -1], [0.0, *values[:, 0]]).all()
    assert not np.isin(data.X[:, -1], [0.0, *values[:, 0]]).all()


@pytest.mark.slow
def test_a_warm_start_sees_no_row_with_its_own_label() -> None:
    table = towns(1000, 100)
    first = surveyed(table)
    again = surveyed(table, encoding=first.encoding)
    assert again.encoding is first.encoding
    assert_array_equal(trained_on(again, table), trained_on(first, table))
    missing = surveyed(table.assign(town=None).astype({"town": "string"}), encoding=first.encoding)
    assert len(missing.scaling.mean) == len(first.encoding.features)


def test_label_means_were_nan_where_all_texts_were_in_rows_of_one_class() -> None:
    table = towns(600, 60)
    first = surveyed(table)
    one = table.assign(town=table["town"].where(table["y"] == 1))
    again = surveyed(one, encoding=first.encoding)
    assert np.isfinite(trained_on(again, one)).all()
    assert np.isfinite(again.scaling.scale).all()


@pytest.mark.slow
def test_training_goes_on_with_the_encoding_as_it_was() -> None:
    table = towns(1200, 100)
    X, y = table[["a", "town"]], table["y"]
    model = quick(warm_start=True).fit(X, y)
    means = model.encoding_.encoders[1].means
    model.fit(X[:600], y[:600])
    model.partial_fit(X[600:], y[600:])
    assert model.encoding_.encoders[1].means is means
    with pytest.raises(InvalidData, match="classes"):
        model.fit(X, y + (np.arange(1200) % 7 == 0) * 2)


@pytest.mark.slow
def test_partitions_have_label_means() -> None:
    table = towns(1500, 100)
    parts = [table[i : i + 500] for i in (0, 500, 1000)]
    given = [
        Partition(f"partition {i}", part[["a", "town"]], part["y"]._values)
        for i, part in enumerate(parts)
    ]
    wanted = given[0].wanted._replace(columns=("a", "town"))
    model = fit_in_rounds([g._replace(wanted=wanted) for g in given], n_inducing=10, max_iter=9)
    means = model.schema.encoding.encoders[1].means
    expected = surveyed(table).encoding.encoders[1].means
    assert_array_equal(means.keys, expected.keys)
    assert_allclose(means.values, expected.values)


@pytest.mark.slow
def test_rows_of_partitions_are_in_the_folds_that_were_counted() -> None:
    table = towns(1200, 100)
    given = [
        Partition("X", part[["a", "town"]], part["y"]._values, None, Wanted(columns=("a", "town")))
        for part in (table[:500], table[500:])
    ]
    look = Look(0)
    seen = look_at(look, 0, *given[0]) + look_at(look, 1, *given[1])
    found = seen.found.survey(2)
    recipe = Recipe(look, found, found.scaling, torch.float64, seen.digests)
    for number, part in enumerate(given):
        fold = fold_of(np.arange(len(part.X)), number)
        X = found.training.encode(pa.Table.from_pandas(part.X), fold)
        assert_array_equal(recipe.prepare(number, *part).X, found.scaling.apply(X))
        assert not np.isin(X[:, -1], [0.0, *found.encoding.encoders[1].means.values[:, 0]]).all()


@pytest.fixture(scope="module")
def fitted():
    table = towns(1000, 100, 3)
    return quick(n_inducing=5, max_iter=3).fit(table[["a", "town"]], table["y"]), table


@pytest.fixture
def saved(fitted, tmp_path):
    model, table = fitted
    path = tmp_path / "model.sepgp"
    model.save(path)
    return model, table[["a", "town"]], path


def test_label_means_are_in_the_file(saved) -> None:
    model, X, path = saved
    again = sepgp.load(path)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.encoding_.to_json() == model.encoding_.to_json()
    assert again.encoding_.features[-2:] == ("town by its share of '1'", "town by its share of '2'")


DAMAGE = {
    "no values": lambda t, h: t.pop("levels.1.values"),
    "fewer keys": lambda t, h: t.update({"levels.1.keys": t["levels.1.keys"][1:].clone()}),
    "keys in another order": lambda t, h: t["levels.1.keys"].copy_(t["levels.1.keys"].flip(0)),
    "more bits": lambda t, h: h["encoding"][1]["means"].update(bits=99),
    "other labels": lambda t, h: h["encoding"][1]["means"].update(labels=[1, 2]),
    "no parts": lambda t, h: h["encoding"][1].update(means=[]),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_label_means_that_cannot_be_are_refused(change, saved) -> None:
    *_, path = saved
    rewritten(path, path.read_bytes(), change)
    with pytest.raises(InvalidData, match="is damaged") as error:
        sepgp.load(path)
    assert_one_sentence(str(error.value))


def test_what_is_said_of_levels(saved) -> None:
    model, X, _ = saved
    said = "the 32 most frequent values have a feature, all count by the labels of their rows"
    assert _remark(model.encoding_.encoders[1]) == said
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        quick(max_iter=3).fit(X, np.arange(1000) % 2)
    (message,) = {str(w.message) for w in found}
    assert_one_sentence(message)
    assert re.search(
        "told apart, such as .*, and count by the labels of rows with the same text", message
    )


def test_onnx_has_no_hashes(saved, tmp_path) -> None:
    pytest.importorskip("onnx")
    model, *_ = saved
    with pytest.raises(InvalidData, match="Column 'town' has more than 32 texts") as error:
        model.to_onnx(tmp_path / "m.onnx")
    assert_one_sentence(str(error.value))
