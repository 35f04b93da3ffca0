"""Algorithm 2: stochastic expectation propagation, one tied site for all rows."""

import torch
from torch import Tensor

from sepgp.gp.fitc import FITC, Posterior, Rows
from sepgp.gp.natural import Natural
from sepgp.inference.evidence import Factors, Prepared, Sums, row_sums

State = Natural
"""The tied site φ̃(u) = exp(−½ uᵀΛu + bᵀu): O(m²) numbers, however many rows there are."""

MANY = 1e4
"""From this many rows on, the cavity is q and a first-order term in 1/n: see `large_n_cavity`."""


def init(n_inducing: int, n_rows: int, minibatch: bool) -> State:
    """A uniform site. Memory O(m²)."""
    zeros = torch.zeros(n_inducing, n_inducing, dtype=torch.float64)
    return State(zeros, zeros[0].clone())


def prepare(state: State, fitc: FITC, n: float, gathered: Natural | None = None) -> Prepared:
    """q, and line 2.1: the cavity q\\i ∝ q / φ̃^(1/n), the same for all rows. Cost O(m³)."""
    site = fitc.to_coordinates(state)
    q = fitc.posterior(site)
    if n >= MANY:
        return Prepared(fitc, n, q, *large_n_cavity(fitc, site, q, n))
    cavity = fitc.posterior(site, 1 - 1 / max(n, 1.0))
    return Prepared(fitc, n, q, cavity, n * (cavity.log_norm - q.log_norm))


def sums(prepared: Prepared, rows: Rows, factors: Factors) -> Sums:
    """Lines 2.2 and 2.3 for the rows of a batch. Cost 8m² per row."""
    V, weight = rows.V, factors.weight
    mean, cov = prepared.cavity.mean.to(V.dtype), prepared.cavity.cov.to(V.dtype)
    covV = cov @ V
    # 2.2  Find φ̃_i = proj(φ_i).
    tilted = factors.likelihood.moments(factors.targets, mean @ V, (V * covV).sum(0), rows.s)
    # 2.3  Accumulate the φ̃_i into the new global factor, which line 1 has made uniform.
    new = prepared.fitc.site_sum(rows, weight * tilted.nu, weight * tilted.mu)
    B = covV.mul_(2 * weight * tilted.gamma).addr_(mean, weight * tilted.alpha)
    return row_sums(prepared, rows, weight, tilted, new, B)


def update(state: State, prepared: Prepared, total: Sums, rho: float) -> State:
    """Line 3: the tied site moves by ρ towards the new one, θ ← (1 − ρ)θ + ρ (n/s) Σ_i θ_i.

    ρ = 1 with all rows is Algorithm 2 itself, ρ = s/n its minibatch form. Cost O(m²).
    """
    n, s = prepared.n, total.weight
    return (1 - rho) * state + rho * n / s * total.sites


def large_n_cavity(fitc: FITC, site: Natural, q: Posterior, n: float) -> tuple[Posterior, Tensor]:
    """The cavity and n(g(cavity) − g(q)) to a relative error of O(1/n²). Cost 4m³, no factor.

    By the share t of the site in q, whose precision is P + tM: dΣ/dt = ΣPΣ − Σ, dμ/dt = ΣPμ, and
    dg/dt = E_t[log φ̃] = bᵀμ − ½ μᵀMμ − ½ tr(MΣ). The plain difference of g would multiply its
    rounding by n; the derivative at the middle of the step from 1 to 1 − 1/n does not.
    """
    product, pulled = fitc.prior_product(q.cov, q.mean)
    cov = torch.lerp(q.cov, product, -1 / n)
    mean = q.mean - pulled / n
    middle, M = 0.5 * (q.mean + mean), site.Lambda
    trace = 0.5 * (torch.sum(M * q.cov) + torch.sum(M * cov))
    log_removal = 0.5 * trace + 0.5 * (middle @ (M @ middle)) - site.b @ middle
    return Posterior(mean, cov, q.log_norm + log_removal / n), log_removal
