"""How unsure a prediction is, in bits, and for which of two reasons."""

from typing import NamedTuple

import numpy as np
from scipy.special import entr, ndtr

from sepgp.data.scaling import Floats

NODES: Floats = np.linspace(-8.0, 8.0, 65)
STEP = float(NODES[1] - NODES[0])
CHUNK = 8192
"""Rows at a time: no array has more than CHUNK × 65 numbers."""


class Uncertainty(NamedTuple):
    """The entropy of a prediction as the sum of two parts, each of shape (b,), in bits."""

    noise: Floats
    """The entropy that is expected when f is known: more rows would not help (aleatoric)."""
    ignorance: Floats
    """Mutual information of the outcome and f: more rows like this one would help (epistemic)."""

    @property
    def total(self) -> Floats:
        """The entropy of the predicted probability; 1 is a toss of a coin."""
        return self.noise + self.ignorance


def uncertainty(mean: Floats, variance: Floats, p: Floats) -> Uncertainty:
    """Split the entropy of p = E[Φ(f)], f ~ N(mean, variance), each of shape (b,). Cost O(b)."""
    starts = range(0, len(mean), CHUNK)
    parts = [_expected_entropy(mean[i : i + CHUNK], variance[i : i + CHUNK]) for i in starts]
    noise = np.concatenate(parts) if parts else np.empty(0)
    total = entropy(p)
    noise = np.minimum(noise, total)  # rounding alone could make it more
    return Uncertainty(noise, total - noise)


def entropy(p: Floats) -> Floats:
    """Entropy of a coin that shows heads with probability p, in bits."""
    bits: Floats = (entr(p) + entr(1 - p)) / np.log(2)
    return bits


def _expected_entropy(mean: Floats, variance: Floats) -> Floats:
    """E[H(Φ(f))] by the trapezoidal rule, which for such integrands is exact to rounding.

    The nodes are spread over f's own distribution where that is the narrower one, and else over
    the entropy, which is next to nothing beyond ±8.
    """
    deviation = np.sqrt(variance)
    expected = np.empty_like(mean)
    narrow = deviation < 1
    density = np.exp(-0.5 * NODES**2) * STEP / np.sqrt(2 * np.pi)
    f = mean[narrow, None] + deviation[narrow, None] * NODES
    expected[narrow] = entropy(ndtr(f)) @ density
    wide = ~narrow
    t = (NODES - mean[wide, None]) / deviation[wide, None]
    density = np.exp(-0.5 * t * t) * (STEP / np.sqrt(2 * np.pi)) / deviation[wide, None]
    expected[wide] = density @ entropy(ndtr(NODES))
    return expected
