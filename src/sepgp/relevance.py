"""Which columns matter to a model, by its length-scales."""

from typing import TYPE_CHECKING

import numpy as np

from sepgp.gp.kernels import Stationary

if TYPE_CHECKING:
    from sepgp.classifier import GPClassifier


def relevance(model: "GPClassifier") -> dict[str, float]:
    """The share of every column in Σ 1/ℓ², summed over its features and the kernel's parts.

    A short length-scale ℓ, in standard deviations of the feature, says that f changes fast with
    it. Empty if no part of the kernel has length-scales.
    """
    parts = [part for part in model.kernel_.modules() if isinstance(part, Stationary)]
    d = model._Z.shape[1]
    speed = np.zeros(d)
    for part in parts:
        if part.lengthscale.shape == (d,):
            speed += part.lengthscale.detach().cpu().numpy() ** -2.0
    if not speed.any():
        return {}
    speed /= speed.sum()
    names = getattr(model, "feature_names_in_", [f"feature {i}" for i in range(d)])
    if model.encoding_ is None:
        return {str(name): float(value) for name, value in zip(names, speed, strict=True)}
    sizes = [len(encoder.features) for encoder in model.encoding_.encoders]
    groups = np.split(speed, np.cumsum(sizes)[:-1])
    return {
        name: float(group.sum())
        for name, group in zip(model.encoding_.columns, groups, strict=True)
    }
