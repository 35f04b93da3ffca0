"""Covariance functions as composable torch modules.

A kernel is called on two sets of points, `kernel(A, B)` with shapes (a, d) and (b, d), and
returns the covariance matrix of shape (a, b); `kernel.diag(B)` returns the b prior variances.
Positive parameters are stored as logarithms, so that an optimiser can move them freely.
Kernels add and multiply: `RBF() + Linear()`, `Constant() * Matern32()`.
"""

import copy
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from sepgp.errors import InvalidParameter

# Bounds of the logarithms. They are wide: they only stop amplitude and noise from running
# away together, a direction in which the probit likelihood is flat.
LOG_BOUNDS = {
    "log_variance": (math.log(1e-4), math.log(1e4)),
    "log_lengthscale2": (math.log(1e-4), math.log(1e6)),
}


class Kernel(nn.Module):
    """Base of all kernels: a positive definite function of two points."""

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        """Covariance of the points A, shape (a, d), and B, shape (b, d): shape (a, b)."""
        raise NotImplementedError

    def diag(self, X: Tensor) -> Tensor:
        """Prior variances k(x, x) of the points X, shape (b, d): shape (b,). Cost O(bd)."""
        raise NotImplementedError

    def start(self, Z: Tensor) -> None:
        """Set the starting values that depend on the data, here the points Z, shape (m, d)."""

    def __add__(self, other: "Kernel") -> "Sum":
        return Sum(self, other)

    def __mul__(self, other: "Kernel") -> "Product":
        return Product(self, other)


def _log(value: float | Sequence[float], name: str) -> Tensor:
    tensor = torch.as_tensor(value, dtype=torch.float64)
    if not bool((torch.isfinite(tensor) & (tensor > 0)).all()):
        raise InvalidParameter(f"{name}={value} is not positive and finite; give a number above 0.")
    return tensor.log()


class _Scaled(Kernel):
    """A kernel with an amplitude: `variance` multiplies the covariance."""

    def __init__(self, variance: float = 1.0) -> None:
        super().__init__()
        self.log_variance = nn.Parameter(_log(variance, "variance"))

    @property
    def variance(self) -> Tensor:
        """The amplitude σ², shape ()."""
        return self.log_variance.exp()

    def extra_repr(self) -> str:
        return f"variance={self.variance.item():.4g}"


# A profile gives k and dk/d(r²) at squared scaled distances r², for unit variance.
Profile = Callable[[Tensor], tuple[Tensor, Tensor]]


class _StationaryFunction(torch.autograd.Function):
    """σ² k(r²) with r² = Σ_d (a_d − b_d)²/ℓ_d², and its derivative written by hand.

    With W = G ∘ ∂K/∂(r²), where G is the incoming adjoint of K:
    dA = 2 (W1 ∘ A − W B)/ℓ², d log ℓ² = −Σ_ab W_ab (a − b)²/ℓ², d log σ² = Σ G ∘ K.
    One (a, b) × (b, d) product serves all three, where autograd would keep the whole graph.
    """

    @staticmethod
    def forward(ctx, profile, same, A, B, log_lengthscale2, log_variance):  # type: ignore[no-untyped-def]
        scale = torch.exp(-0.5 * log_lengthscale2)
        A_, B_ = A * scale, B * scale
        r2 = torch.addmm((B_ * B_).sum(1), A_, B_.T, alpha=-2)
        r2 += (A_ * A_).sum(1, keepdim=True)
        r2.clamp_min_(0)
        if same:
            r2.fill_diagonal_(0)
        K, dK = profile(r2)
        variance = log_variance.exp()
        K *= variance
        dK *= variance
        ctx.same = same
        ctx.save_for_backward(A_, B_, scale, K, dK)
        return K

    @staticmethod
    def backward(ctx, G):  # type: ignore[no-untyped-def]
        A_, B_, scale, K, dK = ctx.saved_tensors
        W = G * dK
        if ctx.same:  # both arguments are the same points: dA holds the whole, dB nothing
            W += W.T.clone()
        WB = W @ B_
        row_sum, column_sum = W.sum(1, keepdim=True), W.sum(0)
        dA = dB = dlengthscale = dvariance = None
        if ctx.needs_input_grad[2]:
            dA = (row_sum * A_ - WB) * (2 * scale)
        if ctx.needs_input_grad[3] and not ctx.same:
            dB = (column_sum[:, None] * B_ - W.T @ A_) * (2 * scale)
        if ctx.needs_input_grad[4]:
            dlengthscale = (A_ * (2 * WB - row_sum * A_)).sum(0) - column_sum @ (B_ * B_)
            if ctx.same:
                dlengthscale *= 0.5
        if ctx.needs_input_grad[5]:
            dvariance = torch.dot(G.reshape(-1), K.reshape(-1))
        return None, None, dA, dB, dlengthscale, dvariance


class Stationary(_Scaled):
    """A function of the distance, with one length-scale per feature.

    Parameters
    ----------
    lengthscale : float, sequence of d floats or None
        Starting length-scales. None takes ℓ² = the median distance between inducing points.
    variance : float
        Starting amplitude σ².
    spread : float
        Prior standard deviation of the log ℓ² of the features about their common mean, which
        itself is free. It keeps many length-scales from overfitting few rows; `math.inf` is no
        prior.
    """

    def __init__(
        self,
        lengthscale: float | Sequence[float] | None = None,
        variance: float = 1.0,
        spread: float = 1.5,
    ) -> None:
        super().__init__(variance)
        if not spread > 0:
            raise InvalidParameter(f"spread={spread} is not positive; give a number above 0.")
        self.spread = spread
        self.from_data = lengthscale is None
        initial = 1.0 if lengthscale is None else lengthscale
        self.log_lengthscale2 = nn.Parameter(2 * _log(initial, "lengthscale"))

    @staticmethod
    def profile(r2: Tensor) -> tuple[Tensor, Tensor]:
        """k and dk/d(r²) at the squared scaled distances r2, for unit variance; may reuse r2."""
        raise NotImplementedError

    @property
    def lengthscale(self) -> Tensor:
        """The length-scales ℓ, shape (d,)."""
        return (0.5 * self.log_lengthscale2).exp()

    def start(self, Z: Tensor) -> None:
        start = self.log_lengthscale2.detach()
        if self.from_data and len(Z) > 1:
            median = torch.pdist(Z).median()
            start = torch.log(median) if median > 0 else start
        if start.ndim == 0:
            start = start.expand(Z.shape[1])
        if len(start) != Z.shape[1]:
            raise InvalidParameter(
                f"lengthscale has {len(start)} values but the kernel sees {Z.shape[1]} features; "
                "give one number or one per feature."
            )
        self.log_lengthscale2 = nn.Parameter(start.to(self.log_lengthscale2).clone())

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        K: Tensor = _StationaryFunction.apply(  # type: ignore[no-untyped-call]
            self.profile, A is B, A, B, self.log_lengthscale2, self.log_variance
        )
        return K

    def diag(self, X: Tensor) -> Tensor:
        return self.variance.expand(len(X))

    def extra_repr(self) -> str:
        values = ", ".join(f"{v:.4g}" for v in self.lengthscale.detach().reshape(-1)[:8])
        more = ", …" if self.lengthscale.numel() > 8 else ""
        return f"lengthscale=[{values}{more}], {super().extra_repr()}"


class RBF(Stationary):
    """exp(−r²/2): infinitely smooth functions."""

    @staticmethod
    def profile(r2: Tensor) -> tuple[Tensor, Tensor]:
        k = r2.mul_(-0.5).exp_()
        return k, -0.5 * k


class Matern12(Stationary):
    """exp(−r): continuous, rough functions."""

    @staticmethod
    def profile(r2: Tensor) -> tuple[Tensor, Tensor]:
        r = r2.sqrt()
        k = torch.exp(-r)
        # At r = 0 the derivative does not exist; 0 keeps coinciding points where they are.
        dk = torch.where(r > 0, -0.5 * k / r, torch.zeros_like(r))
        return k, dk


class Matern32(Stationary):
    """(1 + √3 r) exp(−√3 r): once differentiable functions."""

    @staticmethod
    def profile(r2: Tensor) -> tuple[Tensor, Tensor]:
        r = r2.mul_(3).sqrt_()
        e = torch.exp(-r)
        return r.add_(1).mul_(e), e.mul_(-1.5)


class Matern52(Stationary):
    """(1 + √5 r + 5r²/3) exp(−√5 r): twice differentiable functions."""

    @staticmethod
    def profile(r2: Tensor) -> tuple[Tensor, Tensor]:
        r = (5 * r2).sqrt_()
        e = torch.exp(-r)
        dk = (1 + r) * e
        return dk + (5 / 3) * r2 * e, dk.mul_(-5 / 6)


class Linear(_Scaled):
    """σ² xᵀx': linear functions through the origin; add `Constant()` for an offset."""

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return self.variance * (A @ B.T)

    def diag(self, X: Tensor) -> Tensor:
        return self.variance * (X * X).sum(1)


class Constant(_Scaled):
    """σ²: constant functions."""

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return self.variance.expand(len(A), len(B))

    def diag(self, X: Tensor) -> Tensor:
        return self.variance.expand(len(X))


class White(_Scaled):
    """Independent noise of variance σ² on f at every row: it appears in `diag` alone.

    With the probit's own unit noise, noise σ² on a kernel of variance a gives the same
    classifier as a kernel of variance a/(1 + σ²) without noise. It is here because the paper
    learns it, and for kernels that have no amplitude of their own.
    """

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return A.new_zeros(len(A), len(B))

    def diag(self, X: Tensor) -> Tensor:
        return self.variance.expand(len(X))


class _Composite(Kernel):
    """A kernel made of other kernels."""

    def __init__(self, *parts: Kernel) -> None:
        super().__init__()
        # A copy each, so that `k + k` has two sets of parameters and no kernel is shared.
        self.parts = nn.ModuleList(copy.deepcopy(part) for part in parts)

    def start(self, Z: Tensor) -> None:
        for part in self.parts:
            part.start(Z)  # type: ignore[operator]


class Sum(_Composite):
    """The sum of kernels: a sum of independent functions."""

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return torch.stack([part(A, B) for part in self.parts]).sum(0)

    def diag(self, X: Tensor) -> Tensor:
        return torch.stack([part.diag(X) for part in self.parts]).sum(0)  # type: ignore[operator]


class Product(_Composite):
    """The product of kernels."""

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return torch.stack([part(A, B) for part in self.parts]).prod(0)

    def diag(self, X: Tensor) -> Tensor:
        return torch.stack([part.diag(X) for part in self.parts]).prod(0)  # type: ignore[operator]


class FeatureMap(Kernel):
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

    def start(self, Z: Tensor) -> None:
        with torch.no_grad():
            self.kernel.start(self.module(Z))

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        mapped = self.module(A)
        return self.kernel(mapped, mapped if A is B else self.module(B))  # type: ignore[no-any-return]

    def diag(self, X: Tensor) -> Tensor:
        return self.kernel.diag(self.module(X))


KERNELS: dict[str, type[Stationary]] = {
    "rbf": RBF,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
}
