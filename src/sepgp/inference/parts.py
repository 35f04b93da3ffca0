"""Between Algorithms 2 and 1: rows in K parts, and one tied site for each part.

The cavity of a row is q without 1/n_k of the site of its own part k, for the n_k rows of the part.
One part is SEP, and a part for every row is EP. Memory O(K m²).
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from sepgp.gp.fitc import FITC, Posterior, Rows
from sepgp.gp.natural import Natural
from sepgp.inference import sep
from sepgp.inference.evidence import Factors, Prepared, Sums


class State(NamedTuple):
    """K tied sites, and their product exp(−½ uᵀΛu + bᵀu)."""

    Lambda: Tensor
    """Shape (m, m), or (C, m, m)."""
    b: Tensor
    """Shape (m,), or (C, m)."""
    part_Lambda: Tensor
    """Shape (K, m, m), or (K, C, m, m)."""
    part_b: Tensor
    """Shape (K, m), or (K, C, m)."""
    weight: Tensor
    """In proportion to the weight n_k of the rows of each part, shape (K,)."""


def init(
    n_parts: int, n_inducing: int, n_rows: int, minibatch: bool, latents: tuple[int, ...] = ()
) -> State:
    """Uniform sites. Memory O(K m²) for each latent function."""
    product = sep.init(n_inducing, n_rows, minibatch, latents)
    each = sep.init(n_inducing, n_rows, minibatch, (n_parts, *latents))
    return State(*product, *each, torch.zeros(n_parts, dtype=torch.float64))


def prepare(
    state: State, fitc: FITC, n: float, gathered: Natural | None = None, power: float = 1.0
) -> Prepared:
    """q, and a cavity q / φ̃_k^(1/n_k) for every part. Cost O(K m³).

    A power is as for SEP.
    """
    product = fitc.to_coordinates(Natural(state.Lambda, state.b))
    q = fitc.posterior(product)
    share = n * state.weight / state.weight.sum().clamp_min(1e-300)
    cavities, total = [], 0.0 * q.log_norm
    for Lambda, b, n_k in zip(state.part_Lambda, state.part_b, share.tolist(), strict=True):
        if not n_k:  # no row of this part was seen yet
            cavities.append(q)
            continue
        site = fitc.to_coordinates(Natural(Lambda, b))
        cavity, removal = without_share(fitc, product, q, site, n_k, power)
        cavities.append(cavity)
        total = total + removal
    return Prepared(fitc, n, q, q, total, tuple(cavities))


def without_share(
    fitc: FITC, product: Natural, q: Posterior, site: Natural, n_k: float, power: float
) -> tuple[Posterior, Tensor]:
    """The cavity q / φ̃_k^(1/n_k) of a part with n_k rows, and n_k (g(cavity) − g(q)). Cost O(m³).

    `product` is that of all sites, whose posterior is q, and `site` that of the part.
    """
    cavity = q if power == 0 else fitc.posterior(product - power / max(n_k, 1.0) * site)
    if n_k < sep.LARGE * power:
        return cavity, n_k / power * (cavity.log_norm - q.log_norm)
    return cavity, sep.log_removal(site, q, cavity)


def sums(prepared: Prepared, rows: Rows, factors: Factors) -> Sums:
    """Those of SEP for rows that are all of one part, under its cavity. Cost as there."""
    assert isinstance(prepared.sites, tuple)
    found = sep.sums(prepared._replace(cavity=prepared.sites[factors.part]), rows, factors)
    return replace(found, part_sites={factors.part: (found.sites, found.weight)})


def update(state: State, prepared: Prepared, total: Sums, rho: float) -> State:
    """SEP's line 3 for every site, and for the weight of its part. Cost O(K m²).

    A site moves by (n/s) times the sum over its rows in the batch, so that the product of all
    sites moves as the one of SEP does.
    """
    step = rho * prepared.n / total.weight
    part_Lambda, part_b = (1 - rho) * state.part_Lambda, (1 - rho) * state.part_b
    weight = (1 - rho) * state.weight
    for part, (site, of_rows) in total.part_sites.items():
        part_Lambda[part] += step * site.Lambda
        part_b[part] += step * site.b
        weight[part] += step * of_rows
    return State(part_Lambda.sum(0), part_b.sum(0), part_Lambda, part_b, weight)
