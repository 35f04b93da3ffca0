"""Algorithm 3: assumed density filtering, the baseline that takes nothing out of q."""

import torch

from sepgp.gp.fitc import FITC
from sepgp.inference.batch import Targets
from sepgp.inference.evidence import Info, finite
from sepgp.inference.sep import State, init
from sepgp.likelihoods.probit import match

__all__ = ["State", "init", "step"]


def step(state: State, fitc: FITC, batch: Targets) -> tuple[State, Info]:
    """Multiply the factors of a batch into q, and the gradient of log Z_q.

    θ ← θ + Σ_i θ_i: every time a row is seen it counts anew, so the variance of q shrinks with
    every pass over the data. A batch of all rows is Algorithm 3. Cost O(m³) + 8m² per row.
    """
    y, weight, _, n = batch
    V = fitc.V
    s = float(weight.sum())

    # 1.1  The cavity is q.
    q = fitc.posterior(fitc.to_coordinates(state))
    mean, cov = q.mean.to(V.dtype), q.cov.to(V.dtype)
    covV = cov @ V
    # 1.2  φ̃_i = proj(φ_i).
    tilted = match(y, mean @ V, (V * covV).sum(0), fitc.s)
    # 2  Update q ∝ ∏ φ̃_i q.
    new = fitc.site_sum(weight * tilted.nu, weight * tilted.mu)
    Lambda, b = state.Lambda + new.Lambda, state.b + new.b

    scaled = (n / s) * weight
    log_evidence = q.log_norm + (scaled * tilted.log_Z).sum(dtype=torch.float64)
    gamma = scaled * tilted.gamma
    B = covV.mul_(2 * gamma).addr_(mean, scaled * tilted.alpha)
    adjoints = fitc.adjoints(q, B, gamma)
    ok = fitc.ok and finite(log_evidence, tilted.nu, tilted.mu)
    return State(Lambda, b) if ok else state, Info(log_evidence, adjoints, fitc.jitter, 0, ok)
