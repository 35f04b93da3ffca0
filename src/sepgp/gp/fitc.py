"""The FITC approximation, in coordinates that make the algebra short.

The function values at the inducing points are written as u = T c. Row i sees only
m_i = υ_iᵀu = V_iᵀc, with υ_i = K⁻¹k_i and V = TᵀK⁻¹Kmb, and q(c) is a Gaussian whose precision
is the prior's plus TᵀΛT. Two choices of T are of use:

`direct`    T = K: V = Kmb, the prior precision is K, and the least work per row. For float64.
`whitened`  T = L with K = L Lᵀ: V = L⁻¹Kmb and the prior precision is I, so that every matrix is
            well scaled. For float32, and whenever the direct form is too ill conditioned.

With C latent functions that share the kernel and the inducing points, sites and posteriors have a
leading axis of length C, as have the numbers per row; K and the rows' V and W have none, so what
does not depend on the class is done once. With a kernel for each of them, K, V, W and s have that
axis too.

Sums over rows are taken in the directions W with D W = K⁻¹Kmb: W = K⁻¹Kmb and D = I in the direct
form, W = V and D = L⁻ᵀ in the whitened one. Both give the same numbers; the methods do not know
which one they work in.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from sepgp.gp.natural import Natural
from sepgp.gp.products import product_over_rows

BLOCKS = 4
"""Of the rows of a triangular or symmetric matrix, half of which need not be computed."""
FEW = 2
"""Rows per inducing point up to which one product is faster than those of blocks."""


class Rows(NamedTuple):
    """The conditional f_i | u ~ N(V_iᵀc + offset_i, s_i) of a batch of b rows."""

    V: Tensor
    """Shape (m, b), or (C, m, b) where each latent function has its own kernel."""
    W: Tensor
    """The directions that sums over rows are taken in, in the shape of V."""
    s: Tensor
    """Conditional variances k_ii − k_iᵀK⁻¹k_i, shape (b,), or (C, b)."""
    pull: Callable[..., Tensor]
    """From the adjoints of Kmb and kdiag, in the shapes of V and s, and of the offset, if there is
    one, to those of ξ, shape (p,)."""
    offset: Tensor | None = None
    """The prior mean of f, shape (b,), or (C, b); None if it is 0."""


class Posterior(NamedTuple):
    """q(c) = N(mean, cov), the posterior of the coordinates, in float64."""

    mean: Tensor
    """Shape (m,), or (C, m)."""
    cov: Tensor
    """Shape (m, m), or (C, m, m)."""
    log_norm: Tensor
    """g(θ) − g(θ_prior), of all latent functions together, shape ().

    All is NaN when a precision could not be factorised.
    """


@dataclass(frozen=True)
class FITC(ABC):
    """The prior of the inducing points, and the algebra of sites and rows on it."""

    jitter: float
    """Relative jitter in the factor of Kmm."""
    ok: bool
    """False when Kmm could not be factorised."""

    @abstractmethod
    def rows(self, Kmb: Tensor, kdiag: Tensor, pull: Callable[..., Tensor]) -> Rows:
        """The conditional of b rows. Cost 2m² per row."""

    @abstractmethod
    def to_coordinates(self, sites: Natural) -> Natural:
        """Natural parameters of u as those of c: TᵀΛT, Tᵀb. Cost 4m³."""

    @abstractmethod
    def rotate(self, directions: Tensor, dtype: torch.dtype) -> Tensor:
        """Directions o over u, shape (m, b), as directions over c: Tᵀo. Cost 2m² per row."""

    @abstractmethod
    def directions(self, rows: Rows) -> Tensor:
        """The rows' directions υ_i over u, D W, shape (m, b), in float64."""

    def site_sum(self, rows: Rows, nu: Tensor, mu: Tensor) -> Natural:
        """Σ ν_i υ_iυ_iᵀ, Σ μ_i υ_i over u, for nu, mu of shape (b,) or (C, b). Cost 2m² per row."""
        return self.over_u(coordinate_sum(rows.W, nu, mu))

    @abstractmethod
    def over_u(self, sums: Natural) -> Natural:
        """Sums in the directions W as parameters of u: DΛDᵀ, Db. Cost up to 2.25m³."""

    @abstractmethod
    def posterior(self, sites: Natural, share: float = 1.0) -> Posterior:
        """q(c) when a share of the sites, given over c, is kept. Cost m³."""

    @abstractmethod
    def shrunk(self, q: Posterior) -> Tensor:
        """Σ P μ with the prior precision P of c: by how much μ grows with the sites. Cost O(m²)."""

    @abstractmethod
    def adjoint_Kmm(self, q: Posterior, cross: Tensor, scale: float) -> Tensor:
        """½K⁻¹Σ_c(Σ_u + μ_uμ_uᵀ − K)K⁻¹ − scale D cross Dᵀ: see `adjoint_rows`. Cost 4m³.

        It need not be symmetric: kernels are, and see its symmetric part alone.
        """

    @abstractmethod
    def adjoint_Kmb(self, adjoint: Tensor) -> Tensor:
        """D times the adjoint of W-space, shape (m, b)."""


def adjoint_rows(B: Tensor, rows: Rows, gamma: Tensor) -> tuple[Tensor, Tensor]:
    """Equation (2) of the paper, pulled back to the kernel matrices of a batch.

    Column i of B, shape (m, b), is T⁻¹(α_i μ\\i + 2γ_i Σ\\i υ_i); it is overwritten. gamma, shape
    (b,), is ∂ log Z_i/∂ variance. Returns (B − W diag γ)Wᵀ, the rows' part of dKmm, and
    B − 2W diag γ, that of dKmb, both before D. With many latent functions of one kernel B and γ are
    sums over them; with a kernel each, all have a leading axis. Over u, with A = K⁻¹Kmb:
    dKmb = K⁻¹TB − 2A diag γ, dkdiag = γ and
    dKmm = ½K⁻¹(Σ + μμᵀ − K)K⁻¹ + sym[A diag(γ) Aᵀ − K⁻¹TB Aᵀ]. Cost 2m² per row.
    """
    gamma = gamma.unsqueeze(-2)
    cross = product_over_rows(B.addcmul_(rows.W, gamma, value=-1), rows.W)
    return cross.double(), B.addcmul_(rows.W, gamma, value=-1)


def adjoint_rows_of_one_cavity(
    mean: Tensor, cov: Tensor, covW: Tensor, W: Tensor, gram: Tensor, alpha: Tensor, gamma: Tensor
) -> tuple[Tensor, Tensor]:
    """`adjoint_rows` for V = W, where all b rows have the same cavity; `gram` is W diag(γ) Wᵀ.

    Then B = μαᵀ + 2ΣW diag γ, and BWᵀ = μ(Wα)ᵀ + 2Σ W diag(γ) Wᵀ: instead of a product over rows
    there is one of m × m matrices. covW = ΣW is overwritten. Cost 2m³.
    """
    cross = torch.addmm(gram, cov, gram, beta=-1, alpha=2).addr_(mean, W @ alpha)
    return cross.double(), covW.sub_(W).mul_(2 * gamma).addr_(mean, alpha)


def coordinate_sum(V: Tensor, nu: Tensor, mu: Tensor) -> Natural:
    """Σ ν_i V_iV_iᵀ and Σ μ_i V_i for directions V, shape (m, b). Cost 1.25m² per row."""
    return Natural(gram(V, nu).double(), times(V, mu).double())


def gram(V: Tensor, weight: Tensor) -> Tensor:
    """V diag(weight) Vᵀ for V of shape (m, b), weight of shape (b,) or (C, b). Cost 1.25m² per row.

    It is symmetric, so a part of it is copied from another, unless rows are few. With many classes
    a product of one large matrix with Vᵀ takes the place of many small ones; V may have their axis
    too.
    """
    if V.ndim == 3:
        return torch.stack([gram(*own) for own in zip(V, weight, strict=True)])
    m, weight = len(V), weight.unsqueeze(-2)
    if V.shape[1] <= FEW * m:
        return product_over_rows(V * weight, V)
    result = V.new_empty(*weight.shape[:-2], m, m)
    for begin, end in blocks(m):
        result[..., begin:end, begin:] = product_over_rows(V[begin:end] * weight, V[begin:])
        result[..., end:, begin:end] = result[..., begin:end, end:].mT
    return result


def blocks(m: int) -> Iterator[tuple[int, int]]:
    """Where each of the blocks of m rows begins and ends."""
    return itertools.pairwise(block * m // BLOCKS for block in range(BLOCKS + 1))


def congruent(T: Tensor, Lambda: Tensor) -> Tensor:
    """TᵀΛT for symmetric Λ, shape (m, m) or (C, m, m), as may be that of T. Cost 4m³."""
    return T.mT @ (Lambda @ T)


def variances(V: Tensor, covV: Tensor) -> Tensor:
    """diag(VᵀΣV) for V and ΣV, each of shape (m, b) or (C, m, b). Cost O(m) per row."""
    if covV.ndim == 2:
        return (V * covV).sum(0)
    return torch.stack([variances(*own) for own in zip(each(V, covV), covV, strict=True)])


def means(mean: Tensor, V: Tensor) -> Tensor:
    """Vᵀμ for μ, shape (m,) or (C, m), and V, shape (m, b) or (C, m, b). Cost O(m) per row."""
    return mean @ V if V.ndim == 2 else (mean.unsqueeze(-2) @ V).squeeze(-2)


def each(matrix: Tensor, like: Tensor) -> Tensor:
    """A matrix as one for each of C latent functions, without a copy if they share it."""
    return matrix.expand(len(like), *matrix.shape[-2:])


def times(A: Tensor, x: Tensor) -> Tensor:
    """A x, where either or both may have a leading axis of classes."""
    if x.ndim == 1:
        return A @ x
    return x @ A.mT if A.ndim == 2 else (A @ x.unsqueeze(-1)).squeeze(-1)


def second_moment(q: Posterior, shape: torch.Size) -> Tensor:
    """E[ccᵀ] in the shape of K, (m, m) or (C, m, m): latent functions that share it are summed."""
    if q.mean.ndim == 1:
        return torch.addr(q.cov, q.mean, q.mean)
    if len(shape) == 3:
        return torch.baddbmm(q.cov, q.mean.unsqueeze(-1), q.mean.unsqueeze(-2))
    return torch.addmm(q.cov.sum(0), q.mean.T, q.mean)


def n_sharing(mean: Tensor, K: Tensor) -> int:
    """How many latent functions have the same kernel, by means, shape (m,) or (C, m), and Kmm."""
    return 1 if K.ndim == 3 else mean.numel() // mean.shape[-1]


def adjoint_moments(
    mean: Tensor, covV: Tensor, alpha: Tensor, gamma: Tensor, shape: torch.Size
) -> Tensor:
    """The B of `adjoint_rows`: Σ_c μ_c α_cᵀ + 2 Σ_c V diag γ_c, in the shape of the rows' V.

    Latent functions with a kernel each are not summed. covV, shape (m, b) or (C, m, b), is
    overwritten. Cost O(Cm) per row.
    """
    if mean.ndim == 1:
        return covV.mul_(2 * gamma).addr_(mean, alpha)
    covV.mul_(2 * gamma.unsqueeze(-2))
    if len(shape) == 3:
        return covV.baddbmm_(mean.unsqueeze(-1), alpha.unsqueeze(-2))
    return covV.sum(0).addmm_(mean.T, alpha)


def gaussian(
    precision: Tensor, b: Tensor, log_prior: Tensor | float, worst: float = math.inf
) -> Posterior:
    """The Gaussians with these precisions, shape (m, m) or (C, m, m), and natural means b. Cost m³.

    `log_prior` is ½ log|prior precision|, of all latent functions together. A precision that is not
    positive definite, or has a condition number that is seen to be above `worst`, gives NaN.
    """
    factor, info = torch.linalg.cholesky_ex(precision)
    diagonal = factor.diagonal(dim1=-2, dim2=-1)
    if bool(info.any()) or (worst < math.inf and _worst_condition(diagonal) > worst):
        factor = torch.full_like(factor, torch.nan)
    cov = torch.cholesky_inverse(factor).mT  # the same matrix, in order of rows
    mean = times(cov, b)
    log_det = factor.diagonal(dim1=-2, dim2=-1).log().sum()
    log_norm = 0.5 * torch.dot(mean.reshape(-1), b.reshape(-1)) - log_det
    return Posterior(mean, cov, log_norm + log_prior)


def _worst_condition(diagonal: Tensor) -> float:
    """The condition number that the diagonals of Cholesky factors show, at least; inf for NaN."""
    condition = float((diagonal.amax(-1) / diagonal.amin(-1)).amax()) ** 2
    return condition if condition == condition else math.inf
