"""The multinomial probit: y = argmax_c (f_c + ε_c) with ε_c ~ N(0, ½), by quadrature in one
dimension.

The difference of two noises has variance one, as in the probit. A row's factor, under Gaussians
of the C values f_c + ε_c with means m_c and variances w_c, is

    Z = ∫ N(g | m_y, w_y) ∏_{c≠y} Φ((g − m_c)/√w_c) dg,

without any assumption that classes beat each other independently.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sepgp.likelihoods.likelihood import Codes, Floats, Tilted
from sepgp.likelihoods.quadrature import (
    LOG_SQRT_2PI,
    MANY_NODES,
    Integrand,
    integrate,
)

NOISE = 0.5
"""Variance of ε_c."""
REACH = 6.5
"""Standard deviations beyond which a class is not looked at, when all are predicted at once."""
FINENESS, MOST_NODES = 4, 13_312
"""Nodes per standard deviation of the narrowest class, when all are predicted at once; at most."""
TINY = 1e-6
"""Probabilities below it are found one by one where their logarithm is asked for."""
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

    @property
    def mean_decides(self) -> bool:
        """Of two classes with the same mean the one with the larger variance wins more often."""
        return False

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

    def most_probable(self, mean: Floats, variance: Floats | None) -> NDArray[np.intp]:
        """The number of the most probable class, shape (n,)."""
        if variance is None:
            raise TypeError("the mean alone does not decide between many classes")
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
    """log Z, shape (b,), α and 1 − w λ, shape (C, b), for labels y and Gaussians (C, b)."""
    n_classes = len(mean)
    own, rivals = y[None], torch.arange(n_classes - 1)[:, None].expand(-1, len(y))
    rivals = rivals + (rivals >= own)
    own_mean, own_w = mean.gather(0, own)[0], w.gather(0, own)[0]
    widths = w.gather(0, rivals).sqrt_()
    found = integrate(Integrand(own_mean, own_w, mean.gather(0, rivals), widths))
    lost = found.r / widths
    alpha = torch.empty_like(mean).scatter_(0, rivals, -lost).scatter_(0, own, lost.sum(0)[None])
    left = torch.empty_like(mean).scatter_(0, rivals, 1 - found.r * found.r - found.rz)
    left.scatter_(0, own, (found.variance / own_w)[None])
    return found.log_Z, alpha, left.clamp_(0, 1)


def _probabilities(mean: Floats, variance: Floats) -> Floats:
    """Z of every class for means and variances of shape (n, C), on nodes that all classes share.

    ∏_c Φ_c is the distribution function of the largest f_c + ε_c, and class y has the share φ_y/Φ_y
    of its density. The integrand is smooth and vanishes at both ends, where the midpoint rule has
    no peer; nodes are as many as the narrowest class needs. Cost O(C) per row and node.
    """
    m, w = torch.as_tensor(mean).double(), NOISE + torch.as_tensor(variance).double()
    root = w.sqrt()
    low, high = (m - REACH * root).amax(1), (m + REACH * root).amax(1)
    needed = FINENESS * (high - low) / root.amin(1)
    least = math.ceil(2 * REACH * FINENESS)  # of classes with one variance
    doublings = torch.log2(needed / least).ceil().clamp(0, math.log2(MOST_NODES / least)).long()
    p = torch.empty_like(m)
    for doubling in sorted(set(doublings.tolist())):
        n_nodes = least * 2**doubling
        x = (torch.arange(n_nodes, dtype=torch.float64) + 0.5) / n_nodes
        rows = (doublings == doubling).nonzero()[:, 0]
        for block in rows.split(max(1, BLOCK // (n_nodes * m.shape[1]))):
            span = (high - low)[block, None]
            g = low[block, None] + span * x
            z = (g[:, None] - m[block, :, None]) / root[block, :, None]
            density = torch.exp(-0.5 * z * z - LOG_SQRT_2PI)
            below = 0.5 * torch.erfc(-math.sqrt(0.5) * z)
            share = density.div_(below).mul_(below.prod(1, keepdim=True))
            p[block] = share.sum(2) * span / (n_nodes * root[block])
    return p.numpy()
