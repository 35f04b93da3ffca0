"""Skewed features beside their logarithms, which the default kernel of many classes sees."""

import json
import warnings

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from quick import quick
from scipy import stats

import sepgp
from sepgp import InvalidData, kernels
from sepgp.data.logarithms import UNITS, Logarithms, of_skewed
from sepgp.data.moments import standardization
from sepgp.data.scaling import FARTHEST
from sepgp.evaluation.relevance import relevance
from sepgp.files import content
from sepgp.files import tensors as tensor_files


def skewed(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Skewed to the right, to the left, not at all, of two values, constant, and counts."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    rare = rng.random(n) < 0.05
    counts = rng.poisson(np.exp(x[:, 0]))
    X = np.column_stack([np.exp(x[:, 0]), -np.exp(x[:, 1]), x[:, 2], rare, np.ones(n), counts])
    return X, np.argmax(x + 0.3 * rng.normal(size=(n, 3)), 1)


X, Y = skewed()
SEEN = [0, 1, 5]
"""The features of X that are seen twice."""


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(X, Y)


@given(
    z=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8, unique=True),
    unit=st.sampled_from([1.0, 1e-3, -0.1]),
)
def test_logarithms_are_one_to_one(z, unit) -> None:
    one = np.ones(1)
    found = Logarithms(np.array([0]), 0.5 * one, unit * one, 0 * one, one)
    values = found.apply(np.sort(z)[:, None])[:, 0]
    assert (np.diff(values) * np.sign(unit) >= 0).all()
    back = 0.5 + unit * np.copysign(np.expm1(np.abs(values)), values)
    assert_allclose(back, np.sort(z), rtol=1e-9, atol=1e-9)


def test_units_have_the_highest_likelihood() -> None:
    """Of log(1 + t): a normal density of the values, times the slope of the logarithm."""
    z = standardization(X, np.ones(len(X))).standardize(X)
    found = of_skewed(z, np.ones(len(X)))
    assert_array_equal(found.columns, SEEN)
    for i, column in enumerate(SEEN):
        right = found.unit[i] > 0
        t = z[:, column] - z[:, column].min() if right else z[:, column].max() - z[:, column]
        likelihood = []
        for unit in UNITS:
            values = np.log(1 + t / unit)
            normal = stats.norm.logpdf(values, values.mean(), values.std())
            likelihood.append(np.sum(normal - np.log(unit + t)))
        assert abs(found.unit[i]) == UNITS[np.argmax(likelihood)]
    values = found.apply(z)
    assert_allclose([values.mean(0), values.std(0)], [[0] * 3, [1] * 3], atol=1e-12)
    assert (np.abs(stats.skew(values)) < np.abs(stats.skew(z[:, SEEN])) / 2).all()


def test_a_feature_with_the_other_sign_has_the_same_logarithm() -> None:
    z = standardization(X, np.ones(len(X))).standardize(X)
    one, other = (of_skewed(values, np.ones(len(X))) for values in (z, -z))
    assert_array_equal(other.unit, -one.unit)
    assert_allclose(other.apply(-z), one.apply(z), rtol=1e-12)


def test_without_skewed_features_there_are_none() -> None:
    assert of_skewed(X[:, 2:5], np.ones(len(X))) is None
    assert of_skewed(X[:1], np.ones(1)) is None


def test_the_default_kernel_of_many_classes_sees_skewed_features_twice(fitted) -> None:
    scaling = fitted.model_.scaling
    assert_array_equal(scaling.logarithms.columns, SEEN)
    assert fitted.model_.Z.shape[1] == scaling.width == X.shape[1] + len(SEEN)
    assert fitted.inducing_points_.shape[1] == X.shape[1]
    assert_allclose(scaling.undo(scaling.apply(X))[:, :4], X[:, :4], rtol=1e-9, atol=1e-9)
    assert sum(relevance(fitted.model_).values()) == pytest.approx(1)


@pytest.mark.parametrize(
    "how",
    [{"kernel": "rbf+matern32"}, {"kernel": kernels.RBF()}, {"standardize": False}],
    ids=["named", "given", "not scaled"],
)
def test_what_the_user_has_chosen_sees_features_once(how) -> None:
    assert quick(**how).fit(X, Y).model_.scaling.logarithms is None


def test_two_classes_see_features_once() -> None:
    assert quick().fit(X, Y > 0).model_.scaling.logarithms is None


def test_a_weight_of_two_is_a_row_twice() -> None:
    z = standardization(X, np.ones(len(X))).standardize(X)
    copies = 1 + (np.arange(len(X)) % 3 == 0)
    once, twice = of_skewed(z, copies), of_skewed(np.repeat(z, copies, 0), np.ones(copies.sum()))
    for one, other in zip(once, twice, strict=True):
        assert_allclose(one, other, rtol=1e-12)
    models = [
        quick(inducing=X[:8]).fit(X, Y, sample_weight=copies),
        quick(inducing=X[:8]).fit(np.repeat(X, copies, 0), np.repeat(Y, copies)),
    ]
    assert_allclose(*(model.predict_proba(X) for model in models), atol=1e-8)


def test_skewness_was_nan_where_all_but_a_row_of_no_weight_were_alike() -> None:
    z = np.column_stack([np.arange(20.0) == 7, np.exp(np.arange(20.0) / 4)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = of_skewed(z, np.where(z[:, 0] == 1, 1e-300, 1.0))
    assert found.columns.tolist() == [1]


def test_a_stream_is_an_array() -> None:
    inducing = {"inducing": X[:8]}
    array = quick(**inducing).fit(X, Y)
    stream = quick(**inducing).fit(lambda: iter([(X[:70], Y[:70]), (X[70:], Y[70:])]))
    found, expected = (fitted.model_.scaling.logarithms for fitted in (stream, array))
    assert_array_equal(found.unit, expected.unit)
    assert_allclose(stream.predict_proba(X), array.predict_proba(X), atol=1e-8)


def test_the_order_of_columns_changes_nothing() -> None:
    order = [5, 3, 1, 0, 4, 2]
    one = quick(inducing=X[:8]).fit(X, Y)
    other = quick(inducing=X[:8, order]).fit(X[:, order], Y)
    assert_allclose(other.predict_proba(X[:, order]), one.predict_proba(X), atol=1e-8)


def test_a_saved_model_is_the_same_to_the_bit(fitted, tmp_path) -> None:
    fitted.save(tmp_path / "model.sepgp")
    loaded = sepgp.load(tmp_path / "model.sepgp")
    for one, other in zip(
        loaded.model_.scaling.logarithms, fitted.model_.scaling.logarithms, strict=True
    ):
        assert_array_equal(one, other)
        assert one.dtype == other.dtype
    assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize(("part", "value"), [(0, 6.0), (0, -1.0), (2, 0.0), (4, 0.0)])
def test_a_file_with_an_impossible_logarithm_is_refused(fitted, tmp_path, part, value) -> None:
    path = tmp_path / "model.sepgp"
    fitted.save(path)
    arrays, header = content.read(path)
    arrays["logarithms"][part, 0] = value
    tensors = {name: tensor_files.torch.from_numpy(array) for name, array in arrays.items()}
    tensor_files.write(path, tensors, json.loads(json.dumps(header)))
    with pytest.raises(InvalidData, match="damaged"):
        sepgp.load(path)


def test_the_graph_of_onnx_has_nine_digits(fitted, tmp_path) -> None:
    beyond = X - 0.3 * X.std(0) * np.sign(X)  # small values are beyond the end of all others
    rows = np.concatenate([X, beyond, 10 * X, -1e3 * X, 1e300 * X[:9]])
    fitted.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    p = session.run(["probabilities"], {"X": rows})[0]
    assert_allclose(p, fitted.predict_proba(rows), rtol=0, atol=1e-9)


def test_far_values_are_finite_and_say_nothing(fitted) -> None:
    far = np.concatenate([1e300 * X[:9], -1e300 * X[:9], np.sign(X[:9]) * 1e12])
    scaled = fitted.model_.scaling.apply(far)
    assert (np.abs(scaled) <= FARTHEST).all()
    assert_allclose(fitted.predict_proba(far), 1 / 3, atol=1e-6)


def test_columns_of_any_unit_are_seen_alike(fitted) -> None:
    units = np.array([1e-300, 1e250, 1e-9, 1.0, 1e300, 1e6])
    model = quick().fit(X * units, Y)
    found = model.model_.scaling.logarithms
    assert_array_equal(found.unit, fitted.model_.scaling.logarithms.unit)
    assert_allclose(model.predict_proba(X * units), fitted.predict_proba(X), atol=1e-6)


def test_learning_more_rows_keeps_the_logarithms() -> None:
    model = quick().partial_fit(X[:100], Y[:100], classes=[0, 1, 2])
    before = model.model_.scaling.logarithms
    model.partial_fit(X[100:], Y[100:])
    assert model.model_.scaling.logarithms is before
    assert np.isfinite(model.predict_proba(X)).all()
