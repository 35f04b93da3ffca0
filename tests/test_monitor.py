"""Held-out rows: what is measured on them, and which model is kept."""

import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from quick import METHODS, blobs, quick

from sepgp import InvalidData
from sepgp.data import prepared, split, stream_source
from sepgp.data.batches import Batching
from sepgp.data.rows import ArrayRows, open_rows
from sepgp.data.split import Draw, SplitRows, held_out_share
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.natural import Natural
from sepgp.inference import ep
from sepgp.likelihoods import Probit
from sepgp.training import monitor
from sepgp.training.monitor import Monitor
from sepgp.training.settings import Settings
from sepgp.training.step import Engine

X, Y = blobs(200)
SHARE = 0.3


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """A measurement every six steps."""
    monkeypatch.setattr(monitor, "EVERY", 6)


def held_out(model) -> np.ndarray:
    """Which rows of X the model did not learn from."""
    return Draw(SHARE, model.model_.seed).held_out(Y)


def nll(model, X, Y, weight=None) -> float:
    loss = -model.predict_log_proba(X)[np.arange(len(Y)), Y]
    return float(np.average(loss, weights=weight))


@pytest.fixture
def measured(monkeypatch):
    """Every model that is measured, as its ξ, Λ and b; the second of them is the best."""
    models = []

    def second_is_best(self, xi, sites) -> float:
        models.append([part.clone() for part in (xi, *sites)])
        return 0.5 if len(models) == 2 else 1.0

    monkeypatch.setattr(Monitor, "_nll", second_is_best)
    return models


# --- what is measured -------------------------------------------------------------------------


@pytest.mark.parametrize("setting", [{}, {"batch_size": 30}, {"dtype": "float32"}])
@pytest.mark.parametrize("method", METHODS)
def test_the_nll_is_that_of_the_held_out_rows(method, setting) -> None:
    model = quick(method=method, validation_fraction=SHARE, **setting).fit(X, Y)
    found = model.history_["validation_nll"]
    assert_array_equal(np.flatnonzero(~np.isnan(found)) + 1, [6, 12, 18, 20])
    rows = held_out(model)
    assert 40 < rows.sum() < 80
    tolerance = 1e-4 if "dtype" in setting else 1e-9
    assert_allclose(np.nanmin(found), nll(model, X[rows], Y[rows]), rtol=tolerance)
    assert model.model_.n_seen == (~rows).sum()


def test_weights_count() -> None:
    weight = np.random.default_rng(0).uniform(0.1, 3.0, len(X))
    settings = {"validation_fraction": SHARE, "class_weight": {0: 1.0, 1: 5.0}}
    model = quick(**settings).fit(X, Y, sample_weight=weight)
    rows = held_out(model)
    weight = weight * np.where(Y == 1, 5.0, 1.0)
    expected = nll(model, X[rows], Y[rows], weight[rows])
    assert_allclose(np.nanmin(model.history_["validation_nll"]), expected, rtol=1e-9)


def test_held_out_rows_teach_nothing() -> None:
    model = quick(validation_fraction=SHARE).fit(X, Y)
    rows = held_out(model)
    changed = X.copy()
    changed[rows] = 100 * changed[rows] - 7
    other = quick(validation_fraction=SHARE).fit(changed, Y)
    assert_array_equal(other.history_["log_evidence"], model.history_["log_evidence"])
    assert (other.history_["validation_nll"] != model.history_["validation_nll"]).all()


def test_files_tables_and_arrays_hold_out_the_same_rows(tmp_path) -> None:
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=Y)
    table.to_csv(tmp_path / "rows.csv", index=False)
    setting = {"validation_fraction": SHARE, "batch_size": 40}
    expected = quick(**setting).fit(X, Y).history_
    for source in (table, tmp_path / "rows.csv"):
        history = quick(**setting).fit(source, target="y").history_
        for name in ("log_evidence", "validation_nll"):
            assert_array_equal(history[name], expected[name])


@pytest.mark.parametrize("share", [0.1, 0.3, 0.45])
def test_held_out_rows_are_a_share_of_every_class(share) -> None:
    labels = np.array(["rare", "often"])[(np.random.default_rng(0).random(5000) > 0.02).astype(int)]
    rows = Draw(share, 7).held_out(labels)
    for label in ("rare", "often"):
        own = rows[labels == label]
        assert abs(own.sum() - share * len(own)) <= 1
    assert (Draw(share, 8).held_out(labels) != rows).any()
    pieces = Draw(share, 7)
    cut = [pieces.held_out(labels[begin : begin + 777]) for begin in range(0, 5000, 777)]
    assert_array_equal(np.concatenate(cut), rows)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.float64, np.str_])
def test_labels_of_any_type_have_the_same_rows_held_out(kind) -> None:
    labels = np.random.default_rng(0).choice([-100, 0, 3, 100], 500)
    expected = Draw(0.1, 0).held_out(labels.astype(object))
    assert_array_equal(Draw(0.1, 0).held_out(labels.astype(kind)), expected)


def test_every_place_is_held_out_alike() -> None:
    labels = np.zeros(40)
    often = sum(Draw(0.3, seed).held_out(labels).astype(int) for seed in range(4000)) / 4000
    assert_allclose(often[10:].reshape(3, 10).mean(0), 0.3, atol=0.06)
    assert_allclose(often.mean(), 0.3, atol=0.01)


@pytest.mark.filterwarnings("ignore:.* in one row only")
def test_the_only_row_of_a_class_was_held_out_and_its_label_called_wrong(tmp_path) -> None:
    labels = np.r_[np.arange(200) % 2, [5, 7, 9, 11, 13]]
    table = pd.DataFrame({"a": np.arange(205) * 0.1, "y": labels})
    table.to_csv(tmp_path / "rows.csv", index=False)
    for state in range(5):
        options = {"validation_fraction": 0.5, "random_state": state, "max_iter": 2}
        model = quick(**options).fit(tmp_path / "rows.csv", target="y")
        assert model.classes_.tolist() == [0, 1, 5, 7, 9, 11, 13]


@pytest.mark.parametrize("labels", [np.arange(5000) / 7, np.array(["a", 1, None] * 50, object)])
def test_labels_that_are_no_classes_do_not_stop_the_draw(labels) -> None:
    """They are refused with a sentence by whoever reads them."""
    assert abs(Draw(0.1, 0).held_out(labels).mean() - 0.1) < 0.01


def test_a_stream_is_measured_on_its_own_rows(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(stream_source, "MEMORY", 8 * 5 * 60)
    path = tmp_path / "rows.parquet"
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=Y, w=np.arange(200) % 3)
    table.to_parquet(path, row_group_size=50)
    model = quick(validation_fraction=SHARE, batch_size=40).fit(path, target="y", sample_weight="w")
    part = SplitRows(open_rows(path, "y", weight="w"), SHARE, model.model_.seed, held_out=True)
    blocks = list(part.blocks())
    weight = np.concatenate([block.weight for block in blocks])
    labels = np.concatenate([block.y for block in blocks])
    rows = pd.concat([block.X.to_pandas() for block in blocks])
    assert_allclose(
        np.nanmin(model.history_["validation_nll"]), nll(model, rows, labels, weight), rtol=1e-9
    )
    assert model.model_.n_seen + weight.sum() == table["w"].sum()


@pytest.mark.parametrize("source", [(X, Y), (ArrayRows(X, Y),)], ids=["array", "rows"])
def test_no_more_rows_are_held_than_needed(source, monkeypatch) -> None:
    held = []
    real = Monitor.__init__
    monkeypatch.setattr(prepared, "MEASURED", 25)
    monkeypatch.setattr(
        Monitor, "__init__", lambda *given: (held.append(given[3].n_rows), real(*given))[1]
    )
    model = quick(validation_fraction=SHARE).fit(*source)
    assert held == [25]
    assert model.model_.n_seen == (~held_out(model)).sum()


# --- by default -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "share"),
    [
        (9_999, 2_000, 0.0),
        (10_000, 2_000, 0.1),
        (30_000, 2_000, 0.1),
        (300_000, 2_000, 0.01),
        (20_000, 18_000, 0.0),  # one batch would have all rows that are left
        (20_000, 17_999, 0.1),
        (0, 2_000, 0.0),
        (None, 2_000, 0.0),
    ],
)
def test_the_default_share_depends_on_the_rows(n_rows, batch_size, share) -> None:
    assert held_out_share("auto", n_rows, batch_size) == pytest.approx(share)
    assert held_out_share(0.3, n_rows, batch_size) == 0.3


def sources(folder):
    """The same rows as all kinds of sources: those that know how many they are, and others."""
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=Y)
    table.to_parquet(folder / "rows.parquet")
    table.to_csv(folder / "rows.csv", index=False)
    known = [(X, Y), (table[["a", "b"]], Y), (table,), (folder / "rows.parquet",)]
    return known, [(folder / "rows.csv",), (lambda: iter([table]),)]


def histories(given, **setting):
    targets = [{} if len(one) == 2 else {"target": "y"} for one in given]
    pairs = zip(given, targets, strict=True)
    return [quick(batch_size=40, **setting).fit(*one, **target).history_ for one, target in pairs]


def assert_same_histories(found, expected) -> None:
    for one, other in zip(found, expected, strict=True):
        for name in ("log_evidence", "validation_nll"):
            assert_array_equal(one[name], other[name])


def test_by_default_a_tenth_of_plenty_of_rows_is_held_out(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(split, "PLENTY", 200)
    known, others = sources(tmp_path)
    found = histories(known)
    assert np.isfinite(found[0]["validation_nll"]).sum() == 4
    assert_same_histories(histories(others), histories(others, validation_fraction=0.0))
    assert_same_histories(found, histories(known, validation_fraction=0.1))


def test_by_default_few_rows_are_all_trained_on(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(split, "PLENTY", 201)
    known, others = sources(tmp_path)
    found = histories(known + others)
    assert np.isnan(found[0]["validation_nll"]).all()
    assert_same_histories(found, histories(known + others, validation_fraction=0.0))


def test_by_default_rows_of_one_batch_are_all_trained_on(monkeypatch) -> None:
    monkeypatch.setattr(split, "PLENTY", 200)
    assert np.isnan(quick().fit(X, Y).history_["validation_nll"]).all()


@pytest.mark.parametrize(
    ("budget", "given", "mean", "expected"),
    [
        (9.9, "auto", None, 0.0),
        (10, "auto", None, "auto"),
        (None, "auto", None, "auto"),
        (1, 0.2, None, 0.2),
        (1, "auto", "trees", "auto"),
    ],
)
def test_in_a_short_time_no_rows_are_held_out_by_default(budget, given, mean, expected) -> None:
    settings = Settings(time_budget=budget, validation_fraction=given, mean=mean)
    assert settings.held_out == expected


def test_by_default_a_short_time_is_spent_on_all_rows(monkeypatch) -> None:
    monkeypatch.setattr(split, "PLENTY", 200)
    model = quick(batch_size=40, time_budget=5).fit(X, Y)
    assert np.isnan(model.history_["validation_nll"]).all()


def test_by_default_no_more_rows_are_held_out_than_say_enough(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(split, "PLENTY", 200)
    monkeypatch.setattr(split, "MOST", 8)
    known, _ = sources(tmp_path)
    assert_same_histories(histories(known), histories(known, validation_fraction=0.04))


def test_rows_to_train_on_are_not_copied() -> None:
    rows = np.random.default_rng(0).normal(size=(20_000, 100))
    data = prepared.ArrayData(rows, np.arange(20_000) % 2, np.ones(20_000), np.arange(2))
    tracemalloc.start()
    kept, _ = prepared.split(data, 0.1, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes / 3
    where = ~Draw(0.1, 0).held_out(data.y)
    assert_array_equal(kept.X, rows[where])
    assert_array_equal(kept.X[5:9, 2], rows[where][5:9, 2])
    assert kept.digest() == data.take(where).digest()


# --- which model is kept ----------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 40])
@pytest.mark.parametrize("method", METHODS)
def test_the_best_model_is_kept(method, batch_size, measured) -> None:
    setting = {"method": method, "batch_size": batch_size, "validation_fraction": SHARE}
    model = quick(**setting).fit(X, Y)
    assert len(measured) == 4
    xi, Lambda, b = measured[1]
    assert torch.equal(Hyperparameters(model.kernel_, model.model_.Z).start, xi)
    assert torch.equal(model.model_.sites.Lambda, Lambda)
    assert torch.equal(model.model_.sites.b, b)
    epoch = 1 if batch_size is None else 4
    assert_allclose(model.log_evidence_, model.history_["log_evidence"][12 - epoch : 12].mean())
    assert model.n_iter_ == 20


@pytest.mark.parametrize("method", METHODS)
def test_an_earlier_model_learns_on(method, measured) -> None:
    """EP's sites per row have moved on by then and are not those of the model."""
    setting = {"method": method, "batch_size": 40, "validation_fraction": SHARE}
    model = quick(**setting, warm_start=True).fit(X, Y)
    assert isinstance(model.model_.sites, Natural)
    before = nll(model, X, Y)
    model.partial_fit(X[:50], Y[:50])
    assert abs(nll(model, X, Y) - before) < 0.1
    model.set_params(validation_fraction=0.0).fit(X, Y)
    assert isinstance(model.model_.sites, ep.State) == (method == "ep")
    assert nll(model, X, Y) < 0.2


def test_the_sites_are_measured_under_the_kernel_they_were_refined_under(measured) -> None:
    states = []
    real = Engine.step

    def step(engine, state, *rest, **others):
        states.append(state.xi)
        return real(engine, state, *rest, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "step", step)
        quick(validation_fraction=SHARE).fit(X, Y)
    for number, (xi, *_) in zip([6, 12, 18, 20], measured, strict=True):
        assert torch.equal(xi, states[number - 1])


def test_a_run_that_a_callback_stops_keeps_the_best(measured) -> None:
    stop = [lambda record: record.iteration == 14]
    model = quick(validation_fraction=SHARE, callbacks=stop).fit(X, Y)
    assert model.n_iter_ == 15
    assert len(measured) == 3
    assert torch.equal(model.model_.sites.Lambda, measured[1][1])


def test_a_model_that_cannot_be_measured_is_not_the_best() -> None:
    model = quick(validation_fraction=SHARE).fit(X, Y)
    hyper = Hyperparameters(model.kernel_, model.model_.Z)
    data = prepared.ArrayData(X, Y, np.ones(len(X)), model.classes_)
    source = data.source(Batching(model.model_.scaling, 1000))
    judge = Monitor(hyper, Probit(), source)
    best, good = judge.measure(None, 6, hyper.start, model.model_.sites)
    assert best.nll == good
    broken = Natural(torch.full_like(model.model_.sites.Lambda, math.nan), model.model_.sites.b)
    after, bad = judge.measure(best, 12, hyper.start, broken)
    assert math.isnan(bad)
    assert after is best
    assert judge.measure(None, 12, hyper.start, broken)[0] is None


# --- mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [(X[:4], Y[:4]), (ArrayRows(X[:4], Y[:4]),)])
def test_a_share_without_rows_is_refused(source) -> None:
    with pytest.raises(InvalidData, match=r"validation_fraction=1e-09 holds out no row of "):
        quick(validation_fraction=1e-9).fit(*source)


@pytest.mark.parametrize("rows", [False, True])
def test_the_only_row_of_a_class_is_learned_from(rows) -> None:
    y = (np.arange(30) == 7).astype(int)
    for state in range(10):
        model = quick(validation_fraction=SHARE, random_state=state, max_iter=1)
        model.fit(*((ArrayRows(X[:30], y),) if rows else (X[:30], y)))
        assert model.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("rows", [False, True])
def test_the_only_row_of_a_class_with_a_weight_was_held_out(rows) -> None:
    y, weight = Y.copy(), np.ones(len(Y))
    y[[5, 9]], weight[5] = 2, 0.0
    model = quick(validation_fraction=0.5, max_iter=1)
    model.fit(*((ArrayRows(X, y, weight),) if rows else (X, y, weight)))
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.model_.n_seen + held_out_rows(model, y, weight) == weight.sum()


def held_out_rows(model, y, weight) -> int:
    return int(Draw(0.5, model.model_.seed).held_out(y[weight > 0]).sum())
