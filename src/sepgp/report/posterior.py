"""Functions that the posterior holds possible, for how sure the model is of a mean over rows."""

from typing import NamedTuple

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

from sepgp import inputs
from sepgp.classifier import GPClassifier
from sepgp.data.scaling import Floats
from sepgp.gp.fitc import KernelMatrices, Natural
from sepgp.gp.whitened import whitened
from sepgp.report.columns import Rows


class Draws(NamedTuple):
    """Values at the inducing points drawn from q, in the coordinates c = L⁻¹u."""

    L_inverse: Tensor
    """Shape (m, m)."""
    c: Tensor
    """Shape (m, draws)."""


def draw(model: GPClassifier, n_draws: int, seed: int = 0) -> Draws:
    """Draw from the posterior of a fitted model. Cost O(m³)."""
    Z = model._Z
    empty = Z.new_zeros(len(Z), 0)
    with torch.no_grad():
        fitc = whitened(KernelMatrices(model.kernel_(Z, Z), empty, empty[0]))
        sites = Natural(model._sites.Lambda, model._sites.b)
        q = fitc.posterior(fitc.to_coordinates(sites))
        eigenvalues, eigenvectors = torch.linalg.eigh(q.cov)
        root = eigenvectors * eigenvalues.clamp_min(0).sqrt()
        noise = np.random.default_rng(seed).standard_normal((len(Z), n_draws))
        return Draws(
            fitc.L_inverse, q.mean[:, None] + root @ torch.as_tensor(noise, device=Z.device)
        )


def probabilities(model: GPClassifier, draws: Draws, X: Rows) -> Floats:
    """P(second class) at b rows under every draw, shape (b, draws). Cost O(m² + m draws) per row.

    What the inducing points do not say of a row is noise of its own, and averaged over.
    """
    scaled = model._scaling.apply(inputs.features(model, X))
    rows = torch.as_tensor(scaled, device=model._Z.device)
    with torch.no_grad():
        kernel = model.kernel_
        V = draws.L_inverse @ kernel(model._Z, rows)
        s = (kernel.diag(rows) - V.square().sum(0)).clamp_min(0)
        f = (V.T @ draws.c) / (1 + s).sqrt()[:, None]
    p: Floats = ndtr(f.cpu().numpy())
    return p
