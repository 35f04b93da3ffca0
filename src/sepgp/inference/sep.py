"""Algorithm 2: stochastic expectation propagation, one tied site for all rows."""

import torch

from sepgp.gp.fitc import FITC, Natural
from sepgp.inference.batch import Targets
from sepgp.inference.evidence import Info, finite
from sepgp.likelihoods.probit import match

State = Natural
"""The tied site φ̃(u) = exp(−½ uᵀΛu + bᵀu): O(m²) numbers, however many rows there are."""


def init(n_inducing: int) -> State:
    """A uniform site. Memory O(m²)."""
    zeros = torch.zeros(n_inducing, n_inducing, dtype=torch.float64)
    return State(zeros, zeros[0].clone())


def step(state: State, fitc: FITC, batch: Targets, rho: float | None = None) -> tuple[State, Info]:
    """One refinement of the tied site by a batch of s rows out of n, and the gradient of log Z_q.

    θ ← (1 − ρ) θ + ρ (n/s) Σ_i θ_i. The paper's rule is ρ = s/n, the default: with s = n it is
    Algorithm 2 itself, with s < n its minibatch form. Cost O(m³) + 8m² per row.
    """
    y, weight, _, n = batch
    V = fitc.V
    s = float(weight.sum())
    share = 1 - 1 / max(n, 1.0)
    rho = min(1.0, s / n) if rho is None else rho

    site = fitc.to_coordinates(state)
    q = fitc.posterior(site)
    # 2.1  Cavity q\i ∝ q / φ̃^(1/n): the same for all rows.
    cavity = fitc.posterior(site, share)
    mean, cov = cavity.mean.to(V.dtype), cavity.cov.to(V.dtype)
    covV = cov @ V
    # 2.2  Find φ̃_i = proj(φ_i).
    tilted = match(y, mean @ V, (V * covV).sum(0), fitc.s)
    # 2.3  Accumulate the φ̃_i into the new global factor.
    new = fitc.site_sum(weight * tilted.nu, weight * tilted.mu)
    Lambda, b = (
        total.mul_(rho * n / s).add_(old, alpha=1 - rho)
        for old, total in zip(state, new, strict=True)
    )

    scaled = (n / s) * weight
    log_evidence = (
        q.log_norm
        + (scaled * tilted.log_Z).sum(dtype=torch.float64)
        + n * (cavity.log_norm - q.log_norm)
    )
    gamma = scaled * tilted.gamma
    B = covV.mul_(2 * gamma).addr_(mean, scaled * tilted.alpha)
    adjoints = fitc.adjoints(q, B, gamma)
    ok = fitc.ok and finite(log_evidence, tilted.nu, tilted.mu)
    return State(Lambda, b) if ok else state, Info(log_evidence, adjoints, fitc.jitter, 0, ok)
