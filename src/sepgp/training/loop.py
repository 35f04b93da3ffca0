"""The training loop: batches in, state out."""

import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sepgp.data.batches import Batch, Source
from sepgp.gp.direct import direct
from sepgp.gp.fitc import FITC, KernelMatrices, Natural
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.whitened import whitened
from sepgp.inference import adf, ep, sep
from sepgp.inference.batch import Targets
from sepgp.inference.evidence import Info
from sepgp.training.checkpoint import Checkpoint
from sepgp.training.memory import keep_freed_memory
from sepgp.training.monitor import Best, Monitor
from sepgp.training.optimizers import OPTIMIZERS

Sites = sep.State | ep.State
MAX_SITE_STEP = 0.5
"""At ρ = 1 the tied site of a kernel of large amplitude swings between two values for ever."""
FORGETTING = 0.6
"""The tied site moves by ρ = t^−0.6 in step t. That is more than an average's 1/t, since a part of
what it has learned belongs to a kernel that has moved since."""
WANDER = 1.0
"""How far inducing points may go astray in a training, in standard deviations of the features."""
FASTEST = 0.1
"""The highest learning rate of inducing points in minibatches."""


@dataclass(frozen=True)
class Settings:
    """How to train. See `GPClassifier` for what each means."""

    method: str = "sep"
    max_iter: int | None = 250
    time_budget: float | None = None
    learning_rate: float = 0.02
    optimizer: str = "adam"
    decay: bool = True
    site_step: str | float = "paper"
    damping: float = 0.5
    tol: float | None = None


class TrainingState(NamedTuple):
    """Everything that changes during training."""

    iteration: int
    xi: Tensor
    """Hyper-parameters, shape (p,)."""
    last_xi: Tensor
    """ξ of the step before, to return to when a step fails."""
    sites: Sites
    optimizer: Any
    rate: float
    """Factor on the learning rate; halved whenever a step is thrown away."""
    best: Best | None = None
    """The best model measured so far; None if none was."""


class Record(NamedTuple):
    """One line of the history."""

    iteration: int
    seconds: float
    epoch: float
    log_evidence: float
    """Estimate of log Z_q from the batch of this step."""
    learning_rate: float
    jitter: float
    """Relative jitter that the Cholesky factor of Kmm needed."""
    skipped: int
    """Rows whose site was left as it was (EP alone)."""
    rejected: bool
    """Whether the step was thrown away."""
    state_size: int
    """How many numbers the sites hold: O(m²) for SEP and ADF, more for EP."""
    validation_nll: float
    """Mean negative log-likelihood of the rows kept aside; NaN in steps that do not measure it."""


Callback = Callable[[Record], bool | None]


def init(
    settings: Settings,
    hyper: Hyperparameters,
    n_inducing: int,
    source: Source,
    whole: bool = True,
) -> TrainingState:
    """The state before the first step. `whole` is False if the source is a part of the rows."""
    sites: Sites
    with torch.device(hyper.start.device):
        if settings.method == "ep":
            minibatch = source.batches_per_epoch > 1 or not whole
            sites = ep.init(n_inducing, source.n_rows, minibatch)
        else:
            sites = sep.init(n_inducing)
    optimizer = OPTIMIZERS[settings.optimizer].init(hyper.start)
    return TrainingState(0, hyper.start, hyper.start, sites, optimizer, 1.0)


def site_step(rule: str | float, iteration: int, fraction: float) -> float:
    """The step ρ of SEP's tied site at an iteration, counted from 0, for batches of s = fraction·n.

    "paper" is ρ = s/n. "average" is the running average of all batches of the first epoch, then
    the paper's rule. A number is a floor under t^−0.6 in step t. But for the paper's rule, ρ stays
    at or below `MAX_SITE_STEP`.
    """
    if rule == "paper":
        return fraction
    if rule == "average":
        return min(MAX_SITE_STEP, max(fraction, 1 / (iteration + 1)))
    return min(MAX_SITE_STEP, max(fraction, float(rule), math.pow(iteration + 1, -FORGETTING)))


def inducing_rate(rate: float, steps: float) -> float:
    """The learning rate of inducing points in minibatches, in a training of so many steps.

    A minibatch says little about a single coordinate of Z, and Adam makes steps of about ± the
    rate of whatever it says: a random walk, which along a half cosine of N steps ends at a
    distance of rate·√(3N/8). This is kept below `WANDER`, and the rate below `FASTEST`.
    """
    return min(rate, FASTEST, WANDER * math.sqrt(8 / (3 * max(steps, 1.0))))


def refine(
    settings: Settings, state: TrainingState, fitc: FITC, targets: Targets
) -> tuple[Any, Info]:
    """One step of the chosen method on the sites."""
    sites: Any = state.sites
    if settings.method == "ep":
        return ep.step(sites, fitc, targets, settings.damping)
    if settings.method == "adf":
        return adf.step(sites, fitc, targets)
    fraction = min(1.0, float(targets.weight.sum()) / targets.n)
    return sep.step(sites, fitc, targets, site_step(settings.site_step, state.iteration, fraction))


def step(
    settings: Settings,
    hyper: Hyperparameters,
    state: TrainingState,
    batch: Batch,
    n: float,
    rate: float,
    share: float = 1.0,
) -> tuple[TrainingState, Info]:
    """One site refinement and, unless `rate` is 0, one move of the hyper-parameters.

    Inducing points get a `share` of the learning rate.

    A step that meets anything not finite is thrown away: `info.ok` is then False, ξ goes back to
    where it was a step before, and the rate is halved. Sites stay refined if only the gradient
    failed, because EP's are written in place.
    """
    learn = rate > 0 and len(state.xi) > 0
    y = 2 * batch.y.to(batch.X.dtype) - 1
    targets = Targets(y, batch.weight, batch.rows, n)
    optimizer = OPTIMIZERS[settings.optimizer]

    xi = state.xi.detach().requires_grad_(learn)
    with torch.set_grad_enabled(learn):
        matrices = hyper.matrices(xi, batch.X)
    constants = KernelMatrices(*(matrix.detach() for matrix in matrices))
    with torch.no_grad():
        if batch.X.dtype == torch.float64:
            sites, info = refine(settings, state, direct(constants), targets)
        if batch.X.dtype != torch.float64 or not info.ok:
            sites, info = refine(settings, state, whitened(constants), targets)
    following = state._replace(iteration=state.iteration + 1, sites=sites)
    if info.ok and learn:
        gradient = hyper.gradient(matrices, xi, info.adjoints)
        gradient += hyper.prior_gradient(state.xi)
        change, moments = optimizer.step(state.optimizer, gradient, rate * state.rate)
        change[hyper.inducing] *= share
        moved = torch.clamp(state.xi + change, hyper.lower, hyper.upper)
        info = info._replace(ok=bool(torch.isfinite(moved).all()))
        following = following._replace(xi=moved, last_xi=state.xi, optimizer=moments)
    if not info.ok:
        following = state._replace(
            iteration=state.iteration + 1,
            xi=state.last_xi,
            sites=sites,
            optimizer=optimizer.init(state.xi),
            rate=state.rate / 2,
        )
    return following, info


def train(
    settings: Settings,
    hyper: Hyperparameters,
    state: TrainingState,
    source: Source,
    callbacks: tuple[Callback, ...] = (),
    checkpoint: Checkpoint | None = None,
    monitor: Monitor | None = None,
) -> tuple[TrainingState, list[Record]]:
    """Train until `max_iter`, the time budget, the tolerance or a callback says stop.

    The last step holds the hyper-parameters, so that the sites belong to the final kernel. A
    checkpoint is written every so often and at the end; a run that one is left of goes on from it.
    A monitor measures the model every so often and at the end; the best one is in the state.
    """
    keep_freed_memory()
    history: list[Record] = []
    seconds, stop = 0.0, False
    if checkpoint is not None:
        state, history, seconds, finished = checkpoint.resume(state)
        if finished:
            return state, history
    begin, first = time.perf_counter() - seconds, state.iteration - len(history)
    with closing(source.batches(state.iteration)) as batches:
        for batch in batches:
            number, elapsed = state.iteration - first + 1, time.perf_counter() - begin
            done = progress(settings, number, elapsed, seconds_per_step(history))
            finished = done >= 1 or converged(settings, history, source)
            last = stop or finished
            rate, share = 0.0 if last else settings.learning_rate, 1.0
            if settings.decay:
                rate *= 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
                if source.batches_per_epoch > 1:
                    steps = number / done if done else 1.0
                    share = inducing_rate(settings.learning_rate, steps) / settings.learning_rate
            xi, nll = state.xi, math.nan
            state, info = step(settings, hyper, state, batch, source.total_weight, rate, share)
            if monitor is not None and info.ok and (last or monitor.due(state.iteration)):
                best, nll = monitor.measure(state.best, state.iteration, xi, state.sites)
                state = state._replace(best=best)
            record = Record(
                iteration=state.iteration,
                seconds=time.perf_counter() - begin,
                epoch=state.iteration / source.batches_per_epoch,
                log_evidence=float(info.log_evidence),
                learning_rate=rate * state.rate,
                jitter=info.jitter,
                skipped=info.skipped,
                rejected=not info.ok,
                state_size=sum(t.numel() for t in state.sites if t is not None),
                validation_nll=nll,
            )
            history.append(record)
            stop = any([callback(record) for callback in callbacks])
            # After a callback's stop comes one more step, which a run that goes on must not have.
            if checkpoint is not None and (finished or (not last and (stop or checkpoint.due))):
                checkpoint.save(state, history, record.seconds, finished)
            if last:
                break
    return state, history


def chosen(state: TrainingState) -> TrainingState:
    """The state with the best model that was measured: usually that of the last step.

    An earlier one has the product of its sites alone, since EP's sites per row have moved on.
    """
    best = state.best
    if best is None or best.iteration == state.iteration:
        return state
    return state._replace(xi=best.xi, sites=Natural(best.Lambda, best.b))


def progress(settings: Settings, iterations: int, seconds: float, per_step: float = 0.0) -> float:
    """The part of the work that is done, up to 1, by whichever limit is nearer.

    Of the time budget, that is the part used up by this step, which is number `iterations` and
    begins now, and one more. So the last step is one after which another would be too late.
    """
    done = 0.0
    if settings.max_iter is not None:
        done = iterations / settings.max_iter
    if settings.time_budget is not None:
        done = max(done, (seconds + 2 * per_step) / max(settings.time_budget, 1e-9))
    return done


def seconds_per_step(history: list[Record]) -> float:
    """The mean of all steps but the first, which may have to wait for its rows; 0 if unknown."""
    if len(history) < 2:
        return 0.0
    return (history[-1].seconds - history[0].seconds) / (len(history) - 1)


def converged(settings: Settings, history: list[Record], source: Source) -> bool:
    """Whether log Z_q per row grew by less than `tol` between the last two windows.

    A window is an epoch, or ten steps if that is more.
    """
    if settings.tol is None:
        return False
    window = max(10, source.batches_per_epoch)
    if len(history) < 2 * window or len(history) % window:
        return False
    values = [record.log_evidence for record in history[-2 * window :]]
    gain = (sum(values[window:]) - sum(values[:window])) / window
    return gain < settings.tol * source.total_weight
