"""How unsure a prediction is, in bits, and for which of two reasons."""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import entr, ndtr, ndtri
from scipy.stats import qmc
from torch import Tensor

from sepgp.data.scaling import Floats

NODES: Floats = np.linspace(-8.0, 8.0, 65)
STEP = float(NODES[1] - NODES[0])
CHUNK = 8192
"""Rows at a time: no array has more than CHUNK × 65 numbers, or not many more."""
DRAWS = 32
"""Values of f that stand for its distribution when there are more than two classes."""
FEW = 4
"""Classes that are looked at where all others together have a probability below `TINY`."""
TINY = 1e-3


class Uncertainty(NamedTuple):
    """The entropy of a prediction as the sum of two parts, each of shape (b,), in bits.

    It is at most log₂ C.
    """

    noise: Floats
    """The entropy that is expected when f is known: more rows would not help (aleatoric)."""
    ignorance: Floats
    """Mutual information of the outcome and f: more rows like this one would help (epistemic)."""

    @property
    def total(self) -> Floats:
        """The entropy of the predicted probabilities; 1 is a toss of a coin."""
        return self.noise + self.ignorance


def uncertainty(mean: Floats, variance: Floats, p: Floats) -> Uncertainty:
    """Split the entropy of a prediction p that comes from f ~ N(mean, variance).

    With two classes p = E[Φ(f)], and all have shape (b,); with C classes all have shape (b, C).
    Cost O(b C).
    """
    if mean.ndim == 2:
        return _of_many(mean, variance, p)
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


def _of_many(mean: Floats, variance: Floats, p: Floats) -> Uncertainty:
    """The split for C classes, by quasi-Monte Carlo; the error is a few hundredths of a bit."""
    n_classes = p.shape[1]
    likely = np.argsort(-p, axis=1, kind="stable")
    in_question = np.take_along_axis(p, likely[:, :FEW], 1).sum(1) > 1 - TINY
    ignorance = np.empty(len(p))
    for rows, size in ((in_question, FEW), (~in_question, n_classes)):
        size = min(size, n_classes)
        chunk = 1 + CHUNK * len(NODES) // (DRAWS * size * 16)
        where = np.flatnonzero(rows)
        for some in (where[i : i + chunk] for i in range(0, len(where), chunk)):
            classes = likely[some, :size]
            parts = (np.take_along_axis(x[some], classes, 1) for x in (mean, variance, p))
            ignorance[some] = _information(*parts)
    total = _bits(p)
    ignorance = np.clip(ignorance, 0, total)
    return Uncertainty(total - ignorance, ignorance)


def _information(mean: Floats, variance: Floats, p: Floats) -> Floats:
    """Mutual information of class and f, each of shape (b, C): H(p) − E[H(p(f))].

    The draws of f come in pairs around its mean and have its variance, so that the error is small
    where the variance is; they are the same for all rows.
    """
    half = ndtri(qmc.Sobol(mean.shape[1], rng=0).random(DRAWS // 2))
    half /= np.sqrt(np.square(half).mean(0))
    draws = np.concatenate([half, -half])
    f = torch.as_tensor(mean[:, None] + np.sqrt(variance)[:, None] * draws, dtype=torch.float32)
    noise: Floats = _bits(class_probabilities(f).numpy()).mean(1)
    return _bits(p / p.sum(1, keepdims=True)) - noise


def class_probabilities(f: Tensor) -> Tensor:
    """P(f_c + ε_c is the largest) with ε_c ~ N(0, ½), for f of shape (…, C). Cost O(C) for each.

    The largest has the density Σ_c φ(z_c) Π_{k≠c} Φ(z_k), whose terms belong to the classes: one
    trapezoidal rule over it gives all probabilities.
    """
    end = 3.5 + math.sqrt(2 * math.log(f.shape[-1]))  # of the largest, in deviations of ε
    nodes = torch.linspace(-3.5, end, math.ceil((end + 3.5) / 0.6) + 1, dtype=f.dtype)
    z = nodes[:, None] - math.sqrt(2) * (f - f.amax(-1, keepdim=True))[..., None, :]
    below = torch.special.ndtr(z).clamp_min_(1e-30)
    terms = below.prod(-1, keepdim=True) / below * z.square().mul_(-0.5).exp_()
    p: Tensor = terms.sum(-2)
    return p.div_(p.sum(-1, keepdim=True))


def _bits(p: NDArray[np.floating]) -> Floats:
    """Entropy of probabilities, shape (…, C), in bits."""
    bits: Floats = entr(p).sum(-1, dtype=np.float64) / np.log(2)
    return bits
