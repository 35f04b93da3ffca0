"""The factor on the mean of f of middle-sized tables, and when it is looked for."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers import assert_close
from numpy.testing import assert_allclose, assert_array_equal
from quick import blobs, quick
from scipy.special import ndtr

from sepgp import load
from sepgp.data.prepared import ArrayData
from sepgp.gp.kernels import RBF
from sepgp.likelihoods import for_classes
from sepgp.training import calibration, choice
from sepgp.training import fit as fit_module
from sepgp.training.settings import Settings

ROWS = 5_000
LONG = {"max_iter": calibration.STEPS}


def data(n: int = ROWS, n_classes: int = 2) -> ArrayData:
    y = np.arange(n) % n_classes
    return ArrayData(np.zeros((n, 2)), y, np.ones(n), np.arange(n_classes))


@pytest.fixture
def small(monkeypatch) -> None:
    """Tables of 100 rows, and trainings of ten steps, as if they were middle-sized and long."""
    monkeypatch.setattr(calibration, "FEWEST", 100)
    monkeypatch.setattr(calibration, "STEPS", 10)
    monkeypatch.setattr(calibration, "RARE", 10)
    monkeypatch.setattr(choice, "MINIBATCH", 40)


SMALL = {"batch_size": 40, "kernel": "matern32", "max_iter": 20}


@pytest.mark.parametrize("true", [0.7, 1.0, 1.4])
def test_the_factor_that_makes_probabilities_right_is_found(true) -> None:
    random = np.random.default_rng(0)
    mean, variance = random.normal(size=20_000), random.uniform(0.1, 0.5, size=20_000)
    p = ndtr(true * mean / np.sqrt(1 + variance))
    rows = data(len(p))._replace(y=(random.random(len(p)) < p).astype(np.int64))
    assert_allclose(calibration.best_factor(for_classes(2), rows, mean, variance), true, rtol=0.03)


def test_rows_of_more_weight_count_more() -> None:
    y = np.array([1, 0])
    rows = data(2)._replace(y=y, weight=np.array([100.0, 1.0]))
    mean, variance = np.array([2.0, 2.0]), np.full(2, 0.1)
    assert calibration.best_factor(for_classes(2), rows, mean, variance) > 1
    turned = rows._replace(weight=rows.weight[::-1])
    found = calibration.best_factor(for_classes(2), turned, mean, variance)
    assert_allclose(found, calibration.LEAST, rtol=1e-3)


@pytest.mark.parametrize("mean", [None, "trees"])
@pytest.mark.parametrize("method", ["sep", "ep"])
def test_a_model_times_a_factor_has_a_mean_times_the_factor(method, mean) -> None:
    X, y = blobs(120)
    model = quick(method=method, mean=mean, n_inducing=12).fit(X, y).model_
    mu, variance = model.latent(X)
    larger = calibration.times(model, 1.7)
    new_mu, new_variance = larger.latent(X)
    assert_allclose(new_mu, 1.7 * mu, rtol=1e-9, atol=1e-12)
    assert_allclose(new_variance, variance, rtol=1e-6)
    assert_array_equal(model.latent(X)[0], mu)  # the model itself has not changed


@pytest.mark.parametrize(
    ("settings", "rows", "wanted"),
    [
        ({}, data(), True),
        ({}, data(9_999), True),
        ({}, data(4_999), False),
        ({}, data(10_000), False),
        ({}, data(n_classes=3), False),
        ({"validation_fraction": 0.0}, data(), False),
        ({"validation_fraction": 0.1}, data(), False),
        ({"kernel": RBF()}, data(), False),
        ({"kernel": "rbf"}, data(), True),
        ({"learn_kernel": False}, data(), False),
        ({"batch_size": 5_000}, data(), False),
        ({"max_iter": 199}, data(), False),
        ({"max_iter": 200}, data(), True),
        ({"time_budget": 19.9}, data(), False),
        ({"time_budget": 20.0}, data(), True),
    ],
)
def test_a_second_training_is_for_long_trainings_on_middle_sized_tables(
    settings, rows, wanted
) -> None:
    assert calibration.is_wanted(Settings(**settings), rows) is wanted


def test_a_training_that_a_callback_stopped_went_on_to_calibrate(small, monkeypatch) -> None:
    X, y = blobs(120)
    monkeypatch.setattr(calibration, "factor", lambda *given: pytest.fail("calibrated"))
    steps = []

    def stop(record) -> bool:
        steps.append(record.iteration)
        return len(steps) == 4

    model = quick(**SMALL | {"callbacks": [stop], "n_inducing": 10}).fit(X, y)
    assert model.n_iter_ == len(steps) == 5


@pytest.mark.parametrize(("count", "wanted"), [(499, False), (500, True)])
def test_a_class_with_few_rows_aside_made_the_model_too_sure(count, wanted) -> None:
    """Twice as sure if there were none, and 1.3 times with 42, where NLL rose from .052 to .066."""
    rows = data()._replace(y=(np.arange(ROWS) < count).astype(np.int64))
    assert calibration.is_wanted(Settings(), rows) is wanted


def test_a_prior_mean_that_took_the_time_left_a_single_step_for_training() -> None:
    settings = Settings(time_budget=25.0)
    assert calibration.is_wanted(settings, data(), elapsed=4.0)
    assert not calibration.is_wanted(settings, data(), elapsed=6.0)
    assert calibration.first_part(settings, elapsed=5.0).time_budget == 5 + 12
    second = calibration.second_part(settings, 300, elapsed=17.0)
    assert (second.max_iter, second.time_budget) == (200, 8.0)
    assert calibration.second_part(settings, 300, elapsed=26.0).time_budget == 0
    assert calibration.second_part(Settings(), 301, elapsed=26.0).max_iter == 201
    assert calibration.second_part(Settings(), 301, elapsed=26.0).time_budget is None


def test_the_second_training_sees_four_fifths_of_every_class() -> None:
    rows = data(100)._replace(X=np.arange(100.0)[:, None])
    kept, aside = calibration.cut(rows, seed=3)
    assert (kept.n_rows, aside.n_rows) == (80, 20)
    assert_array_equal(np.bincount(aside.y), [10, 10])
    assert_array_equal(np.sort(np.r_[kept.X, aside.X].ravel()), np.arange(100))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("mean", [None, "trees"])
def test_fit_multiplies_the_mean_of_the_model_of_all_rows(mean, monkeypatch) -> None:
    found = []
    monkeypatch.setattr(
        calibration, "factor", lambda model, rows: found.append((model, rows)) or 1.3
    )
    X, y = blobs(120)
    steps: list[int] = []
    setting = SMALL | {"mean": mean}
    plain = quick(**setting, validation_fraction=0).fit(X, y)
    assert not found
    model = quick(**setting, callbacks=[lambda record: steps.append(record.iteration)]).fit(X, y)
    assert_close(
        model.predict_latent(X)[0], 1.3 * plain.predict_latent(X)[0], rtol=1e-9, atol=1e-12
    )
    assert steps == list(range(1, 21))  # callbacks see the training on all rows
    ((second, aside),) = found
    assert second.n_seen == 96
    assert aside.n_rows == 24
    assert (aside.score is None) == (mean is None)


@pytest.mark.usefixtures("small")
def test_rows_with_a_prior_mean_are_scored_out_of_sample() -> None:
    """The classifiers of the model have seen them."""
    X, y = blobs(120)
    model = quick(**SMALL, mean="trees", validation_fraction=0).fit(X, y).model_
    score = np.linspace(-1, 1, 120)
    rows = data(120)._replace(X=X, y=y.astype(np.int64), score=score)
    mean, variance = replace(model, mean=None).latent(X)
    expected = calibration.best_factor(
        model.likelihood, rows, mean + model.mean.factor * score, variance
    )
    assert calibration.factor(model, rows) == expected


@pytest.mark.usefixtures("small")
def test_a_run_that_goes_on_from_its_checkpoint_is_calibrated_alike(tmp_path) -> None:
    X, y = blobs(120)
    whole = quick(**SMALL).fit(X, y)
    path = tmp_path / "run.ckpt"

    def crash(record):
        if record.iteration == 7:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        quick(**SMALL, checkpoint=path, checkpoint_every=0, callbacks=[crash]).fit(X, y)
    for _ in range(2):  # the second time the run in the file is finished
        model = quick(**SMALL, checkpoint=path, checkpoint_every=0).fit(X, y)
        assert_array_equal(model.predict_proba(X), whole.predict_proba(X))
    model.save(tmp_path / "model.sepgp")
    again = load(tmp_path / "model.sepgp")
    assert_array_equal(again.predict_proba(X), whole.predict_proba(X))


@pytest.mark.usefixtures("small")
def test_a_second_training_without_time_decides_nothing(monkeypatch) -> None:
    X, y = blobs(120)
    monkeypatch.setattr(calibration, "SECONDS", 0.0)
    monkeypatch.setattr(calibration, "FIRST", 0.95)  # and next to nothing for the second
    monkeypatch.setattr(calibration, "factor", lambda *_: pytest.fail("it was asked"))
    quick(**SMALL | {"max_iter": None}, time_budget=1.0).fit(X, y)


@pytest.mark.usefixtures("small")
def test_a_time_budget_is_divided_between_the_trainings(monkeypatch) -> None:
    X, y = blobs(120)
    budgets: list[float | None] = []
    of = fit_module.Schedule.of

    def watched(settings, *rest, **more):
        budgets.append(settings.time_budget)
        return of(settings, *rest, **more)

    monkeypatch.setattr(fit_module.Schedule, "of", watched)
    monkeypatch.setattr(calibration, "SECONDS", 0.0)
    quick(**SMALL | {"max_iter": None}, time_budget=0.5).fit(X, y)
    first, second = budgets
    assert 0.5 * calibration.FIRST < first < 0.5
    assert 0 < second <= 0.5 - 0.8 * first


def test_a_model_that_goes_on_is_not_calibrated_again(small, monkeypatch) -> None:
    X, y = blobs(120)
    model = quick(**SMALL, warm_start=True).fit(X, y)
    monkeypatch.setattr(calibration, "factor", lambda *_: pytest.fail("it was asked"))
    model.fit(X, y)
    assert math.isfinite(model.log_evidence_)


@pytest.mark.usefixtures("small")
def test_the_progress_line_says_which_training_it_is_about(capsys) -> None:
    X, y = blobs(120)
    quick(**SMALL, verbose=True).fit(X, y)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("step 20  done")
    assert second.startswith("calibration  step 14  done")
