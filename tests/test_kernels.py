"""Kernels by name, and sums of kernels."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.metrics import log_loss

from sepgp import GPClassifier, InvalidParameter
from sepgp.gp.kernels import (
    RBF,
    Constant,
    FeatureMap,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    PerClass,
    Stationary,
    Sum,
    Warped,
    White,
    named,
)


def points(m: int = 12, d: int = 3) -> torch.Tensor:
    return torch.randn(m, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def kinds(kernel: Kernel) -> list[str]:
    terms = kernel.terms() if isinstance(kernel, Sum) else [kernel]
    return [type(term).__name__ for term in terms]


@pytest.mark.parametrize(
    ("name", "d", "expected"),
    [
        ("rbf", 3, ["RBF"]),
        ("matern32+matern32", 3, ["Matern32", "Matern32"]),
        ("matern12 + rbf", 300, ["Matern12", "RBF"]),
        ("auto", 100, ["Matern32", "Matern32"]),
        ("auto", 101, ["RBF"]),
    ],
)
def test_a_name_stands_for_a_kernel_or_a_sum(name: str, d: int, expected: list[str]) -> None:
    assert kinds(named(name, d)) == expected
    assert isinstance(named(name, d), Sum) == (len(expected) > 1)


@pytest.mark.parametrize(("d", "expected"), [(100, ["RBF", "Matern32"]), (101, ["RBF"])])
def test_the_first_kernel_of_many_classes_is_smooth(d: int, expected: list[str]) -> None:
    assert kinds(named("auto", d, n_classes=3)) == expected


@pytest.mark.parametrize("name", ["", "+", "matern33", "matern32+", "auto+rbf", 3, None])
def test_a_name_that_stands_for_nothing_is_refused(name: object) -> None:
    with pytest.raises(InvalidParameter, match=r"^kernel=.* is unknown; choose one of 'auto', .*"):
        GPClassifier(kernel=name).fit(points().numpy(), [0, 1] * 6)


def test_kernels_of_a_sum_start_apart() -> None:
    alone = Matern32()
    alone.start(points())
    kernel = Matern32() + Linear() + (Matern32(lengthscale=2.0) + RBF()) + Matern32()
    kernel.start(points())
    first, _, given, last, third = kernel.terms()
    assert_allclose(first.lengthscale.detach(), alone.lengthscale.detach())
    assert_allclose(given.lengthscale.detach(), 2.0)
    assert_allclose(last.lengthscale.detach(), 3 * alone.lengthscale.detach())
    assert_allclose(third.lengthscale.detach(), 9 * alone.lengthscale.detach())
    kernel.start(points())  # a second start is the same start
    assert_allclose(last.lengthscale.detach(), 3 * alone.lengthscale.detach())


def test_lengthscales_start_at_the_median_distance() -> None:
    Z = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], dtype=torch.float64)  # 5, 1, √18
    kernel = RBF()
    kernel.start(Z)
    assert_allclose(kernel.lengthscale.detach() ** 2, [18**0.5] * 2)
    for scale in (1.0, 0.1):
        kernel.start(scale * Z[:2])
        assert_allclose(kernel.lengthscale.detach() ** 2, [5.0 * scale] * 2)
    for few in (Z[:1], Z[[0, 0, 0, 1]]):  # no distance, and a median of 0
        kernel = RBF()
        kernel.start(few)
        assert_allclose(kernel.lengthscale.detach(), [1.0, 1.0])
    given = RBF([2.0, 3.0])
    given.start(Z)
    assert_allclose(given.lengthscale.detach(), [2.0, 3.0])
    message = "has 2 values but the kernel sees 3 features; give one number or one per feature."
    with pytest.raises(InvalidParameter, match=message):
        given.start(points())


def test_a_sum_is_the_sum_of_its_parts() -> None:
    X, kernel = points(5), Matern32(1.3) + RBF(0.7, variance=2.0) + Linear(0.5)
    parts = [Matern32(1.3), RBF(0.7, variance=2.0), Linear(0.5)]
    for part in [kernel, *parts]:
        part.start(points())
    total = sum(part(points(), X) for part in parts)
    assert_allclose(kernel(points(), X).detach(), total.detach(), rtol=1e-14)
    assert_allclose(kernel.diag(X).detach(), kernel(X, X).diagonal().detach(), rtol=1e-14)


def test_kernels_print_as_they_are_written() -> None:
    text = repr((Linear(2.0) + Linear(3.0)) * Linear(4.0))
    assert text == "(Linear(variance=2) + Linear(variance=3)) * Linear(variance=4)"


def test_length_scales_print_as_far_as_they_fit() -> None:
    assert repr(RBF(2.0)) == "RBF(lengthscale=[2], variance=1)"
    eight = "lengthscale=[1, 1, 1, 1, 1, 1, 1, 1"
    assert repr(RBF([1.0] * 8, variance=0.12345)) == f"RBF({eight}], variance=0.1235)"
    assert repr(RBF([1.0] * 9)) == f"RBF({eight}, …], variance=1)"
    assert repr(PerClass(Linear(2.0), Linear())) == (
        "PerClass(Linear(variance=2), Linear(variance=1))"
    )
    assert repr(Warped(Linear(), 4)).startswith("Warped(\n  hidden=4\n")


def test_a_kernel_for_each_class_stacks_those_of_its_parts() -> None:
    A, B, parts = points(4), points(5), (RBF(0.7, variance=2.0), Linear(0.5))
    kernel = PerClass(*parts)
    assert_allclose(kernel(A, B).detach(), torch.stack([k(A, B) for k in parts]).detach())
    assert_allclose(kernel.diag(A).detach(), torch.stack([k.diag(A) for k in parts]).detach())


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.7, variance=2.0),
        Matern12(0.7),
        Matern32([0.5, 1.0, 2.0]) + Matern52() + White(0.3),
        Constant(0.5) * Linear(2.0),
        Warped(Matern32() + Linear()),
        FeatureMap(torch.nn.Linear(3, 2), RBF()),
        PerClass(RBF(0.7), Matern32()),
    ],
    ids=str,
)
def test_a_kernel_at_points_is_the_kernel(kernel) -> None:
    Z, X = points(4), points(9)[4:]
    kernel.start(Z)
    for parameter in kernel.parameters():
        parameter.data += 0.1
    with torch.no_grad():
        covariances = kernel.at(Z)
        for x in (X, X[:2]):
            assert_allclose(covariances(x), kernel(Z, x), rtol=1e-14, atol=1e-14)


def test_a_stationary_kernel_of_ones_own_needs_its_profile_alone() -> None:
    class RationalQuadratic(Stationary):
        """1/(1 + r²/2), whose derivative by r² is −½/(1 + r²/2)²."""

        @staticmethod
        def profile(x2, log_variance):
            k = 1 / (1 + x2 / 2)
            return log_variance.exp() * k, log_variance.exp() * k * k

    kernel, X = RationalQuadratic(0.7, variance=2.0), points(6).requires_grad_()
    expected = 2 / (1 + (X[:, None] - X).square().sum(2) / 0.98)
    assert_allclose(kernel(X, X).detach(), expected.detach())
    with torch.no_grad():
        assert_allclose(kernel(X, X), expected.detach())
    actual, wanted = (torch.autograd.grad(K[0].sum(), X)[0] for K in (kernel(X, X), expected))
    assert_allclose(actual, wanted, atol=1e-12)


def test_parts_of_a_mapped_kernel_are_parameters() -> None:
    for kernel in (Warped(RBF(2.0)), FeatureMap(torch.nn.Identity(), RBF(2.0))):
        assert kernel.get_params()["kernel__lengthscale"] == pytest.approx(2.0)
        assert set(kernel.get_params(deep=False)) == {"kernel"}
        kernel.set_params(kernel__variance=3.0)
        assert kernel.kernel.variance.item() == pytest.approx(3.0)


def test_a_kernel_of_parts_has_copies_of_them() -> None:
    part = RBF(2.0)
    kernel = part + part
    kernel.set_params(k1__lengthscale=3.0)
    assert_allclose(kernel.get_params()["k2__lengthscale"], 2.0)
    assert_allclose(part.lengthscale.detach(), 2.0)
    for mapped in (Warped(part), FeatureMap(torch.nn.Identity(), part)):
        mapped.set_params(kernel__lengthscale=3.0)
        assert_allclose(part.lengthscale.detach(), 2.0)


@pytest.mark.parametrize(
    ("kernel", "invariant"),
    [
        (RBF(), True),
        (Linear(), False),
        (RBF() + Constant() * White(), True),
        (RBF() + Linear(), False),
        (Warped(RBF()), False),
    ],
)
def test_shifting_both_points_is_said_to_matter_where_it_does(kernel, invariant) -> None:
    X = points()
    kernel.start(X)
    with torch.no_grad():
        for parameter in kernel.parameters():
            parameter += 0.5
        moved = (kernel(X, X + 1) - kernel(X + 2, X + 3)).abs().max()
    assert kernel.shift_invariant == invariant
    assert (float(moved) < 1e-12) == invariant


def test_a_map_starts_as_it_is_with_directions_of_unit_variance() -> None:
    kernel = Warped(RBF(), hidden=2000)
    X = torch.as_tensor(np.random.default_rng(0).normal(size=(300, 5)))
    kernel.start(X)
    assert_allclose(kernel.warp(X).detach(), X)
    inner = RBF()
    inner.start(X)
    assert_allclose(kernel.kernel.lengthscale.detach(), inner.lengthscale.detach())
    assert kernel.W.shape == (5, 2000)
    assert_allclose((kernel.unit * kernel.W).square().sum(0).mean().item(), 1, atol=0.1)
    assert_allclose((kernel.unit * kernel.c).var().item(), 1, atol=0.1)
    again = Warped(RBF(), hidden=2000)
    again.start(X)
    assert torch.equal(again.W, kernel.W)
    with torch.no_grad():
        kernel.V += 1.0
        warped = kernel.warp(X)
        unit = kernel.unit
        plain = X + torch.tanh(X @ (unit * kernel.W) + unit * kernel.c) @ (unit * kernel.V)
        assert_allclose(warped, plain, atol=1e-12)
        kernel.start(X)  # a map that fits the features is kept
        assert torch.equal(kernel.warp(X), warped)
    assert Warped.n_weights(5) == sum(p.numel() for p in started(Warped(Linear()), X)) - 1


def started(kernel: Kernel, X: torch.Tensor) -> list[torch.Tensor]:
    kernel.start(X)
    return list(kernel.parameters())


@pytest.mark.slow
def test_two_kernels_learn_a_sum_of_two_functions() -> None:
    """A rough function of two features and a smooth one of others: one kernel must choose."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (6000, 5))
    f = 4 * np.sin(6 * X[:, 0]) * np.sin(6 * X[:, 1]) + 2 * X[:, 2:].sum(1)
    y = (f + rng.normal(size=len(X)) > 0).astype(int)
    nll = {}
    for name in ("matern32", "auto"):
        model = GPClassifier(kernel=name, n_inducing=40, max_iter=150, batch_size=500)
        model.set_params(random_state=0).fit(X[:4000], y[:4000])
        nll[name] = log_loss(y[4000:], model.predict_proba(X[4000:]))
    assert nll["auto"] < nll["matern32"] - 0.01
    rough, smooth = (term.lengthscale.detach() for term in model.kernel_.terms())
    assert rough[:2].max() < 1 < 5 < min(rough[2:].min(), smooth.min())


def test_parameters_are_set_by_their_names() -> None:
    """So that `GridSearchCV` can search over them."""
    model = GPClassifier(kernel=RBF() + Matern32(lengthscale=[1.0, 2.0]) * Linear(variance=3.0))
    names = model.get_params()
    assert names["kernel__k1__lengthscale"] is None
    assert_allclose(names["kernel__k2__k1__lengthscale"], [1.0, 2.0])
    other = clone(model).set_params(kernel__k1__lengthscale=5.0, kernel__k2__k2__variance=0.5)
    assert_allclose(other.get_params()["kernel__k1__lengthscale"], 5.0)
    assert_allclose(other.get_params()["kernel__k2__k2__variance"], 0.5)
    assert model.get_params()["kernel__k1__lengthscale"] is None
    X = np.random.default_rng(0).normal(size=(50, 2))
    held = GPClassifier(kernel=RBF(), learn_kernel=False, max_iter=3)
    held.set_params(kernel__lengthscale=4.0).fit(X, X[:, 0] > 0)
    assert_allclose(held.kernel_.lengthscale.detach(), [4.0, 4.0])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("length", 1.0, "kernel has no parameter 'length'; choose among lengthscale, variance, "),
        ("k1__variance", 1.0, "kernel has no parameter 'k1__variance'; choose among lengthscale"),
        ("spread", 0.0, "spread=0.0 is not positive; give a number above 0."),
        ("variance", -1, "variance=-1 is not positive and finite; give a number above 0."),
        ("variance", 0.0, "variance=0.0 is not positive and finite"),
        ("lengthscale", [1.0, np.inf], r"lengthscale=\[1.0, inf\] is not positive and finite"),
        ("lengthscale", np.nan, "lengthscale=nan is not positive and finite"),
    ],
)
def test_a_parameter_that_cannot_be_set_is_refused(name: str, value: float, message: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^{message}"):
        RBF().set_params(**{name: value})


def test_a_kernel_without_parameters_says_so() -> None:
    with pytest.raises(InvalidParameter, match="has no parameter 'k1'; choose among none"):
        Kernel().set_params(k1=1.0)


def test_a_tiny_variance_can_be_set() -> None:
    kernel = RBF(1e-3, variance=1e-3, spread=1e-3)
    assert_allclose([kernel.get_params()[k] for k in ("variance", "spread")], 1e-3)
    assert_allclose(kernel.set_params(spread=0.5, variance=2.0).variance.item(), 2.0)
    assert kernel.spread == 0.5


@pytest.mark.parametrize("kernel", [RBF(1.0), Matern32(1.0)], ids=repr)
@pytest.mark.parametrize("learned", [False, True])
def test_covariances_of_points_far_from_zero_were_not_positive(kernel, learned) -> None:
    """Near each other at 1e12, as outliers in features that are not standardised."""
    offsets = torch.tensor([[0.0], [0.5], [1.0], [3.0]], dtype=torch.float64)
    far = torch.cat([offsets + 1e12, offsets])
    kernel.start(far)
    with torch.set_grad_enabled(learned):
        K = kernel(far, far).detach()
    near = kernel(offsets, offsets).detach()
    assert_allclose(K[:4, :4], near, atol=1e-3)  # numbers of 1e12 have four decimals
    assert_allclose(K[4:, 4:], near)
    assert torch.linalg.eigvalsh(K).min() > 0


@pytest.mark.parametrize("name", ["rbf", "matern12", "matern32", "matern52"])
@pytest.mark.parametrize("grad", [False, True])
def test_covariances_of_the_same_points_were_not_symmetric(name: str, grad: bool) -> None:
    """A matrix that differs from its transpose in the last digits has no accurate inverse."""
    kernel = named(name, 3)
    Z = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kernel.start(Z)
    with torch.no_grad():
        kernel.log_lengthscale2 += torch.tensor([0.3, -0.7, 0.1])
    with torch.set_grad_enabled(grad):
        K = kernel(Z, Z).detach()
    assert torch.equal(K, K.T)
    assert torch.equal(K.diagonal(), kernel.diag(Z))
