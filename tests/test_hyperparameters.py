"""The vector ξ: what it holds, its bounds, its prior, and the way back to a kernel."""

import math

import pytest
import torch
from helpers import assert_close, assert_close_to_scale, hyperparameters, problem
from torch import Tensor, nn

from sepgp.gp.hyperparameters import Hyperparameters, pull_back
from sepgp.gp.kernels import RBF, FeatureMap, Linear, Matern12, Matern32, Matern52, Warped

LEARN = pytest.mark.parametrize("learn_inducing", [True, False])


def kernel() -> RBF:
    return RBF([0.5, 1.0, 2.0], variance=3.0)


def points() -> Tensor:
    return problem(3, 4, d=3).Z


@LEARN
@pytest.mark.parametrize("learn_kernel", [True, False])
@pytest.mark.parametrize("factor", [None, 0.7])
def test_xi_holds_what_is_learned_and_the_rest_stays(learn_kernel, learn_inducing, factor) -> None:
    Z, k = points(), kernel()
    hyper = Hyperparameters(k, Z, learn_kernel, learn_inducing, factor)
    n_kernel = (4 + (factor is not None)) * learn_kernel
    assert len(hyper.start) == n_kernel + Z.numel() * learn_inducing
    assert hyper.start.dtype == torch.float64
    assert_close(hyper.start[hyper.inducing], Z.reshape(-1) if learn_inducing else Z.new_empty(0))
    learned = factor is not None and learn_kernel
    assert_close(hyper.start[hyper.mean], [factor] if learned else Z.new_empty(0))

    moved = hyper.start + 0.1
    other, Z_moved = hyper.model(moved)
    assert_close(Z_moved, Z + 0.1 * learn_inducing)
    assert_close(other.log_lengthscale2, k.log_lengthscale2 + 0.1 * learn_kernel)
    assert_close(other.log_variance, k.log_variance + 0.1 * learn_kernel)
    assert hyper.factor(moved) == (None if factor is None else factor + 0.1 * learn_kernel)
    assert_close(hyper.Kmm(moved), other(Z_moved, Z_moved))
    X = problem(5, 1, d=3).X
    Kmb, kdiag = hyper.Kmb(moved, X)
    assert_close(Kmb, other(Z_moved, X))
    assert_close(kdiag, other.diag(X))
    hyper.model(hyper.start)
    assert_close(other.log_variance, k.log_variance + 0.1 * learn_kernel)  # a kernel of its own
    assert_close(k.log_variance, math.log(3.0))  # the kernel handed in is never changed


def test_bounds_are_those_of_the_kind_of_number() -> None:
    hyper = Hyperparameters(Warped(RBF([1.0]), 2), points()[:, :1], factor=1.0)
    bounds = list(zip(hyper.lower.tolist(), hyper.upper.tolist(), strict=True))
    free = (-math.inf, math.inf)
    variance, lengthscale2 = (1e-4, 1e4), (1e-4, 1e6)
    named = [tuple(map(math.log, pair)) for pair in (variance, lengthscale2)]
    expected = [free] * 6 + named + [(0.0, math.inf)] + [free] * 4
    assert bounds == expected


def test_nothing_learned_is_an_empty_vector() -> None:
    hyper = Hyperparameters(kernel(), points(), learn_kernel=False, learn_inducing=False)
    for vector in (hyper.start, hyper.lower, hyper.upper, hyper.prior_gradient(hyper.start)):
        assert vector.shape == (0,)
    assert_close(hyper.Kmm(hyper.start), kernel()(points(), points()))


def test_rows_are_seen_in_their_own_dtype() -> None:
    hyper = Hyperparameters(kernel(), points())
    X = problem(5, 1, d=3).X
    for low, high in zip(hyper.Kmb(hyper.start, X.float()), hyper.Kmb(hyper.start, X), strict=True):
        assert low.dtype == torch.float32
        assert_close(low, high, rtol=1e-5, atol=1e-5)


def test_there_is_a_graph_where_it_is_asked_for_and_nowhere_else() -> None:
    hyper = Hyperparameters(kernel(), points(), factor=2.0)
    X, score = problem(5, 1, d=3).X, torch.arange(5.0)
    for wanted in (False, True):
        xi = hyper.start.clone().requires_grad_(wanted)
        found = (hyper.Kmm(xi), *hyper.Kmb(xi, X), hyper.offset(xi, score))
        assert [matrix.requires_grad for matrix in found] == [wanted] * 4
    assert found[3].dtype == torch.float32
    assert_close(found[3], 2 * score)
    assert_close(torch.autograd.grad(found[3].sum(), xi)[0][hyper.mean], [10.0])
    assert hyper.offset(xi, None) is None


def test_buffers_of_a_feature_map_follow_the_dtype_of_the_rows() -> None:
    module = nn.Linear(3, 3)
    module.register_buffer("shift", torch.ones(3))
    module.register_buffer("count", torch.zeros(1, dtype=torch.int64))
    module.forward = lambda x: x + module.shift  # type: ignore[method-assign]
    hyper = hyperparameters(FeatureMap(module, kernel()), points())
    assert hyper.Kmb(hyper.start, problem(5, 1, d=3).X.float())[0].dtype == torch.float32


def test_the_prior_is_gaussian_in_weights_and_relative_lengthscales() -> None:
    """By finite differences of what the docstring says."""
    warped = Warped(RBF([0.5, 1.0, 2.0], spread=0.5) + Matern32([1.0, 1.0, 3.0]) + Linear(), 2)
    hyper = hyperparameters(warped, points())
    xi = hyper.start + torch.linspace(-1, 2, len(hyper.start), dtype=torch.float64)

    def log_prior(xi: Tensor) -> Tensor:
        k, _ = hyper.model(xi)
        rbf, matern, _ = k.kernel.terms()
        spread = [(rbf.log_lengthscale2, 0.5), (matern.log_lengthscale2, 1.5)]
        apart = sum(((l2 - l2.mean()) / s).square().sum() for l2, s in spread)
        return -0.5 * (apart + (k.V / 2.0).square().sum())

    steps = 1e-4 * torch.eye(len(xi), dtype=torch.float64)
    expected = [(log_prior(xi + e) - log_prior(xi - e)).item() / 2e-4 for e in steps]
    assert_close(hyper.prior_gradient(xi), expected, rtol=1e-7, atol=1e-7)


def test_matrices_that_are_held_pull_nothing_back() -> None:
    xi = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    held, moving = torch.ones(2).double(), xi.square()
    assert_close(pull_back(xi, (held,), (torch.ones(2),)), [0.0, 0.0])
    adjoint = torch.tensor([1.0, 3.0], dtype=torch.float64)
    assert_close(pull_back(xi, (held, moving), (adjoint, adjoint)), [2.0, 12.0])


FLAT = [Matern32(), RBF() + Matern52(spread=0.5), (Matern12() + RBF()) + Matern32()]


@pytest.mark.parametrize("kernel", FLAT, ids=lambda kernel: f"{len(list(kernel.parameters()))}")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("factor", [None, 0.7])
def test_a_sum_of_stationary_kernels_in_one_node_is_the_kernels_themselves(
    kernel, dtype, factor
) -> None:
    p = problem(9, 5, d=3)
    kernel.start(p.Z)
    hyper, kernels = (Hyperparameters(kernel, p.Z, factor=factor) for _ in range(2))
    assert hyper._flat is not None
    kernels._flat = None
    found = []
    for one in (hyper, kernels):
        xi = (one.start + 0.1 * torch.sin(torch.arange(len(one.start)))).requires_grad_()
        matrices = (one.Kmm(xi), *one.Kmb(xi, p.X.to(dtype)))
        assert [matrix.dtype for matrix in matrices] == [torch.float64, dtype, dtype]
        adjoints = [torch.cos(torch.arange(k.numel()).to(k)).reshape(k.shape) for k in matrices]
        found.append([*matrices, pull_back(xi, matrices, adjoints)])
    size = 1e-12 if dtype == torch.float64 else 1e-5
    for one, other in zip(*found, strict=True):
        assert_close_to_scale(one.detach(), other.detach(), size)


@pytest.mark.parametrize(
    "which", [[0], [1], [2], [1, 2], [2, 1], [0, 2], [0, 1, 2], [0, 3], [1, 2, 3]]
)
def test_what_is_pulled_back_by_hand_is_what_autograd_pulls_back(which: list[int]) -> None:
    p = problem(9, 5, d=3)
    (kernel := Matern32() + RBF()).start(p.Z)
    hyper = Hyperparameters(kernel, p.Z, factor=0.7)
    xi, found = hyper.start.clone().requires_grad_(), []
    for pull in (pull_back, lambda xi, *pairs: torch.autograd.grad(pairs[0], xi, pairs[1])[0]):
        matrices = (hyper.Kmm(xi), *hyper.Kmb(xi, p.X), hyper.offset(xi, p.X[:, 0]))
        chosen = [matrices[i] for i in which]
        adjoints = [torch.cos(torch.arange(k.numel()).double()).reshape(k.shape) for k in chosen]
        found.append(pull(xi, chosen, adjoints))
    assert_close(*found)


class Doubled(RBF):
    def diag(self, X: Tensor) -> Tensor:
        return 2 * super().diag(X)


@pytest.mark.parametrize("kernel", [Warped(RBF()), RBF() + Linear(), RBF() * RBF(), Doubled()])
def test_any_other_kernel_is_called_itself(kernel) -> None:
    Z = points()
    kernel.start(Z)
    hyper = Hyperparameters(kernel, Z)
    assert hyper._flat is None
    assert_close(hyper.Kmb(hyper.start, Z)[1], kernel.diag(Z))


def test_a_kernel_that_is_held_is_called_itself() -> None:
    for learned in ((False, True), (True, False)):
        assert Hyperparameters(kernel(), points(), *learned)._flat is None
