"""FITC in the coordinates c = K⁻¹u, where a row's direction is its column of Kmb itself.

With M = KΛK and R = K + M, q(c) = N(R⁻¹Kb, R⁻¹): no product is spent on coordinates, and the
adjoints need none to get back. R is as ill conditioned as K and the number of rows together make
it, so this is for float64.
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
    gaussian,
    n_sharing,
    second_moment,
    times,
)
from sepgp.gp.natural import Natural

WORST_CONDITION = 5e9
"""Of R, by the diagonal of its factor. Beyond it gradients lose their third digit, and the
whitened form takes over: few features, close inducing points and millions of rows lead there."""


@dataclass(frozen=True)
class Direct(FITC):
    """See `FITC` for what the methods mean. T = K, P = K, D = I."""

    K: Tensor
    """Kmm with its jitter, shape (m, m), or (C, m, m) for a kernel each."""
    K_inverse: Tensor
    """In the shape of K."""
    half_log_det: Tensor
    """½ log|K|, shape (); of all kernels together."""

    def rows(self, Kmb: Tensor, kdiag: Tensor, pull: Callable[..., Tensor]) -> Rows:
        """V = Kmb, W = K⁻¹Kmb. Cost 2m² per row."""
        A = self.K_inverse @ Kmb
        return Rows(Kmb, A, (kdiag - (Kmb * A).sum(-2)).clamp_min_(0), pull)

    def to_coordinates(self, sites: Natural) -> Natural:
        """KΛK, Kb. Cost 4m³."""
        return Natural(congruent(self.K, sites.Lambda), times(self.K, sites.b))

    def rotate(self, directions: Tensor, dtype: torch.dtype) -> Tensor:
        """K o for directions o over u, shape (m, b). Cost 2m² per row."""
        return self.K @ directions

    def directions(self, rows: Rows) -> Tensor:
        """K⁻¹Kmb, shape (m, b)."""
        return rows.W

    def over_u(self, sums: Natural) -> Natural:
        """As they are."""
        return sums

    def posterior(self, sites: Natural, share: float = 1.0) -> Posterior:
        """N(R⁻¹Kb, R⁻¹) with R = K + share·KΛK. Cost m³."""
        precision = torch.add(self.K, sites.Lambda, alpha=share)
        log_prior = n_sharing(sites.b, self.K) * self.half_log_det
        return gaussian(precision, share * sites.b, log_prior, WORST_CONDITION)

    def shrunk(self, q: Posterior) -> Tensor:
        """R⁻¹Kβ."""
        return times(q.cov, times(self.K, q.mean))

    def adjoint_Kmm(self, q: Posterior, cross: Tensor, scale: float) -> Tensor:
        """½(R⁻¹ + ββᵀ − K⁻¹) − scale cross."""
        dKmm = second_moment(q, self.K.shape)
        dKmm.sub_(self.K_inverse, alpha=n_sharing(q.mean, self.K))
        return dKmm.sub_(cross, alpha=2 * scale).mul_(0.5)

    def adjoint_Kmb(self, adjoint: Tensor) -> Tensor:
        """As it is."""
        return adjoint


def direct(Kmm: Tensor, jitter: float = JITTER) -> Direct:
    """The prior of inducing points with covariance Kmm, shape (m, m) or (C, m, m). Cost m³."""
    L, K, jitter, ok = safe_cholesky(Kmm, jitter)
    log_diagonal = L.diagonal(dim1=-2, dim2=-1).log()
    return Direct(jitter, ok, K, torch.cholesky_inverse(L).mT, log_diagonal.sum())
