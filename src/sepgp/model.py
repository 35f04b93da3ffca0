"""The fitted model: one frozen value that predicts."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sepgp.data import checks
from sepgp.data.batches import scaled
from sepgp.data.scaling import Floats, Scaling
from sepgp.data.schema import Schema, is_source
from sepgp.gp.kernels import Kernel
from sepgp.gp.natural import Natural
from sepgp.gp.predictor import Predictor, predict
from sepgp.gp.products import rounded
from sepgp.likelihoods import Likelihood
from sepgp.means import Mean
from sepgp.threads import spread

CACHE = 2**21
"""Rows are predicted so many bytes at a time, rows × m × classes: they stay in the cache."""
AT_ONCE = 4
"""So many times as many rows are scaled at once, which takes many small operations."""
PART = 2**14
"""Rows whose probabilities are found at a time, of those that have means and variances."""


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
    mean: Mean | None = None
    """The prior mean of f; None for 0."""

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
        return self._of_features(X, self.latent_of_features)

    def probabilities(self, X: Any) -> Any:
        """Probabilities of the classes at rows X, shape (n, C)."""
        return self.predict(X, self.likelihood.probabilities)

    def log_probabilities(self, X: Any) -> Any:
        """Their logarithms, exact near 0 too, shape (n, C)."""
        return self.predict(X, self.likelihood.log_probabilities)

    def labels(self, X: Any) -> Any:
        """The most probable class at rows X, shape (n,)."""

        def labels(rows: NDArray[Any]) -> NDArray[Any]:
            if self.likelihood.mean_decides:
                codes = self.likelihood.most_probable(self.mean_of_features(rows), None)
            else:
                codes = self.likelihood.most_probable(*self.latent_of_features(rows))
            found: NDArray[Any] = self.classes[codes]
            return found

        return self._of_features(X, labels)

    def accuracy(self, rows: Any) -> float:
        """The share of right labels among those of rows, by weight, in one pass."""
        right = total = 0.0
        for block in rows.blocks():
            y = checks.like_classes(block.y, self.classes)
            right += block.weight @ (self.labels(block.X) == y)
            total += block.weight.sum()
        return float(right / total)

    def about(self, label: Any) -> Self:
        """The same model with `label`, one of its two classes, as the second; None for itself."""
        checks.positive(label, self.classes)
        if label is None or str(self.classes[1]) == str(label):
            return self
        predictor = self.predictor._replace(beta=-self.predictor.beta)
        sites = Natural(self.sites.Lambda, -self.sites.b)
        mean = None if self.mean is None else replace(self.mean, factor=-self.mean.factor)
        return replace(
            self, classes=self.classes[::-1], predictor=predictor, sites=sites, mean=mean
        )

    def predict(self, X: Any, result: Callable[[Floats, Floats], Floats]) -> Any:
        """The result that mean and variance of f lead to, an array with a first axis of rows.

        Cost O(m² + md) per row; memory O(m) per row of a chunk.
        """

        def found(rows: NDArray[Any]) -> Floats:
            mean, variance = self.latent_of_features(rows)
            starts, parts = range(0, max(1, len(rows)), PART), dict[int, Floats]()

            def work(begin: int) -> None:
                part = slice(begin, begin + PART)
                parts[begin] = result(mean[part], variance[part])

            spread(work, starts)
            return np.concatenate([parts[begin] for begin in starts])

        return self._of_features(X, found)

    def _of_features(self, X: Any, result: Callable[[NDArray[Any]], Any]) -> Any:
        """The result that rows of features lead to.

        Rows in memory give one; a source gives an iterator of one per block, in the order of its
        rows.
        """
        if is_source(X):
            return (result(rows) for rows in self.schema.blocks(X))
        return result(self.schema.features(X))

    def latent_of_features(self, rows: NDArray[Any]) -> tuple[Floats, Floats]:
        """Mean and variance of f at rows of features, shape (n, d): each (n,), or (n, C)."""
        kernel, _, folded = self._rounded
        shape = (len(rows), *self.likelihood.latents)
        mean, variance = np.empty(shape), np.empty(shape)

        def fill(chunk: slice, x: Tensor, Kmb: Tensor) -> None:
            part = predict(folded, Kmb, kernel.diag(x))
            mean[chunk], variance[chunk] = (values.cpu().numpy().T for values in part)

        self._in_chunks(fill, rows)
        return self._with_prior(mean, rows), variance

    def mean_of_features(self, rows: NDArray[Any]) -> Floats:
        """The mean alone, the same numbers. Cost O(md) per row."""
        beta = self._rounded[2].beta
        mean = np.empty((len(rows), *self.likelihood.latents))

        def fill(chunk: slice, x: Tensor, Kmb: Tensor) -> None:
            mean[chunk] = (beta @ Kmb).cpu().numpy().T

        self._in_chunks(fill, rows)
        return self._with_prior(mean, rows)

    @torch.inference_mode()
    def _in_chunks(self, fill: Callable[[slice, Tensor, Tensor], None], rows: NDArray[Any]) -> None:
        """Call `fill` for every chunk of rows: its place, its scaled features x, and k(Z, x)."""
        kernel, Z, folded = self._rounded
        covariances, numbers = kernel.at(Z), folded.beta.numel()
        size = rounded(max(1, CACHE // (numbers * self.dtype.itemsize)))
        block = size * min(AT_ONCE, max(1, numbers // rows.shape[1]))

        @torch.inference_mode()
        def work(begin: int) -> None:
            X = scaled(self.scaling, rows[begin : begin + block], self.dtype).to(Z.device)
            for i in range(0, len(X), size):
                x = X[i : i + size]
                fill(slice(begin + i, begin + i + size), x, covariances(x))

        spread(work, range(0, len(rows), block))

    def _with_prior(self, mean: Floats, rows: NDArray[Any]) -> Floats:
        """The mean of f where that of g is this, at rows of features."""
        return mean if self.mean is None else mean + self.mean.offset(rows)
