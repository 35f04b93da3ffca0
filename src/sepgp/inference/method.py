"""The methods by name, and one step of any of them: m × m work, sums over rows, m × m work."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

from sepgp.gp.fitc import FITC, Rows
from sepgp.gp.natural import Natural
from sepgp.inference import adf, ep, parts, sep
from sepgp.inference.evidence import Factors, Prepared, Sums

State = Any
"""What a method keeps of the sites: a tuple with Λ and b, and for EP a site per row."""
Chunk = tuple[Rows, Factors]


@dataclass(frozen=True)
class Method:
    """An inference method as functions on tensors.

    A step is `prepare`, `sums` for every part of the batch, `+`, and `update`.
    """

    init: Callable[[int, int, bool, tuple[int, ...]], State]
    """From m, n, whether batches are parts of the rows, and the leading axes of latent functions
    to sites that say nothing yet."""
    prepare: Callable[..., Prepared]
    """From sites, FITC, n, what `gather` found, and a power where the method takes one."""
    sums: Callable[[Prepared, Rows, Factors], Sums]
    update: Callable[[State, Prepared, Sums, float], State]
    gather: Callable[[State, Rows, Factors], Natural | None] | None = None
    """The product of the sites under the current kernel, where the state does not hold it."""
    per_row: bool = False
    """Whether there is a site per row, so that memory grows with the rows."""
    recounts: bool = False
    """Whether a row that is seen again counts again."""


METHODS = {
    "sep": Method(sep.init, sep.prepare, sep.sums, sep.update),
    "ep": Method(ep.init, ep.prepare, ep.sums, ep.update, ep.gather, per_row=True),
    "adf": Method(adf.init, adf.prepare, adf.sums, adf.update, recounts=True),
}


def chosen(name: str, n_factors: int = 1, power: float = 1.0) -> Method:
    """The method of this name, with several tied sites and a power if they are asked for."""
    method = METHODS[name]
    if n_factors > 1:
        method = Method(partial(parts.init, n_factors), parts.prepare, parts.sums, parts.update)
    if power == 1:
        return method
    return replace(method, prepare=partial(method.prepare, power=power))


def prepare(
    method: Method, state: State, fitc: FITC, n: float, chunks: Sequence[Chunk]
) -> Prepared:
    """What the rows of a batch, which comes in chunks, have to know. Changes nothing."""
    gathered = None
    if method.gather is not None:
        products = [method.gather(state, *chunk) for chunk in chunks]
        gathered = None if products[0] is None else reduce(add, products)
    return method.prepare(state, fitc, n, gathered)


def add_up(method: Method, prepared: Prepared, chunks: Sequence[Chunk]) -> Sums:
    """The sums of a batch that comes in chunks. Changes nothing."""
    return reduce(add, [method.sums(prepared, *chunk) for chunk in chunks])
