"""How fast everything moves in a training, and when it ends."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sepgp.training.optimizers import OPTIMIZERS
from sepgp.training.record import Record
from sepgp.training.settings import Settings

MAX_SITE_STEP = 0.5
"""At ρ = 1 the tied site of a kernel of large amplitude swings between two values for ever."""
FORGETTING = 0.6
"""The tied site moves by ρ = t^−0.6 in step t. That is more than an average's 1/t, since a part of
what it has learned belongs to a kernel that has moved since."""
ROWS_PER_POINT = 10
"""A tied site that is made of fewer rows for each inducing point, n/s times each, would be sure of
what they say by chance."""
WANDER = 1.0
"""How far inducing points may go astray in a training, in standard deviations of the features."""
FASTEST = 0.1
"""The highest learning rate of inducing points in minibatches."""
RISING_SHARE = 0.1
"""Of the learning rate, for inducing points where log Z_q is to rise."""
HURRIED, HURRIED_RATE = 5.0, 0.5
"""Seconds of a time budget up to which minibatches are few, and Adam's learning rate for them."""
FREE_STEPS = 30
"""First steps in which log Z_q may fall: sites are being filled, and fast steps find the way."""
SETTLING = 6
"""The last of them, where log Z_q is to rise. They hold ξ until the tied site has caught up with
it: out of balance, log Z_q is too high, and the moves that follow would be blamed for its fall."""
STEPS, MINIBATCH_STEPS = 250, 1000
"""Without a number of steps or a time budget: when every step sees all rows, and otherwise."""


@dataclass(frozen=True)
class Schedule:
    """Learning rates over a training, and its end."""

    max_iter: int | None
    time_budget: float | None
    rate: float
    """Learning rate at the start."""
    decay: bool
    """Whether it falls to 0 along a half cosine."""
    tol: float | None
    early_stopping: bool
    """Whether held-out rows, where there are some, may bring the end nearer."""
    rising: bool = False
    """Whether log Z_q is to rise from step to step after the first `FREE_STEPS`: moves that let it
    fall are taken back, and inducing points, which SEP's tied site lags behind, are slower."""

    @classmethod
    def of(cls, settings: Settings, batches_per_epoch: int, exact: bool = False) -> Self:
        """The schedule that the settings ask for.

        `exact` says that every step knows log Z_q of all rows, and moves along its gradient. EP's
        rises without help then, and ADF's counts rows again in every step.
        """
        max_iter, rate = settings.max_iter, settings.learning_rate
        decay = settings.optimizer == "adam"
        hurried = settings.time_budget is not None and settings.time_budget <= HURRIED
        if max_iter is None and settings.time_budget is None:
            max_iter = STEPS if batches_per_epoch == 1 else MINIBATCH_STEPS
        if rate is None:
            rate = OPTIMIZERS[settings.optimizer].rate
            if decay and hurried and batches_per_epoch > 1:
                rate = HURRIED_RATE
        return cls(
            max_iter,
            settings.time_budget,
            rate,
            decay,
            settings.tol,
            settings.early_stopping,
            rising=exact and decay and settings.method == "sep",
        )

    def done(self, number: int, seconds: float, per_step: float = 0.0) -> float:
        """The part of the work that is done, up to 1, by whichever limit is nearer.

        Of the time budget, that is the part used up by this step, which is the `number`-th and
        begins now, one more, and what makes a model of the sites, which takes about as long. So
        the last step is one after which another would be too late.
        """
        done = 0.0
        if self.max_iter is not None:
            done = number / self.max_iter
        if self.time_budget is not None:
            done = max(done, (seconds + 3 * per_step) / max(self.time_budget, 1e-9))
        return done

    def rates(
        self, number: int, done: float, planned: float, minibatches: bool
    ) -> tuple[float, float]:
        """The learning rate in step `number`, and the inducing points' share of it.

        `planned` is the part that would be done without early stopping.
        """
        if not self.decay or not self.rate:
            return self.rate, 1.0
        rate, share = self.rate * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))), 1.0
        if self.rising and number > FREE_STEPS:
            share = RISING_SHARE
        elif self.rising and number > FREE_STEPS - SETTLING:
            rate = 0.0
        if minibatches:
            share = inducing_rate(self.rate, number / planned if planned else 1.0) / self.rate
        return rate, share

    def least_evidence(self, history: Sequence[Record]) -> float | None:
        """The log Z_q below which the last move of ξ is taken back; None where any will do."""
        if not self.rising or len(history) <= FREE_STEPS:
            return None
        return history[-1].log_evidence

    def converged(self, history: Sequence[Record], batches_per_epoch: int, n: float) -> bool:
        """Whether log Z_q per row grew by less than `tol` between the last two windows.

        A window is an epoch, or ten steps if that is more.
        """
        if self.tol is None:
            return False
        window = max(10, batches_per_epoch)
        if len(history) < 2 * window or len(history) % window:
            return False
        values = [record.log_evidence for record in history[-2 * window :]]
        gain = (sum(values[window:]) - sum(values[:window])) / window
        return gain < self.tol * n


def site_step(rule: str | float, iteration: int, fraction: float, informed: float) -> float:
    """The step ρ of SEP's tied site at an iteration, counted from 0, for batches of s = fraction·n.

    "paper" is ρ = s/n. "average" is the running average of all batches of the first epoch, then
    the paper's rule. A number is a floor under t^−0.6 in step t. But for the paper's rule, ρ stays
    at or below `MAX_SITE_STEP`, and batches of few rows are not made to speak for all: with s rows
    for m inducing points, `informed` = s/(10 m), each row counts once until there were 10 m of
    them, and then the site is an average of about as many.
    """
    if rule == "paper" or (iteration + 1) * informed < min(informed / fraction, 1.0):
        return fraction
    most = min(MAX_SITE_STEP, 2 * informed)
    if rule == "average":
        return max(min(fraction, MAX_SITE_STEP), min(most, 1 / (iteration + 1)))
    slow = max(float(rule), math.pow(iteration + 1, -FORGETTING))
    return max(min(fraction, MAX_SITE_STEP), min(most, slow))


def inducing_rate(rate: float, steps: float) -> float:
    """The learning rate of inducing points in minibatches, in a training of so many steps.

    A minibatch says little about a single coordinate of Z, and Adam makes steps of about ± the
    rate of whatever it says: a random walk, which along a half cosine of N steps ends at a
    distance of rate·√(3N/8). This is kept below `WANDER`, and the rate below `FASTEST`.
    """
    return min(rate, FASTEST, WANDER * math.sqrt(8 / (3 * max(steps, 1.0))))


def seconds_per_step(history: Sequence[Record]) -> float:
    """The mean of all steps but the first, which may have to wait for its rows; 0 if unknown."""
    if len(history) < 2:
        return 0.0
    first, last = history[0], history[-1]
    return (last.seconds - first.seconds) / (last.iteration - first.iteration)
