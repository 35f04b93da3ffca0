"""Linear functions, and constants."""

from torch import Tensor

from sepgp.gp.kernels.scaled import Scaled


class Linear(Scaled):
    """σ² xᵀx': linear functions through the origin; add `Constant()` for an offset."""

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return self.variance * (A @ B.T)

    def diag(self, X: Tensor) -> Tensor:
        return self.variance * (X * X).sum(1)


class Constant(Scaled):
    """σ²: constant functions."""

    shift_invariant = True

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return self.variance.expand(len(A), len(B))

    def diag(self, X: Tensor) -> Tensor:
        return self.variance.expand(len(X))
