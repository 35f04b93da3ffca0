"""Small random problems, the methods under one signature, and dense references in u-space."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_ndtr
from torch import Tensor

from sepgp.gp.direct import direct
from sepgp.gp.fitc import FITC
from sepgp.gp.hyperparameters import Hyperparameters, pull_back
from sepgp.gp.kernels import RBF, Kernel
from sepgp.gp.natural import Natural
from sepgp.gp.predictor import predict, predictor
from sepgp.gp.whitened import whitened
from sepgp.inference import ep
from sepgp.inference import method as methods
from sepgp.inference.evidence import Factors, Info, report
from sepgp.likelihoods import Likelihood, Multinomial, Probit

Array = NDArray[np.float64]


def tolerance(dtype: torch.dtype = torch.float64) -> dict[str, float]:
    """How closely two computations of the same thing must agree when rows are in `dtype`."""
    size = {torch.float64: 1e-9, torch.float32: 2e-5}[dtype]
    return {"rtol": size, "atol": size}


def assert_close(actual: Any, expected: Any, **tolerances: float) -> None:
    """`torch.testing.assert_close` in float64, for tensors, arrays and numbers alike."""
    actual, expected = (torch.as_tensor(x, dtype=torch.float64) for x in (actual, expected))
    torch.testing.assert_close(actual.detach(), expected.detach(), **(tolerances or tolerance()))


def assert_close_to_scale(actual: Tensor, expected: Tensor, size: float) -> None:
    """No entry is off by more than `size` times the largest entry of `expected`."""
    assert_close(actual, expected, rtol=0.0, atol=size * float(expected.abs().max()))


# --- problems ---------------------------------------------------------------------------------


class Problem(NamedTuple):
    """n rows, their labels and weights, and m inducing points."""

    X: Tensor
    y: Tensor
    weight: Tensor
    Z: Tensor
    likelihood: Likelihood = Probit()

    def take(self, rows: Tensor) -> "Problem":
        """The same problem with other rows."""
        return self._replace(X=self.X[rows], y=self.y[rows], weight=self.weight[rows])

    def to(self, dtype: torch.dtype) -> "Problem":
        """The same problem with its rows in `dtype`."""
        return self._replace(**{k: getattr(self, k).to(dtype) for k in ("X", "y", "weight")})


def problem(n: int, m: int, d: int = 2, seed: int = 0) -> Problem:
    """Rows in [−2, 2]^d whose label is the noisy sign of a smooth function; Z well spread."""
    random = torch.Generator().manual_seed(seed)
    uniform = partial(torch.rand, generator=random, dtype=torch.float64)
    X = 4 * uniform(n, d) - 2
    noise = torch.randn(n, generator=random, dtype=torch.float64)
    y = torch.where(torch.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * noise > 0, 1.0, -1.0).double()
    return Problem(X, y, torch.ones_like(y), spread(4 * uniform(400, d) - 2, m))


def many_classes(n: int, m: int, n_classes: int = 3, d: int = 2, seed: int = 0) -> Problem:
    """The same rows with more classes: which of some noisy sines is the largest."""
    p = problem(n, m, d, seed)
    random = torch.Generator().manual_seed(seed + 1)
    phase = 2 * torch.arange(n_classes) * torch.pi / n_classes
    f = 2 * torch.sin(2 * p.X[:, :1] + phase) + p.X[:, 1:2] * torch.cos(phase)
    noise = torch.randn(f.shape, generator=random, dtype=torch.float64)
    y = (f + 0.7 * noise).argmax(1)
    return p._replace(y=y, likelihood=Multinomial(n_classes))


def spread(points: Tensor, m: int) -> Tensor:
    """m of the points, each the farthest from those before it: a well conditioned Kmm."""
    chosen = [0]
    while len(chosen) < m:
        chosen.append(int(torch.cdist(points, points[chosen]).amin(1).argmax()))
    return points[chosen]


def rbf(Z: Tensor, lengthscale: float = 1.0, variance: float = 2.0) -> Hyperparameters:
    """An RBF kernel with one length-scale per feature, and the points Z, as a vector ξ."""
    return hyperparameters(RBF(lengthscale, variance), Z)


def hyperparameters(kernel: Kernel, Z: Tensor) -> Hyperparameters:
    """A started kernel and its inducing points as a vector ξ."""
    kernel.start(Z)
    return Hyperparameters(kernel, Z)


class KernelMatrices(NamedTuple):
    """What the kernel says about the inducing points and a batch of b rows."""

    Kmm: Tensor
    Kmb: Tensor
    kdiag: Tensor


def kernel_matrices(hyper: Hyperparameters, xi: Tensor, X: Tensor) -> KernelMatrices:
    """All kernel matrices at ξ, differentiable in it."""
    return KernelMatrices(hyper.Kmm(xi), *hyper.Kmb(xi, X))


def detach(matrices: KernelMatrices) -> KernelMatrices:
    """The matrices without their graph."""
    return KernelMatrices(*(matrix.detach() for matrix in matrices))


# --- the methods under one signature ----------------------------------------------------------


class Form(NamedTuple):
    """A method in batch or minibatch form."""

    name: str
    minibatch: bool

    def init(self, m: int, n: int, latents: tuple[int, ...] = ()) -> Any:
        """Sites that say nothing yet."""
        return methods.METHODS[self.name].init(m, n, self.minibatch, latents)


METHODS = {
    "sep": Form("sep", True),
    "adf": Form("adf", True),
    "ep batch": Form("ep", False),
    "ep minibatch": Form("ep", True),
}


class Outcome(NamedTuple):
    """The state after some steps, and what the last of them reported."""

    state: Any
    info: Info
    fitc: FITC

    @property
    def gradient(self) -> Tensor:
        """∂ log Z_q/∂ξ."""
        return self.info.gradient

    @property
    def natural(self) -> Natural:
        """Λ and b of the sites."""
        return Natural(self.state.Lambda, self.state.b)


def chunk(
    fitc: FITC, matrices: KernelMatrices, batch: Problem, rows: Tensor | None, xi: Tensor
) -> methods.Chunk:
    """The rows of a batch as the methods see them."""
    Kmb, kdiag = matrices.Kmb, matrices.kdiag
    seen = fitc.rows(
        Kmb.detach(), kdiag.detach(), lambda *adjoints: pull_back(xi, (Kmb, kdiag), adjoints)
    )
    return seen, Factors(batch.likelihood, batch.y, batch.weight, rows)


def step(
    method: str,
    state: Any,
    fitc: FITC,
    n: float,
    chunks: Sequence[methods.Chunk],
    pull: Callable[[Tensor], Tensor],
    rho: float | None = None,
    damping: float | None = None,
) -> tuple[Any, Info]:
    """A step without hyper-parameters that move; ρ is s/n if it is not given."""
    chosen = methods.METHODS[METHODS[method].name]
    if damping is not None:
        chosen = replace(chosen, sums=partial(ep.sums, damping=damping))
    prepared = methods.prepare(chosen, state, fitc, n, chunks)
    total = methods.add_up(chosen, prepared, chunks)
    info = report(prepared, total, pull)
    if not info.ok:
        return state, info
    rho = min(1.0, total.weight / n) if rho is None else rho
    return chosen.update(state, prepared, total, rho), info


def run(
    method: str,
    hyper: Hyperparameters,
    p: Problem,
    steps: int = 1,
    *,
    state: Any = None,
    rows: Tensor | None = None,
    xi: Tensor | None = None,
    n: float | None = None,
    jitter: float = 0.0,
    basis: Callable[..., FITC] | None = None,
    **options: float,
) -> Outcome:
    """Some steps with the batch `rows` of a problem, all of them by default."""
    if state is None:
        state = METHODS[method].init(len(p.Z), len(p.y), p.likelihood.latents)
    batch = p if rows is None else p.take(rows)
    basis = basis or (direct if batch.X.dtype == torch.float64 else whitened)
    xi = (hyper.start if xi is None else xi).clone().requires_grad_()
    n = float(p.weight.sum()) if n is None else n
    for _ in range(steps):
        matrices = kernel_matrices(hyper, xi, batch.X)
        with torch.no_grad():
            fitc = basis(matrices.Kmm.detach(), jitter)
            chunks = [chunk(fitc, matrices, batch, rows, xi)]
            pull = partial(_pull_Kmm, xi, matrices.Kmm)
            state, info = step(method, state, fitc, n, chunks, pull, **options)
    assert info.ok
    return Outcome(state, info, fitc)


def _pull_Kmm(xi: Tensor, Kmm: Tensor, adjoint: Tensor) -> Tensor:
    return pull_back(xi, (Kmm,), (adjoint,))


def latent(
    outcome: Outcome, hyper: Hyperparameters, X: Tensor, jitter: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Predictive mean and variance of f at the rows X."""
    kernel, Z = hyper.model(hyper.start)
    matrices = kernel_matrices(hyper, hyper.start, X)
    with torch.no_grad():
        folded = predictor(kernel, Z, outcome.natural, jitter)
    return predict(folded, matrices.Kmb, matrices.kdiag)


def assert_same(actual: Outcome, expected: Outcome) -> None:
    """The same sites, evidence and gradient."""
    assert_close(actual.state.Lambda, expected.state.Lambda)
    assert_close(actual.state.b, expected.state.b)
    assert_close(actual.info.log_evidence, expected.info.log_evidence)
    assert_close(actual.gradient, expected.gradient)


# --- dense references -------------------------------------------------------------------------


class ExactEP(NamedTuple):
    """The fixed point of EP for GP probit classification."""

    mean: Array
    var: Array
    log_Z: float


def exact_ep(K: Array, y: Array, sweeps: int = 100) -> ExactEP:
    """Algorithm 3.5 of Rasmussen and Williams, with the n × n posterior updated site by site."""
    n = len(y)
    tau, nu = np.zeros(n), np.zeros(n)
    Sigma, mean = K.copy(), np.zeros(n)
    for _ in range(sweeps):
        for i in range(n):
            tau_out = 1 / Sigma[i, i] - tau[i]
            nu_out = mean[i] / Sigma[i, i] - nu[i]
            m, v = nu_out / tau_out, 1 / tau_out
            z = y[i] * m / np.sqrt(1 + v)
            ratio = np.exp(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - log_ndtr(z))
            hat_m = m + y[i] * v * ratio / np.sqrt(1 + v)
            hat_v = v - v * v * ratio / (1 + v) * (z + ratio)
            change = 1 / hat_v - tau_out - tau[i]
            tau[i] += change
            nu[i] = hat_m / hat_v - nu_out
            column = Sigma[:, i].copy()
            Sigma -= change / (1 + change * column[i]) * np.outer(column, column)
            mean = Sigma @ nu
        # Afresh once a sweep, as the algorithm does, against the drift of rank-one updates.
        root = np.sqrt(tau)
        inner = np.linalg.inv(np.eye(n) + root[:, None] * K * root)
        Sigma = K - (K * root) @ inner @ (root[:, None] * K)
        mean = Sigma @ nu
    var = Sigma.diagonal().copy()
    tau_out, nu_out = 1 / var - tau, mean / var - nu
    m, v = nu_out / tau_out, 1 / tau_out
    # Equation 3.65.
    total = K + np.diag(1 / tau)
    site_mean, spread_ = nu / tau, v + 1 / tau
    log_Z = (
        -0.5 * np.linalg.slogdet(total)[1]
        - 0.5 * site_mean @ np.linalg.solve(total, site_mean)
        + log_ndtr(y * m / np.sqrt(1 + v)).sum()
        + 0.5 * np.log(spread_).sum()
        + ((m - site_mean) ** 2 / (2 * spread_)).sum()
    )
    return ExactEP(mean, var, float(log_Z))


def log_Z_quadrature(
    matrices: KernelMatrices, y: Tensor, points: int = 60, offset: Array | float = 0.0
) -> float:
    """log Z of the FITC model by Gauss–Hermite quadrature over u, in m dimensions.

    `offset`, shape (n,), is the prior mean of f.
    """
    Kmm, Kmb, kdiag = (matrix.detach().numpy() for matrix in matrices)
    A = np.linalg.solve(Kmm, Kmb)
    s = kdiag - (Kmb * A).sum(0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    grid = np.stack(np.meshgrid(*[nodes] * len(Kmm), indexing="ij")).reshape(len(Kmm), -1)
    mass = np.stack(np.meshgrid(*[weights] * len(Kmm), indexing="ij")).reshape(len(Kmm), -1)
    means = (A.T @ (np.linalg.cholesky(Kmm) @ grid)).T + offset
    log_p = log_ndtr(y.numpy() * means / np.sqrt(1 + s)).sum(1)
    return float(np.log((np.exp(log_p) * mass.prod(0)).sum() / weights.sum() ** len(Kmm)))


class Gaussian(NamedTuple):
    """N(mean, cov) over u; leading dimensions are a batch."""

    mean: Tensor
    cov: Tensor


def gaussian(precision: Tensor, b: Tensor) -> Gaussian:
    """From natural parameters, shapes (…, m, m) and (…, m)."""
    cov = torch.linalg.inv(precision)
    return Gaussian((cov @ b[..., None])[..., 0], cov)


def log_g(precision: Tensor, b: Tensor) -> Tensor:
    """Log normaliser g(θ) of a Gaussian with natural parameters θ, without the 2π."""
    return 0.5 * (b * gaussian(precision, b).mean).sum(-1) - 0.5 * torch.logdet(precision)


def dense_log_Z(matrices: KernelMatrices, y: Tensor, cavity: Gaussian) -> Tensor:
    """log Z_i of every row under its own cavity over u, mean (b, m) and cov (b, m, m)."""
    A = torch.linalg.inv(matrices.Kmm) @ matrices.Kmb
    s = matrices.kdiag - (matrices.Kmb * A).sum(0)
    mean = (A.T * cavity.mean).sum(1)
    var = torch.einsum("mi,imk,ki->i", A, cavity.cov, A)
    return torch.special.log_ndtr(y * mean / (1 + s + var).sqrt())
