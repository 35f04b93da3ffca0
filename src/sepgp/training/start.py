"""Where a training starts: from rows, or from a model that was trained before."""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sepgp.data.batches import Batching, Source, aligned
from sepgp.data.prepared import Data, Surveyed
from sepgp.data.scaling import Floats, Scaling, identity
from sepgp.data.schema import Schema
from sepgp.errors import InvalidParameter
from sepgp.gp.inducing import start_points
from sepgp.gp.kernels import Kernel, PerClass, named
from sepgp.inference.method import State
from sepgp.likelihoods import Likelihood, for_classes
from sepgp.model import Model
from sepgp.training.settings import Settings

MAX_ROWS = 20_000
"""Rows that inducing points start from; more would cost time and move the points little."""
ROWS_PER_SECOND = 2_000
"""Fewer with a short time budget: so many for each of its seconds, but ten for each point."""


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

    def source(self, settings: Settings, data: Data, seed: int, size: int | None = None) -> Source:
        """Batches of data, scaled."""
        size, dtype = size or settings.rows_per_step, settings.row_dtype(data.n_rows)
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
) -> Start:
    """Scaling, inducing points and kernel that the rows suggest.

    `points`, shape (m, d), are the inducing points if they are known, in standardised units.
    """
    rows, codes, weight = data.sample()
    d = rows.shape[1]
    scaling = data.scaling() if settings.standardize else identity(d)
    if points is not None and points.shape[1] == d:
        Z: Floats = points.numpy()
    elif isinstance(settings.inducing, str):
        some, most = np.flatnonzero(weight > 0), _most_rows(settings)
        if len(some) > most:
            some = np.sort(rng.choice(some, most, replace=False))
        scaled = scaling.apply(rows[some])
        Z = start_points(
            settings.inducing, scaled, codes[some], weight[some], settings.n_inducing, rng
        )
    else:
        Z = scaling.apply(inducing_points(settings.inducing, d))
    kernel = (
        copy.deepcopy(settings.kernel)
        if isinstance(settings.kernel, Kernel)
        else named(settings.kernel, d, len(data.classes))
    )
    if not settings.shared_kernel and len(data.classes) > 2:
        kernel = PerClass(*[kernel] * len(data.classes))
    placed = aligned(torch.as_tensor(Z, device=settings.device))
    kernel.start(placed)
    kernel = kernel.to(settings.device)
    if settings.power != 1 and len(data.classes) > 2:
        raise InvalidParameter(
            f"power={settings.power!r} is for two classes, and there are {len(data.classes)}; "
            "leave it at 1."
        )
    likelihood = for_classes(len(data.classes), settings.power)
    return Start(schema, target, data.classes, scaling, likelihood, kernel, placed)


def _most_rows(settings: Settings) -> int:
    """Rows that inducing points start from, at most."""
    if settings.time_budget is None:
        return MAX_ROWS
    affordable = int(ROWS_PER_SECOND * min(settings.time_budget, MAX_ROWS / ROWS_PER_SECOND))
    return min(MAX_ROWS, max(affordable, 10 * settings.n_inducing))


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
