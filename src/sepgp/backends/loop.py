"""The loop around the rounds: how many steps a round has, who has answered, and when it ends."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sepgp.backends.backend import Backend, Handle, added, itself, tree_sum
from sepgp.backends.rounds import Answer, Leader, work
from sepgp.errors import ClusterLost, InvalidParameter
from sepgp.training.checkpoint import Checkpoint
from sepgp.training.early_stop import EarlyStop
from sepgp.training.monitor import Monitor
from sepgp.training.record import Callback, Record
from sepgp.training.schedule import Schedule, seconds_per_step
from sepgp.training.settings import at_least
from sepgp.training.step import TrainingState

LOCAL_STEPS = 10
"""Steps in a round, unless told otherwise: so many that sending the state takes little of it."""
FEW = 4
"""Up to so many parts get the state, and answer, one by one. More of them pass the state on and add
in a tree: more messages after each other, but no machine that all of them wait for."""


class Plan(NamedTuple):
    """How the work is shared out."""

    n_parts: int | None = None
    """Parts of the rows; None for as many as can be worked on at the same time."""
    local_steps: int = LOCAL_STEPS
    """Steps that a part takes between two rounds."""
    quorum: float = 1.0
    """The share of the parts that must have answered before a round ends."""

    def check(self) -> None:
        """Refuse what cannot be used."""
        if self.n_parts is not None:
            at_least("n_parts", self.n_parts, 1, whole=True)
        at_least("local_steps", self.local_steps, 1, whole=True)
        at_least("quorum", self.quorum, 0)
        if not 0 < self.quorum <= 1:
            raise InvalidParameter(
                f"quorum={self.quorum!r} must be a number above 0 and at most 1."
            )


@dataclass
class Rounds:
    """Parts of the rows on a backend, and those of them that have not answered yet.

    An answer that comes late counts in the round in which it comes, and its part gets no new work
    until then, so that nothing counts twice.
    """

    backend: Backend
    leader: Leader
    parts: Sequence[Handle]
    quorum: float
    _busy: dict[int, Handle] = field(default_factory=dict)
    _last: list[Handle] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.backend.place(len(self.parts))
        self._shared: Handle = self.leader
        if self.quorum == 1:
            (self._shared,) = self.backend.keep([self.backend.call("plan", itself, self.leader)])

    def go(
        self, state: TrainingState, rates: Sequence[tuple[float, float]], quorum: float
    ) -> Answer:
        """The sum of what a round brings, once a share of all parts has answered."""
        self._ask(state, rates)
        self.backend.place(len(self.parts))  # for the next round, while the parts are at work
        asked = sorted(self._busy)
        handles = [self._busy[part] for part in asked]
        if self._one_by_one:
            count = max(1, math.ceil(quorum * len(self.parts) - 1e-9))
            answers = self.backend.first(handles, count)
            total = added(*answers.values())
        else:
            answers = dict.fromkeys(range(len(asked)))
            total = tree_sum(self.backend, "add-sums", handles)
        self._last = [self._busy.pop(asked[place]) for place in answers]
        assert isinstance(total, Answer)
        return total

    @property
    def _one_by_one(self) -> bool:
        """Whether parts deal with whoever leads alone: nothing waits then for one that is late.

        For the same reason the plan goes with every task if some may be late: of a value that is
        kept, Dask leaves one copy, on a worker that may stand still.
        """
        return self.quorum < 1 or len(self.parts) <= FEW

    def _ask(self, state: TrainingState, rates: Sequence[tuple[float, float]]) -> None:
        """Let all parts begin that are not at work."""
        task: Handle = self.leader.task(state, rates)
        if not self._one_by_one:
            task = self.backend.call("state", itself, task)
        free = [part for part in range(len(self.parts)) if part not in self._busy]
        calls = [
            self.backend.call(
                "local-steps",
                work,
                self._shared,
                task,
                self.leader.view.private(state.sites, part),
                part,
                self.parts[part],
                part=part,
            )
            for part in free
        ]
        self._busy.update(zip(free, self.backend.keep(calls), strict=True))
        # Not before: to forget the answers of the last round is a message too, and messages of a
        # client that follow each other wait.
        self._last = []


class Trained(NamedTuple):
    """Where a training in rounds has come to."""

    state: TrainingState
    history: list[Record]


def train(
    rounds: Rounds,
    schedule: Schedule,
    state: TrainingState,
    local_steps: int,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    monitor: Monitor | None = None,
    since: float | None = None,
) -> Trained:
    """Train until `max_iter`, the time budget, the tolerance, held-out rows or a callback say stop.

    Steps are counted for each part: a round of ten steps moves the count by ten, whatever the
    number of parts. The last round is one step that holds the hyper-parameters. Checkpoints, the
    monitor and `since` are as in `sepgp.training.loop`. If the cluster is lost, the state before
    the round is written to the checkpoint, and goes with the error.
    """
    first, history, seconds = state.iteration, list[Record](), 0.0
    if checkpoint is not None:
        state, history, seconds, finished = checkpoint.resume(state)
        if finished:
            return Trained(state, history)
    begin = (time.perf_counter() if since is None else since) - seconds
    stop, leader = False, rounds.leader
    per_epoch = leader.how.batches_per_epoch(max(leader.view.counts))
    early = EarlyStop(schedule, history, first)
    while True:
        clock = time.perf_counter() - begin
        pace = Pace(schedule, early, state.iteration - first + 1, clock, seconds_per_step(history))
        window = -(-per_epoch // local_steps)
        finished = bool(pace.done(0) >= 1 or schedule.converged(history, window, leader.n))
        last = stop or finished
        rates = [(0.0, 1.0)] if last else pace.rates(local_steps, per_epoch > 1)
        try:
            total = rounds.go(state, rates, 1.0 if last else rounds.quorum)
        except ClusterLost as error:
            if checkpoint is not None:
                checkpoint.save(state, history, clock)
            error.reached = Trained(state, history)
            raise
        before, state, nll = state, leader.combine(state, total, len(rates)), math.nan
        due = last or (monitor is not None and _due(monitor, before, state, schedule))
        if monitor is not None and total.weight and due:
            best, nll = monitor.measure(state.best, state.iteration, state.xi, state.sites)
            state = state._replace(best=best)
        epochs = total.n_rows / sum(leader.view.counts) + (history[-1].epoch if history else 0.0)
        seconds, rate = time.perf_counter() - begin, rates[-1][0] * state.rate
        history.append(_record(state, total, seconds, epochs, rate, nll))
        early.see(state.iteration - first, history[-1])
        stop = any([callback(history[-1]) for callback in callbacks])
        if checkpoint is not None and (finished or (not last and (stop or checkpoint.due))):
            checkpoint.save(state, history, history[-1].seconds, finished)
        if last:
            return Trained(state, history)


class Pace(NamedTuple):
    """How far a training is, from the step of a round on that has this number."""

    schedule: Schedule
    early: EarlyStop
    number: int
    seconds: float
    per_step: float

    def planned(self, step: int) -> float:
        """The part of the work that is done in a step of the round, without early stopping."""
        seconds = self.seconds + step * self.per_step
        return self.schedule.done(self.number + step, seconds, self.per_step)

    def done(self, step: int) -> float:
        """The part of the work that is done in a step of the round."""
        return self.early.done(self.planned(step), self.number + step)

    def rates(self, local_steps: int, minibatches: bool) -> list[tuple[float, float]]:
        """For each step of the round, up to the last but one of all, its learning rates."""
        rates = []
        for step in range(local_steps):
            done, planned = self.done(step), self.planned(step)
            if done >= 1:
                break
            rates.append(self.schedule.rates(self.number + step, done, planned, minibatches))
        return rates


def _record(
    state: TrainingState, total: Answer, seconds: float, epochs: float, rate: float, nll: float
) -> Record:
    return Record(
        iteration=state.iteration,
        seconds=seconds,
        epoch=epochs,
        log_evidence=total.log_evidence / total.weight if total.weight else math.nan,
        learning_rate=rate,
        jitter=total.jitter,
        skipped=total.skipped,
        rejected=not total.weight,
        state_size=sum(t.numel() for t in state.sites if t is not None),
        validation_nll=nll,
    )


def _due(monitor: Monitor, before: TrainingState, after: TrainingState, schedule: Schedule) -> bool:
    """Whether the model is measured after one of the steps of a round."""
    steps = range(before.iteration + 1, after.iteration + 1)
    return any(monitor.due(step, schedule.max_iter) for step in steps)
