"""Workers that are killed, late or new, and schedulers that go away."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import pytest
from numpy.testing import assert_allclose
from quick import assert_one_sentence
from rounds import fit_in_rounds, options, partitions, sines

from sepgp.backends.cluster import Cluster
from sepgp.dask import DaskGPClassifier
from sepgp.errors import ClusterLost
from sepgp.training.fit import Run
from sepgp.training.record import Record

pytestmark = [pytest.mark.slow, pytest.mark.process]

X, Y = sines(400)
ROWS, LABELS = da.from_array(X, chunks=(50, 3)), da.from_array(Y, chunks=50)
KILLS = 5


@pytest.fixture
def cluster() -> Iterator[distributed.LocalCluster]:
    """Two processes of one thread each, which are started again when they die."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster


class Killer:
    """A callback that kills a worker at random moments of the rounds, five times in all."""

    def __init__(self, client: distributed.Client, seed: int) -> None:
        self._client, self._random = client, random.Random(seed)
        self.killed: list[tuple[int, int]] = []
        self._next = 3
        self._timer: threading.Thread | None = None

    def __call__(self, record: Record) -> None:
        """Let a worker die a little later, while the next round or the one after it is going on."""
        rounds = record.iteration // 4
        if rounds < self._next or len(self.killed) == KILLS:
            return
        if self._timer is not None:
            self._timer.join()
        self._next = rounds + 2
        self._client.wait_for_workers(2, timeout=60)
        pids = list(self._client.run(os.getpid).values())
        victim, delay = self._random.choice(pids), self._random.uniform(0, 0.08)
        self._timer = threading.Thread(target=self._kill, args=(victim, delay, rounds))
        self._timer.start()

    def _kill(self, victim: int, delay: float, rounds: int) -> None:
        time.sleep(delay)
        os.kill(victim, signal.SIGKILL)
        self.killed.append((rounds, victim))


def test_workers_that_are_killed_change_no_number(cluster) -> None:
    settings = options(X, max_iter=81, validation_fraction=0.2)
    alone = fit_in_rounds(partitions(X, Y, 8), 4, **settings)
    with distributed.Client(cluster, set_as_default=False) as client:
        killer = Killer(client, seed=1)
        plan = {"client": client, "n_parts": 4, "local_steps": 4, "callbacks": [killer]}
        model = DaskGPClassifier(**settings, **plan, random_state=0).fit(ROWS, LABELS).model_
    rounds = [number for number, _ in killer.killed]
    assert len(set(killer.killed)) == KILLS
    assert rounds[0] >= 3
    assert rounds[-1] < len(model.history["iteration"]) - 1, "a worker was killed after the end"
    assert_allclose(model.probabilities(X), alone.probabilities(X), rtol=1e-10)
    for name in ("log_evidence", "validation_nll"):
        assert_allclose(model.history[name], alone.history[name], rtol=1e-10)


def test_a_worker_that_joins_is_used(cluster) -> None:
    settings = options(X, max_iter=61)
    alone = fit_in_rounds(partitions(X, Y, 8), 4, **settings)
    with distributed.Client(cluster, set_as_default=False) as client:
        before = set(client.nthreads())

        def join(record: Record) -> None:
            if record.iteration == 12:
                cluster.scale(3)
                client.wait_for_workers(3, timeout=60)

        plan = {"client": client, "n_parts": 4, "local_steps": 4, "callbacks": [join]}
        model = DaskGPClassifier(**settings, **plan, random_state=0).fit(ROWS, LABELS)
        done = client.run(lambda dask_worker: dask_worker.state.executed_count)
    (new,) = set(done) - before
    assert done[new] >= 10  # of twelve rounds that were left
    assert_allclose(model.predict_proba(X), alone.probabilities(X), rtol=1e-10)


class Rescue:
    """A process that stands still for a minute at most: if others wait, the test fails then."""

    def __init__(self, process: int) -> None:
        self._process, self.was_needed = process, False
        self._timer = threading.Timer(60, self._go_on)

    def stop(self) -> None:
        os.kill(self._process, signal.SIGSTOP)
        self._timer.start()

    def end(self) -> None:
        self._timer.cancel()
        os.kill(self._process, signal.SIGCONT)

    def _go_on(self) -> None:
        self.was_needed = True
        os.kill(self._process, signal.SIGCONT)


def test_an_answer_on_a_worker_that_stood_still_was_waited_for(cluster) -> None:
    with distributed.Client(cluster, set_as_default=False) as client:
        backend = Cluster(client)
        backend.place(2)
        calls = [backend.call("process", os.getpid, part=part) for part in (0, 1)]
        handles = backend.keep(calls)
        one, other = backend.results(handles)
        assert one != other
        rescue = Rescue(one)
        rescue.stop()
        try:
            come = backend.first(handles, 1)
            waited = rescue.was_needed
        finally:
            rescue.end()
        assert come == {1: other}
        assert not waited
        # It was asked for once, and comes when its worker goes on.
        assert backend.first(handles[:1], 1) == {0: one}


def test_a_part_that_is_late_does_not_hold_up_the_others(cluster) -> None:
    with distributed.Client(cluster, set_as_default=False) as client:
        stopped = next(iter(client.run(os.getpid).values()))
        waited = list[bool]()
        rescue = Rescue(stopped)

        def hold(record: Record) -> None:
            """One worker stands still for three rounds."""
            if record.iteration == 8:
                rescue.stop()
            if record.iteration == 20:
                waited.append(rescue.was_needed)
                rescue.end()

        settings = options(X, max_iter=61, n_factors="part")
        plan = {"client": client, "n_parts": 4, "local_steps": 4, "quorum": 0.5}
        model = DaskGPClassifier(**settings, **plan, callbacks=[hold], random_state=0)
        model.fit(ROWS, LABELS)
    assert waited == [False]
    # Four parts of a hundred rows take a batch of fifty in each step: half an epoch, at most.
    assert 0.25 * 61 <= model.history_["epoch"][-1] < 0.5 * 61
    assert model.score(X, Y) > 0.8


# --- the scheduler ------------------------------------------------------------------------------


@pytest.fixture
def processes(tmp_path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A scheduler and a worker as commands, and the file that says where the scheduler is."""
    file = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        [*command, "--no-dashboard", "--scheduler-file", str(file)], **quiet
    )
    command = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1"]
    worker = subprocess.Popen(
        [*command, "--no-nanny", "--no-dashboard", "--scheduler-file", str(file)], **quiet
    )
    yield scheduler, file
    for process in (scheduler, worker):
        process.kill()
        process.wait()


def test_a_scheduler_that_goes_away_is_one_sentence_and_a_run_goes_on_elsewhere(
    processes, tmp_path
) -> None:
    settings = options(X, max_iter=41)
    whole = fit_in_rounds(partitions(X, Y, 8), 2, **settings)
    scheduler, file = processes

    def leave(record: Record) -> None:
        if record.iteration == 20:
            scheduler.kill()

    checkpoint = tmp_path / "run"
    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        client = distributed.Client(scheduler_file=str(file), set_as_default=False, timeout=60)
        client.wait_for_workers(1, timeout=60)
        plan = {"client": client, "n_parts": 2, "local_steps": 4, "callbacks": [leave]}
        model = DaskGPClassifier(**settings, **plan, random_state=0, checkpoint=checkpoint)
        with pytest.raises(ClusterLost, match="scheduler does not answer any more") as raised:
            model.fit(ROWS, LABELS)
        client.close(timeout=2)
    assert_one_sentence(str(raised.value))
    assert model.history_["iteration"][-1] == 20
    assert model.score(X, Y) > 0.7
    # In one process, and with the number of parts that the run had.
    run = Run(random_state=0, checkpoint=checkpoint)
    resumed = fit_in_rounds(partitions(X, Y, 8), None, run=run, **settings)
    assert_allclose(resumed.probabilities(X), whole.probabilities(X), rtol=1e-10)
    assert len(resumed.history["iteration"]) == len(whole.history["iteration"])
