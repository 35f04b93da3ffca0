"""The normal distribution function Φ in float64, from elementary operators."""

from functools import cache

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import erfcx

from sepgp.data.scaling import Floats
from sepgp.export.graph import Graph, Value

DEGREE = 16
"""Of the polynomial: Φ is right to 10⁻¹¹, relative to itself below 0."""


@cache
def coefficients() -> Floats:
    """Of P in erfc(x) = t exp(P(2t − 1) − x²) with t = 2/(2 + x) and x ≥ 0, the constant first.

    t goes from 1 at x = 0 to 0 at infinity, and P is smooth between, so one polynomial serves all.
    """
    s = chebyshev.chebpts1(DEGREE + 1)
    t = (s + 1) / 2
    P = np.log(erfcx(2 * (1 - t) / t) / t)
    return np.asarray(chebyshev.cheb2poly(chebyshev.chebfit(s, P, DEGREE)), np.float64)


def ndtr(graph: Graph, z: Value) -> Value:
    """Φ(z)."""
    x = np.sqrt(0.5) * graph.apply("Abs", z)
    t = 2.0 / (x + 2.0)
    s = 2.0 * t - 1.0
    P = graph.constant(coefficients()[-1])
    for c in coefficients()[-2::-1]:
        P = P * s + c
    tail = 0.5 * t * graph.apply("Exp", P - x * x)
    return graph.where(z < 0.0, tail, 1.0 - tail)
