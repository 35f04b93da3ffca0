"""Noise on the latent function."""

from torch import Tensor

from sepgp.gp.kernels.scaled import Scaled


class White(Scaled):
    """Independent noise of variance σ² on f at every row: it appears in `diag` alone.

    With the probit's own unit noise, noise σ² on a kernel of variance a gives the same
    classifier as a kernel of variance a/(1 + σ²) without noise. It is here because the paper
    learns it, and for kernels that have no amplitude of their own.
    """

    shift_invariant = True

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return A.new_zeros(len(A), len(B))

    def diag(self, X: Tensor) -> Tensor:
        return self.variance.expand(len(X))
