"""The default kernel of large tables: the best of some on held-out rows of a sample.

Which kernel suits a table cannot be told from its shape, and the evidence of a sparse model is too
kind to rich kernels. So each candidate is trained for a few steps with few inducing points, and
held-out rows decide; where they cannot yet, the best two are trained for longer. After that all
rows are trained on.
"""

import copy
import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from sepgp.data.array_source import ArraySource
from sepgp.data.batches import MINIBATCH, Batching, aligned
from sepgp.data.components import projected
from sepgp.data.scaling import Floats, Scaling
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.inducing import start_points
from sepgp.gp.kernels import AUTO, MANY_FEATURES, Kernel, Warped, named
from sepgp.gp.kernels.scaled import scale
from sepgp.likelihoods import Likelihood
from sepgp.threads import given_up, spread
from sepgp.training.monitor import CHUNK, Monitor
from sepgp.training.optimizers import Adam
from sepgp.training.schedule import MINIBATCH_STEPS, inducing_rate
from sepgp.training.settings import Settings
from sepgp.training.step import Engine

logger = logging.getLogger(__name__)

SMOOTH, ROUGH, SMOOTHER = "matern32+matern32", "matern12+matern12", "rbf+matern32"
STEPS, LONGER, POINTS, BATCH = 50, 150, 100, 1000
"""Steps of a trial, of one that a first trial could not decide, inducing points, and rows a step.
"""
FASTEST = 3.0
"""A candidate whose steps take less time makes more of them, up to so many times as many."""
ROWS_PER_WEIGHT = 10
"""A learned map is tried if there are so many rows for each of its weights: with fewer it may look
good in a short trial, and overfit in the training that follows."""
HALF = 0.5
"""What a map gains grows with the steps, up to twofold from `STEPS` to `LONGER`. So if it would be
chosen at half its cost, and is not at the whole of it, a longer trial decides."""
PLENTY = 300
"""With so many it has nothing to lose, and gains more in a long training than in a trial."""
VALUES = 2 * 10**6
"""Rows × features that its inducing points are found from, at most, but ten rows for each."""
ROWS, HELD_OUT = 100_000, 5_000
"""Rows of a trial, at most: to train on, and a fifth of all to compare on."""
WORTH = 600
"""There are trials only before a training of at least so many steps ..."""
SECONDS = 20.0
"""... or, with a time budget, of so many seconds."""
WORTH_FACTOR, SECONDS_FACTOR = 200, 10.0
"""The same for the trials that choose the factor of a prior mean."""
QUIET = 0.05
"""The amplitude, as a share of the usual one, of a process that begins with the whole of a prior
mean: it is to learn what the mean has missed, and not to make its probabilities dull."""


class Candidate(NamedTuple):
    """A kernel, and what it sees of the rows."""

    kernel: Kernel
    scaling: Scaling
    name: str
    pace: float = 1.0
    """Steps that it makes in the time of one of the others, or a little less."""


class Some(NamedTuple):
    """Rows to try kernels on, not scaled."""

    X: NDArray[np.generic]
    codes: NDArray[np.int64]
    weight: Floats
    score: Floats | None = None
    """Of the classifier that gives a prior mean, out of sample, shape (k,), or (k, C)."""

    def take(self, where: NDArray[np.intp] | slice) -> "Some":
        """A part of the rows."""
        score = None if self.score is None else self.score[where]
        return Some(self.X[where], self.codes[where], self.weight[where], score)

    def source(self, scaling: Scaling, size: int) -> ArraySource:
        """Batches of the rows."""
        how = Batching(scaling, size, 0, torch.float32)
        return ArraySource(self.X, self.codes, self.weight, how, self.score)


def worth_while(settings: Settings, n_rows: int, n_features: int, n_classes: int) -> bool:
    """Whether the default kernel is chosen by trials: with minibatches, before a long training.

    With many classes, whose trials take longer, only where there are very many features, or rows
    in plenty for a learned map.
    """
    plenty = n_features > MANY_FEATURES or rows_per_weight(n_rows, n_features) >= PLENTY
    if n_classes > 2 and not plenty:
        return False
    return is_long(settings, n_rows, WORTH, SECONDS)


def factor_is_tried(settings: Settings, n_rows: int) -> bool:
    """Whether trials choose the factor of a prior mean to begin with: two of them, whatever m."""
    return is_long(settings, n_rows, WORTH_FACTOR, SECONDS_FACTOR)


def is_long(settings: Settings, n_rows: int, steps: int, seconds: float) -> bool:
    """Whether a training learns the kernel, by minibatches, in so many steps or seconds."""
    planned = MINIBATCH_STEPS if settings.max_iter is None else settings.max_iter
    long = planned >= steps
    if settings.time_budget is not None:
        long = settings.time_budget >= seconds and (long or settings.max_iter is None)
    return settings.learn_kernel and long and n_rows > max(settings.rows_per_step, MINIBATCH)


def candidates(
    scaling: Scaling, X: NDArray[np.generic], n_rows: int, n_classes: int
) -> list[Candidate]:
    """What is tried, for a sample X of all rows, shape (k, d).

    Smooth and rough functions, each of the features and of a learned map of them; with very many
    features, functions of their principal components beside those of the features.
    """
    if X.shape[1] > MANY_FEATURES:
        features = Candidate(named(AUTO, X.shape[1], n_classes), scaling, "features")
        components = projected(scaling, X)
        faster = step_cost(X.shape[1], n_classes) / step_cost(2 * components.width, n_classes)
        pace = min(max(1.0, faster), FASTEST)
        return [
            features,
            *(
                Candidate(named(name, components.width), components, f"components, {name}", pace)
                for name in (SMOOTHER, SMOOTH)
            ),
        ]
    plain = [Candidate(named(name, scaling.width), scaling, name) for name in (SMOOTH, ROUGH)]
    warped = [Candidate(Warped(kernel), scaling, f"warped {name}") for kernel, _, name, _ in plain]
    enough = rows_per_weight(n_rows, scaling.width)
    if enough >= PLENTY:
        return warped
    return plain + warped if enough >= ROWS_PER_WEIGHT else plain


def step_cost(n_features: int, n_classes: int) -> float:
    """Flops of a step, for each of its rows and inducing points, with so many features in all."""
    n_latent = 1 if n_classes == 2 else n_classes
    return 7 * POINTS * n_latent + 4 * n_features


def rows_per_weight(n_rows: int, n_features: int) -> float:
    """How many rows there are for each weight of a learned map of the features."""
    return n_rows / Warped.n_weights(n_features)


def best(
    whole: Some,
    scaling: Scaling,
    likelihood: Likelihood,
    n_rows: int,
    factor: float | None = None,
) -> Candidate:
    """The candidate with the lowest NLL on held-out rows.

    `whole` is a sample of all rows, or all of them; where they have scores, `factor` is what the
    training begins to take them by.
    The rows alone decide, so that a run that goes on from a checkpoint finds the same one. Cost:
    `STEPS` steps with `POINTS` inducing points for each candidate, on all cores, and `LONGER` ones
    for two of them if these are not enough.
    """
    rows = rows_of_trials(whole, scaling)
    n_classes = max(2, math.prod(likelihood.latents))
    tried = candidates(scaling, rows["trained"].X, n_rows, n_classes)
    trial = partial(score, likelihood=likelihood, factor=factor, **rows)
    costs = np.array([excess(candidate, n_rows) for candidate in tried])
    scores = compare(tried, partial(trial, steps=STEPS))
    first, promising = (int(np.argmin(scores + share * costs)) for share in (1.0, HALF))
    if first == promising:
        return tried[first]
    final = [first, promising]
    scores = compare([tried[i] for i in final], partial(trial, steps=LONGER))
    return tried[final[int(np.argmin(scores + costs[final]))]]


def best_factor(
    whole: Some,
    kernel: Kernel,
    scaling: Scaling,
    likelihood: Likelihood,
    factors: Sequence[float],
) -> float:
    """The factor of a prior mean to begin with that leads to the lowest NLL on held-out rows.

    `whole` is a sample of all rows, with scores. Cost: `STEPS` steps for each factor.
    """
    rows = rows_of_trials(whole, scaling)
    tried = [Candidate(kernel, scaling, f"prior mean times {factor:.2f}") for factor in factors]
    trial = partial(score, likelihood=likelihood, steps=STEPS, **rows)

    def at_its_factor(one: Candidate) -> float:
        return trial(one, factor=factors[tried.index(one)])

    return factors[int(np.argmin(compare(tried, at_its_factor)))]


class Rows(TypedDict):
    """Of a trial."""

    trained: Some
    held_out: Some
    points: Floats
    """Inducing points, standardised, shape (m, d)."""


def rows_of_trials(whole: Some, scaling: Scaling) -> Rows:
    """Rows to train on and to compare on, and inducing points: always the same ones."""
    rng = np.random.RandomState(0)
    usable = np.flatnonzero(whole.weight > 0)
    some = whole.take(usable[rng.permutation(len(usable))[: ROWS + HELD_OUT]])
    n_held_out = min(HELD_OUT, len(some.codes) // 5)
    held_out, trained = some.take(slice(n_held_out)), some.take(slice(n_held_out, None))
    few = trained.take(slice(max(10 * POINTS, min(100 * POINTS, VALUES // some.X.shape[1]))))
    points = start_points("kmeans", scaling.standardize(few.X), few.codes, few.weight, POINTS, rng)
    return {"trained": trained, "held_out": held_out, "points": points}


def compare(tried: Sequence[Candidate], trial: Callable[[Candidate], float]) -> Floats:
    """The NLL of each candidate after its trial, shape (k,); infinite where there is none."""
    scores = np.full(len(tried), np.inf)

    def run(number: int) -> None:
        nll = trial(tried[number])
        logger.info("trial: %s has a held-out NLL of %.4f", tried[number].name, nll)
        scores[number] = np.inf if math.isnan(nll) else nll

    spread(run, range(len(tried)))
    return scores


def excess(candidate: Candidate, n_rows: int) -> float:
    """What k weights that are learned from n rows cost on other rows, k/(2n) nats.

    It is the expected loss of estimating them (Akaike, 1974). A short trial does not show it.
    """
    kernel, scaling = candidate.kernel, candidate.scaling
    return Warped.n_weights(scaling.width) / (2 * n_rows) if isinstance(kernel, Warped) else 0.0


def score(
    candidate: Candidate,
    points: Floats,
    likelihood: Likelihood,
    trained: Some,
    held_out: Some,
    factor: float | None,
    steps: int,
) -> float:
    """The NLL of held-out rows after a short training from standardised points, shape (m, d).

    It has so many steps, or as many more as the candidate is faster.
    """
    kernel, scaling = copy.deepcopy(candidate.kernel), candidate.scaling
    steps = round(candidate.pace * steps)
    Z = aligned(torch.as_tensor(scaling.project(points)))
    kernel.start(Z)
    if factor:
        scale(kernel, QUIET)
    hyper = Hyperparameters(kernel, Z, factor=factor)
    engine = Engine.of(Settings(), likelihood, hyper)
    source = trained.source(scaling, BATCH)
    state = engine.init(len(Z), source.n_rows, minibatch=True)
    share = inducing_rate(Adam.rate, steps) / Adam.rate
    for number, batch in enumerate(islice(source.batches(), steps)):
        rate = Adam.rate * 0.5 * (1 + math.cos(math.pi * number / (steps - 1)))
        state, _ = engine.step(state, batch, source.total_weight, rate, share)
        if given_up():
            return math.nan
    measured = Monitor(hyper, likelihood, held_out.source(scaling, CHUNK))
    return measured.measure(None, 0, state.xi, state.sites)[1]
