"""GPyTorch: a stochastic variational GP, whitened, with or without natural gradients.

With many classes, a latent function for each with one kernel, and softmax.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import contest
import gpytorch
import linear_operator
import numpy as np
import torch
from contest import Floats, Rows, Settings
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    IndependentMultitaskVariationalStrategy,
    NaturalVariationalDistribution,
    VariationalStrategy,
)
from numpy.typing import NDArray

LOOK_CHUNK = 5_000
"""Rows at a time when the test rows are looked at."""


KERNELS = {
    "matern32": functools.partial(gpytorch.kernels.MaternKernel, nu=1.5),
    "rbf": gpytorch.kernels.RBFKernel,
}


class SVGP(gpytorch.models.ApproximateGP):
    """Kernels with a length-scale per feature, a constant mean, and C latent functions if C > 2."""

    def __init__(self, rows: Rows, settings: Settings, Z: torch.Tensor) -> None:
        natural, C = settings["gamma"] > 0, rows.n_classes
        batch = torch.Size([C] if C > 2 else [])
        distribution = (
            NaturalVariationalDistribution if natural else CholeskyVariationalDistribution
        )(len(Z), batch_shape=batch)
        strategy: Any = VariationalStrategy(self, Z, distribution, learn_inducing_locations=True)
        if C > 2:
            strategy = IndependentMultitaskVariationalStrategy(strategy, num_tasks=C)
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=batch)
        kernels = []
        for start in contest.lengthscales(rows, settings):
            shape: Any = KERNELS[settings.get("kernel", "matern32")](ard_num_dims=Z.shape[1])
            shape.lengthscale = torch.from_numpy(start)
            kernels.append(gpytorch.kernels.ScaleKernel(shape))
            kernels[-1].outputscale = 1.0
        self.covar_module = functools.reduce(operator.add, kernels)

    def forward(self, x: torch.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class GPyTorch:
    """A model under training; `settings["gamma"]` is the natural gradients' rate, 0 for none."""

    def __init__(self, rows: Rows, settings: Settings, seed: int) -> None:
        torch.manual_seed(seed)
        self._dtype = getattr(torch, settings["dtype"])
        C = rows.n_classes
        self._X = torch.from_numpy(rows.X)
        self._y = torch.from_numpy(rows.y).to(self._dtype if C == 2 else torch.int64)
        self._batches = contest.minibatches(len(rows.y), settings["batch"], seed)
        natural = settings["gamma"] > 0
        Z = torch.from_numpy(rows.Z).to(self._dtype)
        self._model = SVGP(rows, settings, Z).to(self._dtype)
        self._likelihood = gpytorch.likelihoods.BernoulliLikelihood()
        self._nll = contest.probit_nll
        if C > 2:
            self._likelihood = gpytorch.likelihoods.SoftmaxLikelihood(
                num_features=C, num_classes=C, mixing_weights=False
            )
            self._nll = contest.softmax_nll
        self._bound = gpytorch.mlls.VariationalELBO(self._likelihood, self._model, len(rows.y))
        by_adam = self._model.hyperparameters() if natural else self._model.parameters()
        self._optimizers = [(torch.optim.Adam(by_adam, lr=settings["rate"]), settings["rate"])]
        if natural:
            gamma = settings["gamma"]
            variational = self._model.variational_parameters()
            ngd = gpytorch.optim.NGD(variational, num_data=len(rows.y), lr=gamma)
            self._optimizers.append((ngd, gamma))
        self._model.train()
        self._steps = 0

    def warm_up(self) -> None:
        self.step(0.0)

    def step(self, scale: float) -> None:
        rows = torch.from_numpy(next(self._batches))
        ramps = 1.0, contest.ramp(self._steps)
        self._steps += 1
        for (optimizer, rate), factor in zip(self._optimizers, ramps, strict=False):
            for group in optimizer.param_groups:
                group["lr"] = rate * scale * factor
            optimizer.zero_grad()
        loss = -self._bound(self._model(self._X[rows]), self._y[rows])
        loss.backward()
        for optimizer, _ in self._optimizers:
            optimizer.step()

    def _evaluate(self) -> None:
        """Go to the mode in which the Cholesky factor of Kmm is kept, without that of training."""
        self._model.eval()
        strategy = self._model.variational_strategy
        getattr(strategy, "base_variational_strategy", strategy)._clear_cache()

    def nll(self, X: Floats, y: NDArray[np.int8]) -> float:
        self._evaluate()
        with torch.no_grad():
            parts = [self._model(x) for x in torch.from_numpy(X).split(LOOK_CHUNK)]
            mean = torch.cat([part.mean for part in parts])
            variance = torch.cat([part.variance for part in parts])
        self._model.train()
        return self._nll(mean.numpy(), variance.numpy(), y)

    def predictor(self, chunk: int) -> Callable[[Floats], Floats]:
        self._evaluate()

        def predict(X: Floats) -> Floats:
            # By default factors are in float64, which makes float32 predictions slower.
            with torch.no_grad(), gpytorch.settings.linalg_dtypes(self._dtype):
                parts = [
                    self._likelihood(self._model(x)).probs for x in torch.from_numpy(X).split(chunk)
                ]
                return np.asarray(torch.cat(parts))

        return predict


if __name__ == "__main__":
    with gpytorch.settings.debug(False), linear_operator.settings.debug(False):
        contest.serve(contest.Tasks(GPyTorch))
