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
    blocks,
    gaussian,
    n_sharing,
    second_moment,
    times,
)
from sepgp.gp.natural import Natural
from sepgp.gp.products import product


@dataclass(frozen=True)
class Whitened(FITC):
    """See `FITC` for what the methods mean. T = L, P = I, D = L⁻ᵀ."""

    L: Tensor
    """Lower Cholesky factor of Kmm with its jitter, shape (m, m); (C, m, m) for a kernel each."""
    L_inverse: Tensor
    """In the shape of L."""

    def rows(self, Kmb: Tensor, kdiag: Tensor, pull: Callable[..., Tensor]) -> Rows:
        """V = W = L⁻¹Kmb. Cost 1.25m² per row."""
        V = lower_times(self.L_inverse.to(Kmb.dtype), Kmb)
        return Rows(V, V, (kdiag - (V * V).sum(-2)).clamp_min_(0), pull)

    def to_coordinates(self, sites: Natural) -> Natural:
        """LᵀΛL, Lᵀb. Cost 2.25m³."""
        return Natural(congruent_lower(self.L, sites.Lambda), times(self.L.mT, sites.b))

    def rotate(self, directions: Tensor, dtype: torch.dtype) -> Tensor:
        """Lᵀo for directions o over u, shape (m, b). Cost 2m² per row."""
        return (self.L.T @ directions).to(dtype)

    def directions(self, rows: Rows) -> Tensor:
        """L⁻ᵀW, shape (m, b). Cost 2m² per row."""
        return self.L_inverse.T @ rows.W.double()

    def over_u(self, sums: Natural) -> Natural:
        """L⁻ᵀΛL⁻¹, L⁻ᵀb. Cost 2.25m³.

        Sums in float32 are symmetric to its last digit alone, and L⁻¹ would enlarge the difference.
        """
        Lambda = congruent_lower(self.L_inverse, 0.5 * (sums.Lambda + sums.Lambda.mT))
        return Natural(Lambda, times(self.L_inverse.mT, sums.b))

    def posterior(self, sites: Natural, share: float = 1.0) -> Posterior:
        """N(S Lᵀb, S) with S⁻¹ = I + share·LᵀΛL. Cost m³."""
        precision = share * sites.Lambda
        precision.diagonal(dim1=-2, dim2=-1).add_(1)
        return gaussian(precision, share * sites.b, 0.0)

    def shrunk(self, q: Posterior) -> Tensor:
        """S·mean."""
        return times(q.cov, q.mean)

    def adjoint_Kmm(self, q: Posterior, cross: Tensor, scale: float) -> Tensor:
        """L⁻ᵀ(½(S + μμᵀ − I) − scale sym(cross))L⁻¹. Cost 2.25m³."""
        inner = second_moment(q, self.L.shape)
        inner.sub_(cross + cross.mT, alpha=scale).mul_(0.5)
        inner.diagonal(dim1=-2, dim2=-1).sub_(0.5 * n_sharing(q.mean, self.L))
        return congruent_lower(self.L_inverse, inner)

    def adjoint_Kmb(self, adjoint: Tensor) -> Tensor:
        """L⁻ᵀ times it. Cost 1.25m² per row."""
        return upper_times(self.L_inverse.mT.to(adjoint.dtype), adjoint)


def lower_times(L: Tensor, X: Tensor) -> Tensor:
    """L X for a lower triangular L, shapes (m, m) and (m, b), or with C of each. Cost 1.25m² b."""
    parts = [product(L[..., i:j, :j], X[..., :j, :]) for i, j in blocks(L.shape[-1])]
    return torch.cat(parts, dim=-2)


def upper_times(U: Tensor, X: Tensor) -> Tensor:
    """U X for an upper triangular U, shapes (m, m) and (m, b), or with C of each. Cost 1.25m² b."""
    parts = [product(U[..., i:j, i:], X[..., i:, :]) for i, j in blocks(U.shape[-1])]
    return torch.cat(parts, dim=-2)


def congruent_lower(L: Tensor, Lambda: Tensor) -> Tensor:
    """LᵀΛL for a lower triangular L and a symmetric Λ, as in `congruent`. Cost 2.25m³.

    The left half of L's columns and the right half, which has zeros above, are taken by themselves,
    and of the two products between them one.
    """
    half = L.shape[-1] // 2
    left, right = L[..., :half], L[..., half:, half:]
    Lambda_left, result = Lambda @ left, torch.empty_like(Lambda)
    result[..., :half, :half] = left.mT @ Lambda_left
    result[..., half:, :half] = right.mT @ Lambda_left[..., half:, :]
    result[..., :half, half:] = result[..., half:, :half].mT
    result[..., half:, half:] = right.mT @ (Lambda[..., half:, half:] @ right)
    return result


def invert_triangular(L: Tensor) -> Tensor:
    """L⁻¹ of a lower triangular L, shape (m, m) or (C, m, m). Cost m³/3."""
    eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device)
    inverse: Tensor = torch.linalg.solve_triangular(L, eye, upper=False)
    return inverse


def whitened(Kmm: Tensor, jitter: float = JITTER) -> Whitened:
    """The prior of inducing points with covariance Kmm, shape (m, m) or (C, m, m). Cost m³."""
    L, _, jitter, ok = safe_cholesky(Kmm, jitter)
    return Whitened(jitter, ok, L, invert_triangular(L))
