"""One part of the rows by itself: what it knows moves, and what the other parts know is held.

This is what a worker of a cluster does between two rounds. The sites are written as own + rest,
and steps change the first alone. With one tied site for all rows, a part's own share of it is that
of its rows, n_k/n; with a site for every part it is the part's site.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor

from sepgp.gp.fitc import FITC
from sepgp.gp.natural import Natural
from sepgp.inference import parts, sep
from sepgp.inference.evidence import Prepared, Sums
from sepgp.inference.method import Method


class State(NamedTuple):
    """Sites as seen from one part, each of them a tuple of tensors that begins with Λ and b."""

    Lambda: Tensor
    """Of the product of all sites, shape (m, m), or (C, m, m)."""
    b: Tensor
    """Shape (m,), or (C, m)."""
    own: Any
    rest: Any
    n_own: float
    """Weight n_k of the part's rows."""


def seen_from(sites: Any, own: Any, n_own: float) -> State:
    """All sites as seen from the part whose own ones are given. Cost O(m²)."""
    return State(sites.Lambda, sites.b, own, minus(sites, own), n_own)


def tied(method: Method) -> Method:
    """A method with tied sites whose steps move a part's own share of them."""
    return replace(
        method, prepare=partial(_prepare_tied, method), update=partial(_update, method.update)
    )


def with_own_site(power: float = 1.0) -> Method:
    """SEP with a site for every part, whose steps move that of one part."""
    prepare = partial(_prepare_own, power=power)
    return Method(sep.init, prepare, sep.sums, partial(_update, sep.update))


def _prepare_tied(
    method: Method, state: State, fitc: FITC, n: float, gathered: Natural | None = None
) -> Prepared:
    """q and the cavity of all rows, as if there were no parts. Cost O(m³)."""
    return method.prepare(plus(state.rest, state.own), fitc, n, gathered)


def _prepare_own(
    state: State, fitc: FITC, n: float, gathered: Natural | None, power: float
) -> Prepared:
    """q, and the cavity q / φ̃_k^(1/n_k) of the part. Cost O(m³).

    For log Z_q the other parts are taken to be like this one.
    """
    product = fitc.to_coordinates(Natural(state.Lambda, state.b))
    q, site = fitc.posterior(product), fitc.to_coordinates(state.own)
    cavity, removal = parts.without_share(fitc, product, q, site, state.n_own, power)
    return Prepared(fitc, n, q, cavity, n / state.n_own * removal)


def _update(update: Any, state: State, prepared: Prepared, total: Sums, rho: float) -> State:
    """The method's own line 3, for the rows of the part and what it knows. Cost O(m²)."""
    own = update(state.own, prepared._replace(n=state.n_own), total, rho)
    product = plus(state.rest, own)
    return State(product.Lambda, product.b, own, state.rest, state.n_own)


def plus(one: Any, other: Any) -> Any:
    """The sum of two tuples of tensors."""
    return type(one)(*(a + b for a, b in zip(one, other, strict=True)))


def minus(one: Any, other: Any) -> Any:
    """The difference of two tuples of tensors."""
    return type(one)(*(a - b for a, b in zip(one, other, strict=True)))


def times(factor: float, one: Any) -> Any:
    """A tuple of tensors, all multiplied by a factor."""
    return type(one)(*(factor * a for a in one))
