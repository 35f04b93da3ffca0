"""Values of any size: training is sane, and what it wrote can be read."""

import numpy as np
import pandas as pd
import pytest
from commandline import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from quick import blobs, quick
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import sepgp
from sepgp import kernels
from sepgp.data import moments
from sepgp.data import scaling as scaling_module
from sepgp.data.moments import Moments, resistant, standardization
from sepgp.data.scaling import Scaling

EXTREMES = [0.0, 1e-320, 1e-300, -1e-160, 1.0, -999.0, 1e30, -1e155, 1e160, -1e300, 1.7e308]


@pytest.mark.filterwarnings("ignore:Column .* far from all others")
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    values=st.lists(st.sampled_from(EXTREMES), min_size=2, max_size=2),
    share=st.sampled_from([0.01, 0.3, 1.0]),
    factor=st.sampled_from([1.0, 1e-300, 1e150, 1e300]),
    table=st.booleans(),
)
def test_a_model_that_save_has_written_always_loads(values, share, factor, table, tmp_path) -> None:
    X, y = blobs(80)
    random = np.random.default_rng(0)
    X = np.column_stack([X, factor * random.normal(size=80)])
    for column, value in enumerate(values, 1):
        X[random.random(80) < share, column] = value
    rows = pd.DataFrame(X, columns=list("abc")) if table else X
    model = quick(max_iter=5).fit(rows, y)
    model.save(tmp_path / "model.sepgp")
    again = sepgp.load(tmp_path / "model.sepgp")
    assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    assert np.isfinite(model.predict_proba(rows)).all()
    assert np.isfinite(model.inducing_points_).all()


ODD = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5)
"""NumPy's texts cannot end with a zero."""
HOW = [
    {},
    {"method": "ep"},
    {"method": "adf", "dtype": "float32"},
    {"n_factors": 2},
    {"n_factors": "class", "class_weight": "balanced"},
    {"kernel": kernels.Warped(kernels.Matern32(), hidden=3)},
    {"mean": LogisticRegression()},
    {"shared_kernel": False},
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    labels=st.lists(ODD, min_size=2, max_size=5, unique=True),
    levels=st.lists(ODD, min_size=1, max_size=4),
    name=ODD.filter(lambda name: name not in ("x", "when")),
    days=st.lists(st.dates(), min_size=2, max_size=4),
    how=st.sampled_from(HOW),
)
def test_a_model_of_an_odd_table_always_loads(labels, levels, name, days, how, tmp_path) -> None:
    n = 60
    rows = pd.DataFrame({"x": blobs(n)[0][:, 0]})
    rows[name] = [levels[i % 7 % len(levels)] for i in range(n)]
    rows["when"] = [days[i % 5 % len(days)] for i in range(n)]
    y = np.array([labels[i % len(labels)] for i in range(n)], object)
    model, path = quick(max_iter=3, **how).fit(rows, y), tmp_path / "model.sepgp"
    model.save(path)
    again = sepgp.load(path)
    assert again.classes_.tolist() == sorted(labels)
    assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    for arguments in ([], ["--json"]):
        done = run("info", path, *arguments)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("factor", [1e-308, 1e-200, 1e-160, 1e155, 1e200, 1e300])
def test_columns_beyond_what_can_be_squared_were_ignored(factor) -> None:
    X, y = blobs(60)
    scaled, plain = (standardization(rows, np.ones(60)) for rows in (X * factor, X))
    assert_allclose(scaled.apply(X * factor), plain.apply(X), rtol=1e-9)
    fitted = quick().fit(X * factor, y)
    assert_allclose(fitted.predict_proba(X * factor), quick().fit(X, y).predict_proba(X), atol=1e-6)


def test_moments_of_blocks_of_very_different_size() -> None:
    values = np.array([[0.0, 1e300], [1e-200, -1.0], [3e-200, 1e-300], [np.nan, 1e200]])
    parts = [Moments.of(values[i : i + 1], np.ones(1)) for i in range(4)]
    whole = Moments.of(values, np.ones(4))
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        total = parts[order[0]]
        for i in order[1:]:
            total = total + parts[i]
        assert_allclose(total.centre, whole.centre, rtol=1e-12)
        assert_allclose(total.deviation, whole.deviation, rtol=1e-12)
        assert_array_equal(total.varies, [True, True])


@pytest.mark.parametrize(("value", "share"), [(1e4, 1 / 600), (1e160, 1 / 600), (-999.0, 0.05)])
def test_a_few_far_values_made_a_column_useless(value, share) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 2))
    y = (X[:, 0] + 0.3 * random.normal(size=600) > 0).astype(int)
    spoilt = X.copy()
    spoilt[: round(600 * share), 0] = value
    rest = slice(round(600 * share), None)
    clean, model = (quick(n_inducing=30, max_iter=60).fit(rows, y) for rows in (X, spoilt))
    areas = [roc_auc_score(y[rest], m.predict_proba(X[rest])[:, 1]) for m in (clean, model)]
    assert areas[1] > areas[0] - 0.01


def test_scaling_of_plain_columns_is_mean_and_deviation() -> None:
    random = np.random.default_rng(0)
    shapes = [
        random.normal(size=3000),
        random.standard_t(3, size=3000),
        np.exp(random.normal(size=3000)),
    ]
    shapes += [random.random(3000) < 0.02, random.integers(0, 3, 3000), np.ones(3000)]
    X = np.column_stack(shapes).astype(float)
    scaling = standardization(X, np.ones(3000))
    for one, other in zip(resistant(scaling, X), scaling, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e-3])
def test_a_column_that_was_constant_kept_its_units(unit) -> None:
    X, y = blobs(80)
    model = quick().fit(np.column_stack([X, np.full(80, 7 * unit)]), y)
    known, new = (np.column_stack([X, np.full(80, v * unit)]) for v in (7.0, 8.0))
    assert_array_equal(model.predict_proba(new), model.predict_proba(known))
    assert_array_equal(model.inducing_points_[:, 2], 7 * unit)


def test_online_learning_learns_from_a_column_that_was_constant_at_first() -> None:
    X, y = blobs(200)
    noise = np.random.default_rng(0).normal(size=200)
    X = np.column_stack([np.where(np.arange(200) < 40, 1.0, 3.0 * y - 1), noise])
    model = quick().partial_fit(X[:40], y[:40])
    model.partial_fit(X[40:], y[40:])
    assert model.score(X[40:], y[40:]) > 0.95


def test_a_column_that_varies_in_its_last_digits_was_scaled_up() -> None:
    random = np.random.default_rng(0)
    X, _ = blobs(80)
    noisy = np.column_stack([X, 1.7e18 + random.uniform(0, 2000, 80)])
    scaling = standardization(noisy, np.ones(80))
    assert_allclose(scaling.apply(noisy)[:, 2], 0.0, atol=1e-300)
    assert_allclose(scaling.apply(noisy)[:, :2], standardization(X, np.ones(80)).apply(X))


def test_far_values_were_compressed_without_end() -> None:
    X, y = blobs(80)
    model = quick(kernel="matern32").fit(X, y)
    prior, scaling = model.kernel_.variance.item(), model.model_.scaling
    reach = np.abs(X - scaling.mean).max(0)
    mean, variance = model.predict_latent(scaling.mean + 10 * reach * [[1, 0], [0, -1], [1, 1]])
    assert_allclose(variance, prior, rtol=1e-3)
    assert_allclose(mean, 0.0, atol=1e-2)


@given(
    z=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8, unique=True),
    far=st.sampled_from([2.0, 6.0, 300.0, np.inf]),
)
def test_scaling_is_one_to_one_and_can_be_undone(z, far) -> None:
    scaling = Scaling(np.array([3.0]), np.array([0.5]), 2.0, np.array([far]))
    X = 3.0 + 0.5 * np.sort(z)[:, None]
    scaled = scaling.apply(X)
    assert (np.diff(scaled[:, 0]) >= 0).all()
    assert_allclose(scaling.undo(scaled), X, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", ["auto", "rbf"])
def test_an_offset_without_scaling_cancelled_the_distances(kernel) -> None:
    X, y = blobs(2500)
    how = {"standardize": False, "dtype": "float32", "batch_size": 500, "kernel": kernel}
    near, far = (quick(**how).fit(X + offset, y) for offset in (0.0, 1e6))
    assert_allclose(far.predict_proba(X + 1e6), near.predict_proba(X), atol=1e-3)
    assert_allclose(far.inducing_points_ - 1e6, near.inducing_points_, atol=1e-2)


def test_a_kernel_that_knows_the_origin_keeps_it() -> None:
    X, y = blobs(60)
    X += 2.0
    model = quick(standardize=False, kernel=kernels.Linear(), learn_kernel=False).fit(X, y)
    _, variance = model.predict_latent(np.zeros((1, 2)))
    assert variance == 0


def test_a_model_of_few_rows_was_trained_in_float64_and_predicted_in_float32(tmp_path) -> None:
    X, y = blobs(80)
    models = [quick(dtype=dtype).fit(X, y) for dtype in ("float64", "float32")]
    models[1].save(tmp_path / "model.sepgp")
    expected = models[0].predict_proba(X)
    for model in (models[1], sepgp.load(tmp_path / "model.sepgp")):
        assert_array_equal(model.predict_proba(X), expected)


def test_wide_rows_are_summed_in_small_blocks(monkeypatch) -> None:
    X = np.random.default_rng(0).normal(3.0, 2.0, size=(70, 40))
    weight = np.arange(70.0)
    whole = standardization(X, weight)
    sizes = []
    real = Moments.of

    def of(values, weight):
        sizes.append(len(values))
        return real(values, weight)

    monkeypatch.setattr(moments, "VALUES", 800)
    monkeypatch.setattr(Moments, "of", of)
    blocks = standardization(X, weight)
    assert_allclose(blocks.mean, whole.mean, rtol=1e-12)
    assert_allclose(blocks.scale, whole.scale, rtol=1e-12)
    assert sizes == [20, 20, 20, 10]


def test_many_columns_have_the_moments_of_few() -> None:
    random = np.random.default_rng(0)
    X = random.normal(3.0, 2.0, size=(70, moments.WIDE)) * 10.0 ** random.integers(
        -200, 200, moments.WIDE
    )
    X[5, 7], weight = np.nan, np.arange(70.0)
    few = [Moments.of(X[:, i : i + 16], weight) for i in range(0, moments.WIDE, 16)]
    for name, values in vars(Moments.of(X, weight)).items():
        expected = np.concatenate([getattr(part, name) for part in few])
        assert_allclose(values, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaling_in_blocks_is_scaling_of_all_rows(dtype, monkeypatch) -> None:
    X = np.random.default_rng(0).normal(size=(100, 3)) ** 5
    X[61, 2] = 1e300
    scaling = standardization(X[:50], np.ones(50))
    whole = scaling.standardize(X)
    monkeypatch.setattr(scaling_module, "VALUES", 21)
    out = np.full(X.shape, np.nan, dtype)
    assert scaling.apply(X, out) is out
    assert_array_equal(out, whole.astype(dtype))
    assert_array_equal(scaling.apply(X), whole)
    assert abs(whole).max() == scaling_module.FARTHEST
