"""Algorithm 2: stochastic expectation propagation, one tied site for all rows."""

import torch
from torch import Tensor

from sepgp.gp.fitc import (
    FITC,
    Posterior,
    Rows,
    adjoint_moments,
    adjoint_rows,
    adjoint_rows_of_one_cavity,
    gram,
    means,
    times,
    variances,
)
from sepgp.gp.natural import Natural
from sepgp.gp.products import product
from sepgp.inference.evidence import Factors, Prepared, Sums, row_sums, tilt

State = Natural
"""The tied site φ̃(u) = exp(−½ uᵀΛu + bᵀu): O(m²) numbers, however many rows there are."""

LARGE, HUGE = 1e4, 1e6
"""From `LARGE` rows on, q is found from the cavity without a factorisation; from `HUGE` on, sums
over rows are in float64."""
MANY = 5
"""Rows per inducing point from which products of m × m matrices are cheaper than one over rows."""


def init(n_inducing: int, n_rows: int, minibatch: bool, latents: tuple[int, ...] = ()) -> State:
    """A uniform site, for each of the latent functions if there are many. Memory O(m²) each."""
    zeros = torch.zeros(*latents, n_inducing, n_inducing, dtype=torch.float64)
    return State(zeros, zeros[..., 0].clone())


def prepare(
    state: State, fitc: FITC, n: float, gathered: Natural | None = None, power: float = 1.0
) -> Prepared:
    """q, and line 2.1: the cavity q\\i ∝ q / φ̃^(1/n), the same for all rows. Cost O(m³).

    With a power a below 1 the cavity lacks a/n of the site, and at 0 it is q.
    """
    site, share = fitc.to_coordinates(state), power / max(n, 1.0)
    cavity = fitc.posterior(site, 1 - share)
    if n < LARGE * power:
        q = fitc.posterior(site)
        return Prepared(fitc, n, q, cavity, n / power * (cavity.log_norm - q.log_norm))
    # All n rows see the cavity. Of q nothing is multiplied by n, so its covariance may be off by
    # O(1/n): that of the cavity does, and saves a factorisation.
    q = cavity._replace(mean=cavity.mean + share * fitc.shrunk(cavity))
    removal = log_removal(site, q, cavity)
    q = q._replace(log_norm=cavity.log_norm - share * removal)
    return Prepared(fitc, n, q, cavity, removal)


def sums(prepared: Prepared, rows: Rows, factors: Factors) -> Sums:
    """Lines 2.2 and 2.3 for the rows of a batch. Cost 5.25m² to 6.5m² per row."""
    V, weight, fitc, cavity = rows.V, factors.weight, prepared.fitc, prepared.cavity
    mean, cov = cavity.mean.to(V.dtype), cavity.cov.to(V.dtype)
    covV = product(cov, V)
    # 2.2  Find φ̃_i = proj(φ_i).
    tilted = tilt(factors, rows, means(mean, V), variances(V, covV))
    # 2.3  Accumulate the φ̃_i into the new global factor, which line 1 has made uniform.
    #      The rounding of this sum, times n, has to stay below the prior's precision.
    wide = V.dtype if prepared.n < HUGE else torch.float64
    nu, mu = (weight * tilted.nu).to(wide), (weight * tilted.mu).to(wide)
    alpha, gamma = weight * tilted.alpha, weight * tilted.gamma
    many = mean.ndim == 1 and len(weight) > MANY * len(mean)
    if many and rows.W is V and wide == V.dtype:
        Lambda, G = gram(V, torch.stack([nu, gamma]))  # faster than one after the other
        new = fitc.over_u(Natural(Lambda.double(), (V @ mu).double()))
        adjoints = adjoint_rows_of_one_cavity(mean, cov, covV, V, G, alpha, gamma)
    else:
        new = fitc.site_sum(rows._replace(W=rows.W.to(wide)), nu, mu)
        B = adjoint_moments(mean, covV, alpha, gamma, V.shape)
        adjoints = adjoint_rows(B, rows, gamma.sum_to_size(rows.s.shape))
    return row_sums(prepared, rows, weight, tilted, new, adjoints)


def update(state: State, prepared: Prepared, total: Sums, rho: float) -> State:
    """Line 3: the tied site moves by ρ towards the new one, θ ← (1 − ρ)θ + ρ (n/s) Σ_i θ_i.

    ρ = 1 with all rows is Algorithm 2 itself, ρ = s/n its minibatch form. Cost O(m²).
    """
    n, s = prepared.n, total.weight
    return (1 - rho) * state + rho * n / s * total.sites


def log_removal(site: Natural, q: Posterior, cavity: Posterior) -> Tensor:
    """(n/a)(g(cavity) − g(q)) for a power a, to a relative error of O(1/n²), shape (). Cost O(m²).

    By the share t of the site in q, whose precision is P + tM: dg/dt = E_t[log φ̃] =
    bᵀμ − ½ μᵀMμ − ½ tr(MΣ). The plain difference of g would multiply its rounding by n; the
    derivative at the middle of the step from 1 to 1 − 1/n does not. Of two covariances that are
    taken to be the same one the error is O(1/n).
    """
    M, mean = site.Lambda, 0.5 * (q.mean + cavity.mean)
    trace = _dot(M, q.cov)
    if cavity.cov is not q.cov:
        trace = 0.5 * (trace + _dot(M, cavity.cov))
    return 0.5 * trace + 0.5 * _dot(mean, times(M, mean)) - _dot(site.b, mean)


def _dot(left: Tensor, right: Tensor) -> Tensor:
    return torch.dot(left.reshape(-1), right.reshape(-1))
