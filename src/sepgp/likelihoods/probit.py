"""The probit likelihood: y = sign(f + ε) with ε standard normal, in closed form."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_ndtr
from torch import Tensor

from sepgp.likelihoods.likelihood import Codes, Floats, Tilted

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
SQRT_HALF = math.sqrt(0.5)
FAR = -6.0
"""Below this z the plain formulas lose their digits."""


@dataclass(frozen=True)
class Probit:
    """p(second class | f) = Φ(f)."""

    @property
    def latents(self) -> tuple[int, ...]:
        """One latent function, without an axis of its own."""
        return ()

    @property
    def mean_decides(self) -> bool:
        """Φ(mean/√(1 + variance)) is above ½ where the mean is above 0."""
        return True

    def targets(self, codes: Tensor) -> Tensor:
        """Signs −1 and 1 of the classes 0 and 1, shape (b,), float64."""
        return 2.0 * codes.double() - 1.0

    def moments(self, targets: Tensor, mean: Tensor, var: Tensor, s: Tensor) -> Tilted:
        """proj(φ_i) for φ_i = Φ(y_i m_i/√(1 + s_i)) under a cavity m_i ~ N(mean_i, var_i).

        All arguments have shape (b,). With z = y·mean/√w, w = 1 + s + var and r = φ(z)/Φ(z):
        α = y r/√w, λ = r(r + z)/w, γ = −½ r z/w, and the new site is ν̃ = λ/(1 − λ var),
        μ̃ = (α + λ mean)/(1 − λ var). Work is in float64. Cost O(b).
        """
        dtype = mean.dtype
        y, mean, var, s = (x.double() for x in (targets, mean, var, s))
        own = 1 + s
        w = own + var
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
        shrink = own + var * rest  # w (1 − λ var)
        y_r = y * r
        alpha = y_r / root
        gamma = -0.5 * r * z / w
        nu = r * gap / shrink
        mu = y_r * root * lack / shrink
        return Tilted(*(x.to(dtype) for x in (log_Z, alpha, gamma, nu, mu)))

    def decision(self, mean: Floats, variance: Floats) -> Floats:
        """z = mean/√(1 + variance), shape (n,): the second class has probability Φ(z)."""
        z: Floats = mean / np.sqrt(1 + variance)
        return z

    def most_probable(self, mean: Floats, variance: Floats | None = None) -> NDArray[np.intp]:
        """1 where the mean is above 0, shape (n,)."""
        return (mean > 0).astype(np.intp)

    def probabilities(self, mean: Floats, variance: Floats) -> Floats:
        """Φ(−z) and Φ(z), shape (n, 2)."""
        z = np.multiply.outer(self.decision(mean, variance), [SQRT_HALF, -SQRT_HALF])
        return torch.from_numpy(z).erfc_().mul_(0.5).numpy()

    def log_probability(self, codes: Codes, mean: Floats, variance: Floats) -> Floats:
        """log Φ(±z), shape (n,)."""
        log_p: Floats = log_ndtr((2 * codes - 1) * self.decision(mean, variance))
        return log_p

    def log_probabilities(self, mean: Floats, variance: Floats) -> Floats:
        """log Φ(−z) and log Φ(z), shape (n, 2)."""
        z = self.decision(mean, variance)
        return np.column_stack([log_ndtr(-z), log_ndtr(z)])


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
