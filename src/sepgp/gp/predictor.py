"""Predictions: the posterior folded into two arrays, so that a row costs one product."""

from typing import NamedTuple

import torch
from torch import Tensor

from sepgp.gp.cholesky import JITTER
from sepgp.gp.fitc import Posterior, means, times
from sepgp.gp.kernels import Kernel
from sepgp.gp.natural import Natural
from sepgp.gp.products import product
from sepgp.gp.whitened import Whitened, whitened

HEIGHT = 72
"""Rows of a triangular F at a time, which need the columns from their own first one on."""
PAIR = 2.0
"""With many classes, the factor on the sites in the variances of predictions: see `predictor`."""


class Predictor(NamedTuple):
    """mean = kᵀβ, variance = k(x, x) − ‖F k‖²."""

    beta: Tensor
    """Shape (m,), or (C, m)."""
    F: Tensor
    """Shape (m, m), or (C, m, m), upper triangular: Fᵀ F = K⁻¹ − R⁻¹ = L⁻ᵀ(I − S)L⁻¹."""


def predictor(kernel: Kernel, Z: Tensor, sites: Natural, jitter: float = JITTER) -> Predictor:
    """Fold sites over u into a predictor, for inducing points Z, shape (m, d). Cost O(m³), once.

    With many classes, means are q's, and variances those under twice the sites. What a row says
    is how two classes differ, nearly always. If that is h about f_1 − f_2, sites that match each
    of the two by itself have precisions of about h, and the function that both have in common
    leaves them no more. But it takes 2h each for the difference to have the variance
    1/(1/(2k) + h) that it should have, for a prior variance of k each.
    """
    fitc, q = posterior(kernel, Z, sites, jitter)
    cov = q.cov
    if cov.ndim == 3:
        cov = fitc.posterior(fitc.to_coordinates(PAIR * sites)).cov
    eye = torch.eye(len(Z), dtype=cov.dtype, device=cov.device)
    eigenvalues, eigenvectors = torch.linalg.eigh(eye - cov)
    root = eigenvalues.clamp_min(0).sqrt().unsqueeze(-1) * eigenvectors.mT
    return Predictor(times(fitc.L_inverse.mT, q.mean), triangular(root @ fitc.L_inverse))


def triangular(F: Tensor) -> Tensor:
    """The upper triangular matrix with the same Fᵀ F, shape (m, m), or (C, m, m). Cost O(m³)."""
    R: Tensor = torch.linalg.qr(F, mode="r").R
    return R.contiguous()


def posterior(
    kernel: Kernel, Z: Tensor, sites: Natural, jitter: float = JITTER
) -> tuple[Whitened, Posterior]:
    """q of the coordinates c = L⁻¹u, for sites over u and inducing points Z, shape (m, d).

    All of q is NaN when the sites and the kernel do not go together. Cost O(m³).
    """
    fitc = whitened(kernel(Z, Z), jitter)
    return fitc, fitc.posterior(fitc.to_coordinates(sites))


def predict(folded: Predictor, Kmb: Tensor, kdiag: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of f at b rows, each of shape (b,), or (C, b). Cost 2m² per row or less."""
    variance = kdiag - squared_norms(folded.F, Kmb)
    return means(folded.beta, Kmb), variance.clamp_min_(0)


def squared_norms(F: Tensor, Kmb: Tensor) -> Tensor:
    """‖F k‖² for a triangular F, shape (m, m) or (C, m, m), and each column k of Kmb.

    Shape (b,), or (C, b). Cost m(m + HEIGHT) per row, or 2m² for each of many classes, whose F are
    one large matrix in one product.
    """
    if F.ndim == 3:
        return product(F, Kmb).square_().sum(-2)
    norms = Kmb.new_zeros(Kmb.shape[1])
    for i in range(0, len(F), HEIGHT):
        norms += product(F[i : i + HEIGHT, i:], Kmb[i:]).square_().sum(0)
    return norms
