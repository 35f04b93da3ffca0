"""Kernels in files: what they are made of, as JSON, and their parameters, as tensors."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sepgp.errors import InvalidParameter
from sepgp.gp import kernels
from sepgp.gp.kernels import Kernel

LARGEST_LOG = 300.0
"""Of a kernel's parameter: products of a few of them are still finite."""


def structure_of(kernel: Kernel) -> dict[str, Any]:
    """What a kernel is made of, without its parameters."""
    name = type(kernel).__name__
    if isinstance(kernel, kernels.Sum | kernels.Product | kernels.PerClass):
        return {"kind": name, "parts": [structure_of(part) for part in kernel.parts]}  # type: ignore[arg-type]
    if type(kernel) is kernels.Warped:
        return {"kind": name, "hidden": kernel.hidden, "kernel": structure_of(kernel.kernel)}
    if getattr(kernels, name, None) is not type(kernel) or isinstance(kernel, kernels.FeatureMap):
        raise InvalidParameter(
            f"kernel has a {name}, which is code and cannot be kept in a model file; use the "
            "kernels of sepgp.kernels alone, or pickle the model."
        )
    if isinstance(kernel, kernels.Stationary):
        return {
            "kind": name,
            "spread": kernel.spread if math.isfinite(kernel.spread) else None,
            "from_data": kernel.from_data,
        }
    return {"kind": name}


def parameters_of(prefix: str, kernel: Kernel) -> dict[str, Tensor]:
    """The parameters of a kernel by name."""
    return {f"{prefix}.{name}": value for name, value in kernel.state_dict().items()}


def width(kernel: Kernel) -> int | None:
    """For how many features a kernel is made; None if for any number, 0 if its parts disagree."""
    widths = {len(part.W) for part in kernel.modules() if isinstance(part, kernels.Warped)}
    widths |= {
        part.log_lengthscale2.numel()
        for part in kernel.modules()
        if isinstance(part, kernels.Stationary) and part.log_lengthscale2.ndim
    }
    if len(widths) > 1:
        return 0
    return widths.pop() if widths else None


WEIGHTS = ("W", "c", "V")
"""Of a `Warped` kernel."""
LEAVES = ("RBF", "Matern12", "Matern32", "Matern52", "Linear", "Constant", "White")


def kernel_of(structure: Mapping[str, Any], prefix: str, tensors: Mapping[str, Tensor]) -> Kernel:
    """The kernel that `structure_of` and `parameters_of` describe."""
    name = structure["kind"]
    if name in ("Sum", "Product", "PerClass"):
        parts = [
            kernel_of(part, f"{prefix}.parts.{i}", tensors)
            for i, part in enumerate(structure["parts"])
        ]
        if not parts:
            raise ValueError(f"a {name} of kernels has no parts")
        composite: Kernel = getattr(kernels, name)(*parts)
        return composite
    if name == "Warped":
        return _warped(structure, prefix, tensors)
    if name not in LEAVES:
        raise ValueError(f"there is no kernel {name!r}")
    kernel: Kernel = getattr(kernels, name)()
    if isinstance(kernel, kernels.Stationary):
        spread = structure["spread"]
        kernel.spread = math.inf if spread is None else float(spread)
        kernel.from_data = bool(structure["from_data"])
        if not kernel.spread > 0:
            raise ValueError(f"the spread of {prefix} is not positive")
    for parameter in list(kernel._parameters):
        value = tensors[f"{prefix}.{parameter}"]
        if value.ndim > (parameter == "log_lengthscale2") or value.abs().gt(LARGEST_LOG).any():
            raise ValueError(f"{prefix}.{parameter} has another shape or is beyond all bounds")
        setattr(kernel, parameter, torch.nn.Parameter(value.clone()))
    return kernel


def _warped(
    structure: Mapping[str, Any], prefix: str, tensors: Mapping[str, Tensor]
) -> kernels.Warped:
    inner, hidden = kernel_of(structure["kernel"], f"{prefix}.kernel", tensors), structure["hidden"]
    weights = {name: tensors[f"{prefix}.{name}"] for name in WEIGHTS}
    width = len(weights["W"])
    shapes = {"W": (width, hidden), "c": (hidden,), "V": (hidden, width)}
    if any(tuple(value.shape) != shapes[name] for name, value in weights.items()):
        raise ValueError(f"the weights of {prefix} have other shapes than they should")
    kernel = kernels.Warped(inner, hidden)
    for name, value in weights.items():
        setattr(kernel, name, torch.nn.Parameter(value.clone()))
    return kernel
