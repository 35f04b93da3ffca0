"""Algorithm 1: parallel expectation propagation, one site per row.

Site i is exp(−½ ν_i (o_iᵀu)² + μ_i o_iᵀu). In batch form its direction o_i is always the current
υ_i = K⁻¹k_i, so two numbers per row are kept and q is rebuilt under the current kernel. In
minibatch form rows are met at different times, under different kernels, so every row keeps the
direction it was last updated in: O(nm) memory. While the kernel is held fixed the two agree.
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from sepgp.gp.fitc import FITC, Natural, coordinate_sum
from sepgp.inference.batch import Targets
from sepgp.inference.evidence import Info, finite
from sepgp.likelihoods.probit import match


class State(NamedTuple):
    """One site per row, and their product exp(−½ uᵀΛu + bᵀu)."""

    Lambda: Tensor
    """Shape (m, m)."""
    b: Tensor
    """Shape (m,)."""
    nu: Tensor
    """Site precisions ν̃, shape (n,)."""
    mu: Tensor
    """Site natural means μ̃, shape (n,)."""
    directions: Tensor | None
    """Row i is the direction o_i of site i, shape (n, m); None in batch form."""


def init(n_inducing: int, n_rows: int, minibatch: bool) -> State:
    """Uniform sites. Memory O(m² + n) in batch form, O(m² + nm) in minibatch form."""
    zeros = partial(torch.zeros, dtype=torch.float64)
    directions = zeros(n_rows, n_inducing) if minibatch else None
    return State(
        zeros(n_inducing, n_inducing), zeros(n_inducing), zeros(n_rows), zeros(n_rows), directions
    )


def step(state: State, fitc: FITC, batch: Targets, damping: float = 0.5) -> tuple[State, Info]:
    """One parallel update of the sites of a batch, and the gradient of log Z_q.

    ν and μ move by `damping` of the way to their new values; the direction becomes υ_i. In
    minibatch form the rows of `nu`, `mu` and `directions` that belong to the batch are written in
    place, because copying O(nm) numbers would cost more than the step. Cost O(m³) + 10m² per row
    in batch form, 18m² in minibatch form.
    """
    y, weight, rows, n = batch
    V = fitc.V
    s = float(weight.sum())
    where = slice(None) if rows is None else rows
    nu, mu = state.nu[where].to(V.dtype), state.mu[where].to(V.dtype)

    if state.directions is None:
        O = V
        q = fitc.posterior(coordinate_sum(V, weight * nu, weight * mu))
    else:
        old_directions = state.directions[where].T
        O = fitc.rotate(old_directions)
        q = fitc.posterior(fitc.to_coordinates(Natural(state.Lambda, state.b)))
    mean, cov = q.mean.to(V.dtype), q.cov.to(V.dtype)
    covV = cov @ V
    covO = covV if O is V else cov @ O

    # 1.1  Cavity q\i ∝ q / φ̃_i, by scalars. A row of weight below one has only that much in q;
    #      a row whose cavity would have no positive variance is left as it is.
    site_mean, site_var = mean @ O, (O * covO).sum(0)
    overlap = (V * covO).sum(0)
    copies = weight.clamp_max(1)
    proper = copies * nu * site_var < 1
    copies = copies * proper
    nu_out, mu_out = copies * nu, copies * mu
    d = 1 - nu_out * site_var
    pull = (nu_out * site_mean - mu_out) / d
    gain = nu_out / d
    cavity_mean = mean @ V + overlap * pull
    cavity_var = (V * covV).sum(0) + gain * overlap * overlap

    # 1.2  φ̃_i = proj(φ_i).
    tilted = match(y, cavity_mean, cavity_var, fitc.s)
    new_nu = torch.where(proper, torch.lerp(nu, tilted.nu, damping), nu)
    new_mu = torch.where(proper, torch.lerp(mu, tilted.mu, damping), mu)

    # 2  Reconstruct q.
    Lambda, b = fitc.site_sum(weight * new_nu, weight * new_mu)
    if state.directions is not None:
        gone = coordinate_sum(old_directions, (weight * nu).double(), (weight * mu).double())
        Lambda, b = state.Lambda + Lambda - gone.Lambda, state.b + b - gone.b

    scaled = (n / s) * weight
    # g(θ\i) − g(θ) when one site is taken out of q.
    without = site_mean - mu_out * site_var
    log_removal = 0.5 * (gain * without * without - mu_out * (site_mean + without) - torch.log(d))
    log_evidence = q.log_norm + (scaled * (tilted.log_Z + log_removal)).sum(dtype=torch.float64)
    alpha, gamma = scaled * tilted.alpha, scaled * tilted.gamma
    B = torch.addr(covV * (2 * gamma), mean, alpha)
    B += covO * (alpha * pull + 2 * gamma * gain * overlap)
    adjoints = fitc.adjoints(q, B, gamma)

    ok = fitc.ok and finite(log_evidence, new_nu, new_mu)
    info = Info(log_evidence, adjoints, fitc.jitter, int((~proper).sum()), ok)
    if not ok:
        return state, info
    if state.directions is None:
        nu, mu = state.nu.clone(), state.mu.clone()
        nu[where], mu[where] = new_nu.double(), new_mu.double()
        return State(Lambda, b, nu, mu, None), info
    state.nu[where] = new_nu.double()
    state.mu[where] = new_mu.double()
    state.directions[where] = fitc.directions().T
    return state._replace(Lambda=Lambda, b=b), info
