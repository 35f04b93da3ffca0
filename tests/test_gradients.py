"""Every gradient against a second, independent way to compute it."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from helpers import (
    METHODS,
    Gaussian,
    KernelMatrices,
    Problem,
    assert_close,
    assert_close_to_scale,
    dense_log_Z,
    gaussian,
    hyperparameters,
    kernel_matrices,
    log_g,
    problem,
    run,
)
from torch import Tensor, nn

from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.kernels import (
    RBF,
    Constant,
    FeatureMap,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Product,
    Stationary,
    Sum,
    Warped,
    White,
)
from sepgp.inference import ep

# --- kernels ----------------------------------------------------------------------------------

PROFILES: dict[type[Stationary], Callable[[Tensor], Tensor]] = {
    RBF: lambda r: torch.exp(-(r**2) / 2),
    Matern12: lambda r: torch.exp(-r),
    Matern32: lambda r: (1 + 3**0.5 * r) * torch.exp(-(3**0.5) * r),
    Matern52: lambda r: (1 + 5**0.5 * r + 5 * r**2 / 3) * torch.exp(-(5**0.5) * r),
}
EVERY_STATIONARY = pytest.mark.parametrize("kernel", PROFILES)
LENGTHSCALES = pytest.mark.parametrize("lengthscale", [0.8, [0.5, 1.0, 2.0]], ids=["one", "ard"])


def naive(kernel: type[Stationary], A: Tensor, B: Tensor, lengthscale: Tensor, variance: Tensor):
    """The textbook formula on all pairs; a pair at distance 0 has no gradient."""
    r2 = ((A[:, None] - B[None]) / lengthscale).square().sum(-1)
    apart = r2 > 0
    r = torch.where(apart, r2, 1.0).sqrt() * apart
    return variance * PROFILES[kernel](r)


def points(a: int = 5, b: int = 4) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    return tuple(
        torch.randn(k, 3, generator=random, dtype=torch.float64).requires_grad_() for k in (a, b)
    )


@EVERY_STATIONARY
@LENGTHSCALES
@pytest.mark.parametrize("same", [False, True], ids=["two sets", "one set"])
def test_stationary_kernel_and_its_backward_are_the_textbook(
    kernel: type[Stationary], lengthscale: Any, same: bool
) -> None:
    k = kernel(lengthscale, variance=1.7)
    A, B = points()
    B = A if same else B
    inputs = (k.log_lengthscale2, k.log_variance, A) + (() if same else (B,))
    K = k(A, B)
    expected = naive(kernel, A, B, k.lengthscale, k.variance)
    assert_close(K, expected)
    G = torch.linspace(-1, 2, K.numel(), dtype=torch.float64).reshape(K.shape)
    pulled = torch.autograd.grad(K, inputs, G)
    for actual, wanted in zip(pulled, torch.autograd.grad(expected, inputs, G), strict=True):
        assert_close(actual, wanted)


@EVERY_STATIONARY
@LENGTHSCALES
def test_stationary_kernel_passes_gradcheck(kernel: type[Stationary], lengthscale: Any) -> None:
    k = kernel(lengthscale)

    def covariance(A: Tensor, B: Tensor, log_lengthscale2: Tensor, log_variance: Tensor) -> Tensor:
        values = {"log_lengthscale2": log_lengthscale2, "log_variance": log_variance}
        return torch.func.functional_call(k, values, (A, B))

    inputs = (*points(), k.log_lengthscale2, k.log_variance)
    assert torch.autograd.gradcheck(covariance, inputs)


@EVERY_STATIONARY
@pytest.mark.parametrize("same", [False, True], ids=["two sets", "one set"])
def test_stationary_kernel_has_the_same_values_where_no_gradient_is_wanted(
    kernel: type[Stationary], same: bool
) -> None:
    k = kernel([0.5, 1.0, 2.0], variance=1.7)
    A, B = (X.detach() + 1e3 for X in points(20))
    B = A if same else B
    with torch.no_grad():
        alone = k(A, B)
    assert_close(alone, k(A, B))


@EVERY_STATIONARY
def test_stationary_kernel_has_an_exact_diagonal_far_from_the_origin(
    kernel: type[Stationary],
) -> None:
    """|a|² − 2aᵀb + |b|² does not cancel to 0 there, and √ of what is left is large."""
    k = kernel(0.8, variance=1.7)
    A = points(60)[0] + 1e3
    assert (k(A, A).diagonal() == k.variance).all()


KERNELS: dict[str, Callable[[], Kernel]] = {
    "rbf": partial(RBF, 1.5, 2.0),
    "matern12": partial(Matern12, 1.5, 2.0),
    "matern32": partial(Matern32, 1.5, 2.0),
    "matern52": partial(Matern52, 1.5, 2.0),
    "linear": partial(Linear, 0.7),
    "constant + rbf": lambda: Constant(0.5) + RBF(1.5, 2.0),
    "white + rbf": lambda: White(0.5) + RBF(1.5, 2.0),
    "sum": lambda: Sum(Matern32(1.2), Linear(0.3), Constant(0.4)),
    "product": lambda: Product(RBF(2.0), Matern52(1.5, 2.0)),
    "feature map": lambda: FeatureMap(network(), RBF(1.0, 2.0)),
    "warped": lambda: warped(Matern32(1.5, 2.0) + RBF(1.0)),
}


def warped(kernel: Kernel, d: int = 4) -> Warped:
    """With weights other than those it starts from, which leave x as it is."""
    found = Warped(kernel, hidden=3)
    found.start(problem(6, 1, d=d).X)
    with torch.no_grad():
        found.V += 8.0
    return found


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3))


@pytest.mark.parametrize("name", KERNELS)
def test_diag_is_the_diagonal_and_pulls_back_alike(name: str) -> None:
    """White is left out of the matrix by definition, so its variance is added to the diagonal."""
    kernel = KERNELS[name]()
    X = problem(6, 1, d=4).X.requires_grad_()
    kernel.start(X.detach())
    noise = sum(part.variance for part in kernel.modules() if isinstance(part, White))
    inputs = [X, *kernel.parameters()]
    matrix, diag = kernel(X, X).diagonal() + noise, kernel.diag(X)
    assert_close(diag, matrix)
    G = torch.arange(1.0, 7.0, dtype=torch.float64)
    get = partial(torch.autograd.grad, inputs=inputs, grad_outputs=G, materialize_grads=True)
    for actual, wanted in zip(get(diag), get(matrix), strict=True):
        assert_close(actual, wanted)


# --- log Z_q, equation (2) --------------------------------------------------------------------


class Case(NamedTuple):
    """A step whose gradient is to be checked: the state before it, and its batch."""

    p: Problem
    state: Any
    rows: Tensor
    n: float

    @property
    def batch(self) -> Problem:
        return self.p.take(self.rows)


def case(method: str, hyper: Hyperparameters, p: Problem) -> Case:
    """Sites that are not at their fixed point, last updated under another kernel."""
    random = torch.Generator().manual_seed(1)
    other = hyper.start + 0.2 * torch.randn(hyper.start.shape, generator=random).double()
    weight = 0.5 * (1 + torch.arange(len(p.y)) % 4).double()
    p = p._replace(weight=weight)
    state = run(method, hyper, p, 3, xi=other).state
    rows = torch.arange(len(p.y)) if method == "ep batch" else torch.tensor([11, 0, 4, 7, 2, 9, 6])
    return Case(p, state, rows, float(weight.sum()))


def sites_and_cavities(
    method: str, c: Case, matrices: KernelMatrices
) -> tuple[Tensor, Tensor, Gaussian, Tensor]:
    """Λ, b, the cavity of every row of the batch over u, and g(θ\\i) of every row."""
    prior = torch.linalg.inv(matrices.Kmm)
    b_rows = len(c.rows)
    Lambda, b = c.state.Lambda, c.state.b
    if method.startswith("ep"):
        nu, mu = c.state.nu[c.rows], c.state.mu[c.rows]
        if c.state.directions is None:
            O = (prior @ matrices.Kmb).T
            weight = c.batch.weight
            Lambda, b = (O.T * (weight * nu)) @ O, O.T @ (weight * mu)
        else:
            O = c.state.directions[c.rows]
        # q holds w copies of a site; the cavity lacks one of them, or all if w < 1.
        copies = c.batch.weight.clamp_max(1)
        out_Lambda = (copies * nu)[:, None, None] * O[:, :, None] * O[:, None, :]
        out_b = (copies * mu)[:, None] * O
    else:
        share = 1 / c.n if method == "sep" else 0.0
        out_Lambda, out_b = (
            (share * parameter).expand(b_rows, *parameter.shape) for parameter in (Lambda, b)
        )
    natural = prior + Lambda - out_Lambda, b - out_b
    return Lambda, b, gaussian(*natural), log_g(*natural)


def relative_g(Kmm: Tensor, Lambda: Tensor, b: Tensor) -> Tensor:
    """g(θ_sites + θ_prior) − g(θ_prior)."""
    prior = torch.linalg.inv(Kmm)
    return log_g(prior + Lambda, b) - log_g(prior, torch.zeros_like(b))


def central_differences(f: Callable[[Tensor], Tensor], x: Tensor, h: float = 1e-3) -> Tensor:
    """Gradient of f at x, of shape (p,), with an error of order h⁴."""
    steps = h * torch.eye(len(x), dtype=x.dtype)
    return torch.stack(
        [(8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * h) for e in steps]
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", KERNELS)
def test_gradient_of_log_evidence_is_that_of_the_surrogate(method: str, name: str) -> None:
    """Equation (2): sites and cavities over u stay, the prior, υ_i and s_i move with ξ."""
    p = problem(12, 3, d=4)  # m < d, so that a linear kernel has a regular Kmm and s > 0
    hyper = hyperparameters(KERNELS[name](), p.Z)
    c = case(method, hyper, p)
    y, weight = c.batch.y, c.batch.weight
    Lambda, b, cavity, _ = sites_and_cavities(
        method, c, kernel_matrices(hyper, hyper.start, c.batch.X)
    )

    def surrogate(xi: Tensor) -> Tensor:
        matrices = kernel_matrices(hyper, xi, c.batch.X)
        rows = (weight * dense_log_Z(matrices, y, cavity)).sum()
        return relative_g(matrices.Kmm, Lambda, b) + c.n / weight.sum() * rows

    expected = central_differences(surrogate, hyper.start)
    rows = None if method == "ep batch" else c.rows
    actual = run(method, hyper, c.p, state=c.state, rows=rows).gradient
    assert_close_to_scale(actual, expected, 1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_log_evidence_is_the_dense_formula(method: str) -> None:
    """g(θ) − g(θ_prior) + (n/s) Σ_i w_i [log Z_i + g(θ\\i) − g(θ)]."""
    p = problem(12, 3, d=4)
    hyper = hyperparameters(RBF(1.5, 2.0), p.Z)
    c = case(method, hyper, p)
    matrices = kernel_matrices(hyper, hyper.start, c.batch.X)
    Lambda, b, cavity, g_cavity = sites_and_cavities(method, c, matrices)
    g = log_g(torch.linalg.inv(matrices.Kmm) + Lambda, b)
    weight = c.batch.weight
    rows = weight * (dense_log_Z(matrices, c.batch.y, cavity) + g_cavity - g)
    expected = relative_g(matrices.Kmm, Lambda, b) + c.n / weight.sum() * rows.sum()
    rows = None if method == "ep batch" else c.rows
    actual = run(method, hyper, c.p, state=c.state, rows=rows).info.log_evidence
    assert_close(actual, expected)


@pytest.mark.slow
def test_ep_gradient_is_total_at_the_fixed_point() -> None:
    """At EP's fixed point equation (2) is the derivative of log Z_q, sites and all."""
    p = problem(12, 3)
    hyper = hyperparameters(RBF(1.5, 2.0), p.Z)

    def converged(xi: Tensor):
        state = ep.init(3, 12, False)
        return run("ep batch", hyper, p, 80, state=state, xi=xi)

    expected = central_differences(lambda xi: converged(xi).info.log_evidence, hyper.start)
    assert_close_to_scale(converged(hyper.start).gradient, expected, 1e-7)


def test_prior_draws_lengthscales_to_their_mean_and_nothing_else() -> None:
    Z = problem(3, 4, d=3).Z
    kernel = RBF([0.5, 1.0, 4.0], spread=2.0) + Matern32(spread=math.inf)
    hyper = hyperparameters(kernel, Z)
    log_l2 = 2 * torch.tensor([0.5, 1.0, 4.0]).double().log()
    pull = hyper.prior_gradient(hyper.start)
    moved = pull[pull != 0]
    assert_close(moved, (log_l2.mean() - log_l2) / 4)
