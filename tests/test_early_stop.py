"""Early stopping: when training ends, and how."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from quick import blobs, quick

from sepgp.training.early_stop import COOLDOWN, PATIENCE, EarlyStop
from sepgp.training.monitor import Monitor
from sepgp.training.record import Record
from sepgp.training.schedule import Schedule

X, Y = blobs(200)
SETTING = {"validation_fraction": 0.3, "batch_size": 40, "max_iter": 200}


def record(number, nll=math.nan, seconds=0.0):
    return Record(number, seconds, 0.0, 0.0, 0.1, 0.0, 0, False, 0, nll)


def schedule(max_iter=1000, time_budget=None, early_stopping=True):
    return Schedule(max_iter, time_budget, 0.2, True, None, early_stopping)


def turn(values, plan):
    """The part of the training by which the end came nearer; None if it never did."""
    early = EarlyStop(plan)
    for number in range(1, 1001):
        value = values[number // 50 - 1] if number % 50 == 0 else math.nan
        early.see(number, record(number, value, seconds=number / 100))
        if early.done(0.0, 10**6) > 0:
            return number / 1000
    return None


@pytest.mark.parametrize("plan", [schedule(), schedule(None, 10.0)], ids=["steps", "seconds"])
def test_a_fifth_of_the_training_without_a_gain_brings_the_end_nearer(plan):
    assert turn(np.linspace(0.6, 0.4, 20), plan) is None
    flat = np.full(20, 0.4)
    assert turn(flat, plan) == 0.05 + PATIENCE
    assert turn(np.r_[np.linspace(0.6, 0.4, 10), flat[:10]], plan) == 0.5 + PATIENCE
    rising = np.r_[np.linspace(0.6, 0.4, 10), np.linspace(0.41, 0.5, 10)]
    assert turn(rising, plan) == 0.5 + PATIENCE
    assert turn(0.4 - 1e-5 * np.arange(20), plan) == 0.05 + PATIENCE  # less than counts


def test_a_short_training_is_not_ended_early():
    """The first steps may gain nothing yet."""
    early = EarlyStop(schedule(60))
    for number in range(1, 51):
        early.see(number, record(number, 0.4))
    assert early.done(0.5, 51) == 0.5
    early.see(51, record(51, 0.4))
    assert early.done(0.5, 53) > 0.5


def test_early_stopping_can_be_switched_off():
    assert turn(np.full(20, 0.4), schedule(early_stopping=False)) is None


def test_the_rate_falls_to_zero_all_the_same():
    plan = schedule()
    early = EarlyStop(plan)
    for number in range(1, 401):
        early.see(number, record(number, 0.4 if number % 200 == 0 else math.nan))
    done = [early.done(number / 1000, number) for number in range(400, 501)]
    assert done[0] == 0.4
    assert done[-1] == 1.0  # 400 · COOLDOWN steps later
    assert COOLDOWN * 400 == 100
    rates = [plan.rates(n, part, n / 1000, minibatches=True) for n, part in enumerate(done, 400)]
    rate, share = zip(*rates, strict=True)
    assert list(rate) == sorted(rate, reverse=True)
    assert rate[-1] == 0.0
    assert set(share) == {share[0]}


@pytest.fixture
def flat(monkeypatch):
    """Held-out rows that gain nothing."""
    monkeypatch.setattr(Monitor, "_nll", lambda *_: 0.5)


def test_a_training_that_gains_nothing_ends_early(flat):
    model = quick(**SETTING).fit(X, Y)
    assert model.n_iter_ == 75  # 10 + 50, and a quarter of these
    assert model.history_["learning_rate"][-1] == 0.0
    assert (np.diff(model.history_["learning_rate"]) <= 0).all()
    assert quick(**SETTING, early_stopping=False).fit(X, Y).n_iter_ == 200


def test_without_held_out_rows_nothing_stops_early():
    assert quick(max_iter=100).fit(X, Y).n_iter_ == 100


@pytest.mark.parametrize("stop", [8, 59, 61, 70])
def test_a_run_that_stops_early_goes_on_to_the_bit(stop, flat, tmp_path):
    whole = quick(**SETTING).fit(X, Y)
    path = tmp_path / "run.ckpt"
    halted = quick(**SETTING, checkpoint=path, callbacks=[lambda r: r.iteration == stop])
    assert halted.fit(X, Y).n_iter_ == stop + 1
    resumed = quick(**SETTING, checkpoint=path).fit(X, Y)
    for name in ("iteration", "learning_rate", "log_evidence", "validation_nll"):
        assert_array_equal(resumed.history_[name], whole.history_[name])
    assert torch.equal(resumed.model_.sites.Lambda, whole.model_.sites.Lambda)
    assert quick(**SETTING, checkpoint=path).fit(X, Y).n_iter_ == whole.n_iter_
