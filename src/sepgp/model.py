"""The fitted model: one frozen value that predicts."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sepgp.data.scaling import Floats, Scaling
from sepgp.data.schema import Schema, is_source
from sepgp.gp.kernels import Kernel
from sepgp.gp.natural import Natural
from sepgp.gp.predictor import Predictor, predict
from sepgp.likelihoods import Likelihood

CHUNK = 4096
"""Rows predicted at a time, fewer with many classes: never more than CHUNK × m numbers at once."""


@dataclass(frozen=True, eq=False)
class Model:
    """What training found. Nothing in it changes: learning more makes another model."""

    method: str
    """The name of the inference method."""
    schema: Schema
    """The columns of the rows, and how they become features."""
    target: str | None
    """The column that held the labels."""
    classes: NDArray[Any]
    """The labels, sorted, shape (C,)."""
    scaling: Scaling
    likelihood: Likelihood
    kernel: Kernel
    Z: Tensor
    """Inducing points, scaled, shape (m, d)."""
    sites: Any
    """What the method keeps: a tuple with Λ and b over u, and for EP a site per row."""
    predictor: Predictor
    n_seen: float
    """Weight of all rows that were learned from: the paper's n."""
    history: Mapping[str, NDArray[Any]]
    """A column per field of `sepgp.training.record.Record`, a row per step."""
    log_evidence: float
    iteration: int
    """Steps so far, of all trainings that led to this model."""
    moments: Mapping[str, Any]
    """The optimiser's state, for trainings that go on."""
    seed: int
    """Of the order of the rows and of the choice of held-out rows."""
    dtype: torch.dtype
    """Of the work on rows."""
    replay: Any = None
    """Rows seen before that online learning sees again."""

    @property
    def natural(self) -> Natural:
        """The product of all sites over u."""
        return Natural(self.sites.Lambda, self.sites.b)

    @property
    def inducing_points(self) -> Floats:
        """Inducing points in the units of X, shape (m, d)."""
        return self.scaling.undo(self.Z.cpu().numpy())

    @property
    def n_iter(self) -> int:
        """Steps of the last training."""
        return len(self.history["iteration"])

    @property
    def best_iteration(self) -> int:
        """The step whose model this is: the best one measured on held-out rows, or the last."""
        nll, steps = self.history["validation_nll"], self.history["iteration"]
        return int(steps[-1 if np.isnan(nll).all() else np.nanargmin(nll)])

    @cached_property
    def _rounded(self) -> tuple[Kernel, Tensor, Predictor]:
        """Kernel, inducing points and predictor in the type of the work on rows."""
        if self.dtype == torch.float64:
            return self.kernel, self.Z, self.predictor
        folded = Predictor(*(part.to(self.dtype) for part in self.predictor))
        return copy.deepcopy(self.kernel).to(self.dtype), self.Z.to(self.dtype), folded

    def latent(self, X: Any) -> Any:
        """Mean and variance of f at rows X, two arrays of shape (n,), or (n, C) for C > 2."""
        return self.predict(X, lambda mean, variance: (mean, variance))

    def probabilities(self, X: Any) -> Any:
        """Probabilities of the classes at rows X, shape (n, C)."""
        return self.predict(X, self.likelihood.probabilities)

    def log_probabilities(self, X: Any) -> Any:
        """Their logarithms, exact near 0 too, shape (n, C)."""
        return self.predict(X, self.likelihood.log_probabilities)

    def labels(self, X: Any) -> Any:
        """The most probable class at rows X, shape (n,)."""

        def most_probable(mean: Floats, variance: Floats) -> NDArray[Any]:
            labels: NDArray[Any] = self.classes[self.likelihood.most_probable(mean, variance)]
            return labels

        return self.predict(X, most_probable)

    def accuracy(self, rows: Any) -> float:
        """The share of right labels among those of rows, by weight, in one pass."""
        right = total = 0.0
        for block in rows.blocks():
            right += block.weight @ (self.labels(block.X) == block.y)
            total += block.weight.sum()
        return float(right / total)

    def about(self, label: Any) -> Self:
        """The same model with `label`, one of its two classes, as the second; None for itself."""
        if label is None or str(self.classes[1]) == str(label):
            return self
        predictor = self.predictor._replace(beta=-self.predictor.beta)
        sites = Natural(self.sites.Lambda, -self.sites.b)
        return replace(self, classes=self.classes[::-1], predictor=predictor, sites=sites)

    def predict(self, X: Any, result: Callable[[Floats, Floats], Any]) -> Any:
        """The result that mean and variance of f lead to.

        Rows in memory give one; a source gives an iterator of one per block, in the order of its
        rows. Cost O(m² + md) per row; memory O(m) per row of a chunk.
        """
        if is_source(X):
            return (result(*self.latent_of_features(rows)) for rows in self.schema.blocks(X))
        return result(*self.latent_of_features(self.schema.features(X)))

    @torch.no_grad()
    def latent_of_features(self, rows: NDArray[Any]) -> tuple[Floats, Floats]:
        """Mean and variance of f at rows of features, shape (n, d): each (n,), or (n, C)."""
        kernel, Z, folded = self._rounded
        shape = (len(rows), *self.likelihood.latents)
        mean, variance = np.empty(shape), np.empty(shape)
        size = max(1, CHUNK // math.prod(self.likelihood.latents))
        for begin in range(0, len(rows), size):
            chunk = slice(begin, begin + size)
            x = torch.as_tensor(self.scaling.apply(rows[chunk])).to(Z.device, self.dtype)
            part = predict(folded, kernel(Z, x), kernel.diag(x))
            mean[chunk], variance[chunk] = (values.cpu().numpy().T for values in part)
        return mean, variance
