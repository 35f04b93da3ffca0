"""Where a training starts: from rows, or from a model that was trained before."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sepgp.data.batches import Batching, Source, aligned
from sepgp.data.logarithms import of_skewed
from sepgp.data.prepared import ArrayData, Data, Surveyed
from sepgp.data.scaling import Floats, Scaling, identity
from sepgp.data.schema import Schema
from sepgp.data.survey import Arrays
from sepgp.errors import InvalidParameter
from sepgp.gp.inducing import among, start_points
from sepgp.gp.kernels import AUTO, MANY_FEATURES, Kernel, PerClass, Stationary, named
from sepgp.gp.kernels.scaled import scale
from sepgp.gp.products import rounded
from sepgp.inference.method import State
from sepgp.likelihoods import Likelihood, for_classes
from sepgp.means import Mean
from sepgp.model import Model
from sepgp.training.choice import (
    QUIET,
    Some,
    best,
    best_factor,
    factor_is_tried,
    worth_while,
)
from sepgp.training.prior import first_factor, learned
from sepgp.training.settings import Settings

POINTS, FEWEST_POINTS, FEW_POINTS, MORE_POINTS, MANY_POINTS = 200, 50, 100, 300, 400
"""Inducing points by default: in most trainings; in very short and in short ones, whose time is
better spent on more steps; in those that see every row often, and in long ones, which have steps
enough."""
SHORTEST, SHORT, LONG = 0.5, 10.0, 120.0
"""Seconds of training of two classes up to which it is very short, or short, and from which on it
is long."""
OFTEN, OFTEN_ROWS, OFTEN_SECONDS = 1_000, 10_000, 30.0
"""Rows for each second of training of two classes, at most, so that each is seen often; rows, at
least, so that some are held out to end a training that has learned enough; and seconds, at least.
"""
STEP_ROWS, LEAST_ROWS = 2_000, 250
"""Rows of a minibatch by default, at most for each second of training of two classes, so that tens
of steps are made; and at least."""
MAX_ROWS = 20_000
"""Rows that inducing points and logarithms are found from; more would cost time and move the points
little."""
ROWS_PER_SECOND, VALUES_PER_SECOND = 2_000, 200_000
"""Fewer with a short time budget: so many rows or values for each of its seconds, by whichever is
fewer, but ten rows for each point."""
EXACT_SPREAD = 1.0
"""Prior standard deviation of the log ℓ² of the default kernel where "auto" is EP, whose gradient
follows few rows more closely than SEP's does: the usual 1.5 would let it overfit."""
FOR_SEP = ("n_factors", "power", "site_step", "shared_kernel", "mean")
"""Settings of SEP, and others that EP was not measured with: where one is not at its default,
"auto" is SEP."""


class Start(NamedTuple):
    """What a training goes on from."""

    schema: Schema
    target: str | None
    classes: NDArray[Any]
    scaling: Scaling
    likelihood: Likelihood
    kernel: Kernel
    Z: Tensor
    """Inducing points, scaled, shape (m, d)."""
    sites: State = None
    """None for uniform ones."""
    iteration: int = 0
    moments: Mapping[str, Any] = {}
    """The optimiser's state; empty for a fresh one."""
    mean: Mean | None = None
    """The prior mean of f; None for 0."""

    def source(self, settings: Settings, data: Data, seed: int, size: int | None = None) -> Source:
        """Batches of data, scaled."""
        size = size or rows_per_step(settings, data.n_rows, len(self.classes))
        dtype = settings.row_dtype(data.n_rows)
        return data.source(Batching(self.scaling, size, seed, dtype, settings.device))


def from_model(model: Model) -> Start:
    """Where a training that goes on from a model starts."""
    return Start(*(getattr(model, name) for name in Start._fields))


def from_rows(
    settings: Settings,
    data: Data | Surveyed,
    schema: Schema,
    target: str | None,
    rng: np.random.RandomState,
    points: Tensor | None = None,
    mean: Mean | None = None,
) -> Start:
    """Scaling, inducing points and kernel that the rows suggest.

    `points`, shape (m, d), are the inducing points if they are known, in standardised units.
    """
    if settings.power != 1 and len(data.classes) > 2:
        raise InvalidParameter(
            f"power={settings.power!r} is for two classes, and there are {len(data.classes)}; "
            "leave it at 1."
        )
    likelihood = for_classes(len(data.classes), settings.power)
    arrays = data.sample()
    scaling = _scaling(settings, data)
    some = _some(data, arrays)
    factor = None if mean is None else first_factor(settings, mean)
    kernel, scaling = _kernel(settings, data, some, scaling, likelihood, factor)
    if mean is not None:
        if factor_is_tried(settings, data.n_rows) and some.score is not None:
            factor = best_factor(some, kernel, scaling, likelihood, (0.0, mean.factor))
        mean = learned(mean, factor)
    if not settings.shared_kernel and len(data.classes) > 2:
        kernel = PerClass(*[kernel] * len(data.classes))
    if points is not None and points.shape[1] == scaling.width:
        Z: Floats = points.numpy()
    elif isinstance(settings.inducing, str):
        m = n_points(settings, len(data.classes), data.n_rows)
        Z = _start_points(settings, arrays, scaling, m, rng)
    else:
        Z = scaling.apply(inducing_points(settings.inducing, len(scaling.mean)))
    placed = aligned(torch.as_tensor(Z, device=settings.device))
    kernel.start(placed)
    if factor and settings.learn_kernel and not isinstance(settings.kernel, Kernel):
        scale(kernel, QUIET)
    kernel = kernel.to(settings.device)
    return Start(schema, target, data.classes, scaling, likelihood, kernel, placed, mean=mean)


def settled(settings: Settings, start: Start, data: Data | Surveyed) -> tuple[Settings, Start]:
    """The settings and the start of a training on these rows, by whether every row is a point.

    FITC is then the process itself, so the inducing points are held: if they moved, it would be an
    approximation. For two classes with all rows in every step, and the defaults of `FOR_SEP`,
    "auto" is EP then, and a default kernel that was not trained before gets `EXACT_SPREAD`.
    Elsewhere "auto" is SEP. Cost O(md), and O(d) per row up to the first that is no point.
    """
    if not _rows_are_points(start, data):
        return settings.resolved(), start
    settings = replace(settings, learn_inducing=False)
    exact = (
        settings.method == AUTO
        and len(data.classes) == 2
        and data.n_rows <= settings.rows_per_step
        and all(getattr(settings, name) == getattr(Settings, name) for name in FOR_SEP)
    )
    if exact and settings.kernel == AUTO and start.sites is None:
        start = start._replace(kernel=_with_spread(start.kernel, EXACT_SPREAD))
    return settings.resolved(exact), start


def _rows_are_points(start: Start, data: Data | Surveyed) -> bool:
    """Whether every row of positive weight is an inducing point."""
    rows, _, weight = data.sample()
    if not len(rows) == data.n_rows <= MAX_ROWS:
        return False
    rows, Z = rows[weight > 0], start.Z.numpy(force=True)
    blocks = (rows[begin : begin + len(Z)] for begin in range(0, len(rows), len(Z)))
    return all(among(start.scaling.apply(block), Z) for block in blocks)


def _with_spread(kernel: Kernel, spread: float) -> Kernel:
    """A copy of a kernel, with this spread of length-scales in all its parts."""
    kernel = copy.deepcopy(kernel)
    for part in kernel.modules():
        if isinstance(part, Stationary):
            part.spread = spread
    return kernel


def _scaling(settings: Settings, data: Data | Surveyed) -> Scaling:
    """The standardisation of the features, or none.

    Distances between rows far from 0 would lose the digits that their coordinates share, so the
    mean is taken off even then, unless the kernel would notice.
    """
    scaling, kernel = data.scaling(), settings.kernel
    if settings.standardize:
        return scaling
    notices = isinstance(kernel, Kernel) and not kernel.shift_invariant
    return identity(len(scaling.mean), 0.0 if notices else scaling.mean)


def _some(data: Data | Surveyed, arrays: Arrays) -> Some:
    """Rows for trials; those of a stream are a sample without the numbers that scores need."""
    return Some(*arrays, data.score if isinstance(data, ArrayData) else None)


def _kernel(
    settings: Settings,
    data: Data | Surveyed,
    some: Some,
    scaling: Scaling,
    likelihood: Likelihood,
    factor: float | None,
) -> tuple[Kernel, Scaling]:
    """The kernel, and the scaling of what it sees: as told, the default's, or by trials."""
    if isinstance(settings.kernel, Kernel):
        return copy.deepcopy(settings.kernel), scaling
    shape = data.n_rows, len(scaling.mean), len(data.classes)
    by_column = isinstance(settings.n_factors, Mapping)  # of the features, as they are
    if settings.kernel == AUTO and worth_while(settings, *shape) and not by_column:
        factor = None if some.score is None else factor
        chosen = best(some, scaling, likelihood, data.n_rows, factor)
        return chosen.kernel, chosen.scaling
    kernel = named(settings.kernel, *shape[1:])
    if settings.kernel == AUTO and settings.standardize and sees_logarithms(*shape[1:]):
        few = some.take(slice(None, None, -(-len(some.weight) // MAX_ROWS)))
        logarithms = of_skewed(scaling.standardize(few.X), few.weight)
        scaling = scaling._replace(logarithms=logarithms)
    return kernel, scaling


def sees_logarithms(n_features: int, n_classes: int) -> bool:
    """Whether the default kernel sees skewed features beside their logarithms."""
    return n_classes > 2 and n_features <= MANY_FEATURES


def _start_points(
    settings: Settings, arrays: Arrays, scaling: Scaling, m: int, rng: np.random.RandomState
) -> Floats:
    """At most m inducing points to start from, scaled, shape (m, width)."""
    rows, codes, weight = arrays
    some, most = np.flatnonzero(weight > 0), _most_rows(settings.time_budget, scaling.width, m)
    if len(some) > most:
        some = np.sort(rng.choice(some, most, replace=False))
    scaled = scaling.apply(rows[some])
    return start_points(str(settings.inducing), scaled, codes[some], weight[some], m, rng)


def n_points(settings: Settings, n_classes: int, n_rows: int) -> int:
    """The number m of inducing points: as told, or what time and rows are enough for."""
    if settings.n_inducing != AUTO:
        return int(settings.n_inducing)
    if settings.time_budget is None:
        return POINTS
    seconds = _per_two_classes(settings.time_budget, n_classes)
    if seconds <= SHORT:
        return FEWEST_POINTS if seconds <= SHORTEST else FEW_POINTS
    if seconds >= LONG:
        return MANY_POINTS
    often = seconds >= OFTEN_SECONDS and OFTEN_ROWS <= n_rows <= OFTEN * seconds
    return MORE_POINTS if often and n_classes == 2 else POINTS


def rows_per_step(settings: Settings, n_rows: int, n_classes: int) -> int:
    """The size of a minibatch: as told, or what the time is enough for.

    Rows that fit in one batch stay one, whatever the time.
    """
    size = settings.rows_per_step
    if settings.batch_size is not None or settings.time_budget is None or n_rows <= size:
        return size
    affordable = STEP_ROWS * _per_two_classes(settings.time_budget, n_classes)
    return rounded(int(min(size, max(LEAST_ROWS, affordable))))


def _per_two_classes(seconds: float, n_classes: int) -> float:
    """What a time comes to with two classes: a step takes longer the more there are."""
    return seconds * 2 / n_classes


def _most_rows(time_budget: float | None, width: int, m: int) -> int:
    """Rows of so many features that m inducing points start from, at most."""
    if time_budget is None:
        return MAX_ROWS
    affordable = int(min(MAX_ROWS, time_budget * min(ROWS_PER_SECOND, VALUES_PER_SECOND / width)))
    return max(affordable, min(MAX_ROWS, 10 * m))


def inducing_points(given: Any, n_features: int) -> Floats:
    """Inducing points that a user gave as an array of shape (m, d)."""
    try:
        points = np.asarray(given, dtype=np.float64)
    except (ValueError, TypeError):
        points = np.empty(())
    finite = points.ndim == 2 and np.isfinite(points).all()
    if not finite or not len(points) or points.shape[1] != n_features:
        raise InvalidParameter(
            f"inducing has shape {points.shape}; give a finite array of shape "
            f"(n_inducing, {n_features}), 'kmeans' or 'random'."
        )
    return points
