"""Kernels by name, and sums of kernels."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.metrics import log_loss

from sepgp import GPClassifier, InvalidParameter
from sepgp.gp.kernels import RBF, Kernel, Linear, Matern32, Sum, named


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
        ("auto", 101, ["Matern32"]),
    ],
)
def test_a_name_stands_for_a_kernel_or_a_sum(name: str, d: int, expected: list[str]) -> None:
    assert kinds(named(name, d)) == expected


@pytest.mark.parametrize("name", ["", "+", "matern33", "matern32+", "auto+rbf", 3, None])
def test_a_name_that_stands_for_nothing_is_refused(name: object) -> None:
    with pytest.raises(InvalidParameter, match=r"^kernel=.* is unknown; choose one of 'auto', .*"):
        GPClassifier(kernel=name).fit(points().numpy(), [0, 1] * 6)


def test_kernels_of_a_sum_start_apart() -> None:
    alone = Matern32()
    alone.start(points())
    kernel = Matern32() + Linear() + (Matern32(lengthscale=2.0) + RBF())
    kernel.start(points())
    first, _, given, last = kernel.terms()
    assert_allclose(first.lengthscale.detach(), alone.lengthscale.detach())
    assert_allclose(given.lengthscale.detach(), 2.0)
    assert_allclose(last.lengthscale.detach(), 3 * alone.lengthscale.detach())
    kernel.start(points())  # a second start is the same start
    assert_allclose(last.lengthscale.detach(), 3 * alone.lengthscale.detach())


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
    ("name", "value"), [("length", 1.0), ("k1__variance", 1.0), ("spread", 0.0), ("variance", -1)]
)
def test_a_parameter_that_cannot_be_set_is_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidParameter):
        RBF().set_params(**{name: value})
