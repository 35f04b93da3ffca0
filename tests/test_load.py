"""Many models at once, in threads and processes, and for long: the same answers as alone."""

import gc
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest
import torch
from numpy.testing import assert_array_equal
from quick import METHODS, blobs, quick

import sepgp
from sepgp.errors import NotEnoughMemory

X, Y = blobs(120)
resource = pytest.importorskip("resource")  # which Windows has not
SPAWN = multiprocessing.get_context("spawn")


def answers(number: int):
    """Probabilities of one of many different models."""
    settings = {"method": METHODS[number % 3], "random_state": number, "n_inducing": 5 + number}
    return quick(**settings).fit(X, Y).predict_proba(X)


@pytest.mark.slow
def test_models_that_are_trained_at_once_in_threads_are_as_alone() -> None:
    alone = [answers(number) for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(answers, range(6)))
    for one, other in zip(alone, together, strict=True):
        assert_array_equal(one, other)


def test_predictions_during_partial_fit_are_of_the_model_before_or_after() -> None:
    model = quick(max_iter=5).partial_fit(X[:40], Y[:40])
    seen = [model.predict_proba(X).tobytes()]
    found: set[bytes] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            found.add(model.predict_proba(X).tobytes())

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for begin in (40, 60, 80, 100):
            model.partial_fit(X[begin : begin + 20], Y[begin : begin + 20])
            seen.append(model.predict_proba(X).tobytes())
    finally:
        done.set()
        watcher.join()
    assert found <= set(seen)


@pytest.mark.slow
def test_a_thousand_times_saved_and_loaded_leaks_nothing(tmp_path) -> None:
    model, path, process = quick(n_inducing=20).fit(X, Y), tmp_path / "model", psutil.Process()
    used = []
    for number in range(1000):
        model.save(path)
        model = sepgp.load(path)
        if number in (200, 999):
            gc.collect()
            used.append((process.memory_info().rss, process.num_fds(), threading.active_count()))
    assert used[1][0] - used[0][0] < 10e6
    assert used[1][1:] == used[0][1:]
    assert os.listdir(tmp_path) == ["model"]


def test_a_wall_clock_that_jumps_changes_nothing(monkeypatch) -> None:
    expected, jumps = quick(time_budget=60.0).fit(X, Y), iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: (-1) ** next(jumps) * 1e9)
    jumping = quick(time_budget=60.0).fit(X, Y)
    assert jumping.n_iter_ == expected.n_iter_ == 20
    assert (np.diff(jumping.history_["seconds"]) >= 0).all()


def train_with_little_memory(answer, room: int) -> None:
    torch.set_num_threads(1)
    rows, labels = blobs(200_000, d=20)
    limit = psutil.Process().memory_info().vms + room
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        quick(method="ep", n_inducing=200, batch_size=2000, inducing="random").fit(rows, labels)
    except NotEnoughMemory as error:
        answer.send(str(error))
    else:
        answer.send("")


@pytest.mark.process
@pytest.mark.parametrize(
    ("room", "said"), [(300, "EP needs 0.3 GB"), (50, "This process may have")]
)
def test_a_limit_of_memory_ends_in_a_sentence(room, said) -> None:
    receiver, sender = SPAWN.Pipe(duplex=False)
    process = SPAWN.Process(target=train_with_little_memory, args=(sender, room * 2**20))
    process.start()
    sender.close()
    try:
        assert said in receiver.recv()
    finally:
        process.join()


def train_until_told(answer, path: str) -> None:
    torch.set_num_threads(1)
    answer.send(os.getpid())
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    told: list[int] = []
    model = quick(max_iter=10**6, callbacks=[lambda record: bool(told)]).fit(X, Y)
    model.save(path)
    answer.send(model.n_iter_)


@pytest.mark.process
def test_a_signal_during_fit_keeps_what_was_learned(tmp_path) -> None:
    receiver, sender = SPAWN.Pipe(duplex=False)
    path = str(tmp_path / "model.sepgp")
    process = SPAWN.Process(target=train_until_told, args=(sender, path))
    process.start()
    sender.close()
    pid = receiver.recv()
    time.sleep(1)
    os.kill(pid, signal.SIGTERM)
    steps = receiver.recv()
    process.join()
    assert 1 < steps < 10**6
    assert sepgp.load(path).n_iter_ == steps
