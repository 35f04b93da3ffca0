"""Natural parameters of Gaussian factors."""

from typing import NamedTuple

from torch import Tensor


class Natural(NamedTuple):
    """The factor exp(−½ uᵀΛu + bᵀu).

    Factors multiply when their parameters add, and are raised to a power by a number in front:
    `(1 - rho) * old + rho * new`. Cost O(m²).
    """

    Lambda: Tensor
    """Shape (m, m), float64; with many classes (C, m, m), one factor for each latent function."""
    b: Tensor
    """Shape (m,) or (C, m), float64."""

    def __add__(self, other: "Natural") -> "Natural":  # type: ignore[override]
        return Natural(self.Lambda + other.Lambda, self.b + other.b)

    def __sub__(self, other: "Natural") -> "Natural":
        return Natural(self.Lambda - other.Lambda, self.b - other.b)

    def __rmul__(self, power: float) -> "Natural":  # type: ignore[override]
        return Natural(power * self.Lambda, power * self.b)
