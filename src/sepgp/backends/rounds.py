"""Rounds: parts of the rows take some steps by themselves, and then what they learned is added.

A round sends ξ, the optimiser and the sites to every part. Each takes some steps of
`sepgp.training.step` on its own rows, under its own view of the sites, and gives back by how much
everything has changed. Changes of sites add up; of ξ and the optimiser the mean is taken, by the
weight of the rows. With one part it is the training of one process. Every function here depends on
its arguments alone, so that it can be called again elsewhere if a worker is lost.
"""

import copy
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sepgp.backends.parcel import Parcel
from sepgp.backends.partitions import PartRows
from sepgp.backends.views import View
from sepgp.data.batches import Batch, Batching
from sepgp.inference.evidence import Info
from sepgp.training.step import Engine, TrainingState

ORDERS = 4
"""Orders of rows that a process remembers: those of the parts that it works on."""


@dataclass(frozen=True)
class Task(Parcel):
    """What is the same for all parts in a round."""

    state: TrainingState
    """With those of the sites that all parts get."""
    rates: tuple[tuple[float, float], ...]
    """For each step, the learning rate and the inducing points' share of it."""


@dataclass(frozen=True)
class Leader:
    """What does not change during training."""

    engine: Engine
    view: View
    how: Batching
    """Of rows that are scaled already."""

    @property
    def n(self) -> float:
        """Weight of all rows."""
        return sum(self.view.weights)

    def task(self, state: TrainingState, rates: Sequence[tuple[float, float]]) -> Task:
        """What all parts get."""
        sites = self.view.common(state.sites)
        return Task(state._replace(sites=sites, best=None), tuple(rates))

    def batch(self, rows: PartRows, part: int, number: int) -> Batch:
        """The batch of a part in step `number`. Every epoch has a fresh order."""
        count = self.how.batches_per_epoch(len(rows.y))
        if count == 1:
            return self.how.batch(*rows, None)
        epoch, place = divmod(number, count)
        order = _order(self.how.seed + part, epoch, len(rows.y))
        chosen = order[slice(*self.how.bounds(len(order), place))]
        X, y, weight = (array[chosen] for array in rows)
        return self.how.batch(X, y, weight, chosen)

    def work(self, task: Task, private: Any, part: int, rows: PartRows) -> "Answer":
        """The steps of one part. Cost O(m³) and O(m² + md) per row of its batches, for each."""
        view, n_own = self.view, self.view.weights[part]
        # A copy for this thread: the kernel takes other parameters for as long as it is called.
        hyper = copy.deepcopy(self.engine.hyper)
        engine = replace(self.engine, method=view.local, hyper=hyper)
        begin = task.state._replace(sites=view.begin(task.state.sites, private, part))
        state, infos, n_rows = begin, [], 0
        for rate, share in task.rates:
            batch = self.batch(rows, part, state.iteration)
            state, info = engine.step(state, batch, self.n, rate, share, n_own)
            infos.append(info)
            n_rows += len(batch.y)
        return _answer(view, part, begin, state, infos, n_rows)

    def combine(self, state: TrainingState, total: "Answer", n_steps: int) -> TrainingState:
        """The state after a round in which every part has taken so many steps.

        If all of them failed, ξ goes back to where it was before; if some did, the learning rate is
        halved.
        """
        rate = state.rate / 2 if total.rejected else state.rate
        following = state._replace(iteration=state.iteration + n_steps, rate=rate)
        if not total.weight:
            fresh = self.engine.optimizer.init(state.xi)
            return following._replace(xi=state.last_xi, optimizer=fresh)
        means = [change / total.weight for change in total.moments]
        moved = torch.clamp(
            state.xi + total.xi / total.weight, self.engine.hyper.lower, self.engine.hyper.upper
        )
        return following._replace(
            xi=moved,
            last_xi=state.xi,
            optimizer=_moved(state.optimizer, means, total.counts),
            sites=self.view.merge(state.sites, total.sites, total.own),
        )


@dataclass(frozen=True)
class Answer(Parcel):
    """What steps of some parts have changed, which adds up: O(m² + p) numbers."""

    weight: float
    """Of the rows of the parts whose steps were all sound; others change nothing."""
    xi: Tensor
    """Changes of ξ, each times the weight, shape (p,)."""
    moments: tuple[Tensor, ...]
    """Those of the optimiser, each times the weight."""
    counts: tuple[int, ...]
    """By how much its whole numbers have grown, at most."""
    sites: tuple[Tensor, ...]
    own: dict[int, Any]
    """By part, what became of the sites that are private to it."""
    log_evidence: float
    """The mean over the steps, times the weight."""
    jitter: float
    skipped: int
    rejected: int
    """How many parts met a step that was thrown away."""
    n_rows: int
    """Rows of all batches."""

    def __add__(self, other: "Answer") -> "Answer":
        return Answer(
            self.weight + other.weight,
            self.xi + other.xi,
            _sums(self.moments, other.moments),
            tuple(map(max, self.counts, other.counts)),
            _sums(self.sites, other.sites),
            self.own | other.own,
            self.log_evidence + other.log_evidence,
            max(self.jitter, other.jitter),
            self.skipped + other.skipped,
            self.rejected + other.rejected,
            self.n_rows + other.n_rows,
        )


def work(leader: Leader, task: Task, private: Any, part: int, rows: PartRows) -> Answer:
    """The steps of one part: see `Leader.work`."""
    return leader.work(task, private, part, rows)


def _answer(
    view: View,
    part: int,
    begin: TrainingState,
    end: TrainingState,
    infos: Sequence[Info],
    n_rows: int,
) -> Answer:
    """What a part answers; if a step was thrown away, that nothing has changed."""
    ok = all(info.ok for info in infos)
    weight = view.weights[part] if ok else 0.0
    before, after = (_moments(state.optimizer) for state in (begin, end))
    change = view.change(begin.sites, end.sites)
    counts = zip(_counts(begin.optimizer), _counts(end.optimizer), strict=True)
    evidence = math.fsum(float(info.log_evidence) for info in infos) / len(infos)
    return Answer(
        weight=weight,
        xi=weight * (end.xi - begin.xi) if ok else torch.zeros_like(begin.xi),
        moments=tuple(
            weight * (b - a) if ok else torch.zeros_like(a)
            for a, b in zip(before, after, strict=True)
        ),
        counts=tuple(b - a for a, b in counts),
        sites=change if ok else tuple(torch.zeros_like(values) for values in change),
        own={part: view.own(begin.sites, end.sites)} if ok else {},
        log_evidence=weight * evidence if ok else 0.0,
        jitter=max(info.jitter for info in infos),
        skipped=sum(info.skipped for info in infos),
        rejected=int(not ok),
        n_rows=n_rows,
    )


def _sums(ones: Sequence[Tensor], others: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(a + b for a, b in zip(ones, others, strict=True))


def _moments(optimizer: Any) -> list[Tensor]:
    return [value for value in optimizer if isinstance(value, Tensor)]


def _counts(optimizer: Any) -> list[int]:
    return [value for value in optimizer if not isinstance(value, Tensor)]


def _moved(optimizer: Any, moments: Sequence[Tensor], counts: Sequence[int]) -> Any:
    """The optimiser's state with changes of its tensors and its whole numbers, in their order."""
    tensors, numbers = iter(moments), iter(counts)
    return type(optimizer)(
        *(
            value + (next(tensors) if isinstance(value, Tensor) else next(numbers))
            for value in optimizer
        )
    )


@functools.lru_cache(maxsize=ORDERS)
def _order(seed: int, epoch: int, n_rows: int) -> NDArray[np.int64]:
    """The order of a part's rows in an epoch. Cost O(n), once for all rounds of an epoch."""
    return np.random.default_rng((seed, epoch)).permutation(n_rows)
