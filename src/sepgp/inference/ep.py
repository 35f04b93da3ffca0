"""Algorithm 1: parallel expectation propagation, one site per row.

Site i is exp(−½ ν_i (o_iᵀu)² + μ_i o_iᵀu). In batch form its direction o_i is always the current
υ_i = K⁻¹k_i, so two numbers per row are kept and q is rebuilt under the current kernel. In
minibatch form rows are met at different times, under different kernels, so every row keeps the
direction it was last updated in: O(nm) memory. While the kernel is held fixed the two agree.
"""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from sepgp.gp.fitc import FITC, Rows, adjoint_moments, adjoint_rows, coordinate_sum
from sepgp.gp.natural import Natural
from sepgp.gp.products import product
from sepgp.inference.evidence import Factors, Prepared, RowSites, Sums, row_sums, tilt

DAMPING = 0.5
"""How far ν and μ move to their new values: parallel updates of all rows may overshoot."""


class State(NamedTuple):
    """One site per row, and their product exp(−½ uᵀΛu + bᵀu)."""

    Lambda: Tensor
    """Shape (m, m), or (C, m, m)."""
    b: Tensor
    """Shape (m,), or (C, m)."""
    nu: Tensor
    """Site precisions ν̃, shape (n,), or (C, n)."""
    mu: Tensor
    """Site natural means μ̃, shape (n,), or (C, n)."""
    directions: Tensor | None
    """Row i is the direction o_i of site i, shape (n, m); None in batch form."""


def init(n_inducing: int, n_rows: int, minibatch: bool, latents: tuple[int, ...] = ()) -> State:
    """Uniform sites. Memory O(m² + n) in batch form, O(m² + nm) in minibatch form."""
    zeros = partial(torch.zeros, dtype=torch.float64)
    return State(
        zeros(*latents, n_inducing, n_inducing),
        zeros(*latents, n_inducing),
        zeros(*latents, n_rows),
        zeros(*latents, n_rows),
        zeros(n_rows, n_inducing) if minibatch else None,
    )


def gather(state: State, rows: Rows, factors: Factors) -> Natural | None:
    """The product of a batch's sites over c in their current directions; None in minibatch form.

    It adds up over parts of a batch. Cost 1.25m² per row.
    """
    if state.directions is not None:
        return None
    nu, mu = (part[..., _where(factors)].to(rows.V.dtype) for part in (state.nu, state.mu))
    return coordinate_sum(rows.V, factors.weight * nu, factors.weight * mu)


def prepare(
    state: State, fitc: FITC, n: float, gathered: Natural | None = None, power: float = 1.0
) -> Prepared:
    """q, from which every row takes its own cavity. Cost O(m³)."""
    if gathered is None:
        gathered = fitc.to_coordinates(Natural(state.Lambda, state.b))
    q = fitc.posterior(gathered)
    return Prepared(fitc, n, q, q, 0.0 * q.log_norm, state, power)


def sums(prepared: Prepared, rows: Rows, factors: Factors, damping: float = DAMPING) -> Sums:
    """Lines 1.1 and 1.2 for the rows of a batch, and the change of q.

    ν and μ move by `damping` of the way to their new values; the direction becomes υ_i. Cost 10m²
    per row in batch form, 18m² in minibatch form.
    """
    V, weight, where = rows.V, factors.weight, _where(factors)
    fitc, q, state = prepared.fitc, prepared.q, prepared.sites
    assert isinstance(state, State)
    nu, mu = state.nu[..., where].to(V.dtype), state.mu[..., where].to(V.dtype)
    old = None if state.directions is None else state.directions[where].T
    O = V if old is None else fitc.rotate(old, V.dtype)
    mean, cov = q.mean.to(V.dtype), q.cov.to(V.dtype)
    covV = product(cov, V)
    covO = covV if O is V else product(cov, O)

    # 1.1  Cavity q\i ∝ q / φ̃_i, by scalars. A row of weight below one has only that much in q;
    #      a row whose cavity would have no positive variance is left as it is. With a power a
    #      the cavity lacks the share a of the site.
    site_mean, site_var, overlap = mean @ O, (O * covO).sum(-2), (V * covO).sum(-2)
    copies = prepared.power * weight.clamp_max(1)
    proper = copies * nu * site_var < 1
    proper = proper if proper.ndim == 1 else proper.all(0)
    copies = copies * proper
    nu_out, mu_out = copies * nu, copies * mu
    d = 1 - nu_out * site_var
    pull, gain = (nu_out * site_mean - mu_out) / d, nu_out / d
    cavity_mean = mean @ V + overlap * pull
    cavity_var = (V * covV).sum(-2) + gain * overlap * overlap
    # g(θ\i) − g(θ) when one site is taken out of q; as the power goes to 0, −E_q[log φ̃_i].
    without = site_mean - mu_out * site_var
    log_removal = 0.5 * (gain * without * without - mu_out * (site_mean + without) - torch.log(d))
    if prepared.power == 0:
        log_removal = 0.5 * nu * (site_var + site_mean * site_mean) - mu * site_mean
    else:
        log_removal = log_removal / prepared.power

    # 1.2  φ̃_i = proj(φ_i).
    tilted = tilt(factors, rows, cavity_mean, cavity_var)
    new_nu = torch.where(proper, torch.lerp(nu, tilted.nu, damping), nu)
    new_mu = torch.where(proper, torch.lerp(mu, tilted.mu, damping), mu)
    directions = None
    if old is None:
        sites = fitc.site_sum(rows, weight * new_nu, weight * new_mu)
    else:  # in float64, so that what is added now is to the last digit what is taken out later
        directions = fitc.directions(rows).double()
        sites = coordinate_sum(directions, (weight * new_nu).double(), (weight * new_mu).double())
        sites -= coordinate_sum(old, (weight * nu).double(), (weight * mu).double())

    alpha, gamma = weight * tilted.alpha, weight * tilted.gamma
    by_removal = alpha * pull + 2 * gamma * gain * overlap
    B = (covO * by_removal.unsqueeze(-2)).sum_to_size(V.shape)
    B += adjoint_moments(mean, covV, alpha, gamma, V.shape)
    log_removal = log_removal.sum_to_size(weight.shape)
    adjoints = adjoint_rows(B, rows, gamma.sum_to_size(rows.s.shape))
    found = row_sums(prepared, rows, weight, tilted, sites, adjoints, log_removal)
    moved = None if directions is None else directions.T
    new = RowSites(where, new_nu.double(), new_mu.double(), moved)
    return replace(found, skipped=int((~proper).sum()), row_sites=(new,))


def update(state: State, prepared: Prepared, total: Sums, rho: float) -> State:
    """Line 2: reconstruct q. ρ has no part in it.

    In minibatch form the rows of `nu`, `mu` and `directions` that belong to the batch are written
    in place, because copying O(nm) numbers would cost more than the step: the state handed in is
    used up.
    """
    if state.directions is None:
        sites = total.sites
        state = state._replace(nu=state.nu.clone(), mu=state.mu.clone())
    else:
        sites = Natural(state.Lambda, state.b) + total.sites
    for where, nu, mu, directions in total.row_sites:
        state.nu[..., where], state.mu[..., where] = nu, mu
        if state.directions is not None and directions is not None:
            state.directions[where] = directions
    return state._replace(Lambda=sites.Lambda, b=sites.b)


def _where(factors: Factors) -> slice | Tensor:
    return slice(None) if factors.rows is None else factors.rows
