"""From partitions of rows, wherever they are, to a fitted model."""

import copy
import math
import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from sepgp.backends.backend import Backend, Handle, itself, tree_sum
from sepgp.backends.loop import Plan, Rounds, Trained, train
from sepgp.backends.partitions import (
    Look,
    Partition,
    Recipe,
    groups,
    joined_parts,
    look_at,
    prepare,
    size_of,
)
from sepgp.backends.progress import RoundLine
from sepgp.backends.rounds import Leader
from sepgp.backends.views import BY_PART, view_of
from sepgp.data import checks
from sepgp.data.batches import Batching
from sepgp.data.columns.texts import AS_FOUND, Choices
from sepgp.data.inputs import TrainingData, warn_of_columns
from sepgp.data.prepared import ArrayData, Surveyed, nothing_held_out
from sepgp.data.scaling import identity
from sepgp.data.schema import schema_of
from sepgp.data.split import held_out_share
from sepgp.data.survey import Survey
from sepgp.errors import ClusterLost, InvalidData
from sepgp.inference.method import METHODS
from sepgp.model import Model
from sepgp.training.checkpoint import Checkpoint
from sepgp.training.checkpoint import identity as identified
from sepgp.training.fit import Run, begin, engine_of, model_of, same_task, shapes
from sepgp.training.memory import check_sites
from sepgp.training.monitor import CHUNK, Monitor
from sepgp.training.record import Record
from sepgp.training.schedule import Schedule
from sepgp.training.settings import Settings
from sepgp.training.start import Start, from_model, from_rows, settled


class Given(NamedTuple):
    """Rows as they were handed in."""

    partitions: list[Partition]
    target: str | None = None
    """The column of the labels, where they are one."""
    choices: Choices = AS_FOUND


def fit(
    settings: Settings,
    given: Given,
    previous: Model | None,
    run: Run,
    plan: Plan,
    backend: Backend,
) -> Model:
    """Train on all partitions in rounds, anew or from a previous model.

    The list of partitions is emptied when they are ready for training, so that what was handed in
    need not be kept in memory beside it. A run whose checkpoint is there goes on from it, wherever
    it began. If the cluster is lost, the error has the model that was reached, if there is one.
    """
    since = time.perf_counter()
    plan.check()
    settings = settings.resolved()
    local_steps = plan.local_steps
    checkpoint, planned, named, rng, seed = begin(settings, previous, run, local_steps=local_steps)
    known = None if previous is None else previous.schema.encoding
    # How many rows there are is not known before the pass that holds some of them out.
    share = held_out_share(settings.validation_fraction, None, settings.rows_per_step)
    look = Look(seed, known, given.choices, share)
    surveyed, held_out, digests = _look(settings, look, given.partitions, backend)
    schema = schema_of(surveyed.encoding, len(surveyed.survey.scaling.mean))
    if previous is None:
        warn_of_columns(schema, surveyed.sample()[0])
        points = None if checkpoint is None else checkpoint.start
        start = from_rows(planned, surveyed, schema, given.target, rng, points)
    else:
        data = TrainingData(surveyed, held_out, schema, given.target)  # type: ignore[arg-type]
        start = from_model(same_task(previous, data))._replace(target=given.target, moments={})
    planned, start = settled(planned, start, surveyed)
    settings = replace(planned, max_iter=settings.max_iter, time_budget=settings.time_budget)
    n_parts = _n_parts(plan, checkpoint, backend)
    survey = surveyed.survey._replace(sample=surveyed.survey.sample.cut(0, 0))
    recipe = Recipe(look, survey, start.scaling, settings.row_dtype(survey.n_rows), digests)
    parts, counts, weights = _prepare(recipe, given.partitions, n_parts, backend)
    leader, state = _begin(settings, start, previous, counts, weights, seed, recipe.dtype)
    if checkpoint is not None:
        rows = surveyed.digest() + ("" if held_out is None else held_out.digest())
        warm = None if previous is None else [state.xi, state.sites.Lambda]
        named |= identified(data=rows, start=warm, n_parts=n_parts)
        checkpoint.identify(named, seed, start.Z)
    monitor = _monitor(settings, start, leader, held_out, seed)
    schedule = Schedule.of(settings, leader.how.batches_per_epoch(max(counts)))
    rounds = Rounds(backend, leader, parts, plan.quorum)
    callbacks = tuple(run.callbacks or ())
    with ExitStack() as stack:
        if run.verbose:
            line = RoundLine(schedule, leader, state.iteration)
            callbacks = (*callbacks, stack.enter_context(closing(line)))
        try:
            trained = train(
                rounds, schedule, state, plan.local_steps, callbacks, checkpoint, monitor, since
            )
        except ClusterLost as error:
            if isinstance(error.reached, Trained) and error.reached.history:
                error.model = _model(settings, start, leader, error.reached, seed, checkpoint)
            raise
    return _model(settings, start, leader, trained, seed, checkpoint)


def _look(
    settings: Settings, look: Look, partitions: Sequence[Partition], backend: Backend
) -> tuple[Surveyed, ArrayData | None, dict[int, int]]:
    """One pass over all partitions, some of the rows that are held out, and all their digests."""
    calls = [
        backend.call("look-at-partition", look_at, look, number, *partition)
        for number, partition in enumerate(partitions)
    ]
    seen = tree_sum(backend, "add-what-was-seen", calls)
    survey: Survey = seen.found.survey(len(partitions), settings.class_weight)
    checks.positive(settings.pos_label, survey.classes)
    for note in survey.notes:
        warnings.warn(note.sentence(None), stacklevel=2)
    if not look.held_out:
        return Surveyed("X", survey), None, seen.digests
    if not len(seen.held_out):
        raise nothing_held_out(look.held_out, "X")
    arrays = survey.arrays(seen.held_out.block(), "y")
    held_out = ArrayData(*arrays, survey.classes, survey.encoding)
    return Surveyed("X", survey), held_out, seen.digests


def _n_parts(plan: Plan, checkpoint: Checkpoint | None, backend: Backend) -> int:
    """How many parts there are: as asked for, as in the run that goes on, or one for each slot."""
    before = None if checkpoint is None else checkpoint.value("n_parts")
    if plan.n_parts is None and before is not None and before.isdigit():
        return int(before)
    return plan.n_parts or backend.slots


def _prepare(
    recipe: Recipe, partitions: list[Partition], n_parts: int, backend: Backend
) -> tuple[list[Handle], list[int], list[float]]:
    """The parts, ready for training, with their numbers of rows and weights."""
    together = groups(recipe.survey.counts, n_parts)
    backend.place(len(together))
    shared = backend.call("survey", itself, recipe)
    parts = []
    for part, group in enumerate(together):
        ready = [
            backend.call("prepare-partition", prepare, shared, i, *partitions[i], part=part)
            for i in group
        ]
        parts.append(backend.call("join-partitions", joined_parts, *ready, part=part))
    parts = backend.keep(parts)
    sizes = backend.results([backend.call("count-rows", size_of, part) for part in parts])
    partitions.clear()
    kept = [i for i, (count, _) in enumerate(sizes) if count]
    if not kept:
        raise InvalidData("X has no rows of positive weight; give some.")
    counts, weights = ([sizes[i][which] for i in kept] for which in (0, 1))
    return [parts[i] for i in kept], counts, weights


def _begin(
    settings: Settings,
    start: Start,
    previous: Model | None,
    counts: Sequence[int],
    weights: Sequence[float],
    seed: int,
    dtype: torch.dtype,
) -> tuple[Leader, Any]:
    """Who leads the rounds, and the state before the first."""
    by_part = settings.n_factors == BY_PART
    engine = engine_of(replace(settings, n_factors=1) if by_part else settings, start)
    view = view_of(settings, engine.method, counts, weights)
    m, n_rows, latents = len(start.Z), sum(counts), start.likelihood.latents
    # The state, what is sent, what comes back, and the new state.
    check_sites(METHODS[settings.method], n_rows, m, True, math.prod(latents), 4)
    how = Batching(identity(start.Z.shape[1]), settings.rows_per_step, seed, dtype, settings.device)
    state = replace(engine, method=view.whole).init(m, n_rows, minibatch=True)
    if previous is not None and shapes(state.sites) == shapes(previous.sites):
        sites = type(state.sites)(*copy.deepcopy(tuple(previous.sites)))
        state = state._replace(iteration=start.iteration, sites=sites)
    return Leader(engine, view, how), state


def _monitor(
    settings: Settings, start: Start, leader: Leader, held_out: ArrayData | None, seed: int
) -> Monitor | None:
    """Who measures the model on held-out rows, if there are some."""
    if held_out is None:
        return None
    measured = start.source(settings, held_out, seed, CHUNK)
    return Monitor(leader.engine.hyper, start.likelihood, measured)


def _model(
    settings: Settings,
    start: Start,
    leader: Leader,
    trained: Trained,
    seed: int,
    checkpoint: Checkpoint | None,
) -> Model:
    last, history = trained
    evidence = _log_evidence(last.best.iteration if last.best else last.iteration, history)
    engine, n, dtype = leader.engine, leader.n, leader.how.dtype
    return model_of(settings, start, engine, last, history, n, evidence, seed, dtype, checkpoint)


def _log_evidence(iteration: int, history: Sequence[Record]) -> float:
    """The mean over the epoch that led to the model of this iteration."""
    until = [record for record in history if record.iteration <= iteration]
    epoch = [record for record in until if record.epoch > until[-1].epoch - 1]
    return float(np.nanmean([record.log_evidence for record in epoch]))
