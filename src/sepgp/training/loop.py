"""The training loop: batches in, state out."""

import logging
import math
import time
from collections.abc import Sequence
from contextlib import closing

from sepgp.data.batches import Source
from sepgp.gp.natural import Natural
from sepgp.inference.evidence import Info
from sepgp.threads import Threads, allowed, using
from sepgp.training.checkpoint import Checkpoint
from sepgp.training.early_stop import EarlyStop
from sepgp.training.monitor import Monitor
from sepgp.training.record import Callback, Record
from sepgp.training.schedule import Schedule, seconds_per_step
from sepgp.training.step import Engine, TrainingState

logger = logging.getLogger(__name__)


def train(
    engine: Engine,
    schedule: Schedule,
    state: TrainingState,
    source: Source,
    callbacks: tuple[Callback, ...] = (),
    checkpoint: Checkpoint | None = None,
    monitor: Monitor | None = None,
    since: float | None = None,
    threads: Threads | None = None,
) -> tuple[TrainingState, list[Record]]:
    """Train until `max_iter`, the time budget, the tolerance, held-out rows or a callback say stop.

    The last step holds the hyper-parameters, so that the sites belong to the final kernel. A
    checkpoint is written every so often and at the end; a run that one is left of goes on from it.
    A monitor measures the model every so often and at the end; the best one is in the state.
    Seconds count from `since`, by `time.perf_counter`, so that a time budget covers what was done
    before the first step, or from now. `threads` finds how many are fastest.
    """
    history, seconds, stop = list[Record](), 0.0, False
    if checkpoint is not None:
        state, history, seconds, stop = checkpoint.resume(state)
        if stop:
            return state, history
    begin, measuring = (time.perf_counter() if since is None else since) - seconds, 0.0
    first, n = state.iteration - len(history), source.total_weight
    early, threads = EarlyStop(schedule, history, first), threads or Threads(allowed())

    def clock() -> float:
        return time.perf_counter() - begin

    with closing(source.batches(state.iteration)) as batches:
        for batch in batches:
            number, per_epoch = state.iteration - first + 1, source.batches_per_epoch
            planned = schedule.done(number, clock() + measuring, seconds_per_step(history))
            done = early.done(planned, number)
            finished = bool(done >= 1 or schedule.converged(history, per_epoch, n))
            last = stop or finished
            rate, share = schedule.rates(number, done, planned, minibatches=per_epoch > 1)
            rate, xi = 0.0 if last else rate, state.xi
            least = schedule.least_evidence(history)
            with threads.timed():
                state, info = engine.step(state, batch, n, rate, share, least=least)
            xi = state.xi if info.fell else xi  # what the sites belong to
            nll, rate = math.nan, rate * state.rate
            if monitor is not None and info.ok and (last or _due(monitor, state, schedule)):
                before = clock()
                with using(threads.count):
                    best, nll = monitor.measure(state.best, state.iteration, xi, state.sites)
                state, measuring = state._replace(best=best), clock() - before
            history.append(_record(history, state, info, source, clock(), rate, nll))
            _log(history[-1])
            early.see(number, history[-1])
            stop = any([callback(history[-1]) for callback in callbacks])
            # After a callback's stop comes one more step, which a run that goes on must not have.
            if checkpoint is not None and (finished or (not last and (stop or checkpoint.due))):
                checkpoint.save(state, history, history[-1].seconds, finished, ending=stop)
            if last:
                break
    return state, history


def _due(monitor: Monitor, state: TrainingState, schedule: Schedule) -> bool:
    return monitor.due(state.iteration, schedule.max_iter)


def _log(record: Record) -> None:
    if record.rejected:
        logger.warning("step %d was rejected; the learning rate is halved", record.iteration)
    elif not math.isnan(record.validation_nll):
        measured = record.iteration, record.seconds, record.validation_nll
        logger.info("step %d, %.1f s: held-out NLL %.4f", *measured)
    logger.debug("step %d: log evidence %.6g", record.iteration, record.log_evidence)


def _record(
    history: Sequence[Record],
    state: TrainingState,
    info: Info,
    source: Source,
    seconds: float,
    rate: float,
    nll: float,
) -> Record:
    # Where a move was taken back, ξ and the sites are those of the step before.
    log_evidence = history[-1].log_evidence if info.fell else float(info.log_evidence)
    return Record(
        iteration=state.iteration,
        seconds=seconds,
        epoch=state.iteration / source.batches_per_epoch,
        log_evidence=log_evidence,
        learning_rate=rate,
        jitter=info.jitter,
        skipped=info.skipped,
        rejected=not info.ok,
        state_size=sum(t.numel() for t in state.sites if t is not None),
        validation_nll=nll,
    )


def chosen(state: TrainingState) -> TrainingState:
    """The state with the best model that was measured: usually that of the last step.

    An earlier one has the product of its sites alone, since EP's sites per row have moved on.
    """
    best = state.best
    if best is None or best.iteration == state.iteration:
        return state
    return state._replace(xi=best.xi, sites=Natural(best.Lambda, best.b))
