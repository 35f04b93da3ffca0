"""Functions of the distance between two points."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sepgp.errors import InvalidParameter
from sepgp.gp.kernels.scaled import Scaled, log_of
from sepgp.gp.products import add_product_, product_over_rows


def _check_spread(spread: float) -> None:
    if not spread > 0:
        raise InvalidParameter(f"spread={spread} is not positive; give a number above 0.")


VALUES = 2**16
"""Of a block of points whose squares are taken at a time."""
LOG2_E = math.log2(math.e)
FAR = 1e8
"""Squared norms beyond which their differences lose digits that differences of points have."""

# A profile turns squared distances x² and log σ² into K = σ² k(x²) and σ² g, where k' = −g/2.
Profile = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def squared_distances(A: Tensor, B: Tensor, scale2: Tensor, same: bool = False) -> Tensor:
    """Σ_d c_d (a_d − b_d)² for points A, shape (a, d), B, shape (b, d), and c: shape (a, b)."""
    if same:
        return _among_themselves(A * scale2.sqrt())
    return _from_norms(*_scaled(A, scale2), B, _squared_norms(B, scale2))


def _among_themselves(A: Tensor) -> Tensor:
    """‖a − a'‖² for all pairs of the points A, shape (a, d), symmetric to the last digit.

    Of points that are far from 0 it would not be positive definite, so their differences are taken
    one by one.
    """
    A2 = A.square().sum(1)
    if bool(A2.max() > FAR):
        return torch.cdist(A, A, compute_mode="donot_use_mm_for_euclid_dist").square_()
    return _from_norms(A, A2, A, A2).fill_diagonal_(0)


def _scaled(A: Tensor, scale2: Tensor) -> tuple[Tensor, Tensor]:
    """c ∘ a for the points A, shape (a, d), and Σ_d c_d a_d², shape (a,)."""
    A_ = A * scale2
    return A_, (A_ * A).sum(1)


def _from_norms(A_: Tensor, A2: Tensor, B: Tensor, B2: Tensor) -> Tensor:
    """‖a‖² + ‖b‖² − 2aᵀb, the product being added to the norms where they are, shape (a, b)."""
    return add_product_(torch.add(A2[:, None], B2), A_, B.T, alpha=-2).clamp_min_(0)


def _squared_norms(B: Tensor, scale2: Tensor) -> Tensor:
    """Σ_d c_d b_d² for the points B, shape (b, d): shape (b,)."""
    c = scale2.expand(B.shape[1])
    parts = [part.square() @ c for part in _blocks(B, B.shape[1])]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _sum_of_squares(weight: Tensor, B: Tensor) -> Tensor:
    """Σ_b w_b b_d² for points B, shape (b, d), of weights w, shape (b,): shape (d,)."""
    parts = zip(_blocks(weight, B.shape[1]), _blocks(B, B.shape[1]), strict=True)
    return sum(own @ part.square() for own, part in parts)  # type: ignore[return-value]


def _blocks(B: Tensor, width: int) -> Sequence[Tensor]:
    """The points B, shape (b, …), so many at a time that squares of `width` stay in the cache."""
    size = max(1, VALUES // max(1, width))
    return torch.split(B, size) if len(B) > size else (B,)


def exponential(log_variance: Tensor, x: Tensor, rate: float = 1.0) -> Tensor:
    """σ² exp(−rate·x) for x of shape (a, b).

    Torch takes powers of 2 two to three times as fast, but rounds the last few of a matrix in
    another way. Covariances of the same points are square, and have to be symmetric.
    """
    if len(x) == x.shape[-1]:
        return torch.add(log_variance, x, alpha=-rate).exp_()
    return torch.add(LOG2_E * log_variance, x, alpha=-LOG2_E * rate).exp2_()


class _StationaryFunction(torch.autograd.Function):
    """σ² k(x²) with x² = Σ_d c_d (a_d − b_d)², c = stretch/ℓ², and its derivative written by hand.

    Autograd would keep the whole graph. B may be large, and is neither scaled nor copied.
    """

    @staticmethod
    def forward(ctx, profile, stretch, same, A, B, log_lengthscale2, log_variance):  # type: ignore[no-untyped-def]
        scale2 = stretch * torch.exp(-log_lengthscale2)
        K, g = profile(squared_distances(A, B, scale2, same), log_variance)
        ctx.same = same
        ctx.save_for_backward(A, B, scale2, K, g)
        return K

    @staticmethod
    def backward(ctx, G):  # type: ignore[no-untyped-def]
        A, B, scale2, K, g = ctx.saved_tensors
        dA, dlengthscale, dvariance = adjoints(G, A, B, scale2, K, g, ctx.same)
        dB = None
        if ctx.needs_input_grad[4] and not ctx.same:
            W = G * g
            dB = (W.T @ A - W.sum(0)[:, None] * B) * scale2
        return None, None, None, dA, dB, dlengthscale, dvariance


def adjoints(
    G: Tensor, A: Tensor, B: Tensor, scale2: Tensor, K: Tensor, g: Tensor, same: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """dA, d log ℓ² and d log σ² for an adjoint G of K, shape (a, b), and scale2 = c.

    With W = G ∘ σ²g, where k' = −g/2: dA = c ∘ (W B − W1 ∘ A),
    d log ℓ² = ½ c ∘ Σ_ab W_ab (a − b)², d log σ² = Σ G ∘ K. One (a, b) × (b, d) product serves the
    first two. Where both arguments are the `same` points, dA holds the whole, and d log ℓ² is
    −½ Σ_a a ∘ dA. Cost O(d) per pair.
    """
    W = G * g
    if same:
        W = W + W.T
    row_sum = W.sum(1, keepdim=True)
    pull = product_over_rows(W, B.T).addcmul_(row_sum, A, value=-1)  # W B − W1 ∘ A
    dvariance = torch.dot(G.reshape(-1), K.reshape(-1))
    if same:
        dA = pull.mul_(scale2)
        return dA, -0.5 * (A * dA).sum(0), dvariance
    squares = 0.5 * _sum_of_squares(W.sum(0), B)
    dlengthscale = scale2 * (squares - (A * pull.addcmul(row_sum, A, value=0.5)).sum(0))
    return pull.mul_(scale2), dlengthscale, dvariance


class Stationary(Scaled):
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
        _check_spread(spread)
        self.spread = spread
        self._set_param("lengthscale", lengthscale)

    def _own_params(self) -> dict[str, Any]:
        lengthscale = None if self.from_data else self.lengthscale.tolist()
        return {"lengthscale": lengthscale, **super()._own_params(), "spread": self.spread}

    def _set_param(self, name: str, value: Any) -> None:
        if name == "lengthscale":
            self.from_data = value is None
            initial = 1.0 if value is None else value
            self.log_lengthscale2 = nn.Parameter(2 * log_of(initial, name))
        elif name == "spread":
            _check_spread(value)
            self.spread = value
        else:
            super()._set_param(name, value)

    shift_invariant = True
    stretch = 1.0
    """Factor on r² that makes the formula of the kernel short."""

    @staticmethod
    def profile(x2: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
        """σ²k and σ²g at x² = stretch·r², where dk/d(x²) = −g/2; may overwrite x2."""
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

    def lengthen(self, factor: float) -> bool:
        if self.from_data:
            self.log_lengthscale2.data += 2 * math.log(factor)
        return self.from_data

    @classmethod
    def value(cls, x2: Tensor, log_variance: Tensor) -> Tensor:
        """σ²k alone, where no gradient is wanted; may overwrite x2."""
        return cls.profile(x2, log_variance)[0]

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return self.value(squared_distances(A, B, self._scale2, A is B), self.log_variance)
        K: Tensor = _StationaryFunction.apply(  # type: ignore[no-untyped-call]
            self.profile, self.stretch, A is B, A, B, self.log_lengthscale2, self.log_variance
        )
        return K

    def at(self, Z: Tensor) -> Callable[[Tensor], Tensor]:
        scale2, log_variance = self._scale2, self.log_variance
        Z_, Z2 = _scaled(Z, scale2)
        return lambda X: self.value(_from_norms(Z_, Z2, X, _squared_norms(X, scale2)), log_variance)

    @property
    def _scale2(self) -> Tensor:
        """stretch/ℓ², shape (d,)."""
        return self.stretch * torch.exp(-self.log_lengthscale2)

    def diag(self, X: Tensor) -> Tensor:
        return self.variance.expand(len(X))

    def extra_repr(self) -> str:
        values = ", ".join(f"{v:.4g}" for v in self.lengthscale.detach().reshape(-1)[:8])
        more = ", …" if self.lengthscale.numel() > 8 else ""
        return f"lengthscale=[{values}{more}], {super().extra_repr()}"


class RBF(Stationary):
    """exp(−r²/2): infinitely smooth functions."""

    @staticmethod
    def profile(x2: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
        k = exponential(log_variance, x2, 0.5)
        return k, k

    @classmethod
    def value(cls, x2: Tensor, log_variance: Tensor) -> Tensor:
        return exponential(log_variance, x2, 0.5)


class Matern12(Stationary):
    """exp(−r): continuous, rough functions."""

    @staticmethod
    def profile(x2: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
        x = x2.sqrt_()
        k = exponential(log_variance, x)
        # At x = 0 the derivative does not exist; 0 keeps coinciding points where they are.
        return k, torch.where(x > 0, k / x, torch.zeros_like(x))

    @classmethod
    def value(cls, x2: Tensor, log_variance: Tensor) -> Tensor:
        return exponential(log_variance, x2.sqrt_())


class Matern32(Stationary):
    """(1 + x) exp(−x) with x = √3 r: once differentiable functions."""

    stretch = 3.0

    @staticmethod
    def profile(x2: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
        x = x2.sqrt_()
        e = exponential(log_variance, x)
        return torch.addcmul(e, x, e), e

    @classmethod
    def value(cls, x2: Tensor, log_variance: Tensor) -> Tensor:
        x = x2.sqrt_()
        e = exponential(log_variance, x)
        return e.addcmul_(x, e)


class Matern52(Stationary):
    """(1 + x + x²/3) exp(−x) with x = √5 r: twice differentiable functions."""

    stretch = 5.0

    @staticmethod
    def profile(x2: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
        x = x2.sqrt()
        e = exponential(log_variance, x)
        g = torch.addcmul(e, x, e).div_(3)
        return torch.addcmul(3 * g, x2, e, value=1 / 3), g

    @classmethod
    def value(cls, x2: Tensor, log_variance: Tensor) -> Tensor:
        x = x2.sqrt()
        e = exponential(log_variance, x)
        return e.mul_(x.add_(1).add_(x2, alpha=1 / 3))
