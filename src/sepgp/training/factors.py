"""Which of several tied sites a row belongs to."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from sepgp.data.batches import Batch
from sepgp.errors import InvalidParameter
from sepgp.gp.inducing import cluster_centres
from sepgp.training.start import Start

PartOf = Callable[[Batch], Tensor]
"""From a batch of b rows to the numbers of their sites, shape (b,)."""


def factors(
    n_factors: int | str | Mapping[str, Sequence[float]], start: Start
) -> tuple[int, PartOf | None]:
    """How many tied sites there are, and which one a row belongs to.

    A number K asks for clusters of rows, by the nearest of K centres of the inducing points;
    "class" for a site per class; and a column with edges, in its own units, for one between each
    two of them, which is how rows are cut by time.
    """
    if isinstance(n_factors, Mapping):
        ((column, edges),) = n_factors.items()
        return len(edges) + 1, partial(_interval, *_scaled_edges(column, edges, start))
    if n_factors == "class":
        return len(start.classes), _class
    if isinstance(n_factors, str):
        raise InvalidParameter(
            f"n_factors={n_factors!r} is for the parts of a cluster; use "
            "sepgp.dask.DaskGPClassifier, or give a number."
        )
    if n_factors == 1:
        return 1, None
    centres = cluster_centres(start.Z.cpu().numpy(), n_factors)
    return n_factors, partial(_nearest, torch.as_tensor(centres, device=start.Z.device))


def _nearest(centres: Tensor, batch: Batch) -> Tensor:
    """The centre, of shape (K, d), that is nearest to each row of a batch, shape (b,)."""
    return torch.cdist(batch.X, centres.to(batch.X.dtype)).argmin(1)


def _class(batch: Batch) -> Tensor:
    return batch.y


def _interval(feature: int, edges: Tensor, batch: Batch) -> Tensor:
    """Between which of the edges, in scaled units, a feature lies, shape (b,)."""
    return torch.bucketize(batch.X[:, feature].contiguous(), edges.to(batch.X.dtype))


def _scaled_edges(column: str, edges: Sequence[float], start: Start) -> tuple[int, Tensor]:
    """The feature of a column, and the edges in scaled units."""
    columns = start.schema.columns
    names = [name for name, _, _ in columns]
    if column not in names or columns[names.index(column)][1] != "number":
        raise InvalidParameter(
            f"n_factors names {column!r}, which is no column of numbers; name one of "
            f"{', '.join(repr(name) for name, kind, _ in columns if kind == 'number')}."
        )
    where = names.index(column)
    feature = sum(width for _, _, width in columns[:where])
    rows = np.tile(start.scaling.mean, (len(edges), 1))
    rows[:, feature] = edges
    return feature, torch.as_tensor(start.scaling.apply(rows)[:, feature].copy())
