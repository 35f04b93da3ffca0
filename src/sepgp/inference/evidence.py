"""log Z_q and its gradient, equation (2): what every method adds up over rows, and what becomes
of the sums."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from sepgp.gp.fitc import FITC, Posterior, Rows
from sepgp.gp.natural import Natural
from sepgp.likelihoods import Likelihood, Tilted


class Factors(NamedTuple):
    """The likelihood factors φ_i of the b rows of a batch."""

    likelihood: Likelihood
    targets: Tensor
    """What the likelihood makes of the labels; its first axis has length b."""
    weight: Tensor
    """A row of weight w counts as w copies of its factor; shape (b,)."""
    rows: Tensor | None
    """Row numbers of the batch in the whole set, shape (b,); EP alone needs them."""
    part: int = 0
    """Which of several tied sites the rows belong to."""


def tilt(factors: Factors, rows: Rows, mean: Tensor, var: Tensor) -> Tilted:
    """proj(φ_i) for rows with cavities N(mean, var) of υᵀu, each of shape (b,), or (C, b).

    The factor sees f, whose mean is `offset` more. A site exp(−½ν̃(υᵀu + o)² + μ̃(υᵀu + o)) is one
    of υᵀu alone with μ̃ − ν̃o in the place of μ̃.
    """
    moments = factors.likelihood.moments
    if rows.offset is None:
        return moments(factors.targets, mean, var, rows.s)
    shifted = moments(factors.targets, mean + rows.offset, var, rows.s)
    return shifted._replace(mu=shifted.mu - rows.offset * shifted.nu)


class Prepared(NamedTuple):
    """What the rows of a step have to know: work on m × m matrices, done once."""

    fitc: FITC
    n: float
    """Total weight of all rows of the set: the paper's n."""
    q: Posterior
    cavity: Posterior
    """What the rows' factors are matched under; for EP q, from which each row takes its own."""
    log_removal: Tensor
    """Σ_i [g(θ\\i) − g(θ)] as far as it is the same for all rows, shape ()."""
    sites: object = None
    """The sites of single rows (EP), or the cavities of several parts of the rows."""
    power: float = 1.0
    """The share of a row's site that its cavity lacks."""

    @property
    def ok(self) -> bool:
        """Whether there is a q, so that it is worth while to look at the rows."""
        return self.fitc.ok and math.isfinite(float(self.q.log_norm))


class RowSites(NamedTuple):
    """New sites of the rows of a batch (EP alone)."""

    where: slice | Tensor
    nu: Tensor
    mu: Tensor
    directions: Tensor | None


@dataclass(frozen=True)
class Sums:
    """Sums over rows, which add up wherever the rows are: O(m² + p) numbers."""

    weight: float
    """Σ w_i, the paper's s."""
    sites: Natural
    """Σ w_i θ_i, the natural parameters of the new sites over u."""
    log_Z: Tensor
    """Σ w_i log Z_i, shape ()."""
    cross: Tensor
    """The rows' part of the adjoint of Kmm, in the coordinates of FITC, in the shape of Kmm."""
    gradient: Tensor
    """The adjoints of Kmb, kdiag and the offset, pulled back to ξ, shape (p,)."""
    skipped: int = 0
    """Rows whose cavity was improper, so that their site stayed as it was (EP alone)."""
    row_sites: tuple[RowSites, ...] = ()
    part_sites: Mapping[int, tuple[Natural, float]] = field(default_factory=dict)
    """`sites` and `weight` of each part of the rows, where there are several tied sites."""

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.weight + other.weight,
            self.sites + other.sites,
            self.log_Z + other.log_Z,
            self.cross + other.cross,
            self.gradient + other.gradient,
            self.skipped + other.skipped,
            self.row_sites + other.row_sites,
            _joined(self.part_sites, other.part_sites),
        )


def _joined(
    one: Mapping[int, tuple[Natural, float]], other: Mapping[int, tuple[Natural, float]]
) -> Mapping[int, tuple[Natural, float]]:
    joined = dict(one)
    for part, (sites, weight) in other.items():
        if part in joined:
            sites, weight = joined[part][0] + sites, joined[part][1] + weight
        joined[part] = sites, weight
    return joined


def row_sums(
    prepared: Prepared,
    rows: Rows,
    weight: Tensor,
    tilted: Tilted,
    sites: Natural,
    adjoints: tuple[Tensor, Tensor],
    log_removal: Tensor | float = 0.0,
) -> Sums:
    """The sums over a batch. Cost up to 1.25m² per row, and the kernel's derivative.

    The adjoints are those of `adjoint_rows`, of the weighted log Z_i.
    """
    cross, dKmb = adjoints
    gamma = (weight * tilted.gamma).sum_to_size(rows.s.shape)
    # log Z_i depends on an offset as it does on the cavity's mean.
    by_offset = () if rows.offset is None else (weight * tilted.alpha,)
    return Sums(
        float(weight.sum()),
        sites,
        (weight * (tilted.log_Z + log_removal)).sum(dtype=torch.float64),
        cross,
        rows.pull(prepared.fitc.adjoint_Kmb(dKmb), gamma, *by_offset),
    )


class Info(NamedTuple):
    """What a step reports beside the new state."""

    log_evidence: Tensor
    """Estimate of log Z_q from this batch, shape ()."""
    gradient: Tensor
    """What ξ moves along, shape (p,): ∂ log Z_q/∂ξ, less what `pull` takes off."""
    jitter: float
    """Relative jitter that the Cholesky factor of Kmm needed."""
    skipped: int
    """Rows whose cavity was improper, so that their site stayed as it was (EP alone)."""
    ok: bool
    """False when log Z_q, a site or the gradient is not finite: the sums are then of no use."""
    fell: bool = False
    """Whether log Z_q has fallen, so that the move of ξ that led here was taken back."""


def report(prepared: Prepared, total: Sums, pull: Callable[[Tensor], Tensor]) -> Info:
    """What the sums say; `pull` takes an adjoint of Kmm, shape (m, m), to ξ. Cost O(m³)."""
    scale = prepared.n / total.weight
    evidence = log_evidence(prepared, total)
    gradient = scale * total.gradient + pull(adjoint_Kmm(prepared, total))
    # A site that is not finite would be so in every entry of Λ or b.
    ok = prepared.ok and finite(evidence, gradient, total.sites.Lambda[..., 0, :], total.sites.b)
    return Info(evidence, gradient, prepared.fitc.jitter, total.skipped, ok)


def log_evidence(prepared: Prepared, total: Sums) -> Tensor:
    """log Z_q = g(θ) − g(θ_prior) + (n/s) Σ_i w_i [log Z_i + g(θ\\i) − g(θ)], shape ()."""
    scale = prepared.n / total.weight
    return prepared.q.log_norm + scale * total.log_Z + prepared.log_removal


def adjoint_Kmm(prepared: Prepared, total: Sums) -> Tensor:
    """∂ log Z_q/∂ Kmm, shape (m, m): the prior's part, and that of all n rows."""
    return prepared.fitc.adjoint_Kmm(prepared.q, total.cross, prepared.n / total.weight)


def adjoint_common(fitc: FITC, Lambda: Tensor) -> Tensor:
    """The adjoint of Kmm, shape (m, m), of what log Z_q pays for a function common to all classes.

    Labels depend on the differences of the C latent functions alone, and log Z_q has a determinant
    for each of these. Differences of independent functions with precisions K⁻¹ + Λ_c have one
    less: beside the product of all it has that of their mean, K⁻¹ + Λ̄. That is the log norm
    of one function with the mean of the sites, Λ of shape (C, m, m), and no mean. Cost O(m³).
    """
    mean = Lambda.mean(0)
    common = fitc.posterior(fitc.to_coordinates(Natural(mean, torch.zeros_like(mean[0]))))
    return fitc.adjoint_Kmm(common, torch.zeros_like(mean), 0.0)


def finite(*tensors: Tensor) -> bool:
    """Whether all entries of all tensors are finite. Cost O(size)."""
    return math.isfinite(sum(float(tensor.sum()) for tensor in tensors))
