"""The multinomial probit: y = argmax_c (f_c + ε_c) with ε_c ~ N(0, ½), by quadrature in one
dimension.

The difference of two noises has variance one, as in the probit. A row's factor, under Gaussians
of the C values f_c + ε_c with means m_c and variances w_c, is

    Z = ∫ N(g | m_y, w_y) ∏_{c≠y} Φ((g − m_c)/√w_c) dg.

Its integrand is log-concave, and its curvature is nowhere below 1/w_y. So a few Newton steps find
its mode and where it has become negligible, and a Gauss–Legendre rule on each side of the mode
does the rest: one side may be the steep edge at which the others are beaten, the other the long
tail of a class that little is known about.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sepgp.likelihoods.likelihood import Codes, Floats, Tilted

NOISE = 0.5
"""Variance of ε_c."""
DEPTH = 20.0
"""The integrand is followed until it has fallen by e^−20 from its mode."""
NODES, MANY_NODES = 16, 48
"""On each side of the mode; many where an edge may be steep beside the width of the integrand."""
UNEVEN = 20.0
"""Ratio of w_y to the least variance of a class from which many nodes are taken."""
REACH = 6.5
"""Standard deviations beyond which a class is not looked at, when all are predicted at once."""
TINY = 1e-6
"""Probabilities below it are found one by one where their logarithm is asked for."""
FAR = -25.0
"""Below this z the ratio φ/Φ has its continued fraction."""
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
BLOCK = 2**21
"""Numbers in a block of nodes, rows and classes."""


@dataclass(frozen=True)
class Multinomial:
    """p(class c | f) = P(f_c + ε_c is the largest), for C latent functions."""

    n_classes: int

    @property
    def latents(self) -> tuple[int, ...]:
        """One latent function per class."""
        return (self.n_classes,)

    def targets(self, codes: Tensor) -> Tensor:
        """The class numbers themselves, shape (b,)."""
        return codes

    def moments(self, targets: Tensor, mean: Tensor, var: Tensor, s: Tensor) -> Tilted:
        """proj(φ_i) under cavities N(mean, var) of υᵀu, shape (C, b); s is (b,) or (C, b).

        With expectations under the tilted density of g, and r_c = φ/Φ at z_c = (g − m_c)/√w_c:
        α_c = −E[r_c]/√w_c and w_c λ_c = E[r_c]² + E[r_c z_c] for c ≠ y, α_y = −Σ α_c and
        w_y λ_y = 1 − Var[g]/w_y. Work is in float64. Cost O(C) per row and node.
        """
        dtype = mean.dtype
        mean, var, s = mean.double(), var.double(), s.double().expand_as(var)
        w = NOISE + s + var
        log_Z, alpha, left = _tilt(targets, mean, w)
        precision = (1 - left) / w
        shrink = NOISE + s + var * left  # w (1 − λ var)
        gamma = 0.5 * (alpha * alpha - precision)
        nu = (1 - left) / shrink
        mu = (alpha * w + mean * (1 - left)) / shrink
        return Tilted(*(x.to(dtype) for x in (log_Z, alpha, gamma, nu, mu)))

    def decision(self, mean: Floats, variance: Floats) -> Floats:
        """The log probabilities, shape (n, C): the largest is that of the label predicted."""
        return self.log_probabilities(mean, variance)

    def most_probable(self, mean: Floats, variance: Floats) -> NDArray[np.intp]:
        """The number of the most probable class, shape (n,)."""
        codes: NDArray[np.intp] = self.probabilities(mean, variance).argmax(1)
        return codes

    def probabilities(self, mean: Floats, variance: Floats) -> Floats:
        """Probabilities of the classes for means and variances of shape (n, C), shape (n, C).

        They sum to one by themselves, but for the quadrature's error; that is taken out.
        """
        p = _probabilities(mean, variance)
        p /= p.sum(1, keepdims=True)
        return p

    def log_probabilities(self, mean: Floats, variance: Floats) -> Floats:
        """Logarithms of `probabilities`, exact near 0 too. Cost up to O(C²) per row and node."""
        p = self.probabilities(mean, variance)
        rows, codes = np.nonzero(p < TINY)
        with np.errstate(divide="ignore"):
            result: Floats = np.log(p)
        result[rows, codes] = self.log_probability(codes, mean[rows], variance[rows])
        return result

    def log_probability(self, codes: Codes, mean: Floats, variance: Floats) -> Floats:
        """log p of one class for each row, shape (n,). Cost O(C) per row and node."""
        size = max(1, BLOCK // (MANY_NODES * self.n_classes))
        parts = [np.empty(0)]
        for begin in range(0, len(codes), size):
            block = slice(begin, begin + size)
            m, w = (torch.as_tensor(np.ascontiguousarray(x[block].T)) for x in (mean, variance))
            y = torch.as_tensor(codes[block])
            parts.append(_tilt(y, m.double(), NOISE + w.double())[0].numpy())
        return np.concatenate(parts)


def _tilt(y: Tensor, mean: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log Z, shape (b,), α and 1 − w λ, shape (C, b), for labels y and g-space Gaussians (C, b).

    Every row is treated alike whatever the others are, so that sums over any split of a batch
    add up.
    """
    g = _mode(y, mean, w)
    uneven = _own(y, w) > UNEVEN * w.amin(0)
    if not bool(uneven.any()):
        return _integrate(y, mean, w, g, NODES, 3)
    b = len(y)
    log_Z, alpha, left = mean.new_empty(b), torch.empty_like(mean), torch.empty_like(mean)
    for rows, nodes, steps in ((~uneven, NODES, 3), (uneven, MANY_NODES, 10)):
        part = _integrate(y[rows], mean[:, rows], w[:, rows], g[rows], nodes, steps)
        log_Z[rows], alpha[:, rows], left[:, rows] = part
    return log_Z, alpha, left


def _own(y: Tensor, values: Tensor) -> Tensor:
    """Those of the labelled class, shape (b,), of values of shape (C, b)."""
    return values.gather(0, y[None])[0]


def _rivals(y: Tensor, mean: Tensor) -> Tensor:
    """The means with the labelled class at −∞, where it is no rival to itself, shape (C, b)."""
    return mean.scatter(0, y[None], -math.inf)


def _mode(y: Tensor, mean: Tensor, w: Tensor) -> Tensor:
    """Where the integrand is largest, shape (b,).

    The slope is convex and falling, so Newton's steps from m_y never pass the mode.
    """
    own_mean, own_w = _own(y, mean), _own(y, w)
    rivals, root = _rivals(y, mean), w.sqrt()
    g = own_mean
    for _ in range(6 + int(math.log2(len(mean)))):
        z = ((g - rivals) / root).clamp_max(30.0)
        r = _ratio(z)
        slope = (own_mean - g) / own_w + (r / root).sum(0)
        g = g + slope / (1 / own_w + (r * (r + z) / w).sum(0))
    return g


def _integrate(
    y: Tensor, mean: Tensor, w: Tensor, mode: Tensor, n_nodes: int, steps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """See `_tilt`; with this many nodes on each side of the mode, shape (b,)."""
    own_mean, own_w = _own(y, mean), _own(y, w)
    rivals, root = _rivals(y, mean), w.sqrt()

    def log_density(g: Tensor) -> tuple[Tensor, Tensor]:
        """log of the integrand less its constant, and its slope, at one g per row."""
        z = ((g - rivals) / root).clamp_max(30.0)
        r, log_beaten = _ratio_and_product(z)
        slope = (own_mean - g) / own_w + (r / root).sum(0)
        return log_beaten - 0.5 * (g - own_mean) ** 2 / own_w, slope

    top, _ = log_density(mode)
    ends = []
    for side in (-1, 1):
        # From a point that is certainly far enough, Newton's steps come back as far as they may.
        end = mode + side * torch.sqrt(2 * DEPTH * own_w)
        for _ in range(steps):
            height, slope = log_density(end)
            end = end - (height - top + DEPTH) / slope
        ends.append(end)
    x, weights = _legendre(n_nodes)
    lower, upper = mode - ends[0], ends[1] - mode
    g = torch.cat([mode[:, None] - lower[:, None] * x, mode[:, None] + upper[:, None] * x], 1)
    widths = torch.cat([lower[:, None] * weights, upper[:, None] * weights], 1)

    z = (g - rivals[:, :, None]).div_(root[:, :, None]).clamp_max_(30.0)
    r, log_beaten = _ratio_and_product(z)
    log_f = log_beaten - 0.5 * (g - own_mean[:, None]) ** 2 / own_w[:, None]
    log_p = log_f + widths.log()
    log_sum = torch.logsumexp(log_p, 1)
    p = torch.exp(log_p - log_sum[:, None])
    log_Z = log_sum - 0.5 * own_w.log() - LOG_SQRT_2PI

    rp = r * p
    expected, left = rp.sum(2), rp.mul_(z).sum(2)
    alpha = -expected / root
    left = 1 - expected * expected - left
    g_mean = (p * g).sum(1)
    g_var = (p * (g - g_mean[:, None]) ** 2).sum(1)
    alpha = alpha.scatter(0, y[None], 0.0)
    alpha = alpha.scatter(0, y[None], -alpha.sum(0, keepdim=True))
    left = left.scatter(0, y[None], (g_var / own_w)[None])
    return log_Z, alpha, left.clamp_(0, 1)


def _probabilities(mean: Floats, variance: Floats) -> Floats:
    """Z of every class for means and variances of shape (n, C), on nodes that all classes share.

    ∏_c Φ_c is the distribution function of the largest f_c + ε_c, and class y has the share φ_y/Φ_y
    of its density. Nodes are as many as the narrowest class needs. Cost O(C) per row and node.
    """
    m, w = torch.as_tensor(mean).double(), NOISE + torch.as_tensor(variance).double()
    root = w.sqrt()
    low, high = (m - REACH * root).amax(1), (m + REACH * root).amax(1)
    needed = 3 * (high - low) / root.amin(1)
    doublings = torch.log2(needed / 48).ceil().clamp(0, 8).long()
    p = torch.empty_like(m)
    for doubling in sorted(set(doublings.tolist())):
        x, weights = _legendre(48 * 2**doubling)
        rows = (doublings == doubling).nonzero()[:, 0]
        for block in rows.split(max(1, BLOCK // (len(x) * m.shape[1]))):
            span = (high - low)[block, None]
            g = low[block, None] + span * x
            z = (g[:, None] - m[block, :, None]) / root[block, :, None]
            density = torch.exp(-0.5 * z * z - LOG_SQRT_2PI)
            below = 0.5 * torch.erfc(-math.sqrt(0.5) * z)
            share = density.div_(below).mul_(below.prod(1, keepdim=True))
            p[block] = (share @ (weights * span)[:, :, None])[:, :, 0] / root[block]
    return p.numpy()


@cache
def _legendre(n_nodes: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the Gauss–Legendre rule on [0, 1]."""
    x, weights = np.polynomial.legendre.leggauss(n_nodes)
    return torch.as_tensor(0.5 * (x + 1)), torch.as_tensor(0.5 * weights)


def _ratio(z: Tensor) -> Tensor:
    """φ(z)/Φ(z), for z of any shape, also far below 0."""
    return _ratio_and_below(z)[0]


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
    """φ(z)/Φ(z), shape (C, …), and log ∏_c Φ(z_c), shape (…)."""
    r, below = _ratio_and_below(z)
    product = below.prod(0)
    if bool((product < 1e-300).any()):
        return r, _log_ndtr(z, r).sum(0)
    return r, product.log_()


def _log_ndtr(z: Tensor, r: Tensor) -> Tensor:
    """log Φ(z) = log φ(z) − log r, for z ≤ 30."""
    return -0.5 * z * z - LOG_SQRT_2PI - r.log()
