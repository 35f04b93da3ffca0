"""From rows to a fitted model."""

import copy
import math
import os
import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from sepgp.data import checks
from sepgp.data.batches import Source
from sepgp.data.inputs import Given, TrainingData, training_data
from sepgp.data.prepared import ArrayData, Data
from sepgp.errors import InvalidData, InvalidParameter
from sepgp.gp.cholesky import MAX_JITTER
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.natural import Natural
from sepgp.gp.predictor import predictor
from sepgp.inference.method import METHODS
from sepgp.model import Model
from sepgp.threads import Threads, allowed, numpy_by_one, using
from sepgp.training import calibration
from sepgp.training.checkpoint import Checkpoint, Identity, identity
from sepgp.training.factors import factors
from sepgp.training.loop import chosen, train
from sepgp.training.memory import check_sites, enough
from sepgp.training.monitor import CHUNK, Monitor
from sepgp.training.prior import going_on, learned, with_scores
from sepgp.training.progress import ProgressLine
from sepgp.training.record import Callback, Listeners, Record, as_columns
from sepgp.training.schedule import Schedule
from sepgp.training.settings import Settings, at_least
from sepgp.training.start import Start, from_model, from_rows, settled
from sepgp.training.step import Engine, TrainingState

REJECTED = 0.05
"""The share of the steps that may be rejected without a warning."""


@dataclass(frozen=True)
class Run:
    """What belongs to one call and not to its result: seeds, who looks on, and the checkpoint."""

    random_state: int | np.random.RandomState | None = None
    callbacks: Sequence[Callback] | None = None
    """Called after every step."""
    verbose: bool = False
    """Whether a progress line is shown."""
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: float = 60.0

    def check(self) -> None:
        """Refuse what cannot be used."""
        at_least("checkpoint_every", self.checkpoint_every, 0)
        if callable(self.callbacks):
            raise InvalidParameter(
                "callbacks is a single function; give a list, such as callbacks=[function]."
            )


@enough()
@numpy_by_one()
def fit(settings: Settings, given: Given, previous: Model | None, run: Run) -> Model:
    """Train on all rows, anew or from the kernel, inducing points and sites of a `previous` model.

    A run whose checkpoint is there goes on from it.
    """
    since = time.perf_counter()
    checkpoint, planned, named, rng, seed = begin(settings, previous, run)
    data = training_data(
        given,
        known=None if previous is None else previous.schema,
        class_weight=settings.class_weight,
        held_out=planned.held_out,
        in_order=settings.mean is not None,
        seed=seed,
        batch_size=settings.rows_per_step,
    )
    checks.positive(settings.pos_label, data.data.classes)
    return fit_data(settings, planned, data, rng, seed, previous, run, checkpoint, named, since)


def begin(
    settings: Settings, previous: Model | None, run: Run, **plan: Any
) -> tuple[Checkpoint | None, Settings, Identity, np.random.RandomState, int]:
    """Checkpoint, plan, identity, random numbers and seed of a run, by its file if there is one.

    The plan is the settings with the steps and seconds that the run began with: they decide all
    but when it ends.
    """
    run.check()
    checkpoint, named = None, identity(**vars(settings), **plan, warm_start=previous is not None)
    planned = settings
    if run.checkpoint is not None:
        checkpoint = Checkpoint(run.checkpoint, run.checkpoint_every)
        planned = checkpoint.as_planned(settings)
        if run.random_state is not None:  # before numbers are drawn from it
            named |= identity(random_state=run.random_state)
    rng = check_random_state(run.random_state)
    seed = int(rng.randint(2**31 - 1))
    if checkpoint is not None and checkpoint.seed is not None:
        seed = checkpoint.seed
    return checkpoint, planned, named, rng, seed


def fit_data(
    settings: Settings,
    planned: Settings,
    given: TrainingData,
    rng: np.random.RandomState,
    seed: int,
    previous: Model | None,
    run: Run,
    checkpoint: Checkpoint | None,
    named: Identity,
    since: float,
) -> Model:
    """Train on rows that are checked, as `planned`; `named` and the rows identify the run.

    It began when the clock of `time.perf_counter` said `since`.
    """
    if previous is not None:
        same_task(previous, given)
    given, mean = with_scores(planned, given, seed)
    data, held_out, schema, target = given
    if previous is None:
        points = None if checkpoint is None else checkpoint.start
        start = from_rows(planned, data, schema, target, rng, points, mean)
    else:
        mean = going_on(planned, mean, previous.mean)
        start = from_model(previous)._replace(target=target, moments={}, mean=mean)
    planned, start = settled(planned, start, data)
    settings = replace(planned, max_iter=settings.max_iter, time_budget=settings.time_budget)
    source = start.source(planned, data, seed)
    minibatch = source.batches_per_epoch > 1
    copies = 1 if checkpoint is None else 3  # the state, what is written, and its bytes
    n_latent = math.prod(start.likelihood.latents)
    check_sites(METHODS[settings.method], source.n_rows, len(start.Z), minibatch, n_latent, copies)
    engine = engine_of(settings, start)
    state = engine.init(len(start.Z), source.n_rows, minibatch)
    if previous is not None and shapes(state.sites) == shapes(previous.sites):
        # Steps of minibatch EP write into their state, and the previous model must not change.
        sites = copy.deepcopy(previous.sites)
        state = state._replace(iteration=start.iteration, sites=sites)
    if checkpoint is not None:
        rows = data.digest() + ("" if held_out is None else held_out.digest())
        warm = None if previous is None else [state.xi, state.sites.Lambda]
        named = identity(data=rows, start=warm) | named | identity(method=settings.method)
        checkpoint.identify(named, seed, start.Z)
    monitor = None
    if held_out is not None:
        measured = start.source(planned, held_out, seed, CHUNK)
        monitor = Monitor(engine.hyper, start.likelihood, measured)
    # With many classes ξ does not move along the gradient of log Z_q itself.
    exact = not (minibatch or start.likelihood.latents)
    elapsed = time.perf_counter() - since
    calibrated = previous is None and calibration.is_wanted(settings, data, elapsed)
    timed = calibration.first_part(settings, elapsed) if calibrated else settings
    schedule = Schedule.of(timed, source.batches_per_epoch, exact)
    listeners = Listeners(run.callbacks)
    run = replace(run, callbacks=[listeners])
    model = run_training(
        settings, start, engine, schedule, state, source, seed, run, checkpoint, monitor, since
    )
    if not calibrated or listeners.said_stop:
        return model
    return _calibrated(settings, start, data, model, seed, run, since)


def _calibrated(
    settings: Settings, start: Start, data: Data, model: Model, seed: int, run: Run, since: float
) -> Model:
    """The model with the factor on its mean of f that a second training finds, given the time."""
    assert isinstance(data, ArrayData)
    kept, aside = calibration.cut(data, seed)
    source, engine = start.source(settings, kept, seed), engine_of(settings, start)
    again = calibration.second_part(settings, model.n_iter, time.perf_counter() - since)
    minibatch = source.batches_per_epoch > 1
    second = run_training(
        again,
        start,
        engine,
        Schedule.of(again, source.batches_per_epoch, exact=not minibatch),
        engine.init(len(start.Z), source.n_rows, minibatch),
        source,
        seed,
        Run(verbose=run.verbose),
        stage="calibration",
    )
    if second.n_iter < calibration.ENOUGH * model.n_iter:
        return model
    return calibration.times(model, calibration.factor(second, aside))


def engine_of(settings: Settings, start: Start) -> Engine:
    """The engine for a kernel and inducing points to start from."""
    hyper = Hyperparameters(
        start.kernel,
        start.Z,
        settings.learn_kernel,
        settings.learn_inducing,
        None if start.mean is None else start.mean.factor,
    )
    return Engine.of(settings, start.likelihood, hyper, *factors(settings.n_factors, start))


def run_training(
    settings: Settings,
    start: Start,
    engine: Engine,
    schedule: Schedule,
    state: TrainingState,
    source: Source,
    seed: int,
    run: Run,
    checkpoint: Checkpoint | None = None,
    monitor: Monitor | None = None,
    since: float | None = None,
    stage: str = "",
) -> Model:
    """Train, and make the model of what came out; `stage` is for the progress line."""
    callbacks, threads = tuple(run.callbacks or ()), Threads(allowed())
    with ExitStack() as stack:
        if run.verbose:
            line = ProgressLine(schedule, source, state.iteration, stage=stage)
            # Last, so that whoever sees a step can rely on what the others do with it.
            callbacks = (*callbacks, stack.enter_context(closing(line)))
        last, history = train(
            engine, schedule, state, source, callbacks, checkpoint, monitor, since, threads
        )
    evidence = _log_evidence(last, history, source.batches_per_epoch)
    n = source.total_weight
    with using(threads.count):
        dtype = settings.row_dtype(source.n_rows)
        return model_of(
            settings, start, engine, last, history, n, evidence, seed, dtype, checkpoint
        )


def model_of(
    settings: Settings,
    start: Start,
    engine: Engine,
    last: TrainingState,
    history: Sequence[Record],
    n: float,
    log_evidence: float,
    seed: int,
    dtype: torch.dtype,
    checkpoint: Checkpoint | None = None,
) -> Model:
    """The model of a training that came to this state, for rows of total weight n in `dtype`."""
    if all(record.rejected for record in history):
        raise InvalidParameter(
            f"kernel={settings.kernel!r} gives covariances that cannot be factorised, even with "
            "jitter; add a kernel that relates different points, such as RBF()."
        )
    warn_of_rejected(settings, history, dtype)
    state = chosen(last)
    kernel, Z = engine.hyper.model(state.xi)
    with torch.no_grad():
        try:
            folded = predictor(kernel, Z, Natural(state.sites.Lambda, state.sites.b))
        except RuntimeError as error:  # of torch.linalg: there is no posterior
            if checkpoint is None:
                raise
            raise checkpoint.damaged() from error
    return Model(
        method=settings.method,
        schema=start.schema,
        target=start.target,
        classes=start.classes,
        scaling=start.scaling,
        likelihood=start.likelihood,
        kernel=kernel,
        Z=Z,
        sites=state.sites,
        predictor=folded,
        n_seen=n,
        history=as_columns(history),
        log_evidence=log_evidence,
        iteration=state.iteration,
        moments=state.optimizer._asdict(),
        seed=seed,
        dtype=dtype,
        mean=learned(start.mean, engine.hyper.factor(state.xi)),
    )


def warn_of_rejected(settings: Settings, history: Sequence[Record], dtype: torch.dtype) -> None:
    """Say so if more than `REJECTED` of the steps were of no use, and why."""
    rejected = [record for record in history if record.rejected]
    if len(rejected) <= REJECTED * len(history):
        return
    cause = "log Z_q or its gradient was not finite"
    if sum(record.jitter >= MAX_JITTER for record in rejected) > len(rejected) / 2:
        cause = "the kernel's covariances could not be factorised"
    remedy = "lower learning_rate"
    if not settings.standardize:
        remedy = "set standardize=True or lower learning_rate"
    elif dtype == torch.float32:
        remedy = "use dtype='float64' or lower learning_rate"
    warnings.warn(
        f"{len(rejected)} of {len(history)} steps were rejected, because {cause}; {remedy}.",
        stacklevel=2,
    )


def _log_evidence(last: TrainingState, history: Sequence[Record], per_epoch: int) -> float:
    """The mean over the epoch that led to the model that is kept."""
    reached = len(history)
    if last.best is not None:
        reached -= last.iteration - last.best.iteration
    epoch = history[max(0, reached - per_epoch) : reached]
    return float(np.mean([record.log_evidence for record in epoch]))


def shapes(sites: Any) -> list[Any]:
    """Of the tensors that sites consist of."""
    return [part.shape for part in sites if part is not None]


def same_task(previous: Model, given: TrainingData) -> Model:
    """The model to go on from, if the rows have its columns and classes."""
    if not given.schema.same(previous.schema):
        raise InvalidData(
            "X has other columns than the model to go on from; give the same columns, or set "
            "warm_start=False."
        )
    classes = given.data.classes
    if not np.array_equal(classes, previous.classes):
        raise InvalidData(
            f"y has the classes {classes.tolist()}, but the model to go on from has "
            f"{previous.classes.tolist()}; use the same labels or warm_start=False."
        )
    return previous
