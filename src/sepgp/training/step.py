"""One step of training: the sites are refined and the hyper-parameters move."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sepgp.data.batches import Batch
from sepgp.gp.direct import direct
from sepgp.gp.fitc import FITC
from sepgp.gp.hyperparameters import Hyperparameters, pull_back
from sepgp.gp.products import rounded
from sepgp.gp.whitened import whitened
from sepgp.inference.evidence import Factors, Info, Prepared, Sums, adjoint_common, report
from sepgp.inference.method import Chunk, Method, State, add_up, chosen, prepare
from sepgp.likelihoods import Likelihood
from sepgp.training.monitor import Best
from sepgp.training.optimizers import OPTIMIZERS
from sepgp.training.schedule import ROWS_PER_POINT, site_step
from sepgp.training.settings import Settings

CACHE = 2**24
"""With many classes a batch is taken in parts of so many bytes: classes × inducing points × rows.
They stay in the cache between the passes over them, and products of that size are at full speed."""

FEW, FEW_PER_POINT = 500, 2
"""Rows, and rows per inducing point, up to both of which a batch is taken in float64: what float32
saves on so few is about what its coordinates cost on m × m matrices, or less."""
RECOVERY = 1.1
"""The factor by which a learning rate grows, step by step, after moves that were taken back."""
FACTOR_SHARE = 0.1
"""Of the learning rate, for the factor of a prior mean: it grows slowly where it starts at 0, so
that the process comes first."""


class TrainingState(NamedTuple):
    """Everything that changes during training."""

    iteration: int
    xi: Tensor
    """Hyper-parameters, shape (p,)."""
    last_xi: Tensor
    """ξ of the step before, to return to when a step fails."""
    sites: State
    optimizer: Any
    rate: float
    """Factor on the learning rate; halved whenever a step is thrown away or taken back."""
    best: Best | None = None
    """The best model measured so far; None if none was."""


@dataclass(frozen=True)
class Engine:
    """What a step works with and does not change."""

    method: Method
    likelihood: Likelihood
    hyper: Hyperparameters
    optimizer: Any
    site_step: str | float
    """The rule for SEP's ρ: see `sepgp.training.schedule.site_step`."""
    part_of: Callable[[Batch], Tensor] | None = None
    """With several tied sites, which one each row of a batch belongs to, shape (b,)."""

    @classmethod
    def of(
        cls,
        settings: Settings,
        likelihood: Likelihood,
        hyper: Hyperparameters,
        n_factors: int = 1,
        part_of: Callable[[Batch], Tensor] | None = None,
    ) -> "Engine":
        """The engine that the settings ask for, with so many tied sites; "auto" is SEP."""
        method = chosen(settings.resolved().method, n_factors, settings.power)
        optimizer = OPTIMIZERS[settings.optimizer]
        return cls(method, likelihood, hyper, optimizer, settings.site_step, part_of)

    def init(self, n_inducing: int, n_rows: int, minibatch: bool) -> TrainingState:
        """The state before the first step; `minibatch` says that a batch is a part of all rows."""
        xi = self.hyper.start
        with torch.device(xi.device):
            sites = self.method.init(n_inducing, n_rows, minibatch, self.likelihood.latents)
        return TrainingState(0, xi, xi, sites, self.optimizer.init(xi), 1.0)

    def step(
        self,
        state: TrainingState,
        batch: Batch,
        n: float,
        rate: float,
        share: float = 1.0,
        n_own: float | None = None,
        least: float | None = None,
    ) -> tuple[TrainingState, Info]:
        """One site refinement and, unless `rate` is 0, one move of the hyper-parameters.

        n is the weight of all rows, and `n_own` of those that batches are taken from, if these are
        a part of all. Inducing points get a `share` of the learning rate. A step that meets
        anything not finite is thrown away: `info.ok` is then False, the sites stay, ξ goes back to
        where it was a step before, and the rate is halved. So it is where ξ has moved and log Z_q
        is below the `least` that is asked for: `info.fell` is then True, and the rate recovers.
        """
        learn = rate > 0 and len(state.xi) > 0
        if len(batch.y) <= min(FEW, FEW_PER_POINT * state.sites.b.shape[-1]):
            batch = batch.double()
        prepared, total, info = self._evaluate(state, self._cut(state, batch), n, learn)
        following = state._replace(iteration=state.iteration + 1, last_xi=state.xi)
        if least is not None:
            has_moved = not torch.equal(state.xi, state.last_xi)
            fell = info.ok and has_moved and float(info.log_evidence) < least
            info = info._replace(fell=fell)
            following = following._replace(rate=min(1.0, RECOVERY * state.rate))
        if info.ok and not info.fell and learn:
            gradient = info.gradient + self.hyper.prior_gradient(state.xi)
            change, moments = self.optimizer.step(state.optimizer, gradient, rate * state.rate)
            change[self.hyper.inducing] *= share
            change[self.hyper.mean] *= FACTOR_SHARE
            moved = torch.clamp(state.xi + change, self.hyper.lower, self.hyper.upper)
            info = info._replace(ok=bool(torch.isfinite(moved).all()))
            following = following._replace(xi=moved, optimizer=moments)
        if not info.ok or info.fell:
            fresh = self.optimizer.init(state.xi)
            return following._replace(
                xi=state.last_xi, last_xi=state.last_xi, optimizer=fresh, rate=state.rate / 2
            ), info
        fraction = min(1.0, total.weight / (n if n_own is None else n_own))
        informed = len(batch.y) / (ROWS_PER_POINT * state.sites.b.shape[-1])
        rho = site_step(self.site_step, state.iteration, fraction, informed)
        return following._replace(sites=self.method.update(state.sites, prepared, total, rho)), info

    def _cut(self, state: TrainingState, batch: Batch) -> list[tuple[Batch, int]]:
        """A batch in pieces that stay in the cache, each with the tied site that it belongs to."""
        pieces = [(batch, 0)]
        if self.part_of is not None:
            part = self.part_of(batch)
            pieces = [(batch.take(part == k), k) for k in sorted(set(part.tolist()))]
        if not self.likelihood.latents:
            return pieces
        size = rounded(max(1, CACHE // (state.sites.b.numel() * batch.X.element_size())))
        return [(piece, part) for whole, part in pieces for piece in whole.split(size)]

    @torch.no_grad()
    def _evaluate(
        self, state: TrainingState, pieces: Sequence[tuple[Batch, int]], n: float, learn: bool
    ) -> tuple[Prepared, Sums, Info]:
        """What the rows of all pieces say together, in the first form that is sound."""
        xi = state.xi.detach().requires_grad_(learn)
        forms = [direct, whitened] if pieces[0][0].X.dtype == torch.float64 else [whitened]
        for basis in forms:
            Kmm = self.hyper.Kmm(xi)
            fitc = basis(Kmm.detach())
            chunks = [self.chunk(fitc, xi, *piece) for piece in pieces]
            prepared = prepare(self.method, state.sites, fitc, n, chunks)
            if not prepared.ok and basis is direct:
                continue
            total = add_up(self.method, prepared, chunks)
            info = report(prepared, total, partial(self._pull_Kmm, xi, Kmm, fitc, state))
            if info.ok:
                break
        return prepared, total, info

    def _pull_Kmm(
        self, xi: Tensor, Kmm: Tensor, fitc: FITC, state: TrainingState, adjoint: Tensor
    ) -> Tensor:
        """From an adjoint of Kmm to ξ, less that of what classes with one kernel have in common."""
        if self.likelihood.latents and Kmm.ndim == 2 and Kmm.requires_grad:
            adjoint = adjoint - adjoint_common(fitc, state.sites.Lambda)
        return _pull(xi, [Kmm], adjoint)

    def chunk(self, fitc: FITC, xi: Tensor, batch: Batch, part: int = 0) -> Chunk:
        """The rows of a batch, with their kernel matrices at ξ, as the methods see them."""
        matrices: tuple[Tensor, ...] = self.hyper.Kmb(xi, batch.X)
        Kmb, kdiag = (matrix.detach() for matrix in matrices)
        offset = self.hyper.offset(xi, batch.score)
        if offset is not None:
            matrices = (*matrices, offset)
        rows = fitc.rows(Kmb, kdiag, partial(_pull, xi, matrices))
        targets = self.likelihood.targets(batch.y)
        return (
            rows._replace(offset=None if offset is None else offset.detach()),
            Factors(self.likelihood, targets, batch.weight, batch.rows, part),
        )


def _pull(xi: Tensor, matrices: Sequence[Tensor], *adjoints: Tensor) -> Tensor:
    return pull_back(xi, matrices, adjoints)
