"""Online learning: rows that come in blocks, how they are learned and which are seen again."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sepgp.data import checks
from sepgp.data.inputs import Given, online_block
from sepgp.data.prepared import ArrayData
from sepgp.data.scaling import Floats
from sepgp.data.schema import Schema
from sepgp.data.watched import WatchedRows
from sepgp.inference.method import METHODS
from sepgp.model import Model
from sepgp.threads import numpy_by_one
from sepgp.training.fit import Run, engine_of, run_training
from sepgp.training.memory import enough
from sepgp.training.prior import of_rows
from sepgp.training.schedule import Schedule
from sepgp.training.settings import Settings
from sepgp.training.start import Start, from_model, from_rows

REPLAYED = 20_000
"""Rows seen before that are kept to be seen again."""
STEPS = 20
"""Steps on a block, at least, where rows seen before are seen again."""
PASSES = 4
"""How often a block is gone over after it was absorbed, at least."""
RATE = 0.05
"""Learning rate for the first block; for others it falls with the root of their share in n."""


class Replay(NamedTuple):
    """A sample of the rows seen so far, k of them.

    Every row draws a key at random, and the rows with the smallest keys are kept: a uniform sample
    of all rows. With forgetting, a row stays at each block with the factor as probability, so
    that its chance to be seen again falls as its weight in q does.
    """

    X: NDArray[Any]
    """Features, shape (k, d), not scaled."""
    y: NDArray[np.int64]
    weight: Floats
    key: Floats
    score: Floats
    """Of the classifier that gives a prior mean, shape (k,), or (k, C); (k, 0) without one."""

    def take(self, where: NDArray[Any]) -> "Replay":
        """The rows at these places."""
        return Replay(*(part[where] for part in self))


@enough()
@numpy_by_one()
def learn(
    settings: Settings, given: Given, classes: Any, model: Model | None, run: Run
) -> Model | None:
    """Learn from new rows, after all rows seen before; the blocks of a source one by one."""
    run.check()
    settings = settings.resolved()
    known = None if model is None else model.classes
    if model is None and classes is not None:
        known = np.unique(np.asarray(classes))
        checks.several_classes(known, "classes")
    blocks: Iterable[Given] = [given]
    if not given.in_memory:
        encoding = None if model is None else model.schema.encoding
        blocks = (
            given._replace(X=b.X, y=b.y, sample_weight=b.weight, target=None, columns=None)
            for b in WatchedRows(given.rows(), encoding).blocks()
        )
    seed = int(check_random_state(run.random_state).randint(2**31 - 1))
    target = model.target if given.target is None and model is not None else given.target
    for block in blocks:
        before = None if model is None else model.schema
        data, schema = online_block(
            block, settings.class_weight, before, known, settings.rows_per_step
        )
        checks.positive(settings.pos_label, data.classes)
        model = learn_block(settings, data, schema, target, model, seed, run)
        known = model.classes
    return model


def learn_block(
    settings: Settings,
    data: ArrayData,
    schema: Schema,
    target: str | None,
    model: Model | None,
    seed: int,
    run: Run,
) -> Model:
    """Learn one block: absorb it with q as its cavity, then refine what is at hand."""
    # A seed is the same in every call, but every block draws numbers of its own.
    rng = np.random.RandomState([seed, 0 if model is None else model.iteration])
    if model is None:
        start, replay, before = from_rows(settings, data, schema, target, rng), None, 0.0
        start = start._replace(scaling=start.scaling.for_more())
        if settings.mean is not None:
            mean, data = of_rows(settings, data, seed)
            start = start._replace(mean=mean)
    else:
        start, replay, before = from_model(model), model.replay, model.n_seen
        if model.mean is not None:  # new rows are none that its classifier has seen
            data = data._replace(score=model.mean.score(data.X))
        Lambda, b = (settings.forgetting * part for part in start.sites[:2])
        start = start._replace(target=target, sites=start.sites._replace(Lambda=Lambda, b=b))
    new = float(data.weight.sum())
    n_seen = settings.forgetting * before + new
    rate = RATE if settings.learning_rate is None else settings.learning_rate
    rate *= math.sqrt(new / n_seen)

    def go_over(
        start: Start, rows: ArrayData, method: str, rate: float, passes: int, least: int = 1
    ) -> Model:
        power = 1.0 if METHODS[method].recounts else settings.power
        chosen = replace(settings, method=method, n_factors=1, power=power)
        return _go_over(chosen, start, rows, n_seen, rate, rng, run, passes, least)

    method = METHODS[settings.method]
    if method.recounts or method.per_row:
        return go_over(start, data, settings.method, rate, 1 if method.recounts else PASSES)
    absorbed = from_model(go_over(start, data, "adf", 0.0, 1))
    refined = go_over(absorbed, with_replay(replay, data), settings.method, rate, PASSES, STEPS)
    return replace(refined, replay=extended(replay, data, settings.forgetting, rng))


def _go_over(
    settings: Settings,
    start: Start,
    data: ArrayData,
    n_seen: float,
    rate: float,
    rng: np.random.RandomState,
    run: Run,
    passes: int,
    least: int,
) -> Model:
    """Go over a part of all rows some times, in no fewer steps than `least`."""
    seed = int(rng.randint(2**31 - 1))
    source = start.source(settings, data, seed)
    source.total_weight = n_seen
    steps = max(passes * source.batches_per_epoch, least)
    schedule = Schedule(steps, None, rate, decay=False, tol=None, early_stopping=False)
    engine = engine_of(settings, start)
    state = engine.init(len(start.Z), source.n_rows, minibatch=True)
    state = state._replace(iteration=start.iteration)
    if start.sites is not None:
        known = {"Lambda": start.sites.Lambda, "b": start.sites.b}
        state = state._replace(sites=state.sites._replace(**known))
    if _shapes(start.moments) == _shapes(state.optimizer._asdict()):
        state = state._replace(optimizer=state.optimizer._replace(**start.moments))
    return run_training(settings, start, engine, schedule, state, source, seed, run)


def _shapes(moments: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: np.shape(value) for name, value in moments.items()}


def extended(
    replay: Replay | None, data: ArrayData, forgetting: float, random: np.random.RandomState
) -> Replay:
    """The rows to see again after a new block. Cost O(kd)."""
    score = np.empty((len(data.y), 0)) if data.score is None else data.score
    rows = Replay(data.X, data.y, data.weight, random.uniform(size=len(data.y)), score)
    if replay is not None:
        stay = replay.take(random.uniform(size=len(replay.y)) < forgetting)
        pairs = zip(stay, rows, strict=True)
        rows = Replay(*(np.concatenate([old, new]) for old, new in pairs))
    kept = np.sort(np.argsort(rows.key)[:REPLAYED])
    return rows.take(kept)


def with_replay(replay: Replay | None, data: ArrayData) -> ArrayData:
    """A new block and the rows from before it that are seen again."""
    if replay is None:
        return data
    X, y, weight = (
        np.concatenate([new, old]) for new, old in zip(data.sample(), replay[:3], strict=True)
    )
    score = None if data.score is None else np.concatenate([data.score, replay.score])
    return data._replace(X=X, y=y, weight=weight, score=score)
