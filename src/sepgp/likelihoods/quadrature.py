"""Integrals of a Gaussian times powers of normal distribution functions, in one dimension.

    Z = ∫ N(g | μ, w) ∏_c Φ((g − m_c)/√w_c)^a dg

The integrand is log-concave, and its curvature is nowhere below 1/w. So a few Newton steps find
its mode and where it has become negligible, and a Gauss–Legendre rule on each side of the mode
does the rest: one side may be the steep edge of a Φ, the other the long tail of the Gaussian.

With z = (g − m_c)/√w_c, all is written in t = −z/√2 and u = e^(−t²)/erfc(t), which take the fewest
passes over rows, nodes and classes: Φ(z) = ½ erfc(t), and r = φ(z)/Φ(z) = √(2/π) u.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

DEPTH = 20.0
"""The integrand is followed until it has fallen by e^−20 from its mode."""
NODES, MANY_NODES = 16, 48
"""On each side of the mode; many where an edge may be steep beside the width of the integrand."""
UNEVEN = 20.0
"""Ratio of w to the least w_c from which many nodes are taken."""
NEAR = 1e-7
"""Newton's steps to the mode end when they are this small beside √w: the next is the square of it,
and the rule's error depends but little on where its two sides meet."""
FAR = 25 / math.sqrt(2)
"""Above this t the ratio u has its continued fraction."""
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
ROOT_PI = math.sqrt(math.pi)


class Integrand(NamedTuple):
    """One integrand for each of b rows, with k functions Φ in each."""

    mean: Tensor
    """μ, shape (b,)."""
    w: Tensor
    """Shape (b,)."""
    edges: Tensor
    """m_c, shape (k, b)."""
    widths: Tensor
    """√w_c, shape (k, b)."""
    power: float = 1.0

    def take(self, rows: Tensor) -> "Integrand":
        """Those of some rows."""
        some = self.mean[rows], self.w[rows], self.edges[:, rows], self.widths[:, rows]
        return Integrand(*some, self.power)


class Expectations(NamedTuple):
    """Under the normalised integrand, for each of b rows."""

    log_Z: Tensor
    """Shape (b,)."""
    r: Tensor
    """E[r_c] with r_c = φ/Φ at z_c, shape (k, b)."""
    rz: Tensor
    """E[r_c z_c], shape (k, b)."""
    r2: Tensor
    """E[r_c²], shape (k, b)."""
    variance: Tensor
    """Var[g], shape (b,)."""


class _Scaled(NamedTuple):
    """An integrand in the units of t, at several g for each row."""

    mean: Tensor
    """Shape (b, 1), as w."""
    w: Tensor
    offset: Tensor
    """m_c/√(2 w_c), shape (k, b, 1)."""
    slope: Tensor
    """1/√(2 w_c), shape (k, b, 1)."""
    power: float

    @classmethod
    def of(cls, f: Integrand) -> "_Scaled":
        slope = (math.sqrt(0.5) / f.widths)[:, :, None]
        return cls(f.mean[:, None], f.w[:, None], f.edges[:, :, None] * slope, slope, f.power)

    def t(self, g: Tensor) -> Tensor:
        """−(g − m_c)/√(2 w_c) for g of shape (b, nodes): shape (k, b, nodes)."""
        return torch.addcmul(self.offset, g, self.slope, value=-1)

    def log_density(self, g: Tensor, log_product: Tensor) -> Tensor:
        """log of the integrand less a constant, shape (b, nodes)."""
        return self.power * log_product - 0.5 * (g - self.mean) ** 2 / self.w

    def steepness(self, g: Tensor, u: Tensor) -> Tensor:
        """The derivative of `log_density` by g, shape (b, nodes)."""
        rise = (2 / ROOT_PI * self.power) * (u * self.slope).sum(0)
        return (self.mean - g) / self.w + rise


def integrate(f: Integrand, squares: bool = False) -> Expectations:
    """All rows, each by itself. E[r²] is found only if `squares` are asked for, and 0 otherwise.

    Cost O(k) per row and node.
    """
    mode = _mode(_Scaled.of(f))
    uneven = f.w > UNEVEN * f.widths.amin(0) ** 2
    groups = ((~uneven, NODES, 3), (uneven, MANY_NODES, 10))
    for rows, n_nodes, steps in groups:
        if bool(rows.all()):
            return _by_nodes(_Scaled.of(f), mode, n_nodes, steps, squares)
    b = len(f.mean)
    of_rows, of_edges = f.mean.new_empty(2, b), torch.empty(3, *f.edges.shape, dtype=f.mean.dtype)
    found = Expectations(of_rows[0], of_edges[0], of_edges[1], of_edges[2], of_rows[1])
    for rows, n_nodes, steps in groups:
        part = _by_nodes(_Scaled.of(f.take(rows)), mode[rows], n_nodes, steps, squares)
        for whole, values in zip(found, part, strict=True):
            whole[..., rows] = values
    return found


def _mode(f: _Scaled) -> Tensor:
    """Where the integrand is largest, shape (b, 1).

    The slope is convex and falling, so Newton's steps from μ never pass the mode. With z and r of
    the module's head, r(r + z) = 2/√π · u(u/√π − t).
    """
    g, near = f.mean, NEAR * f.w.sqrt()
    for _ in range(6 + int(math.log2(len(f.slope) + 1))):
        t = f.t(g)
        u, _ = _ratio_and_tail(t)
        bend = (4 / ROOT_PI * f.power) * (u * (u / ROOT_PI - t) * f.slope**2).sum(0)
        step = f.steepness(g, u) / (1 / f.w + bend)
        g = g + step
        if bool((step.abs() <= near).all()):
            break
    return g


def _by_nodes(f: _Scaled, mode: Tensor, n_nodes: int, steps: int, squares: bool) -> Expectations:
    """With this many nodes on each side of the mode, shape (b, 1)."""
    top = f.log_density(mode, _ratio_and_product(f.t(mode))[1])
    # From points that are certainly far enough, Newton's steps come back as far as they may.
    reach = torch.sqrt(2 * DEPTH * f.w)
    ends = torch.cat([mode - reach, mode + reach], 1)
    for _ in range(steps):
        u, log_product = _ratio_and_product(f.t(ends))
        height = f.log_density(ends, log_product)
        ends = ends - (height - top + DEPTH) / f.steepness(ends, u)
    x, weights = legendre(n_nodes)
    lower, upper = mode - ends[:, :1], ends[:, 1:] - mode
    g = torch.cat([mode - lower * x, mode + upper * x], 1)
    spans = torch.cat([lower * weights, upper * weights], 1)

    t = f.t(g)
    u, log_product = _ratio_and_product(t)
    log_p = f.log_density(g, log_product) + spans.log()
    log_sum = torch.logsumexp(log_p, 1)
    p = torch.exp(log_p - log_sum[:, None])
    g_mean, up = (p * g).sum(1, keepdim=True), u * p
    r, rz = up.sum(2), t.mul_(up).sum(2)
    r2 = up.mul_(u).sum(2) if squares else torch.zeros_like(r)
    return Expectations(
        log_sum - 0.5 * f.w[:, 0].log() - LOG_SQRT_2PI,
        r.mul_(math.sqrt(2) / ROOT_PI),
        rz.mul_(-2 / ROOT_PI),
        r2.mul_(2 / math.pi),
        (p * (g - g_mean) ** 2).sum(1),
    )


@cache
def legendre(n_nodes: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the Gauss–Legendre rule on [0, 1]."""
    x, weights = np.polynomial.legendre.leggauss(n_nodes)
    return torch.as_tensor(0.5 * (x + 1)), torch.as_tensor(0.5 * weights)


def ratio(z: Tensor) -> Tensor:
    """φ(z)/Φ(z), for z of any shape, also far below 0."""
    return _ratio_and_tail(-math.sqrt(0.5) * z)[0].mul_(math.sqrt(2) / ROOT_PI)


def log_ndtr(z: Tensor, r: Tensor) -> Tensor:
    """log Φ(z) = log φ(z) − log r, for z ≤ 30 and r = φ/Φ."""
    return -0.5 * z * z - LOG_SQRT_2PI - r.log()


def _ratio_and_tail(t: Tensor) -> tuple[Tensor, Tensor]:
    """u = e^(−t²)/erfc(t), and erfc(t), which is 0 where it is below all numbers."""
    tail = torch.erfc(t)
    u = (t * t).neg_().exp_().div_(tail)
    if float(t.amax()) > FAR:
        far = t > FAR
        x = math.sqrt(2) * t[far]
        u[far] = math.sqrt(math.pi / 2) * (x + 1 / (x + 2 / (x + 3 / (x + 4 / (x + 5 / x)))))
    return u, tail


def _ratio_and_product(t: Tensor) -> tuple[Tensor, Tensor]:
    """u, shape (k, …), and log ∏_c Φ(z_c), shape (…)."""
    u, tail = _ratio_and_tail(t)
    product = tail.prod(0)
    if float(product.amin()) < 1e-300 or math.isinf(float(product.amax())):
        return u, torch.special.log_ndtr(-math.sqrt(2) * t).sum(0)
    return u, product.log_().sub_(len(t) * math.log(2))
