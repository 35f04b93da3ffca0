"""Integrals of a Gaussian times powers of normal distribution functions, in one dimension.

    Z = ∫ N(g | μ, w) ∏_c Φ((g − m_c)/√w_c)^a dg

The integrand is log-concave, and its curvature is nowhere below 1/w. So a few Newton steps find
its mode and where it has become negligible, and a Gauss–Legendre rule on each side of the mode
does the rest: one side may be the steep edge of a Φ, the other the long tail of the Gaussian.
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
FAR = -25.0
"""Below this z the ratio φ/Φ has its continued fraction."""
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class Integrand(NamedTuple):
    """One integrand for each of b rows, with k functions Φ in each."""

    mean: Tensor
    """μ, shape (b,)."""
    w: Tensor
    """Shape (b,)."""
    edges: Tensor
    """m_c, shape (k, b); −∞ for a Φ that is 1."""
    widths: Tensor
    """√w_c, shape (k, b)."""
    power: float = 1.0

    def take(self, rows: Tensor) -> "Integrand":
        """Those of some rows."""
        some = self.mean[rows], self.w[rows], self.edges[:, rows], self.widths[:, rows]
        return Integrand(*some, self.power)

    def z(self, g: Tensor) -> Tensor:
        """(g − m_c)/√w_c for g of shape (b,) or (b, nodes): a leading axis of length k more."""
        edges, widths = self.edges, self.widths
        if g.ndim == 2:
            edges, widths = edges[:, :, None], widths[:, :, None]
        return (g - edges).div_(widths).clamp_max_(30.0)


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


def integrate(f: Integrand) -> Expectations:
    """All rows. Each is treated alike whatever the others are, so that sums over rows add up.

    Cost O(k) per row and node.
    """
    mode = _mode(f)
    uneven = f.w > UNEVEN * f.widths.amin(0) ** 2
    if not bool(uneven.any()):
        return _by_nodes(f, mode, NODES, 3)
    b = len(f.mean)
    of_rows, of_edges = f.mean.new_empty(2, b), torch.empty(3, *f.edges.shape, dtype=f.mean.dtype)
    found = Expectations(of_rows[0], of_edges[0], of_edges[1], of_edges[2], of_rows[1])
    for rows, n_nodes, steps in ((~uneven, NODES, 3), (uneven, MANY_NODES, 10)):
        part = _by_nodes(f.take(rows), mode[rows], n_nodes, steps)
        for whole, values in zip(found, part, strict=True):
            whole[..., rows] = values
    return found


def _mode(f: Integrand) -> Tensor:
    """Where the integrand is largest, shape (b,).

    The slope is convex and falling, so Newton's steps from μ never pass the mode.
    """
    g = f.mean
    for _ in range(6 + int(math.log2(len(f.edges) + 1))):
        z = f.z(g)
        r = ratio(z)
        slope = (f.mean - g) / f.w + f.power * (r / f.widths).sum(0)
        bend = 1 / f.w + f.power * (r * (r + z) / f.widths**2).sum(0)
        g = g + slope / bend
    return g


def _by_nodes(f: Integrand, mode: Tensor, n_nodes: int, steps: int) -> Expectations:
    """With this many nodes on each side of the mode, shape (b,)."""

    def log_density(g: Tensor) -> tuple[Tensor, Tensor]:
        """log of the integrand less a constant, and its slope, at one g per row."""
        r, log_product = _ratio_and_product(f.z(g))
        slope = (f.mean - g) / f.w + f.power * (r / f.widths).sum(0)
        return f.power * log_product - 0.5 * (g - f.mean) ** 2 / f.w, slope

    top, _ = log_density(mode)
    ends = []
    for side in (-1, 1):
        # From a point that is certainly far enough, Newton's steps come back as far as they may.
        end = mode + side * torch.sqrt(2 * DEPTH * f.w)
        for _ in range(steps):
            height, slope = log_density(end)
            end = end - (height - top + DEPTH) / slope
        ends.append(end)
    x, weights = legendre(n_nodes)
    lower, upper = (mode - ends[0])[:, None], (ends[1] - mode)[:, None]
    g = torch.cat([mode[:, None] - lower * x, mode[:, None] + upper * x], 1)
    spans = torch.cat([lower * weights, upper * weights], 1)

    z = f.z(g)
    r, log_product = _ratio_and_product(z)
    log_f = f.power * log_product - 0.5 * (g - f.mean[:, None]) ** 2 / f.w[:, None]
    log_p = log_f + spans.log()
    log_sum = torch.logsumexp(log_p, 1)
    p = torch.exp(log_p - log_sum[:, None])
    g_mean, rp = (p * g).sum(1), r * p
    return Expectations(
        log_sum - 0.5 * f.w.log() - LOG_SQRT_2PI,
        rp.sum(2),
        z.mul_(rp).sum(2),
        rp.mul_(r).sum(2),
        (p * (g - g_mean[:, None]) ** 2).sum(1),
    )


@cache
def legendre(n_nodes: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the Gauss–Legendre rule on [0, 1]."""
    x, weights = np.polynomial.legendre.leggauss(n_nodes)
    return torch.as_tensor(0.5 * (x + 1)), torch.as_tensor(0.5 * weights)


def ratio(z: Tensor) -> Tensor:
    """φ(z)/Φ(z), for z of any shape, also far below 0."""
    return _ratio_and_below(z)[0]


def log_ndtr(z: Tensor, r: Tensor) -> Tensor:
    """log Φ(z) = log φ(z) − log r, for z ≤ 30 and r = φ/Φ."""
    return -0.5 * z * z - LOG_SQRT_2PI - r.log()


def _ratio_and_below(z: Tensor) -> tuple[Tensor, Tensor]:
    """φ(z)/Φ(z) and Φ(z), which is 0 where it is below all numbers."""
    below = torch.erfc(-math.sqrt(0.5) * z).mul_(0.5)
    r = torch.exp((z * z).mul_(-0.5).sub_(LOG_SQRT_2PI)).div_(below)
    far = z < FAR
    if bool(far.any()):
        x = -z[far]
        r[far] = x + 1 / (x + 2 / (x + 3 / (x + 4 / (x + 5 / x))))
    return r, below


def _ratio_and_product(z: Tensor) -> tuple[Tensor, Tensor]:
    """φ(z)/Φ(z), shape (k, …), and log ∏_c Φ(z_c), shape (…)."""
    r, below = _ratio_and_below(z)
    product = below.prod(0)
    if bool((product < 1e-300).any()):
        return r, log_ndtr(z, r).sum(0)
    return r, product.log_()
