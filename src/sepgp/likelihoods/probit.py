"""Moment matching with the probit likelihood."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)

FAR = -6.0
"""Below this z the plain formulas lose their digits."""


class Tilted(NamedTuple):
    """The match of φ_i q\\i for every row of a batch; all of shape (b,)."""

    log_Z: Tensor
    """log Z_i, the log normaliser of φ_i q\\i."""
    alpha: Tensor
    """∂ log Z_i / ∂ mean."""
    gamma: Tensor
    """∂ log Z_i / ∂ variance."""
    nu: Tensor
    """Precision ν̃_i of the new site, always positive."""
    mu: Tensor
    """Natural mean μ̃_i of the new site."""


def match(y: Tensor, mean: Tensor, var: Tensor, s: Tensor) -> Tilted:
    """proj(φ_i) for φ_i = Φ(y_i m_i/√(1 + s_i)) under a cavity m_i ~ N(mean_i, var_i).

    y holds −1 and 1. All arguments have shape (b,). With z = y·mean/√w, w = 1 + s + var and
    r = φ(z)/Φ(z): α = y r/√w, λ = r(r + z)/w, γ = −½ r z/w, and the new site is
    ν̃ = λ/(1 − λ var), μ̃ = (α + λ mean)/(1 − λ var). Work is in float64. Cost O(b).
    """
    dtype = mean.dtype
    y, mean, var, s = (x.double() for x in (y, mean, var, s))
    w = 1 + s + var
    root = w.sqrt()
    z = y * mean / root
    log_Z = torch.special.log_ndtr(z)
    r = torch.exp(-0.5 * z * z - LOG_SQRT_2PI - log_Z)
    gap = r + z
    rest = 1 - r * gap
    lack = 1 + z * gap
    far = z < FAR
    if bool(far.any()):
        r[far], gap[far], rest[far], lack[far] = _far_tail(-z[far])
    shrink = 1 + s + var * rest  # w (1 − λ var)
    alpha = y * r / root
    gamma = -0.5 * r * z / w
    nu = r * gap / shrink
    mu = y * r * root * lack / shrink
    return Tilted(*(x.to(dtype) for x in (log_Z, alpha, gamma, nu, mu)))


def _far_tail(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """r, r + z, 1 − r(r + z) and 1 + z(r + z) at z = −x, where their plain forms cancel.

    From the continued fraction r = x + 1/(x + 2/(x + 3/(x + …))).
    """
    tail = x
    for k in range(20, 2, -1):
        tail = x + k / tail
    tail = 2 / tail
    gap = 1 / (x + tail)
    return x + gap, gap, gap * (tail - gap), gap * tail
