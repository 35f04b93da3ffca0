"""The FITC conditional of a batch of rows, in coordinates that make the algebra short.

The function values at the inducing points are written as u = T c. Row i sees only
m_i = υ_iᵀu = V_iᵀc, with υ_i = K⁻¹k_i and V = TᵀK⁻¹Kmb, and q(c) is a Gaussian whose precision
is the prior's plus TᵀΛT. Two choices of T are of use:

`direct`    T = K: V = Kmb, the prior precision is K, and the least work per row. For float64.
`whitened`  T = L with K = L Lᵀ: V = L⁻¹Kmb and the prior precision is I, so that every matrix is
            well scaled. For float32, and whenever the direct form is too ill conditioned.

Both give the same numbers; the methods do not know which one they work in.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class KernelMatrices(NamedTuple):
    """What the kernel says about the inducing points and a batch of b rows."""

    Kmm: Tensor
    """Prior covariance of the inducing points, shape (m, m), float64."""
    Kmb: Tensor
    """Covariance of inducing points and rows, shape (m, b)."""
    kdiag: Tensor
    """Prior variances of the rows, shape (b,)."""


class Natural(NamedTuple):
    """Natural parameters of sites, exp(−½ uᵀΛu + bᵀu), over u or over the coordinates c."""

    Lambda: Tensor
    """Shape (m, m), float64."""
    b: Tensor
    """Shape (m,), float64."""


class Posterior(NamedTuple):
    """q(c) = N(mean, cov), the posterior of the coordinates, in float64."""

    mean: Tensor
    """Shape (m,)."""
    cov: Tensor
    """Shape (m, m)."""
    log_norm: Tensor
    """g(θ) − g(θ_prior), shape (). All is NaN when the precision could not be factorised."""


@dataclass(frozen=True)
class FITC(ABC):
    """The conditional f_i | u ~ N(V_iᵀc, s_i) of a batch of b rows, and the algebra on it."""

    V: Tensor
    """Shape (m, b)."""
    s: Tensor
    """Conditional variances k_ii − k_iᵀK⁻¹k_i, shape (b,)."""
    jitter: float
    """Relative jitter in the factor of Kmm."""
    ok: bool
    """False when Kmm could not be factorised."""

    @abstractmethod
    def to_coordinates(self, sites: Natural) -> Natural:
        """Natural parameters of u as those of c: TᵀΛT, Tᵀb. Cost 4m³."""

    @abstractmethod
    def rotate(self, directions: Tensor) -> Tensor:
        """Directions o over u, shape (m, b), as directions over c, in the rows' dtype: Tᵀo."""

    @abstractmethod
    def directions(self) -> Tensor:
        """The rows' directions υ_i over u, shape (m, b), in float64."""

    @abstractmethod
    def site_sum(self, nu: Tensor, mu: Tensor) -> Natural:
        """Σ ν_i υ_iυ_iᵀ and Σ μ_i υ_i over u, for nu and mu of shape (b,). Cost 2m² per row."""

    @abstractmethod
    def posterior(self, sites: Natural, share: float = 1.0) -> Posterior:
        """q(c) when a share of the sites, given over c, is kept. Cost m³."""

    @abstractmethod
    def adjoints(self, q: Posterior, B: Tensor, gamma: Tensor) -> KernelMatrices:
        """Equation (2) of the paper, pulled back to the kernel matrices.

        Column i of B, shape (m, b), is T⁻¹(α_i μ\\i + 2γ_i Σ\\i υ_i); it is overwritten. gamma,
        shape (b,), is ∂ log Z_i/∂ variance. Both are weighted and scaled to n rows. Over u, with
        A = K⁻¹Kmb: dKmb = K⁻¹TB − 2A diag γ, dkdiag = γ and
        dKmm = ½K⁻¹(Σ + μμᵀ − K)K⁻¹ + sym[A diag(γ) Aᵀ − K⁻¹TB Aᵀ]. Cost 2m² to 4m² per row.
        """


def coordinate_sum(V: Tensor, nu: Tensor, mu: Tensor) -> Natural:
    """Σ ν_i V_iV_iᵀ and Σ μ_i V_i for directions V, shape (m, b). Cost 1.5m² per row."""
    return Natural(gram(V, nu).double(), (V @ mu).double())


def gram(V: Tensor, weight: Tensor) -> Tensor:
    """V diag(weight) Vᵀ for V of shape (m, b), weight of shape (b,). Cost 1.5m² per row.

    It is symmetric, so one quarter of it is copied from another.
    """
    half = len(V) // 2
    weighted = V * weight
    result = V.new_empty(len(V), len(V))
    result[:, :half] = V @ weighted[:half].T
    result[half:, half:] = V[half:] @ weighted[half:].T
    result[:half, half:] = result[half:, :half].T
    return result


def gaussian(precision: Tensor, b: Tensor, log_prior: Tensor | float) -> Posterior:
    """The Gaussian with this precision, shape (m, m), and natural mean b, shape (m,). Cost m³.

    `log_prior` is ½ log|prior precision|. A precision that is not positive definite gives NaN.
    """
    factor, info = torch.linalg.cholesky_ex(precision)
    if int(info) != 0:
        factor = torch.full_like(factor, torch.nan)
    cov = torch.cholesky_inverse(factor)
    mean = cov @ b
    log_norm = 0.5 * (mean @ b) - factor.diagonal().log().sum() + log_prior
    return Posterior(mean, cov, log_norm)
