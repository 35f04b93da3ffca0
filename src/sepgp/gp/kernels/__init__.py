"""Covariance functions as composable torch modules.

A kernel is called on two sets of points, `kernel(A, B)` with shapes (a, d) and (b, d), and
returns the covariance matrix of shape (a, b); `kernel.diag(B)` returns the b prior variances.
Positive parameters are stored as logarithms, so that an optimiser can move them freely.
Kernels add and multiply: `RBF() + Linear()`, `Constant() * Matern32()`.
"""

from sepgp.gp.kernels.base import Kernel, PerClass, Product, Sum
from sepgp.gp.kernels.linear import Constant, Linear
from sepgp.gp.kernels.maps import FeatureMap, Warped
from sepgp.gp.kernels.names import AUTO, KERNELS, MANY_FEATURES, named
from sepgp.gp.kernels.scaled import LOG_BOUNDS
from sepgp.gp.kernels.stationary import RBF, Matern12, Matern32, Matern52, Stationary
from sepgp.gp.kernels.white import White

__all__ = [
    "AUTO",
    "KERNELS",
    "LOG_BOUNDS",
    "MANY_FEATURES",
    "RBF",
    "Constant",
    "FeatureMap",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "PerClass",
    "Product",
    "Stationary",
    "Sum",
    "Warped",
    "White",
    "named",
]
