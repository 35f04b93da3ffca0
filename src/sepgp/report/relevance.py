"""Which columns matter to a model, by the length-scales of their features."""

import numpy as np

from sepgp.classifier import GPClassifier
from sepgp.data.scaling import Floats
from sepgp.gp import kernels
from sepgp.gp.kernels import Kernel
from sepgp.report.columns import columns


def relevance(model: GPClassifier) -> Floats | None:
    """The share of every column in Σ 1/ℓ², summed over its features, shape (columns,).

    A short length-scale ℓ, in standard deviations of the feature, says that f changes fast with
    it. A feature that never changed in training counts nothing, whatever its ℓ. None if the kernel
    has no length-scales to tell by.
    """
    Z = model._Z.cpu().numpy()
    known = _slopes(model.kernel_, Z.shape[1])
    if known is None:
        return None
    varies = np.ptp(Z, axis=0) > 0
    features = known[1] * (varies if varies.any() else 1.0)
    sizes = [column.n_features for column in columns(model)]
    totals: Floats = np.add.reduceat(features, np.cumsum([0, *sizes[:-1]]))
    return totals / totals.sum() if totals.sum() > 0 else None


def _slopes(kernel: Kernel, d: int) -> tuple[float, Floats] | None:
    """The prior variance of a typical row, and the weight of each feature in it, shape (d,).

    Parts of a sum count by their amplitudes; of a product, by the rule for derivatives.
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
