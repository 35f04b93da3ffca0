"""What the engine asks of a likelihood."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Tilted(NamedTuple):
    """The match of φ_i q\\i for every row of a batch; all of shape (b,).

    With C latent functions, all but log_Z have shape (C, b).

    For any likelihood, with λ = α² − 2γ: ν̃ = λ/(1 − λ var), μ̃ = (α + λ mean)/(1 − λ var).
    """

    log_Z: Tensor
    """log Z_i, the log normaliser of φ_i q\\i."""
    alpha: Tensor
    """∂ log Z_i / ∂ mean."""
    gamma: Tensor
    """∂ log Z_i / ∂ variance."""
    nu: Tensor
    """Precision ν̃_i of the new site; never negative if the likelihood is log-concave."""
    mu: Tensor
    """Natural mean μ̃_i of the new site."""


class Likelihood(Protocol):
    """p(class | f), its moments under a Gaussian, and what it predicts. A value without state."""

    @property
    def latents(self) -> tuple[int, ...]:
        """Leading axes of what belongs to latent functions: () for one, (C,) for many."""
        ...

    @property
    def mean_decides(self) -> bool:
        """Whether the mean of f alone says which class is most probable."""
        ...

    def targets(self, codes: Tensor) -> Tensor:
        """Class numbers 0 … C−1, shape (b,), in the form that `moments` wants."""
        ...

    def moments(self, targets: Tensor, mean: Tensor, var: Tensor, s: Tensor) -> Tilted:
        """Moments of φ_i q\\i with cavities N(mean, var) of υᵀu and FITC variances s."""
        ...

    def decision(self, mean: Floats, variance: Floats) -> Floats:
        """What `decision_function` says at f ~ N(mean, variance), each of shape (n,) or (n, C)."""
        ...

    def most_probable(self, mean: Floats, variance: Floats | None) -> NDArray[np.intp]:
        """The number of the most probable class, shape (n,); None where the mean decides."""
        ...

    def probabilities(self, mean: Floats, variance: Floats) -> Floats:
        """Probabilities of the classes at f ~ N(mean, variance), shape (n, C)."""
        ...

    def log_probability(self, codes: Codes, mean: Floats, variance: Floats) -> Floats:
        """The logarithm of the probability of one class for each row, shape (n,)."""
        ...

    def log_probabilities(self, mean: Floats, variance: Floats) -> Floats:
        """Logarithms of `probabilities`, exact near 0 too."""
        ...
