"""Threads: as many as are fastest, never more than allowed, and the host's setting comes back."""

import multiprocessing
import os
import signal
import threading
import time

import joblib
import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from sepgp import GPClassifier
from sepgp.threads import SHARE, Threads, allowed, given_up, numpy_by_one, spread, using

QUIET = {1: 1.0, 2: 0.6, 4: 0.4, 8: 0.5}
"""Seconds of a step by the number of threads, on a machine with four free cores."""
BUSY = {1: 1.6, 2: 8.0, 4: 20.0, 8: 40.0}


def run(threads: Threads, cost: dict[int, float], steps: int) -> float:
    """The seconds that so many steps take."""
    total = 0.0
    for _ in range(steps):
        seconds = cost[threads.now]
        threads.see(seconds)
        total += seconds
    return total


@pytest.mark.parametrize(("limit", "best"), [(1, 1), (2, 2), (4, 4), (8, 4)])
def test_the_fastest_number_is_found(limit: int, best: int) -> None:
    threads = Threads(limit)
    run(threads, QUIET, 30)
    assert threads.count == best


def test_a_short_run_had_most_of_its_steps_in_one_thread_or_in_tries() -> None:
    steps, best = 15, QUIET[2]
    threads = Threads(2)
    run(threads, QUIET, 1)
    assert run(threads, QUIET, steps) <= steps * best + (QUIET[1] - best)


def test_a_first_step_that_was_disturbed_does_not_decide_for_long() -> None:
    slower = {1: 1.0, 2: 1.1}
    threads = Threads(2)
    run(threads, slower, 1)
    threads.see(100.0)
    run(threads, slower, 100)
    assert threads.count == 1


def test_trying_costs_little() -> None:
    for limit in (2, 4, 8):
        threads = Threads(limit)
        run(threads, QUIET, 30)
        assert run(threads, QUIET, 1000) < 1000 * QUIET[threads.count] * (1 + 2 * SHARE)


def test_trying_costs_little_on_a_busy_machine() -> None:
    assert run(Threads(8), BUSY, 1000) < 1000 * BUSY[1] * (1 + 2 * SHARE)


def test_the_number_follows_the_machine() -> None:
    threads = Threads(4)
    for cost, best in ((QUIET, 4), (BUSY, 1), (QUIET, 4)):
        run(threads, cost, 2000)
        assert threads.count == best


def test_threads_that_became_slow_were_kept_until_a_try_was_paid_for() -> None:
    """Right after a try of one thread, when the next is far away, another program takes a core."""
    threads = Threads(2)
    run(threads, QUIET, 1000)
    while threads.now == 2:
        run(threads, QUIET, 1)
    while threads.now == 1:
        run(threads, QUIET, 1)
    run(threads, BUSY, 7)
    assert threads.count == 1


def test_two_threads_were_tried_while_one_had_to_wait_for_its_core() -> None:
    threads = Threads(2)
    for _ in range(30):
        assert threads.now == 1
        threads.see(1.0, waited=0.3)
    for _ in range(10):  # the machine is quiet again
        threads.see(QUIET[threads.now])
    assert threads.count == 2


def test_a_thread_that_always_waits_tries_two_in_the_end() -> None:
    threads = Threads(2)
    for _ in range(3000):
        threads.see(QUIET[threads.now], waited=0.3 * QUIET[threads.now])
    assert threads.count == 2


def test_short_steps_are_watched_before_two_threads_are_tried() -> None:
    threads, steps = Threads(2), 0
    while threads.now == 1:
        threads.see(0.004)
        steps += 1
    assert steps > 10


def test_time_without_a_core_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(Threads, "see", lambda self, *seconds: seen.append(seconds))
    with Threads(2).timed():
        sum(range(10**6))
    with Threads(2).timed():
        time.sleep(0.2)
    (worked, waited), (slept, idle) = seen
    assert waited < worked
    assert idle > 0.19
    assert idle <= slept


def test_never_more_than_the_limit() -> None:
    threads, seen = Threads(3), set()
    for _ in range(500):
        seen.add(threads.now)
        threads.see(1 / threads.now)
    assert seen == {1, 2, 3}
    assert threads.count == 3


def test_what_was_set_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with using(3):
        with pytest.raises(KeyError), using(2):
            {}[torch.get_num_threads()]
        assert torch.get_num_threads() == 3
        monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
        assert allowed() == 2
        X = np.random.RandomState(0).randn(60, 2)
        model = GPClassifier(n_inducing=5, max_iter=12).fit(X, X[:, 0] > 0)
        assert torch.get_num_threads() == 3
        model.predict_proba(np.tile(X, (2000, 1)))
        assert torch.get_num_threads() == 3


def numpys_threads() -> set[int]:
    """How many threads NumPy's products may have."""
    pools = threadpool_info()
    return {pool["num_threads"] for pool in pools if pool["prefix"] == "libscipy_openblas"}


def test_on_a_busy_machine_numpys_threads_waited_for_each_other() -> None:
    seen = []
    X = np.random.RandomState(0).randn(60, 2)
    with threadpool_limits(2, user_api="blas"):
        model = GPClassifier(
            n_inducing=5, max_iter=2, callbacks=[lambda _: seen.append(numpys_threads())]
        )
        model.fit(X, X[:, 0] > 0)
        assert numpys_threads() == {2}
        model.partial_fit(X, X[:, 0] > 0)
        assert numpys_threads() == {2}
    assert len(seen) > 2
    assert all(threads == {1} for threads in seen)


def test_numpys_threads_come_back_after_the_last_of_two_fits() -> None:
    begun, first_has_ended = threading.Event(), threading.Event()

    def second() -> None:
        with numpy_by_one():
            begun.set()
            first_has_ended.wait(20)

    with threadpool_limits(2, user_api="blas"):
        other = threading.Thread(target=second)
        with numpy_by_one():
            other.start()
            assert begun.wait(20)
        assert numpys_threads() == {1}
        first_has_ended.set()
        other.join()
        assert numpys_threads() == {2}


def test_pieces_are_spread_over_workers_with_one_thread_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
    both, seen = threading.Barrier(2, timeout=20), []

    def work(piece: int) -> None:
        both.wait()  # so both workers have begun
        seen.append((piece, torch.get_num_threads(), threading.current_thread().name))

    with using(2):
        spread(work, [1, 2])
        assert torch.get_num_threads() == 2
    assert sorted(piece for piece, *_ in seen) == [1, 2]
    assert {count for _, count, _ in seen} == {1}
    assert len({name for *_, name in seen}) == 2


def test_a_fault_in_a_piece_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
    with using(2), pytest.raises(ZeroDivisionError):
        spread(lambda piece: print(1 / piece), [1, 0])


def test_predictions_are_the_same_in_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.RandomState(0)
    X = rng.randn(20_000, 3)
    model = GPClassifier(n_inducing=40, max_iter=5, random_state=0).fit(X[:300], X[:300, 0] > 0)
    alone = model.predict_proba(X)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
    with using(2):
        np.testing.assert_array_equal(model.predict_proba(X), alone)
        assert (model.predict(X) == model.classes_[alone.argmax(1)]).all()


def _child(model: GPClassifier, X: np.ndarray, results: object) -> None:
    fitted = GPClassifier(n_inducing=20, max_iter=30, random_state=0).fit(X, X[:, 0] > 0)
    results.put((allowed(), float(abs(model.predict_proba(X) - fitted.predict_proba(X)).max())))


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_fits_and_predicts_after_a_fit_with_two_threads() -> None:
    X = np.random.RandomState(0).randn(4000, 5)
    with using(2):
        torch.randn(500, 500) @ torch.randn(500, 500)
        model = GPClassifier(n_inducing=20, max_iter=30, random_state=0).fit(X, X[:, 0] > 0)
        context = multiprocessing.get_context("fork")
        results = context.SimpleQueue()
        child = context.Process(target=_child, args=(model, X, results))
        child.start()
        child.join(60)
        alive = child.is_alive()
        child.kill()
    assert not alive, "the child hangs"
    threads, difference = results.get()
    assert threads == 1
    assert difference < 1e-8


def test_ctrl_c_waited_for_the_work_of_all_workers(monkeypatch) -> None:
    monkeypatch.setattr("sepgp.threads.allowed", lambda: 2)
    ended = []

    def work(piece: int) -> None:
        until = time.monotonic() + 20
        while not given_up() and time.monotonic() < until:
            time.sleep(0.01)
        ended.append(given_up())

    main = threading.main_thread().ident
    threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        spread(work, range(4))
    assert ended == [True, True]
    assert not given_up()
    spread(lambda piece: ended.append(given_up()), range(2))
    assert ended[2:] == [False, False]
