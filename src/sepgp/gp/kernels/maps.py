"""Kernels of a learned map of the features."""

import copy
import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from sepgp.gp.kernels.base import Kernel


class Mapped(Kernel):
    """k(φ(x), φ(x')) with a kernel k and a map φ."""

    kernel: Kernel

    def warp(self, X: Tensor) -> Tensor:
        """φ(x) of the rows X, shape (b, d): shape (b, d')."""
        raise NotImplementedError

    def _named_parts(self) -> dict[str, Kernel]:
        return {"kernel": self.kernel}

    def start(self, Z: Tensor) -> None:
        with torch.no_grad():
            self.kernel.start(self.warp(Z))

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        warped = self.warp(A)
        return self.kernel(warped, warped if A is B else self.warp(B))  # type: ignore[no-any-return]

    def at(self, Z: Tensor) -> Callable[[Tensor], Tensor]:
        covariances = self.kernel.at(self.warp(Z))
        return lambda X: covariances(self.warp(X))

    def diag(self, X: Tensor) -> Tensor:
        return self.kernel.diag(self.warp(X))


class FeatureMap(Mapped):
    """k(φ(x), φ(x')) with any torch module φ, from (b, d) to (b, d'), learned with the kernel.

    Parameters
    ----------
    module : torch.nn.Module
        The map φ. It must treat every row alone (no batch normalisation).
    kernel : Kernel
        The kernel on its output.
    """

    def __init__(self, module: nn.Module, kernel: Kernel) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).double()
        self.kernel = copy.deepcopy(kernel)

    def warp(self, X: Tensor) -> Tensor:
        return self.module(X)  # type: ignore[no-any-return]


HIDDEN = 32
"""Units of the hidden layer of a `Warped` kernel, unless told otherwise."""


class Warped(Mapped):
    """k(φ(x), φ(x')) with a learned map φ(x) = x + tanh(xW + c)V of one hidden layer.

    It lets the kernel see directions and bends that no length-scale of a single feature describes,
    such as the difference of two columns. V starts at 0, where φ(x) = x. It has (2d + 1)·`hidden`
    numbers to learn, so it wants many times as many rows.

    Parameters
    ----------
    kernel : Kernel
        The kernel on φ(x).
    hidden : int
        Units of the hidden layer.
    """

    unit = 0.05
    """Weights are stored in this unit: the optimiser moves every stored number by about the
    learning rate, which is meant for logarithms of length-scales and too much for a weight."""
    spread = 2.0
    """Prior standard deviation of V, in this unit: it keeps a map of few rows from overfitting."""

    def __init__(self, kernel: Kernel, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.kernel, self.hidden = copy.deepcopy(kernel), hidden
        self._weigh(1)

    @staticmethod
    def n_weights(n_features: int) -> int:
        """How many numbers the map has to learn."""
        return (2 * n_features + 1) * HIDDEN

    def _weigh(self, n_features: int) -> None:
        """Random directions W and offsets c, of unit variance at scaled features, and V = 0."""
        random = torch.Generator().manual_seed(0)
        draw = functools.partial(torch.randn, generator=random, dtype=torch.float64)
        shape = (n_features, self.hidden)
        self.W = nn.Parameter(draw(*shape) / (self.unit * math.sqrt(n_features)))
        self.c = nn.Parameter(draw(self.hidden) / self.unit)
        self.V = nn.Parameter(torch.zeros(self.hidden, n_features, dtype=torch.float64))

    def warp(self, X: Tensor) -> Tensor:
        """φ(x) of the rows X, shape (b, d): shape (b, d). Cost O(d·hidden) per row."""
        activation = torch.tanh(self.unit * torch.addmm(self.c, X, self.W))
        return torch.addmm(X, activation, self.V, alpha=self.unit)

    def start(self, Z: Tensor) -> None:
        if len(self.W) != Z.shape[1]:
            self._weigh(Z.shape[1])
        super().start(Z)

    def extra_repr(self) -> str:
        return f"hidden={self.hidden}"
