"""Functions that the posterior holds possible, for how sure the model is of a mean over rows."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr
from torch import Tensor

from sepgp.data.scaling import Floats
from sepgp.gp.predictor import posterior
from sepgp.model import Model
from sepgp.report.columns import Rows


class Draws(NamedTuple):
    """Values at the inducing points drawn from q, in the coordinates c = L⁻¹u."""

    L_inverse: Tensor
    """Shape (m, m)."""
    c: Tensor
    """Shape (m, draws)."""


def draw(model: Model, n_draws: int, seed: int = 0) -> Draws:
    """Draw from the posterior of a fitted model. Cost O(m³)."""
    Z = model.Z
    with torch.no_grad():
        fitc, q = posterior(model.kernel, Z, model.natural)
        eigenvalues, eigenvectors = torch.linalg.eigh(q.cov)
        root = eigenvectors * eigenvalues.clamp_min(0).sqrt()
        noise = np.random.default_rng(seed).standard_normal((len(Z), n_draws))
        c = q.mean[:, None] + root @ torch.as_tensor(noise, device=Z.device)
    return Draws(fitc.L_inverse, c)


def unlearned(model: Model, X: Rows) -> Floats:
    """Standard deviation of f after training over that before, at b rows, shape (b,).

    1 says that the training rows have taught nothing about f there. With C classes it is the mean
    over their functions.
    """
    rows = _scaled(model, model.schema.features(X))
    with torch.no_grad():
        before = np.atleast_2d(model.kernel.diag(rows).cpu().numpy()).T
    after = model.latent(X)[1].reshape(len(before), -1)
    left: Floats = np.sqrt(after / np.maximum(before, 1e-300)).mean(1)
    return left


def probabilities(model: Model, draws: Draws, X: Rows) -> Floats:
    """P(second class) at b rows under every draw, shape (b, draws). Cost O(m² + m draws) per row.

    What the inducing points do not say of a row is noise of its own, and averaged over.
    """
    features = model.schema.features(X)
    rows = _scaled(model, features)
    offset = 0.0 if model.mean is None else model.mean.offset(features)[:, None]
    with torch.no_grad():
        kernel = model.kernel
        V = draws.L_inverse @ kernel(model.Z, rows)
        s = (kernel.diag(rows) - V.square().sum(0)).clamp_min(0)
        g = (V.T @ draws.c).cpu().numpy()
    p: Floats = ndtr((g + offset) / np.sqrt(1 + s.cpu().numpy())[:, None])
    return p


def _scaled(model: Model, features: NDArray[Any]) -> Tensor:
    """Features of rows as the kernel sees them."""
    return torch.as_tensor(model.scaling.apply(features), device=model.Z.device)
