"""`GPClassifier` as scikit-learn's users meet it: predictions, tables, copies and weights."""

import copy
import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from quick import METHODS, blobs, quick
from scipy.special import log_ndtr, ndtr
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import compute_sample_weight
from sklearn.utils.estimator_checks import parametrize_with_checks

from sepgp import GPClassifier, InvalidData, InvalidParameter, kernels
from sepgp.model import Model

EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
X, Y = blobs()
PROBE = np.random.default_rng(1).normal(1, 3, size=(50, 2))


# A check that cannot run here raises SkipTest, which pytest reports as a skip with its reason.
@parametrize_with_checks([quick()])
def test_scikit_learn_contract(estimator, check) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([GPClassifier()])
def test_scikit_learn_contract_of_the_defaults(estimator, check) -> None:
    check(estimator)


# --- predictions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [("no", "yes"), (False, True), (0, 1), (-1, 1), (3, 7), (-0.0, 2.0)],
    ids=str,
)
@pytest.mark.parametrize("swap", [False, True])
def test_labels_of_any_kind_are_given_back(labels, swap) -> None:
    y = np.array(labels)[1 - Y if swap else Y]
    model = quick().fit(X, y)
    assert_array_equal(model.classes_, labels)
    predicted = model.predict(X)
    assert predicted.dtype == y.dtype
    assert (predicted == y).mean() > 0.9


@pytest.mark.parametrize("dtype", ["str", "category", "boolean", "Int64"])
def test_labels_in_a_series_are_given_back(dtype) -> None:
    y = pd.Series(Y.astype(bool) if dtype == "boolean" else Y).astype(dtype)
    model = quick().fit(X, y)
    assert set(model.predict(X)) == set(y)


def test_predict_is_the_more_probable_class() -> None:
    model = quick().fit(X, Y)
    p = model.predict_proba(PROBE)
    assert p.shape == (50, 2)
    assert_allclose(p.sum(1), 1, rtol=1e-15)
    assert_array_equal(model.predict(PROBE), model.classes_[p.argmax(1)])
    assert_array_equal(model.predict(PROBE) == 1, model.decision_function(PROBE) > 0)
    assert set(model.predict(PROBE)) == {0, 1}


def test_log_probabilities_are_the_logarithms() -> None:
    model = quick().fit(X, Y)
    assert_allclose(model.predict_log_proba(PROBE), np.log(model.predict_proba(PROBE)), rtol=1e-9)


def test_log_probabilities_stay_finite_where_probabilities_underflow(monkeypatch) -> None:
    model = quick().fit(X, Y)
    z = np.array([-50.0, 50.0])
    monkeypatch.setattr(Model, "latent_of_features", lambda model, X: (z, np.zeros(2)))
    assert model.predict_proba(X).min() == 0
    assert_allclose(model.predict_log_proba(X)[:, 1], log_ndtr(z))
    assert np.isfinite(model.predict_log_proba(X)).all()


@EVERY_METHOD
def test_probability_is_the_latent_gaussian_through_the_probit(method) -> None:
    model = quick(method=method).fit(X, Y)
    mean, variance = model.predict_latent(PROBE)
    z = mean / np.sqrt(1 + variance)
    assert (variance > 0).all()
    assert_allclose(model.decision_function(PROBE), z)
    assert_allclose(model.predict_proba(PROBE), np.column_stack([ndtr(-z), ndtr(z)]))


@EVERY_METHOD
@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern32", "matern52"])
def test_far_from_the_data_the_model_knows_nothing(method, kernel) -> None:
    model = quick(method=method, kernel=kernel).fit(X, Y)
    mean, variance = model.predict_latent([[1e100, -1e100]])
    amplitude = model.kernel_.variance.item()
    assert_allclose(mean, 0, atol=1e-12)
    assert_allclose(variance, amplitude)
    assert (model.predict_latent(X)[1] < 0.9 * amplitude).all()


def test_prediction_in_chunks_is_prediction_at_once(monkeypatch) -> None:
    model = quick().fit(X, Y)
    whole = model.predict_latent(PROBE)
    monkeypatch.setattr("sepgp.model.CACHE", 7 * 8 * len(model.inducing_points_))
    assert_allclose(model.predict_latent(PROBE), whole, rtol=1e-12, atol=1e-12)


# --- tables, pipelines and copies -------------------------------------------------------------


def test_a_table_is_its_array_with_names() -> None:
    table = pd.DataFrame(X, columns=["a", "b"], index=np.arange(len(X))[::-1])
    model = quick().fit(table, pd.Series(Y))
    assert_array_equal(model.feature_names_in_, ["a", "b"])
    expected = quick().fit(X, Y).predict_proba(X)
    assert_allclose(model.predict_proba(table), expected, rtol=1e-9)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert_allclose(model.predict_proba(X), expected, rtol=1e-9)


def test_pipeline_passes_rows_and_weights_on() -> None:
    weight = 1.0 + Y
    model = make_pipeline(FunctionTransformer(np.cbrt), quick())
    model.fit(X, Y, gpclassifier__sample_weight=weight)
    expected = quick().fit(np.cbrt(X), Y, sample_weight=weight)
    assert_array_equal(model.predict_proba(X), expected.predict_proba(np.cbrt(X)))


@pytest.mark.process
def test_grid_search_in_two_processes() -> None:
    kernel = kernels.Constant() * kernels.RBF() + kernels.Linear()
    grid = {"method": METHODS, "kernel": ["rbf", kernel]}
    search = GridSearchCV(quick(max_iter=5), grid, n_jobs=2, cv=2, error_score="raise")
    search.fit(X, Y)
    assert len(search.cv_results_["params"]) == 6
    assert search.score(X, Y) > 0.9


def test_clone_has_the_parameters_and_no_fit() -> None:
    model = quick(kernel=kernels.RBF(2.0), inducing=X[:5], class_weight={0: 2, 1: 1}).fit(X, Y)
    twin = clone(model)
    assert not hasattr(twin, "classes_")
    assert twin.get_params().keys() == model.get_params().keys()
    assert_array_equal(twin.fit(X, Y).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("way", ["pickle", "joblib", "deepcopy"])
@EVERY_METHOD
def test_a_copy_predicts_and_goes_on_bit_by_bit_alike(way, method, tmp_path) -> None:
    model = quick(method=method, batch_size=20, warm_start=True).fit(X, Y)
    if way == "joblib":
        joblib.dump(model, tmp_path / "model")
        twin = joblib.load(tmp_path / "model")
    else:
        twin = pickle.loads(pickle.dumps(model)) if way == "pickle" else copy.deepcopy(model)
    assert_array_equal(twin.predict_proba(PROBE), model.predict_proba(PROBE))
    assert_array_equal(twin.fit(X, Y).predict_proba(PROBE), model.fit(X, Y).predict_proba(PROBE))


# --- weights ----------------------------------------------------------------------------------


@EVERY_METHOD
def test_weight_counts_copies_and_zero_is_absence(method) -> None:
    weight = np.random.default_rng(2).integers(0, 4, len(X))
    setting = {"method": method, "n_inducing": 100, "max_iter": 5}
    weighted = quick(**setting).fit(X, Y, sample_weight=weight)
    repeated = quick(**setting).fit(X.repeat(weight, axis=0), Y.repeat(weight))
    assert len(weighted.inducing_points_) == (weight > 0).sum()
    assert_allclose(weighted.predict_proba(PROBE), repeated.predict_proba(PROBE), atol=1e-9)
    assert_allclose(weighted.log_evidence_, repeated.log_evidence_, rtol=1e-7)
    assert (
        np.abs(weighted.predict_proba(X) - quick(**setting).fit(X, Y).predict_proba(X)).max() > 0.01
    )


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 1: 0.5}])
def test_class_weight_multiplies_into_sample_weight(class_weight) -> None:
    kept = np.flatnonzero((Y == 0) | (np.arange(len(Y)) % 3 == 0))
    X_, y = X[kept], Y[kept]
    by_class = compute_sample_weight(class_weight, y)
    given = np.linspace(0.5, 2, len(y))
    for sample_weight in (None, given):
        model = quick(class_weight=class_weight).fit(X_, y, sample_weight=sample_weight)
        product = by_class * (1 if sample_weight is None else sample_weight)
        expected = quick().fit(X_, y, sample_weight=product)
        assert_array_equal(model.predict_proba(PROBE), expected.predict_proba(PROBE))


def test_class_weight_was_refused_where_labels_look_like_numbers_or_a_block_lacks_a_class() -> None:
    weights = {"0": 10.0, "1": 0.1}
    by_text = quick(class_weight=weights).fit(X, np.where(Y == 1, "1", "0"))
    by_number = quick(class_weight={0: 10.0, 1: 0.1}).fit(X, Y)
    assert_array_equal(by_text.predict_proba(X), by_number.predict_proba(X))
    model = quick(class_weight={1: 5.0})
    model.partial_fit(X[Y == 0], Y[Y == 0], classes=[0, 1]).partial_fit(X[Y == 1], Y[Y == 1])
    assert_allclose(model.model_.n_seen, (Y == 0).sum() + 5 * (Y == 1).sum())
    with pytest.raises(InvalidParameter, match="class_weight has a weight for 'no', but the"):
        quick(class_weight={"no": 2.0}).fit(X, Y)


def test_class_weight_is_by_label() -> None:
    names = np.array(["b", "a"])[Y]
    model = quick(class_weight={"a": 10.0, "b": 0.1}).fit(X, names)
    assert (model.predict(PROBE) == "a").mean() > (
        quick().fit(X, names).predict(PROBE) == "a"
    ).mean()


# --- the same again ---------------------------------------------------------------------------


@EVERY_METHOD
@pytest.mark.parametrize("inducing", ["kmeans", "random"])
def test_random_state_decides_everything(method, inducing) -> None:
    def latent(seed):
        model = quick(method=method, inducing=inducing, batch_size=16, random_state=seed)
        return model.fit(X, Y).predict_latent(PROBE)

    assert_array_equal(latent(3), latent(3))
    assert_array_equal(latent(3), latent(np.random.RandomState(3)))
    assert np.abs(np.subtract(latent(3), latent(4))).max() > 1e-6


def test_fit_forgets_the_last_fit() -> None:
    model = quick(random_state=5).fit(*blobs(seed=9))
    again = model.fit(X, Y).predict_proba(PROBE)
    assert_array_equal(again, quick(random_state=5).fit(X, Y).predict_proba(PROBE))
    assert_array_equal(again, model.fit(X, Y).predict_proba(PROBE))


def test_fit_leaves_the_parameters_alone() -> None:
    kernel = kernels.Matern32() * kernels.Constant() + kernels.Linear(0.1)
    start, points, data = copy.deepcopy(kernel.state_dict()), X[:5].copy(), X.copy()
    quick(kernel=kernel, inducing=points).fit(data, Y)
    assert kernel.state_dict().keys() == start.keys()
    for name, value in kernel.state_dict().items():
        assert_array_equal(value, start[name])
    assert_array_equal(points, X[:5])
    assert_array_equal(data, X)


@pytest.mark.parametrize("standardize", [False, True])
def test_what_is_not_learned_stays(standardize) -> None:
    kernel = kernels.RBF([0.7, 1.3], variance=2.0)
    setting = {"kernel": kernel, "inducing": 5 + X[:7], "standardize": standardize}
    model = quick(**setting, learn_inducing=False).fit(5 + X, Y)
    assert_allclose(model.inducing_points_, 5 + X[:7], rtol=1e-12)
    assert np.abs(model.kernel_.lengthscale.detach().numpy() - [0.7, 1.3]).min() > 1e-3
    model = quick(**setting, learn_kernel=False).fit(5 + X, Y)
    assert_allclose(model.kernel_.lengthscale.detach(), [0.7, 1.3])
    assert_allclose(model.kernel_.variance.detach(), 2.0)
    assert np.abs(model.inducing_points_ - 5 - X[:7]).max() > 1e-3


def test_importance_is_that_of_the_column_that_decides() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table["b"] = np.where(X[:, 1] > 0, "up", "down")
    model = quick().fit(table, table["b"])
    assert model.feature_importances_.shape == (3,)
    assert_allclose(model.feature_importances_.sum(), 1.0)
    assert model.feature_importances_.argmax() == 1


def test_fit_is_logged_and_says_nothing_by_itself(caplog, capfd) -> None:
    X, y = blobs()
    caplog.set_level("DEBUG", logger="sepgp")
    quick(max_iter=4, validation_fraction=0.3).fit(X, y)
    said = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("fit: 4 steps in") for line in said)
    assert any("held-out NLL" in line for line in said)
    assert sum("log evidence" in line for line in said) == 5
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "with text"])
def test_reordered_or_extra_columns_were_refused_for_numbers_alone(text) -> None:
    table = pd.DataFrame(X, columns=["a", "b"])
    if text:
        table["c"] = np.where(X[:, 0] > 0, "u", "v")
    model = quick().fit(table, Y)
    expected = model.predict_proba(table)
    for other in (table[table.columns[::-1]], table.assign(z=1.0)):
        assert_array_equal(model.predict_proba(other), expected)
        assert_array_equal(model.predict_proba(pl.from_pandas(other)), expected)
        assert_array_equal(model.predict_proba(pa.Table.from_pandas(other)), expected)
    with pytest.raises(ValueError, match="X has no column 'a', which the model was trained with"):
        model.predict(table.rename(columns={"a": "A"}))


@pytest.mark.parametrize("times", [pd.Timestamp("2020-02-01"), pd.Timedelta("3s")])
def test_a_column_of_times_at_predict_was_a_promotion_error(times) -> None:
    table = pd.DataFrame(X, columns=["a", "b"])
    model = quick().fit(table, Y)
    with pytest.raises(InvalidData, match=r"X has times \(.*\) in column 'b', where .*; convert"):
        model.predict(table.assign(b=times))


def test_an_array_of_times_was_taken_for_numbers() -> None:
    times = np.array([["2020-01-01"], ["2021-01-01"]], "datetime64[D]")
    with pytest.raises(InvalidData, match=r"X has times \(datetime64\[D\]\); convert them"):
        quick().fit(times, [0, 1])


def test_a_table_of_durations_was_a_promotion_error() -> None:
    table = pd.DataFrame(X, columns=["a", "b"])
    model = quick().fit(table.assign(b=pd.to_timedelta(X[:, 1], "s")), Y)
    expected = quick().fit(table.assign(b=np.round(X[:, 1], 9)), Y).predict_proba(table)
    found = model.predict_proba(table.assign(b=pd.to_timedelta(X[:, 1], "s")))
    assert_allclose(found, expected, atol=1e-5)
