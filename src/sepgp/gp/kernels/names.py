"""Kernels by name."""

from sepgp.gp.kernels.base import Kernel, Sum
from sepgp.gp.kernels.stationary import RBF, Matern12, Matern32, Matern52, Stationary

KERNELS: dict[str, type[Stationary]] = {
    "rbf": RBF,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
}

AUTO = "auto"
MANY_FEATURES = 100
"""Above this, the default is one RBF kernel instead of a sum of two."""


def named(name: str, n_features: int, n_classes: int = 2) -> Kernel:
    """The kernel that a name stands for: one of `KERNELS`, or several of them joined by "+".

    "auto" is "matern32+matern32": a rough function of some features, and a smoother one of
    others. With more than two classes the first is "rbf". With more than `MANY_FEATURES` it is
    "rbf" alone, because distances between rows are then most of the work.
    """
    if name == AUTO:
        first = "matern32" if n_classes == 2 else "rbf"
        name = "rbf" if n_features > MANY_FEATURES else f"{first}+matern32"
    kernels = [KERNELS[part.strip()]() for part in name.split("+")]
    return kernels[0] if len(kernels) == 1 else Sum(*kernels)
