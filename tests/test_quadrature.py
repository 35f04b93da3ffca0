"""Integrals of a Gaussian times normal distribution functions, against slow and sure ways."""

import mpmath
import numpy as np
import pytest
import torch
from helpers import assert_close
from scipy.special import log_ndtr as scipy_log_ndtr
from torch import Tensor

from sepgp.likelihoods.quadrature import Expectations, Integrand, integrate, log_ndtr, ratio


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    "z", [-1e4, -300.0, -40.0, -25.01, -24.99, -5.0, -0.3, 0.0, 1.0, 8.0, 30.0]
)
def test_ratio_and_logarithm_are_those_of_fifty_digits(z: float) -> None:
    with mpmath.workdps(50):
        below, density = mpmath.ncdf(z), mpmath.npdf(z)
        expected = float(density / below), float(mpmath.log(below))
    r = ratio(tensor(z))
    assert_close(r, [expected[0]], rtol=1e-12, atol=0)
    if z < 5:  # above, the logarithm is as near 0 as its terms have digits
        assert_close(log_ndtr(tensor(z), r), [expected[1]], rtol=1e-12, atol=1e-15)


def dense(f: Integrand, row: int, n: int = 400_001) -> Expectations:
    """The trapezoidal rule, which has no peer for smooth functions that vanish at both ends."""
    mean, w = float(f.mean[row]), float(f.w[row])
    g = mean + np.sqrt(w) * np.linspace(-12, 12, n)
    z = (g - f.edges[:, row, None].numpy()) / f.widths[:, row, None].numpy()
    log_phi = scipy_log_ndtr(z)
    log_p = f.power * log_phi.sum(0) - 0.5 * (g - mean) ** 2 / w
    top = log_p.max()
    p = np.exp(log_p - top)
    mass = p.sum() * (g[1] - g[0])
    p /= p.sum()
    r = np.exp(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - log_phi)
    found = np.log(mass) + top - 0.5 * np.log(2 * np.pi * w), r @ p, (r * z) @ p, (r * r) @ p
    return Expectations(*map(torch.as_tensor, (*found, p @ (g - p @ g) ** 2)))


def integrands(power: float) -> Integrand:
    """Rivals near and far, as wide as the Gaussian and up to a hundred times narrower."""
    edges = [[-1.0, 0.5, 3.0, 0.0, 2.0], [0.0, 1.0, -6.0, 8.0, -1.0], [0.5, -2.0, 4.0, 1.0, 0.3]]
    widths = [[1.0, 1.0, 0.7, 1.0, 0.4], [0.8, 2.0, 0.7, 0.9, 1.0], [1.5, 1.0, 0.8, 1.0, 2.0]]
    mean, w = tensor(0.3, 0.0, -1.0, 0.0, -0.5), tensor(1.0, 2.0, 0.6, 40.0, 25.0)
    return Integrand(mean, w, tensor(*edges), tensor(*widths), power)


@pytest.mark.parametrize("power", [1.0, 0.3])
@pytest.mark.parametrize("row", range(5))
def test_expectations_are_those_of_a_dense_rule(power: float, row: int) -> None:
    f = integrands(power)
    found, expected = integrate(f, squares=True), dense(f, row)
    for actual, wanted in zip(found, expected, strict=True):
        assert_close(actual[..., row], wanted, rtol=1e-6, atol=1e-7)
    assert (integrate(f).r2 == 0).all()


@pytest.mark.parametrize("power", [1.0, 0.3])
def test_a_row_does_not_see_its_neighbours(power: float) -> None:
    """Rows that take few nodes and rows that take many, together and one by one."""
    f = integrands(power)
    whole = integrate(f, squares=True)
    for row in range(5):
        alone = integrate(f.take(torch.tensor([row])), squares=True)
        for one, part in zip(whole, alone, strict=True):
            assert_close(one[..., [row]], part, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("distance", [10.0, 30.0, 300.0])
def test_an_edge_far_above_the_gaussian_is_the_closed_form(distance: float) -> None:
    """∫ N(g | 0, w) Φ(g − d) dg = Φ(−d/√(1 + w)), which may be less than any number."""
    w = tensor(0.5, 2.0, 15.0)
    edges = torch.full((1, 3), distance, dtype=torch.float64)
    found = integrate(Integrand(torch.zeros_like(w), w, edges, torch.ones_like(edges)))
    z = -distance / (1 + w).sqrt()
    assert_close(found.log_Z, torch.special.log_ndtr(z), rtol=1e-7, atol=0)
    # ∂ log Z/∂ edge = −E[r].
    assert_close(found.r[0], ratio(z) / (1 + w).sqrt(), rtol=2e-6, atol=0)
