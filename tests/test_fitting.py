"""How training runs: the history, when it stops, and how it goes on."""

import ctypes
import dataclasses
import io
import math
import platform
import re
import subprocess
import sys
import time
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from quick import METHODS, assert_one_sentence, blobs, quick
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from sepgp import GPClassifier, kernels
from sepgp.data.array_source import ArraySource
from sepgp.training.fit import Run, warn_of_rejected
from sepgp.training.memory import keep_freed_memory
from sepgp.training.optimizers import Adam
from sepgp.training.progress import ProgressLine, duration
from sepgp.training.record import Record
from sepgp.training.schedule import MAX_SITE_STEP, WANDER, Schedule, inducing_rate, site_step
from sepgp.training.settings import Settings
from sepgp.training.start import _most_rows, n_points, rows_per_step

EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
X, Y = blobs()


# --- history ----------------------------------------------------------------------------------


@EVERY_METHOD
@pytest.mark.parametrize("batch_size", [None, 16])
def test_history_is_a_table_with_a_row_per_step(method, batch_size) -> None:
    seen: list[Record] = []
    model = quick(method=method, batch_size=batch_size, callbacks=[seen.append]).fit(X, Y)
    assert model.n_iter_ == 20
    assert tuple(model.history_) == Record._fields
    for name, column in model.history_.items():
        assert_array_equal(column, [getattr(record, name) for record in seen])
        assert column.shape == (model.n_iter_,)
    assert_array_equal(model.history_["iteration"], np.arange(1, 21))
    assert (np.diff(model.history_["seconds"]) >= 0).all()
    assert not model.history_["rejected"].any()
    assert model.history_["epoch"][-1] == (20 if batch_size is None else 5)


@EVERY_METHOD
def test_evidence_of_the_fit_is_that_of_the_last_epoch(method) -> None:
    whole = quick(method=method).fit(X, Y)
    assert whole.log_evidence_ == whole.history_["log_evidence"][-1]
    parts = quick(method=method, batch_size=15).fit(X, Y)
    assert_allclose(parts.log_evidence_, parts.history_["log_evidence"][-4:].mean())


@pytest.mark.parametrize("optimizer", ["adam", "sign"])
def test_training_raises_the_evidence(optimizer) -> None:
    evidence = quick(optimizer=optimizer, max_iter=50).fit(X, Y).history_["log_evidence"]
    assert_allclose(evidence[0], len(X) * np.log(0.5))
    assert evidence[-1] > evidence[5] + 0.1


@pytest.mark.parametrize("budget", [{"max_iter": 30}, {"max_iter": None, "time_budget": 0.1}])
def test_learning_rate_falls_to_zero(budget, monkeypatch) -> None:
    clock = count()
    monkeypatch.setattr(time, "perf_counter", lambda: 0.001 * next(clock))
    rate = quick(learning_rate=0.1, **budget).fit(X, Y).history_["learning_rate"]
    assert rate[0] <= 0.1
    assert (np.diff(rate[rate > 0]) < 0).all()  # some steps let the site catch up
    assert rate[-1] == 0


def state_size(n: int, **setting) -> int:
    sizes = quick(max_iter=3, **setting).fit(*blobs(n)).history_["state_size"]
    assert len(set(sizes)) == 1
    return int(sizes[0])


def test_the_site_forgets_more_than_an_average_does() -> None:
    assert_allclose(
        [site_step(0.01, t - 1, 0.001, 1.0) for t in (1, 32, 10**6)], [0.5, 0.125, 0.01]
    )
    assert_allclose(
        [site_step("average", t - 1, 0.001, 1.0) for t in (1, 32, 10**6)], [0.5, 1 / 32, 0.001]
    )
    assert site_step("paper", 0, 0.001, 1.0) == 0.001
    assert site_step(0.01, 99, 1.0, 1.0) == MAX_SITE_STEP


@pytest.mark.parametrize("batch_size", [1, 5])
def test_single_rows_were_made_to_speak_for_all_of_them(batch_size) -> None:
    """On labels by chance the NLL of other rows was up to 1.9, where ln 2 is .69."""
    random = np.random.default_rng(0)
    noise, labels = random.normal(size=(500, 2)), random.integers(0, 2, 500)
    model = quick(batch_size=batch_size, n_inducing=30, max_iter=30).fit(noise[:300], labels[:300])
    assert log_loss(labels[300:], model.predict_proba(noise[300:])) < 0.85


def test_few_rows_count_once_each_until_there_are_enough() -> None:
    steps = [site_step(0.01, t - 1, 0.001, 0.1) for t in (1, 9, 10, 20, 10**6)]
    assert_allclose(steps, [0.001, 0.001, 0.2, 20**-0.6, 0.01])
    assert site_step(0.01, 10**6, 0.001, 0.002) == 0.004


def test_inducing_points_that_follow_noise_do_not_wander_off() -> None:
    """Adam on pure noise, along the cosine of a whole training: the spread is that of `WANDER`."""
    generator = torch.Generator().manual_seed(0)
    for steps in (300, 2000):
        z = torch.zeros(4000, dtype=torch.float64)
        state, rate = Adam.init(z), inducing_rate(Adam.rate, steps)
        for t in range(steps):
            noise = torch.randn(len(z), generator=generator, dtype=torch.float64)
            cosine = 0.5 * (1 + math.cos(math.pi * t / steps))
            change, state = Adam.step(state, noise, rate * cosine)
            z += change
        assert 0.8 * WANDER < float(z.std()) < 1.2 * WANDER


@pytest.mark.parametrize("batch_size", [None, 10])
@pytest.mark.parametrize("method", ["sep", "adf"])
def test_memory_of_sep_and_adf_does_not_know_n(method, batch_size) -> None:
    setting = {"method": method, "batch_size": batch_size}
    assert state_size(40, **setting) == state_size(90, **setting) == 10 * 10 + 10


@pytest.mark.parametrize(("batch_size", "per_row"), [(None, 2), (10, 2 + 10)])
def test_memory_of_ep_grows_with_n(batch_size, per_row) -> None:
    setting = {"method": "ep", "batch_size": batch_size}
    assert state_size(90, **setting) - state_size(40, **setting) == 50 * per_row


@pytest.mark.parametrize("method", ["sep", "ep"])
@pytest.mark.parametrize("variance", [1.0, 50.0, 1000.0])
def test_sites_settle_when_the_kernel_is_held(method, variance) -> None:
    held = {"learn_kernel": False, "learn_inducing": False}
    kernel = kernels.Matern32(2.0, variance)
    model = quick(method=method, n_inducing=60, kernel=kernel, max_iter=200, **held).fit(X, Y)
    assert_allclose(*model.history_["log_evidence"][-2:], rtol=0, atol=1e-4)


# --- inducing points that are rows ------------------------------------------------------------


def moved(model, rows=X):
    """How far inducing points are from the nearest row, at most."""
    return np.abs(model.inducing_points_[:, None] - rows).sum(2).min(1).max()


@EVERY_METHOD
@pytest.mark.parametrize("batch_size", [None, 16])
def test_inducing_points_stay_where_every_row_is_one(method, batch_size) -> None:
    setting = {"method": method, "batch_size": batch_size}
    model = quick(n_inducing=60, **setting).fit(X, Y)
    assert len(model.inducing_points_) == 60
    assert moved(model) < 1e-12
    assert model.kernel_.parts[0].lengthscale.unique().numel() == 2  # the kernel is learned
    assert moved(quick(n_inducing=59, **setting).fit(X, Y)) > 1e-3


def test_copies_and_rows_of_weight_0_do_not_make_points_move() -> None:
    twice = np.concatenate([X, X]), np.concatenate([Y, Y])
    assert moved(quick(n_inducing=60).fit(*twice)) < 1e-12
    weight = np.arange(60) > 0
    assert moved(quick(n_inducing=59).fit(X, Y, weight)) < 1e-12


def test_points_that_are_rows_stay_in_a_warm_start_and_move_for_more_rows() -> None:
    model = quick(n_inducing=40, warm_start=True).fit(X[:40], Y[:40])
    assert moved(model.fit(X[:40], Y[:40])) < 1e-12
    assert moved(model.fit(X, Y)) > 1e-3


def test_points_that_are_rows_move_when_more_rows_come() -> None:
    model = quick(n_inducing=40).partial_fit(X[:40], Y[:40]).partial_fit(X[40:], Y[40:])
    assert moved(model) > 1e-3


# --- the method that "auto" stands for --------------------------------------------------------


NARROW = kernels.Matern32(spread=1.0) + kernels.Matern32(spread=1.0)


def assert_same_model(one: GPClassifier, other: GPClassifier) -> None:
    """That they were trained by one method, to the same numbers."""
    assert one.model_.method == other.model_.method
    parts = zip(one.kernel_.parameters(), other.kernel_.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in parts)
    assert_array_equal(one.history_["log_evidence"], other.history_["log_evidence"])
    assert_array_equal(one.predict_latent(X), other.predict_latent(X))


EXACT: dict[str, Any] = {
    "as many rows as points": {},
    "rows that are there twice": {"rows": np.r_[:60, :60]},
    "a row of weight 0": {"n_inducing": 59, "weight": np.arange(60) > 0},
    "points that a user held": {"learn_inducing": False},
    "points that a user gave": {"inducing": X},
    "held-out rows": {"validation_fraction": 0.2},
}


@pytest.mark.parametrize("setting", EXACT.values(), ids=EXACT)
def test_where_every_row_is_a_point_the_default_is_ep_with_a_narrow_prior(setting) -> None:
    setting = {"n_inducing": 60} | setting
    rows, weight = setting.pop("rows", slice(None)), setting.pop("weight", None)
    auto = quick(**setting).fit(X[rows], Y[rows], weight)
    assert auto.model_.method == "ep"
    assert auto.method == "auto"
    ep = quick(method="ep", kernel=NARROW, **setting).fit(X[rows], Y[rows], weight)
    assert_same_model(auto, ep)
    assert moved(auto) < 1e-12


def test_a_kernel_that_a_user_chose_keeps_its_prior() -> None:
    wide = kernels.Matern32(spread=3.0)
    for kernel in ("matern32+matern32", wide):
        auto, ep = (quick(n_inducing=60, kernel=kernel, method=name) for name in ("auto", "ep"))
        assert_same_model(auto.fit(X, Y), ep.fit(X, Y))
    assert auto.kernel_.spread == wide.spread == 3.0


THREE = np.arange(60) % 3
AS_SEP: dict[str, Any] = {
    "a row more than points": {"n_inducing": 59},
    "a row more than a batch": {"batch_size": 59},
    "three classes": {"labels": THREE},
    "a kernel for each of three": {"labels": THREE, "shared_kernel": False},
    "a kernel for each of two": {"shared_kernel": False},
    "two tied sites": {"n_factors": 2},
    "a tied site for each class": {"n_factors": "class"},
    "a power": {"power": 0.5},
    "a site step": {"site_step": "average"},
    "a prior mean": {"mean": LogisticRegression()},
    "inducing points elsewhere": {"inducing": X[:50]},
}


@pytest.mark.parametrize("setting", AS_SEP.values(), ids=AS_SEP)
def test_elsewhere_the_default_is_sep_to_the_last_digit(setting) -> None:
    setting = {"n_inducing": 60} | setting
    labels = setting.pop("labels", Y)
    auto, sep = (quick(**setting, method=name).fit(X, labels) for name in ("auto", "sep"))
    assert auto.model_.method == "sep"
    assert_same_model(auto, sep)


def test_rows_that_come_in_blocks_are_learned_by_sep() -> None:
    auto, sep = (quick(n_inducing=60, method=name) for name in ("auto", "sep"))
    for half in (slice(30), slice(30, None)):
        assert_same_model(auto.partial_fit(X[half], Y[half]), sep.partial_fit(X[half], Y[half]))
    assert auto.model_.method == "sep"
    after_ep = quick(n_inducing=60).fit(X, Y).partial_fit(*blobs(40, seed=1))
    assert after_ep.model_.method == "sep"
    assert log_loss(Y, after_ep.predict_proba(X)) < 0.2


def test_a_warm_start_is_ep_while_every_row_is_a_point() -> None:
    auto = quick(n_inducing=40, warm_start=True)
    ep = quick(n_inducing=40, warm_start=True, method="ep", kernel=NARROW)
    for _ in range(2):
        assert_same_model(auto.fit(X[:40], Y[:40]), ep.fit(X[:40], Y[:40]))
    assert auto.n_iter_ == 20
    assert auto.model_.iteration == 40
    assert auto.fit(X, Y).model_.method == "sep"
    assert moved(auto) > 1e-3


def test_a_warm_start_leaves_the_kernel_its_prior() -> None:
    model = quick(n_inducing=60, warm_start=True, kernel=kernels.RBF(spread=3.0)).fit(X, Y)
    assert model.set_params(kernel="auto").fit(X, Y).model_.method == "ep"
    assert model.kernel_.spread == 3.0


# --- where it starts --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "time_budget", "n_classes", "n_rows", "expected"),
    [
        ("auto", None, 2, 20_000, 200),
        ("auto", 10, 2, 20_000, 100),
        ("auto", 11, 2, 20_000, 200),
        ("auto", 30, 2, 30_000, 300),
        ("auto", 30, 2, 30_001, 200),
        ("auto", 29, 2, 20_000, 200),
        ("auto", 60, 2, 10_000, 300),
        ("auto", 60, 2, 9_999, 200),
        ("auto", 90, 3, 20_000, 200),
        ("auto", 120, 2, 20_000, 400),
        ("auto", 120, 10, 20_000, 200),
        ("auto", 50, 10, 20_000, 100),
        ("auto", 0.6, 2, 20_000, 100),
        ("auto", 0.5, 2, 20_000, 50),
        ("auto", 2.5, 10, 20_000, 50),
        (7, 60, 2, 20_000, 7),
    ],
)
def test_inducing_points_by_default_suit_time_and_rows(
    given, time_budget, n_classes, n_rows, expected
) -> None:
    settings = Settings(n_inducing=given, time_budget=time_budget)
    assert n_points(settings, n_classes, n_rows) == expected


@pytest.mark.parametrize(
    ("given", "time_budget", "n_rows", "n_classes", "expected"),
    [
        (None, None, 10_000, 10, 2000),
        (None, 1, 10_000, 2, 2000),
        (None, 0.5, 10_000, 2, 1000),
        (None, 2.5, 10_000, 10, 1000),
        (None, 0.01, 10_000, 2, 250),
        (None, 0.01, 2000, 2, 2000),
        (None, float("inf"), 10_000, 2, 2000),
        (1234, 0.01, 10_000, 2, 1234),
    ],
)
def test_minibatches_by_default_suit_the_time(
    given, time_budget, n_rows, n_classes, expected
) -> None:
    """Rows that are one batch stay one."""
    settings = Settings(batch_size=given, time_budget=time_budget)
    assert rows_per_step(settings, n_rows, n_classes) == expected


@pytest.mark.parametrize(
    ("settings", "batches", "expected"),
    [
        ({"time_budget": 5}, 2, 0.5),
        ({"time_budget": 5}, 1, 0.2),
        ({"time_budget": 6}, 2, 0.2),
        ({}, 2, 0.2),
        ({"time_budget": 5, "learning_rate": 0.1}, 2, 0.1),
        ({"time_budget": 5, "optimizer": "sign"}, 2, 0.01),
    ],
)
def test_few_minibatches_have_a_higher_learning_rate(settings, batches, expected) -> None:
    assert Schedule.of(Settings(**settings), batches).rate == expected


def test_a_run_that_goes_on_with_more_time_keeps_its_points(tmp_path) -> None:
    rows = np.random.default_rng(0).normal(size=(500, 2))
    run = {"random_state": 0, "checkpoint": tmp_path / "run", "max_iter": 3}
    first = GPClassifier(**run, time_budget=10).fit(rows, rows[:, 0] > 0)
    longer = GPClassifier(**run | {"max_iter": 5}, time_budget=600).fit(rows, rows[:, 0] > 0)
    assert len(first.inducing_points_) == len(longer.inducing_points_) == 100
    assert longer.n_iter_ == 5


@pytest.mark.parametrize(
    ("time_budget", "width", "m", "expected"),
    [(None, 8, 200, 20_000), (3, 8, 200, 6_000), (3, 784, 50, 765), (3, 784, 200, 2_000)],
)
def test_a_short_time_budget_went_into_the_start_points_of_wide_tables(
    time_budget, width, m, expected
) -> None:
    assert _most_rows(time_budget, width, m) == expected


# --- when it stops ----------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.013, 0.4, 1.0])
def test_the_last_step_ends_within_the_time_budget(seconds) -> None:
    schedule = Schedule(None, 10.0, 0.2, decay=True, tol=None, early_stopping=False)
    steps = next(k for k in count(1) if schedule.done(k, (k - 1) * seconds, seconds) >= 1)
    assert 10 - 3 * seconds < steps * seconds <= 10 - seconds  # the rest is for the model


def test_a_first_batch_that_comes_late_does_not_end_training(monkeypatch) -> None:
    fetched = ArraySource.batches

    def late(self, start=0):
        time.sleep(0.4)
        yield from fetched(self, start)

    monkeypatch.setattr(ArraySource, "batches", late)
    assert quick(max_iter=None, time_budget=1.0).fit(X, Y).n_iter_ > 5


def test_the_time_budget_covers_what_comes_before_the_first_step(monkeypatch) -> None:
    clock = {"now": 0.0}
    monkeypatch.setattr(time, "perf_counter", lambda: clock["now"])

    def slow():
        clock["now"] = max(clock["now"], 50.0)  # the first pass takes so many seconds
        yield X, Y

    def step(record):
        clock["now"] += 1.0

    model = quick(max_iter=None, time_budget=60.0, callbacks=[step])
    steps = model.fit(slow).n_iter_
    assert 3 <= steps <= 12
    assert model.history_["seconds"][0] >= 50.0


def test_time_budget_ends_training() -> None:
    assert quick(max_iter=None, time_budget=0).fit(X, Y).n_iter_ == 1
    assert quick(max_iter=10**9, time_budget=0.05).fit(X, Y).n_iter_ < 10**4
    assert quick(max_iter=4, time_budget=600).fit(X, Y).n_iter_ == 4


@pytest.mark.parametrize("batch_size", [None, 16])
def test_tolerance_ends_training(batch_size) -> None:
    setting = {"max_iter": 500, "batch_size": batch_size}
    loose = quick(tol=10.0, **setting).fit(X, Y)
    assert loose.n_iter_ < 50
    assert loose.history_["learning_rate"][-1] == 0
    assert quick(tol=0.02, **setting).fit(X, Y).n_iter_ > loose.n_iter_


def test_a_callback_ends_training() -> None:
    model = quick(callbacks=[lambda record: record.iteration == 5, lambda record: None]).fit(X, Y)
    # One more step, without learning, so that the sites belong to the final kernel.
    assert model.n_iter_ == 6
    assert model.history_["learning_rate"][-1] == 0


# --- the progress line ------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_line_has_rate_evidence_and_time_left(capsys, monkeypatch) -> None:
    monkeypatch.setattr(ProgressLine, "_pause", lambda *_: 0.0)
    quick(verbose=True, validation_fraction=0.3).fit(X, Y)
    out, err = capsys.readouterr()
    assert not out
    lines = err.splitlines()
    assert [line.split("  ")[0] for line in lines] == [f"step {n}" for n in range(1, 21)]
    for number, line in enumerate(lines, 1):
        assert "rows/s" in line
        assert "evidence -0." in line
        assert ("validation NLL 0." in line) == (number >= 10)  # the first measurement
        assert re.search(r"\d s left" if line != lines[-1] else r"done after \d+ s", line)


def test_a_signal_right_after_the_first_step_is_shown_finds_it_done(capsys) -> None:
    """It ended the command at once, while the callback that keeps the step had not run yet."""
    X, y = blobs()
    shown = []
    quick(
        verbose=True, max_iter=1, callbacks=[lambda _: shown.append(capsys.readouterr().err)]
    ).fit(X, y)
    assert shown == [""]
    assert "step 1" in capsys.readouterr().err


def test_progress_of_a_stopped_run_does_not_say_what_is_left(capsys) -> None:
    quick(verbose=True, callbacks=[lambda record: record.iteration == 5]).fit(X, Y)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("step 6  stopped after 0 s  ")


def test_progress_of_a_continued_run_counts_what_was_done_before(tmp_path, monkeypatch) -> None:
    setting = {"checkpoint": tmp_path / "run.ckpt", "max_iter": 8}
    quick(**setting, callbacks=[lambda record: record.iteration == 5]).fit(X, Y)
    done = []
    monkeypatch.setattr(ProgressLine, "__call__", lambda line, r: done.append(line._done(r)))
    quick(**setting, verbose=True).fit(X, Y)
    assert done == [6 / 8, 7 / 8, 1.0]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (99, "99 s"), (100, "2 min"), (7200, "2.0 h")]
)
def test_times_are_easy_to_read(seconds, text) -> None:
    assert duration(seconds) == text


def test_training_is_silent_by_default(capsys) -> None:
    quick().fit(X, Y)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("stop", [None, 5])
def test_progress_on_a_terminal_leaves_the_cursor_on_a_new_line(stop, monkeypatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    quick(verbose=True, callbacks=[lambda record: record.iteration == stop]).fit(X, Y)
    shown = terminal.getvalue().removesuffix("\x1b[?25h")  # which shows the cursor
    assert shown.endswith("\n")
    assert shown.count("\n") == 1
    assert f"step {6 if stop else 20}  {'stopped' if stop else 'done'}" in shown


# --- going on ---------------------------------------------------------------------------------


@EVERY_METHOD
@pytest.mark.parametrize("batch_size", [None, 15])
def test_warm_start_is_training_that_was_not_interrupted(method, batch_size) -> None:
    setting = {"method": method, "batch_size": batch_size, "learn_kernel": False}
    setting["learn_inducing"] = False
    model = quick(max_iter=6, warm_start=True, **setting)
    model.fit(X, Y).fit(X, Y)
    whole = quick(max_iter=12, **setting).fit(X, Y)
    assert_allclose(model.predict_latent(X), whole.predict_latent(X), rtol=1e-9, atol=1e-12)
    assert model.n_iter_ == 6


@pytest.mark.parametrize("method", ["sep", "ep"])
@pytest.mark.parametrize("batch_size", [None, 20])
def test_warm_start_goes_on_learning(method, batch_size) -> None:
    setting = {"method": method, "batch_size": batch_size, "learning_rate": 0.02}
    model = quick(warm_start=True, max_iter=30, **setting)
    first = model.fit(X, Y).log_evidence_
    before = [term.lengthscale.detach() for term in model.kernel_.terms()]
    assert model.fit(X, Y).log_evidence_ > first
    for term, lengthscale in zip(model.kernel_.terms(), before, strict=True):
        assert (term.lengthscale.detach() / lengthscale - 1).abs().max() > 0.01


@EVERY_METHOD
def test_warm_start_takes_other_rows(method) -> None:
    model = quick(method=method, warm_start=True).fit(X, Y)
    points = model.inducing_points_
    more, labels = blobs(90, seed=1)
    assert model.fit(more, labels).score(more, labels) > 0.9
    assert model.inducing_points_.shape == points.shape


@pytest.mark.slow
@EVERY_METHOD
@pytest.mark.parametrize("batch_size", [None, 16])
def test_blocks_teach_what_the_whole_would(method, batch_size) -> None:
    rows, labels = blobs(400, seed=3)
    model = quick(method=method, batch_size=batch_size)
    for block in np.split(np.arange(400), 8):
        model.partial_fit(rows[block], labels[block])
    more, truth = blobs(200, seed=4)
    assert model.score(more, truth) > 0.9
    whole = quick(method=method, max_iter=100).fit(rows, labels)

    def loss(fitted):
        return -fitted.predict_log_proba(more)[np.arange(200), truth].mean()

    assert loss(model) < loss(whole) + 0.1


@EVERY_METHOD
def test_the_first_block_may_have_one_class_if_both_are_named(method) -> None:
    names = np.array(["no", "yes"])[Y]
    negative = names == "no"
    model = quick(method=method).partial_fit(X[negative], names[negative], classes=["yes", "no"])
    assert_array_equal(model.classes_, ["no", "yes"])
    assert (model.predict(X[negative]) == "no").all()
    for _ in range(5):
        model.partial_fit(X, names)
    assert model.score(X, names) > 0.9


@EVERY_METHOD
def test_a_later_block_may_have_one_class(method) -> None:
    model = quick(method=method).partial_fit(X, Y)
    before = model.predict_proba(X)[:, 1].mean()
    model.partial_fit(X[Y == 1], Y[Y == 1])
    assert model.predict_proba(X)[:, 1].mean() > before
    assert model.score(X, Y) > 0.8


@EVERY_METHOD
def test_blocks_after_a_fit_add_to_it(method) -> None:
    model = quick(method=method, max_iter=100).fit(X, Y)
    near = model.predict_latent(X)[1].mean()
    model.set_params(learn_kernel=False, learn_inducing=False)
    for seed in range(1, 4):
        model.partial_fit(*blobs(seed=seed))
    assert model.score(X, Y) > 0.9
    assert model.predict_latent(X)[1].mean() < near


@EVERY_METHOD
def test_memory_does_not_grow_with_blocks(method) -> None:
    model = quick(method=method)
    sizes = [model.partial_fit(*blobs(seed=seed)).history_["state_size"][-1] for seed in range(4)]
    assert len(set(sizes)) == 1


def test_a_learning_rate_of_zero_meant_the_default() -> None:
    model = quick(learning_rate=0.0, kernel="rbf").fit(X, Y)
    assert (model.history_["learning_rate"] == 0).all()
    start = quick(max_iter=1, kernel="rbf").fit(X, Y)  # whose only step holds the kernel
    assert torch.equal(model.kernel_.log_lengthscale2, start.kernel_.log_lengthscale2)
    assert torch.equal(model.model_.Z, start.model_.Z)
    online = quick(learning_rate=0.0, kernel="rbf").partial_fit(X, Y)
    assert (online.history_["learning_rate"] == 0).all()


def test_settings_had_other_defaults_than_the_estimator() -> None:
    parameters = GPClassifier().get_params()
    assert Settings.of(parameters) == Settings()
    run = {field.name: parameters[field.name] for field in dataclasses.fields(Run)}
    assert Run(**run | {"callbacks": (), "verbose": False}) == Run(callbacks=())


def test_fit_changed_the_allocator_of_the_host_process(monkeypatch) -> None:
    opened = ctypes.CDLL

    def watched(name: str | None = None, *arguments: Any, **options: Any) -> ctypes.CDLL:
        assert name != "libc.so.6", "the allocator is the host's own"
        return opened(name, *arguments, **options)

    monkeypatch.setattr("ctypes.CDLL", watched)
    keep_freed_memory.cache_clear()
    quick(max_iter=2).fit(X, Y)


FAULTS = """
import resource
import numpy as np
from sepgp import GPClassifier

faults = []
X = np.random.default_rng(0).normal(size=(4_000, 8))
note = lambda record: faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
how = {{"n_inducing": {m}, "batch_size": 2_000, "max_iter": {steps}, "callbacks": [note]}}
GPClassifier(**how).fit(X, X[:, 0] > 0)
print(np.median(np.diff(faults[5:])))
"""


@pytest.mark.process
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other rules")
@pytest.mark.parametrize(("m", "steps"), [(200, 30), (800, 12)])
def test_every_step_mapped_and_cleared_its_memory_anew(m, steps) -> None:
    """A matrix of 200 × 2,000 numbers is 781 pages of memory, and a step has some thirty.

    With 200 points it was one process of thirty even where glibc had learned to keep some, and with
    800 every one.
    """
    command = [sys.executable, "-c", FAULTS.format(m=m, steps=steps)]
    assert float(subprocess.run(command, capture_output=True, check=True).stdout) < 100


@pytest.mark.parametrize(
    ("settings", "dtype", "jitter", "match"),
    [
        ({}, torch.float64, 1e-6, "log Z_q or its gradient was not finite; lower learning_rate"),
        ({}, torch.float64, 0.1, "the kernel's covariances could not be factorised; lower"),
        (
            {"standardize": False},
            torch.float64,
            1e-6,
            "set standardize=True or lower learning_rate",
        ),
        ({}, torch.float32, 1e-6, "use dtype='float64' or lower learning_rate"),
    ],
)
def test_many_rejected_steps_were_told_to_the_log_alone(settings, dtype, jitter, match) -> None:
    history = [
        Record(step, 0.1, 1.0, -1.0, 0.1, jitter, 0, step < 6, 4, np.nan) for step in range(100)
    ]
    with pytest.warns(
        UserWarning, match=rf"6 of 100 steps were rejected, because .*{match}"
    ) as said:
        warn_of_rejected(Settings(**settings), history, dtype)
    assert_one_sentence(str(said[0].message))
    # Five are few enough.
    warn_of_rejected(Settings(**settings), [*history[1:], history[-1]], dtype)


@pytest.mark.parametrize(
    ("settings", "n_rows", "expected"),
    [
        ({}, 9_999, torch.float64),
        ({}, 10_000, torch.float32),
        ({"batch_size": 20_000}, 20_000, torch.float64),
        ({"batch_size": 20_000}, 20_001, torch.float32),
        ({"standardize": False}, 10**6, torch.float64),
        ({"dtype": "float64"}, 10**6, torch.float64),
        ({"dtype": "float32"}, 2_001, torch.float32),
        ({"dtype": "float32"}, 2_000, torch.float64),
    ],
)
def test_minibatches_of_many_rows_are_in_float32(settings, n_rows, expected) -> None:
    assert Settings(**settings).row_dtype(n_rows) == expected


def test_dtype_auto_trains_and_predicts_as_float32_does() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 2))
    y = X[:, 0] + rng.normal(size=len(X)) > 0
    settings = {"max_iter": 5, "n_inducing": 10, "validation_fraction": 0.0, "random_state": 0}
    auto, float32, float64 = (
        GPClassifier(dtype=dtype, **settings).fit(X, y) for dtype in ("auto", "float32", "float64")
    )
    assert auto.model_.dtype == torch.float32
    assert_array_equal(auto.predict_proba(X), float32.predict_proba(X))
    assert (auto.predict_proba(X) != float64.predict_proba(X)).any()
    assert_allclose(auto.predict_proba(X), float64.predict_proba(X), atol=1e-4)
