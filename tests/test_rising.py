"""Log Z_q of batch SEP rises: moves that let it fall are taken back."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from quick import blobs, quick

from sepgp.training import schedule
from sepgp.training.monitor import Monitor
from sepgp.training.record import Record
from sepgp.training.schedule import FREE_STEPS, SETTLING, Schedule
from sepgp.training.step import RECOVERY, Engine

X, Y = blobs(60, 4)


def record(number, log_evidence):
    return Record(number, 0.0, 0.0, log_evidence, 0.1, 0.0, 0, False, 0, math.nan)


def numbers(model):
    columns = (value for name, value in model.history_.items() if name != "seconds")
    return np.column_stack([*columns])


def deepest_fall(model):
    values = model.history_["log_evidence"]
    later = values[FREE_STEPS:]
    return (np.maximum.accumulate(later) - later).max() / np.ptp(values)


def least_seen(monkeypatch, labels=Y, **setting):
    """What the steps of a training were asked for at least."""
    step, seen = Engine.step, []

    def watched(self, *args, least=None, **others):
        seen.append(least)
        return step(self, *args, least=least, **others)

    monkeypatch.setattr(Engine, "step", watched)
    quick(**{"max_iter": FREE_STEPS + 5} | setting).fit(X, labels)
    return set(seen)


def scripted(monkeypatch, *values):
    """Ask the steps of a training for these; in the first one ξ does not move."""
    following = iter(values)
    monkeypatch.setattr(Schedule, "least_evidence", lambda self, history: next(following))


def test_after_the_first_steps_log_evidence_may_not_fall() -> None:
    history = [record(number, -100.0 + number) for number in range(1, FREE_STEPS + 2)]
    rising = Schedule(100, None, 0.2, True, None, False, rising=True)
    assert rising.least_evidence(history[:-1]) is None
    assert rising.least_evidence(history) == -69.0
    assert replace(rising, rising=False).least_evidence(history) is None


def test_inducing_points_move_at_a_tenth_of_the_rate_after_the_first_steps() -> None:
    rising = Schedule(100, None, 0.2, True, None, False, rising=True)
    assert rising.rates(50, 0.5, 0.5, minibatches=False) == pytest.approx((0.1, 0.1))
    assert rising.rates(1, 0.5, 0.5, minibatches=False) == pytest.approx((0.1, 1.0))
    plain = replace(rising, rising=False)
    assert plain.rates(50, 0.5, 0.5, minibatches=False) == pytest.approx((0.1, 1.0))


def test_the_last_of_the_first_steps_let_the_site_catch_up(monkeypatch) -> None:
    step, moved = Engine.step, []

    def watched(self, state, *args, **others):
        following, info = step(self, state, *args, **others)
        moved.append(not torch.equal(following.xi, state.xi))
        assert not following.rate < 1 or info.fell
        assert torch.equal(following.last_xi, state.xi) or info.fell
        return following, info

    monkeypatch.setattr(Engine, "step", watched)
    quick(max_iter=FREE_STEPS + 2).fit(X, Y)
    # In the first step no site has a say yet, and a gradient is 0.
    free = FREE_STEPS - SETTLING - 1
    assert moved[: FREE_STEPS + 1] == [False] + [True] * free + [False] * SETTLING + [True]
    moved.clear()
    quick(max_iter=FREE_STEPS + 2, method="ep").fit(X, Y)
    assert moved[: FREE_STEPS + 1] == [False] + [True] * FREE_STEPS


def test_a_move_that_lets_log_evidence_fall_is_taken_back(monkeypatch) -> None:
    scripted(monkeypatch, None, None, math.inf, math.inf, -math.inf)
    step, states, infos = Engine.step, [], []

    def watched(self, state, *args, **others):
        following, info = step(self, state, *args, **others)
        states.append((state, following))
        infos.append(info)
        return following, info

    monkeypatch.setattr(Engine, "step", watched)
    model = quick(max_iter=5).fit(X, Y)
    # Where ξ has just come back to it stays, whatever log Z_q is there with newer sites.
    assert [info.fell for info in infos] == [False, False, True, False, False]
    before, after = states[2]
    assert torch.equal(after.xi, states[1][0].xi)
    assert not torch.equal(after.xi, before.xi)
    assert torch.equal(after.sites.Lambda, before.sites.Lambda)
    assert after.optimizer.steps == 0
    assert [after.rate for _, after in states[1:4]] == [1.0, 0.5, 0.5 * RECOVERY]
    shown = model.history_["log_evidence"]
    assert shown[2] == shown[1] != float(infos[2].log_evidence)
    assert shown[3] == float(infos[3].log_evidence)
    assert not model.history_["rejected"].any()


def test_held_out_rows_see_the_parameters_that_were_come_back_to(monkeypatch) -> None:
    scripted(monkeypatch, None, None, math.inf)
    measure, seen = Monitor.measure, []

    def watched(self, best, iteration, xi, sites):
        seen.append((xi, sites))
        return measure(self, best, iteration, xi, sites)

    monkeypatch.setattr(Monitor, "measure", watched)
    monkeypatch.setattr(Monitor, "due", lambda self, iteration, max_iter: True)
    quick(max_iter=3, validation_fraction=0.3).fit(X, Y)
    (xi, sites), (again, same) = seen[1:]  # the last step took the move of the second one back
    assert torch.equal(again, xi)
    assert torch.equal(same.b, sites.b)


def test_log_evidence_of_batch_sep_swung() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(80, 3))
    labels = (rows[:, 0] * rows[:, 1] + 0.3 * random.normal(size=80)) > 0
    model = quick(n_inducing=20, max_iter=150).fit(rows, labels)
    assert deepest_fall(model) < 0.01  # 0.27 without this


@pytest.mark.parametrize("setting", [{"batch_size": 20}, {"method": "ep"}, {"method": "adf"}])
def test_other_trainings_are_left_alone(setting, monkeypatch) -> None:
    assert least_seen(monkeypatch, **setting) == {None}


def test_the_rule_of_the_authors_and_many_classes_are_left_alone(monkeypatch) -> None:
    assert least_seen(monkeypatch, optimizer="sign") == {None}
    assert least_seen(monkeypatch, labels=np.arange(60) % 3) == {None}


def test_short_trainings_are_free(monkeypatch) -> None:
    assert least_seen(monkeypatch, max_iter=FREE_STEPS) == {None}


def test_sites_go_on_where_there_is_nothing_to_learn(monkeypatch) -> None:
    """A refinement of the sites may lower log Z_q, and is not taken back."""
    monkeypatch.setattr(Schedule, "least_evidence", lambda self, history: math.inf)
    held = quick(learn_kernel=False, learn_inducing=False).fit(X, Y)
    assert len(set(held.history_["log_evidence"])) == 20


def test_a_continued_run_takes_the_same_moves_back(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(schedule, "FREE_STEPS", 3)
    setting = {"max_iter": 20, "learning_rate": 1.0}
    whole = quick(**setting).fit(X, Y)
    back = np.flatnonzero(np.diff(whole.history_["log_evidence"]) == 0) + 1
    assert len(back)

    class Crash(Exception):
        pass

    def crash(seen):
        if seen.iteration == back[0] + 2:  # the step after the first move taken back
            raise Crash

    path = tmp_path / "run.ckpt"
    with pytest.raises(Crash):
        quick(**setting, checkpoint=path, checkpoint_every=0, callbacks=[crash]).fit(X, Y)
    continued = quick(**setting, checkpoint=path, checkpoint_every=0).fit(X, Y)
    assert_array_equal(numbers(continued), numbers(whole))
