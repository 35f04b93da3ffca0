"""Kernels with an amplitude."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sepgp.errors import InvalidParameter
from sepgp.gp.kernels.base import Kernel

# Bounds of the logarithms. They are wide: they only stop amplitude and noise from running
# away together, a direction in which the probit likelihood is flat.
LOG_BOUNDS = {
    "log_variance": (math.log(1e-4), math.log(1e4)),
    "log_lengthscale2": (math.log(1e-4), math.log(1e6)),
}


def log_of(value: float | Sequence[float], name: str) -> Tensor:
    """The logarithm of a parameter; one that is not positive and finite is refused by its name."""
    tensor = torch.as_tensor(value, dtype=torch.float64)
    if not bool((torch.isfinite(tensor) & (tensor > 0)).all()):
        raise InvalidParameter(f"{name}={value} is not positive and finite; give a number above 0.")
    return tensor.log()


class Scaled(Kernel):
    """A kernel with an amplitude: `variance` multiplies the covariance."""

    def __init__(self, variance: float = 1.0) -> None:
        super().__init__()
        self.log_variance = nn.Parameter(log_of(variance, "variance"))

    @property
    def variance(self) -> Tensor:
        """The amplitude σ², shape ()."""
        return self.log_variance.exp()

    def _own_params(self) -> dict[str, Any]:
        return {"variance": self.variance.item()}

    def _set_param(self, name: str, value: Any) -> None:
        self.log_variance = nn.Parameter(log_of(value, name))

    def extra_repr(self) -> str:
        return f"variance={self.variance.item():.4g}"


@torch.no_grad()
def scale(kernel: Kernel, factor: float) -> None:
    """Multiply the amplitudes of all terms of a kernel."""
    for part in kernel.modules():
        if isinstance(part, Scaled):
            part.log_variance.add_(math.log(factor))
