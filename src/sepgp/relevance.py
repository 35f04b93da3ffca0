"""Which columns matter to a model, by its length-scales."""

from typing import TYPE_CHECKING

import numpy as np

from sepgp.gp import kernels
from sepgp.gp.kernels import Kernel

if TYPE_CHECKING:
    from sepgp.classifier import GPClassifier
    from sepgp.data.scaling import Floats


def relevance(model: "GPClassifier") -> dict[str, float]:
    """The share of every column in Σ 1/ℓ², summed over its features and the kernel's parts.

    A short length-scale ℓ, in standard deviations of the feature, says that f changes fast with
    it. A feature that never changed in training counts nothing, whatever its ℓ. Empty if the
    kernel has no length-scales of features.
    """
    Z = model._Z.cpu().numpy()
    d = Z.shape[1]
    known = _slopes(model.kernel_, d)
    if known is None:
        return {}
    varies = np.ptp(Z, axis=0) > 0
    speed = known[1] * (varies if varies.any() else 1.0)
    if not speed.any():
        return {}
    speed = speed / speed.sum()
    if model.encoding_ is None:
        names = getattr(model, "feature_names_in_", [f"feature {i}" for i in range(d)])
        return {str(name): float(value) for name, value in zip(names, speed, strict=True)}
    sizes = [len(encoder.features) for encoder in model.encoding_.encoders]
    groups = np.split(speed, np.cumsum(sizes)[:-1])
    return {
        name: float(group.sum())
        for name, group in zip(model.encoding_.columns, groups, strict=True)
    }


def _slopes(kernel: Kernel, d: int) -> "tuple[float, Floats] | None":
    """The prior variance of a typical row, and the weight of each feature in it, shape (d,).

    Parts of a sum count by their amplitudes; those of a product by the rule for derivatives.
    """
    if isinstance(kernel, kernels.Stationary):
        variance = kernel.variance.item()
        lengthscale2 = kernel.log_lengthscale2.detach().exp().cpu().numpy()
        return variance, np.broadcast_to(variance / lengthscale2, d)
    if isinstance(kernel, kernels.Linear):
        variance = kernel.variance.item()
        return variance * d, np.full(d, variance)
    if isinstance(kernel, kernels.Constant):
        return kernel.variance.item(), np.zeros(d)
    if isinstance(kernel, kernels.White):
        return 0.0, np.zeros(d)
    if not isinstance(kernel, kernels.Sum | kernels.Product):
        return None
    parts = [_slopes(part, d) for part in kernel.parts]  # type: ignore[arg-type]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    variance, slope = known[0]
    for other, other_slope in known[1:]:
        if isinstance(kernel, kernels.Sum):
            variance, slope = variance + other, slope + other_slope
        else:
            variance, slope = variance * other, slope * other + variance * other_slope
    return variance, slope
