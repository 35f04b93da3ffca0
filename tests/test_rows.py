"""Rows of every type, layout, size and number."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from quick import METHODS, blobs, quick

EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
X, Y = blobs()
PROBE = np.random.default_rng(1).normal(1, 3, size=(50, 2))


@EVERY_METHOD
def test_float32_is_close_to_float64(method) -> None:
    def fitted(dtype):
        return quick(method=method, dtype=dtype, batch_size=50).fit(X, Y)

    single, double = fitted("float32"), fitted("float64")
    assert single.log_evidence_ != double.log_evidence_
    assert_allclose(single.predict_proba(PROBE), double.predict_proba(PROBE), atol=1e-3)


def test_few_rows_are_trained_on_in_float64() -> None:
    single, double = (quick(dtype=dtype).fit(X, Y) for dtype in ("float32", "float64"))
    assert single.log_evidence_ == double.log_evidence_
    assert_allclose(single.predict_proba(PROBE), double.predict_proba(PROBE), atol=1e-5)


@pytest.mark.parametrize(
    "form",
    [
        lambda A: A.astype(np.int16),
        lambda A: A.astype(np.float16),
        lambda A: A.astype(np.float32),
        np.asfortranarray,
        lambda A: np.repeat(np.repeat(A, 2, axis=0), 3, axis=1)[::2, ::3],
        lambda A: A[::-1, ::-1].copy()[::-1, ::-1],
        lambda A: A.astype(object),
        lambda A: A.tolist(),
        lambda A: pd.DataFrame(A).astype("Int64"),
    ],
    ids=[
        "int16",
        "float16",
        "float32",
        "fortran",
        "strided",
        "reversed",
        "object",
        "list",
        "Int64",
    ],
)
def test_type_and_layout_of_rows_do_not_matter(form) -> None:
    whole = np.round(300 * X)
    setting = {"n_inducing": 100, "batch_size": 25}
    model, expected = quick(**setting).fit(form(whole), Y), quick(**setting).fit(whole, Y)
    # Sums over another layout are rounded differently, and training makes more of it.
    assert_allclose(model.predict_proba(form(whole)), expected.predict_proba(whole), atol=1e-6)


@pytest.mark.parametrize("scale", [1e-8, 1e8, 1e100])
def test_units_of_the_features_do_not_matter(scale) -> None:
    model = quick().fit(X, Y)
    units = np.array([scale, 1.0])
    scaled = quick().fit(X * units + 10 * units, Y)
    assert_allclose(
        scaled.predict_proba(PROBE * units + 10 * units), model.predict_proba(PROBE), atol=1e-6
    )
    assert_allclose(scaled.inducing_points_ / units - 10, model.inducing_points_, atol=1e-6)


def test_without_standardisation_rows_are_taken_as_they_are() -> None:
    random = np.random.default_rng(5)
    rows, probe = random.uniform(3, 5, (60, 2)), random.uniform(3, 5, (50, 2))
    y = (rows.sum(1) > 8).astype(int)
    mean, spread = rows.mean(0), rows.std(0)
    expected = quick(n_inducing=100).fit(rows, y).predict_proba(probe)
    raw = quick(n_inducing=100, standardize=False)
    scaled = raw.fit((rows - mean) / spread, y).predict_proba((probe - mean) / spread)
    assert_allclose(scaled, expected, atol=1e-6)  # rounding differs, and training amplifies it
    assert np.abs(raw.fit(rows, y).predict_proba(probe) - expected).max() > 1e-3


def test_a_constant_column_adds_nothing() -> None:
    def padded(A):
        return np.column_stack([A, np.full(len(A), 0.1)])

    # The kernel is held because its prior ties the length-scales of all columns together.
    model, wider = (quick(n_inducing=100, learn_kernel=False) for _ in range(2))
    expected = model.fit(X, Y).predict_proba(PROBE)
    assert_allclose(wider.fit(padded(X), Y).predict_proba(padded(PROBE)), expected, atol=1e-9)
    assert_allclose(wider.inducing_points_[:, 2], 0.1, atol=1e-12)


@EVERY_METHOD
@pytest.mark.parametrize(
    ("rows", "n_inducing", "m"),
    [
        (np.arange(60), 1, 1),
        (np.arange(60), 1000, 60),
        (np.tile(np.arange(8), 10), 1000, 8),
        (np.tile(np.arange(8), 10), 3, 3),
        (np.arange(2), 10, 2),
    ],
    ids=["one point", "fewer rows than points", "duplicates", "duplicates, few points", "two rows"],
)
def test_small_and_degenerate_sets(method, rows, n_inducing, m) -> None:
    model = quick(method=method, n_inducing=n_inducing).fit(X[rows], Y[rows])
    assert model.inducing_points_.shape == (m, 2)
    assert not model.history_["rejected"].any()
    assert np.isfinite(model.predict_log_proba(PROBE)).all()
    assert m == 1 or model.score(X[rows], Y[rows]) > 0.7


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern32", "matern52"])
@pytest.mark.parametrize("standardize", [False, True])
def test_a_row_beyond_all_bounds_gets_a_finite_prediction(dtype, kernel, standardize) -> None:
    model = quick(dtype=dtype, kernel=kernel, standardize=standardize, max_iter=2).fit(X, Y)
    far = [[1e25, 1e25], [1e160, -1e160], [-1e308, 1e308]]
    assert_allclose(model.predict_proba(far), 0.5)
