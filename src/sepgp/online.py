"""Rows that come in blocks, one after the other: which of them are remembered."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sepgp.data.prepared import ArrayData
from sepgp.data.scaling import Floats

REMEMBERED = 20_000
"""Rows seen before that are kept to be seen again."""
STEPS = 20
"""SEP's steps on a block, at least."""
PASSES = 4
"""How often SEP and EP go over a block after it was absorbed, at least."""
RATE = 0.05
"""Learning rate for the first block; for others it falls with the root of their share in n."""


class Memory(NamedTuple):
    """A sample of the rows seen so far, k of them.

    Every row draws a key at random, and the rows with the smallest keys are kept: a uniform sample
    of all rows. With forgetting, a row stays at each block with the factor as probability, so
    that its chance to be seen again falls as its weight in q does.
    """

    X: NDArray[Any]
    """Features, shape (k, d), not scaled."""
    y: Floats
    weight: Floats
    key: Floats


def remember(
    memory: Memory | None, data: ArrayData, forgetting: float, random: np.random.RandomState
) -> Memory:
    """The memory after a new block. Cost O(kd)."""
    rows = Memory(data.X, data.y, data.weight, random.uniform(size=len(data.y)))
    if memory is not None:
        stays = random.uniform(size=len(memory.y)) < forgetting
        pairs = zip(memory, rows, strict=True)
        rows = Memory(*(np.concatenate([old[stays], new]) for old, new in pairs))
    kept = np.sort(np.argsort(rows.key)[:REMEMBERED])
    return Memory(*(part[kept] for part in rows))


def together(memory: Memory | None, data: ArrayData) -> ArrayData:
    """A new block and the rows that are remembered from before it."""
    if memory is None:
        return data
    X, y, weight = (
        np.concatenate([new, old]) for new, old in zip(data.sample(), memory[:3], strict=True)
    )
    return data._replace(X=X, y=y, weight=weight)
