"""FITC in the coordinates c = K⁻¹u, where a row's direction is its column of Kmb itself.

With M = KΛK and R = K + M, q(c) = N(R⁻¹Kb, R⁻¹): no product is spent on coordinates, and the
adjoints need none to get back. R is as ill conditioned as K and the number of rows together make
it, so this is for float64.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sepgp.gp.cholesky import JITTER, safe_cholesky
from sepgp.gp.fitc import FITC, KernelMatrices, Natural, Posterior, coordinate_sum, gaussian


@dataclass(frozen=True)
class Direct(FITC):
    """See `FITC` for what the methods mean."""

    K: Tensor
    """Kmm with its jitter, shape (m, m)."""
    K_inverse: Tensor
    """Shape (m, m)."""
    half_log_det: Tensor
    """½ log|K|, shape ()."""
    A: Tensor
    """K⁻¹Kmb, shape (m, b)."""

    def to_coordinates(self, sites: Natural) -> Natural:
        """KΛK, Kb. Cost 4m³."""
        return Natural(self.K @ (sites.Lambda @ self.K), self.K @ sites.b)

    def rotate(self, directions: Tensor) -> Tensor:
        """K o for directions o over u, shape (m, b). Cost 2m² per row."""
        return self.K @ directions

    def directions(self) -> Tensor:
        """A = K⁻¹Kmb, shape (m, b)."""
        return self.A

    def site_sum(self, nu: Tensor, mu: Tensor) -> Natural:
        """A diag(ν) Aᵀ, Aμ. Cost 2m² per row."""
        return coordinate_sum(self.A, nu, mu)

    def posterior(self, sites: Natural, share: float = 1.0) -> Posterior:
        """N(R⁻¹Kb, R⁻¹) with R = K + share·M. Cost m³."""
        precision = torch.add(self.K, sites.Lambda, alpha=share)
        return gaussian(precision, share * sites.b, self.half_log_det)

    def adjoints(self, q: Posterior, B: Tensor, gamma: Tensor) -> KernelMatrices:
        """dKmb = B − 2A diag γ, dKmm = ½(R⁻¹ + ββᵀ − K⁻¹) − sym[(B − A diag γ)Aᵀ]."""
        rows = B.addcmul_(self.A, gamma, value=-1) @ self.A.T
        dKmm = torch.addr(q.cov, q.mean, q.mean).sub_(self.K_inverse)
        dKmm.sub_(rows).sub_(rows.T).mul_(0.5)
        return KernelMatrices(dKmm, B.addcmul_(self.A, gamma, value=-1), gamma)


def direct(kernel: KernelMatrices, jitter: float = JITTER) -> Direct:
    """Set up the batch. Cost O(m³) + 2m² per row."""
    Kmm, Kmb, kdiag = kernel
    L, K, jitter, ok = safe_cholesky(Kmm, jitter)
    K_inverse = torch.cholesky_inverse(L)
    A = K_inverse @ Kmb
    s = (kdiag - (Kmb * A).sum(0)).clamp_min_(0)
    half_log_det = L.diagonal().log().sum()
    return Direct(Kmb, s, jitter, ok, K, K_inverse, half_log_det, A)
