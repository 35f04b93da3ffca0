"""FITC in the coordinates c = L⁻¹u with K = L Lᵀ, whose prior is N(0, I).

q(c) = N(S Lᵀb, S) with S = (I + LᵀΛL)⁻¹. Λ is a non-negative sum of rank-one terms, so
I + LᵀΛL has no eigenvalue below one, however ill conditioned K is. This lets the row work run in
float32 while the m × m work stays in float64.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sepgp.gp.cholesky import JITTER, safe_cholesky
from sepgp.gp.fitc import (
    FITC,
    Posterior,
    Rows,
    congruent,
    coordinate_sum,
    gaussian,
    n_sharing,
    second_moment,
    times,
)
from sepgp.gp.natural import Natural

SMALL = 5e-5
"""A share of the sites whose square is below the rounding of float32."""


@dataclass(frozen=True)
class Whitened(FITC):
    """See `FITC` for what the methods mean. T = L, P = I, D = L⁻ᵀ."""

    L: Tensor
    """Lower Cholesky factor of Kmm with its jitter, shape (m, m); (C, m, m) for a kernel each."""
    L_inverse: Tensor
    """In the shape of L."""

    def rows(self, Kmb: Tensor, kdiag: Tensor, pull: Callable[..., Tensor]) -> Rows:
        """V = W = L⁻¹Kmb. Cost 2m² per row."""
        V = self.L_inverse.to(Kmb.dtype) @ Kmb
        return Rows(V, V, (kdiag - (V * V).sum(-2)).clamp_min_(0), pull)

    def to_coordinates(self, sites: Natural) -> Natural:
        """LᵀΛL, Lᵀb. Cost 4m³."""
        return Natural(congruent(self.L, sites.Lambda), times(self.L.mT, sites.b))

    def rotate(self, directions: Tensor, dtype: torch.dtype) -> Tensor:
        """Lᵀo for directions o over u, shape (m, b). Cost 2m² per row."""
        return (self.L.T @ directions).to(dtype)

    def directions(self, rows: Rows) -> Tensor:
        """L⁻ᵀW, shape (m, b). Cost 2m² per row."""
        return self.L_inverse.T @ rows.W.double()

    def site_sum(self, rows: Rows, nu: Tensor, mu: Tensor) -> Natural:
        """L⁻ᵀ W diag(ν) Wᵀ L⁻¹, L⁻ᵀWμ. Cost 4m³ + 1.5m² per row."""
        Lambda, b = coordinate_sum(rows.W, nu, mu)
        return Natural(congruent(self.L_inverse, Lambda), times(self.L_inverse.mT, b))

    def posterior(self, sites: Natural, share: float = 1.0) -> Posterior:
        """N(S Lᵀb, S) with S⁻¹ = I + share·LᵀΛL. Cost m³."""
        precision = share * sites.Lambda
        precision.diagonal(dim1=-2, dim2=-1).add_(1)
        return gaussian(precision, share * sites.b, 0.0)

    def without(self, q: Posterior, sites: Natural, share: float) -> Posterior:
        """S + share(S − S²) for a small share, to O(share²): a product, and no factorisation.

        The log norm stays that of q.
        """
        if share > SMALL:
            return super().without(q, sites, share)
        cov = (1 + share) * q.cov - share * (q.cov @ q.cov)
        return q._replace(mean=q.mean - share * self.shrunk(q), cov=cov)

    def shrunk(self, q: Posterior) -> Tensor:
        """S·mean."""
        return times(q.cov, q.mean)

    def adjoint_Kmm(self, q: Posterior, cross: Tensor, scale: float) -> Tensor:
        """L⁻ᵀ(½(S + μμᵀ − I) − scale cross)L⁻¹. Cost 4m³."""
        inner = second_moment(q, self.L.shape)
        inner.sub_(cross, alpha=2 * scale).mul_(0.5)
        inner.diagonal(dim1=-2, dim2=-1).sub_(0.5 * n_sharing(q.mean, self.L))
        return self.L_inverse.mT @ (inner @ self.L_inverse)

    def adjoint_Kmb(self, adjoint: Tensor) -> Tensor:
        """L⁻ᵀ times it. Cost 2m² per row."""
        return self.L_inverse.mT.to(adjoint.dtype) @ adjoint


def invert_triangular(L: Tensor) -> Tensor:
    """L⁻¹ of a lower triangular L, shape (m, m) or (C, m, m). Cost m³/3."""
    eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device)
    inverse: Tensor = torch.linalg.solve_triangular(L, eye, upper=False)
    return inverse


def whitened(Kmm: Tensor, jitter: float = JITTER) -> Whitened:
    """The prior of inducing points with covariance Kmm, shape (m, m) or (C, m, m). Cost m³."""
    L, _, jitter, ok = safe_cholesky(Kmm, jitter)
    return Whitened(jitter, ok, L, invert_triangular(L))
