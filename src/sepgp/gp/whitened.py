"""FITC in the coordinates c = L⁻¹u with K = L Lᵀ, whose prior is N(0, I).

q(c) = N(S Lᵀb, S) with S = (I + LᵀΛL)⁻¹. Λ is a non-negative sum of rank-one terms, so
I + LᵀΛL has no eigenvalue below one, however ill conditioned K is. This lets the row work run in
float32 while the m × m work stays in float64.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sepgp.gp.cholesky import JITTER, safe_cholesky
from sepgp.gp.fitc import FITC, KernelMatrices, Natural, Posterior, coordinate_sum, gaussian


@dataclass(frozen=True)
class Whitened(FITC):
    """See `FITC` for what the methods mean."""

    L: Tensor
    """Lower Cholesky factor of Kmm with its jitter, shape (m, m)."""
    L_inverse: Tensor
    """Shape (m, m)."""

    def to_coordinates(self, sites: Natural) -> Natural:
        """LᵀΛL, Lᵀb. Cost 4m³."""
        return Natural(self.L.T @ (sites.Lambda @ self.L), self.L.T @ sites.b)

    def rotate(self, directions: Tensor) -> Tensor:
        """Lᵀo for directions o over u, shape (m, b). Cost 2m² per row."""
        return (self.L.T @ directions).to(self.V.dtype)

    def directions(self) -> Tensor:
        """L⁻ᵀV, shape (m, b). Cost 2m² per row."""
        return self.L_inverse.T @ self.V.double()

    def site_sum(self, nu: Tensor, mu: Tensor) -> Natural:
        """L⁻ᵀ V diag(ν) Vᵀ L⁻¹, L⁻ᵀVμ. Cost O(m³) + 2m² per row."""
        Lambda, b = coordinate_sum(self.V, nu, mu)
        return Natural(self.L_inverse.T @ (Lambda @ self.L_inverse), self.L_inverse.T @ b)

    def posterior(self, sites: Natural, share: float = 1.0) -> Posterior:
        """N(S Lᵀb, S) with S⁻¹ = I + share·LᵀΛL. Cost m³."""
        precision = share * sites.Lambda
        precision.diagonal().add_(1)
        return gaussian(precision, share * sites.b, 0.0)

    def adjoints(self, q: Posterior, B: Tensor, gamma: Tensor) -> KernelMatrices:
        """dKmb = L⁻ᵀ(B − 2V diag γ), dKmm = L⁻ᵀ(½(S + μμᵀ − I) − sym[(B − V diag γ)Vᵀ])L⁻¹."""
        rows = (B.addcmul_(self.V, gamma, value=-1) @ self.V.T).double()
        inner = torch.addr(q.cov, q.mean, q.mean).sub_(rows).sub_(rows.T).mul_(0.5)
        inner.diagonal().sub_(0.5)
        dKmm = self.L_inverse.T @ (inner @ self.L_inverse)
        dKmb = self.L_inverse.T.to(self.V.dtype) @ B.addcmul_(self.V, gamma, value=-1)
        return KernelMatrices(dKmm, dKmb, gamma)


def invert_triangular(L: Tensor) -> Tensor:
    """L⁻¹ of a lower triangular L, shape (m, m). Cost m³/3."""
    eye = torch.eye(len(L), dtype=L.dtype, device=L.device)
    inverse: Tensor = torch.linalg.solve_triangular(L, eye, upper=False)
    return inverse


def whitened(kernel: KernelMatrices, jitter: float = JITTER) -> Whitened:
    """Set up the batch. Cost O(m³) + 2m² per row."""
    Kmm, Kmb, kdiag = kernel
    L, _, jitter, ok = safe_cholesky(Kmm, jitter)
    L_inverse = invert_triangular(L)
    V = L_inverse.to(Kmb.dtype) @ Kmb
    s = (kdiag - (V * V).sum(0)).clamp_min_(0)
    return Whitened(V, s, jitter, ok, L, L_inverse)
