"""The probit between expectation propagation and variational inference.

With a power a, the cavity lacks the share a of a row's site, and the row's factor is Φ(y f)^a. All
of `Tilted` is divided by a, so that a factor counts whole: log Z_i is (1/a) log E[Φ(y f)^a] under
f ~ N(mean, var + s). a = 1 is the probit, which has a closed form. As a goes to 0, log Z_i becomes
E_q[log Φ(y f)], the row's term of the ELBO, and the site the natural gradient of it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sepgp.likelihoods.likelihood import Tilted
from sepgp.likelihoods.probit import Probit
from sepgp.likelihoods.quadrature import Integrand, integrate, legendre, log_ndtr, ratio

REACH = 8.0
"""Standard deviations of f on each side that the expectations of power 0 are taken over."""
NODES = 48
"""On each side of f = 0, where log Φ bends."""


@dataclass(frozen=True)
class PowerProbit(Probit):
    """p(second class | f) = Φ(f), whose factors are matched with a power."""

    power: float
    """At least 0 and below 1."""

    def moments(self, targets: Tensor, mean: Tensor, var: Tensor, s: Tensor) -> Tilted:
        """proj(φ_i^a), each part divided by a; all arguments have shape (b,). Cost O(nodes).

        With r = φ/Φ at z = y f and expectations under the tilted density: α = y E[r],
        κ = λ/a = E[r(r + z)] − a Var[r], γ = ½(a α² − κ), and the new site is ν̃ = κ/(1 − aκ var),
        μ̃ = (α + κ mean)/(1 − aκ var). Work is in float64.
        """
        dtype, a = mean.dtype, self.power
        y, mean, var, s = (x.double() for x in (targets, mean, var, s))
        signed, w = y * mean, (s + var).clamp_min(1e-12)
        if a == 0:
            log_Z, r, kappa = _gaussian_expectations(signed, w)
        else:
            edge = torch.zeros_like(w)[None]
            found = integrate(Integrand(signed, w, edge, torch.ones_like(edge), a), squares=True)
            log_Z, r = found.log_Z / a, found.r[0]
            kappa = found.r2[0] + found.rz[0] - a * (found.r2[0] - r * r)
            # Of a wide Gaussian these are differences of large numbers, and its variance is not.
            kappa = torch.where(w > 4, (1 - found.variance / w) / (a * w), kappa)
        kappa = kappa.clamp_min(0)
        alpha = y * r
        gamma = 0.5 * (a * alpha * alpha - kappa)
        shrink = (1 - a * kappa * var).clamp_min(1e-12)
        nu, mu = kappa / shrink, (alpha + kappa * mean) / shrink
        return Tilted(*(x.to(dtype) for x in (log_Z, alpha, gamma, nu, mu)))


def _gaussian_expectations(mean: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """E[log Φ(g)], E[r] and E[r(r + g)] under N(mean, w), each of shape (b,).

    By a Gauss–Legendre rule on each side of 0, so far as that is within reach.
    """
    root = w.sqrt()
    low, high = mean - REACH * root, mean + REACH * root
    bend = torch.zeros_like(mean).clamp(low, high)
    x, weights = legendre(NODES)
    lower, upper = (bend - low)[:, None], (high - bend)[:, None]
    g = torch.cat([bend[:, None] - lower * x, bend[:, None] + upper * x], 1)
    p = torch.cat([lower * weights, upper * weights], 1)
    p = p * torch.exp(-0.5 * ((g - mean[:, None]) / root[:, None]) ** 2)
    p /= p.sum(1, keepdim=True)
    z = g.clamp_max(30.0)
    r = ratio(z)
    return (p * log_ndtr(z, r)).sum(1), (p * r).sum(1), (p * r * (r + z)).sum(1)
