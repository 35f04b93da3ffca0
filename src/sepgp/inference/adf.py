"""Algorithm 3: assumed density filtering, the baseline that takes nothing out of q."""

from sepgp.gp.fitc import FITC
from sepgp.gp.natural import Natural
from sepgp.inference.evidence import Prepared, Sums
from sepgp.inference.sep import State, init, sums

__all__ = ["State", "init", "prepare", "sums", "update"]


def prepare(state: State, fitc: FITC, n: float, gathered: Natural | None = None) -> Prepared:
    """Line 1.1: the cavity is q. Cost O(m³)."""
    q = fitc.posterior(fitc.to_coordinates(state))
    return Prepared(fitc, n, q, q, 0.0 * q.log_norm)


def update(state: State, prepared: Prepared, total: Sums, rho: float) -> State:
    """Line 2: q ∝ ∏ φ̃_i q, that is θ ← θ + Σ_i θ_i. ρ has no part in it. Cost O(m²).

    Every time a row is seen it counts anew, so the variance of q shrinks with every pass over the
    data.
    """
    return state + total.sites
