"""Online learning: rows that come in blocks, how they are learned and which are remembered."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sepgp import inputs
from sepgp.data.prepared import ArrayData
from sepgp.data.scaling import Floats
from sepgp.training import loop as training

if TYPE_CHECKING:
    from sepgp.classifier import GPClassifier

REMEMBERED = 20_000
"""Rows seen before that are kept to be seen again."""
STEPS = 20
"""SEP's steps on a block, at least."""
PASSES = 4
"""How often SEP and EP go over a block after it was absorbed, at least."""
RATE = 0.05
"""Learning rate for the first block; for others it falls with the root of their share in n."""


def learn(model: "GPClassifier", X: Any, y: Any, sample_weight: Any) -> None:
    """Learn one block: absorb it with q as its cavity, then refine what is at hand."""
    first = not hasattr(model, "kernel_")
    data = inputs.block_data(model, X, y, sample_weight, reset=first)
    model.classes_ = data.classes
    if first:
        model._n_seen, model._iteration = 0.0, 0
    # A seed is the same in every call, but every block draws numbers of its own.
    seed = check_random_state(model.random_state).randint(2**31 - 1)
    rng = np.random.RandomState([seed, model._iteration])
    if first:
        model._start(data, rng)
    if hasattr(model, "_sites"):
        Lambda, b = (model.forgetting * part for part in model._sites[:2])
        model._sites = model._sites._replace(Lambda=Lambda, b=b)
    new = float(data.weight.sum())
    model._n_seen = model.forgetting * model._n_seen + new
    rate = RATE if model.learning_rate is None else model.learning_rate
    rate *= math.sqrt(new / model._n_seen)
    if model.method == "sep":
        _go_over(model, "adf", data, 0.0, rng)
        _go_over(model, "sep", together(model._memory, data), rate, rng, PASSES, STEPS)
        model._memory = remember(model._memory, data, model.forgetting, rng)
    else:
        passes = PASSES if model.method == "ep" else 1
        _go_over(model, model.method, data, rate, rng, passes)


def _go_over(
    model: "GPClassifier",
    method: str,
    data: ArrayData,
    rate: float,
    rng: np.random.RandomState,
    passes: int = 1,
    least: int = 1,
) -> None:
    """Go over a part of all rows some times, in no fewer steps than `least`."""
    source = model._source(data, int(rng.randint(2**31 - 1)))
    source.total_weight = model._n_seen
    settings = model._settings(
        source,
        method=method,
        max_iter=max(passes * source.batches_per_epoch, least),
        time_budget=None,
        learning_rate=rate,
        decay=False,
        tol=None,
    )
    hyper = model._hyperparameters()
    state = training.init(settings, hyper, len(model._Z), source, whole=False)
    state = state._replace(iteration=model._iteration)
    if hasattr(model, "_sites"):
        known = {"Lambda": model._sites.Lambda, "b": model._sites.b}
        state = state._replace(sites=state.sites._replace(**known))
        if len(model._moments[0]) == len(state.xi):
            state = state._replace(optimizer=model._moments)
    model._train(settings, hyper, state, source)


class Memory(NamedTuple):
    """A sample of the rows seen so far, k of them.

    Every row draws a key at random, and the rows with the smallest keys are kept: a uniform sample
    of all rows. With forgetting, a row stays at each block with the factor as probability, so
    that its chance to be seen again falls as its weight in q does.
    """

    X: NDArray[Any]
    """Features, shape (k, d), not scaled."""
    y: NDArray[Any]
    weight: Floats
    key: Floats


def remember(
    memory: Memory | None, data: ArrayData, forgetting: float, random: np.random.RandomState
) -> Memory:
    """The memory after a new block. Cost O(kd)."""
    rows = Memory(data.X, data.y, data.weight, random.uniform(size=len(data.y)))
    if memory is not None:
        stays = random.uniform(size=len(memory.y)) < forgetting
        pairs = zip(memory, rows, strict=True)
        rows = Memory(*(np.concatenate([old[stays], new]) for old, new in pairs))
    kept = np.sort(np.argsort(rows.key)[:REMEMBERED])
    return Memory(*(part[kept] for part in rows))


def together(memory: Memory | None, data: ArrayData) -> ArrayData:
    """A new block and the rows that are remembered from before it."""
    if memory is None:
        return data
    X, y, weight = (
        np.concatenate([new, old]) for new, old in zip(data.sample(), memory[:3], strict=True)
    )
    return data._replace(X=X, y=y, weight=weight)
