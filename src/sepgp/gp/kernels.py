"""Covariance functions as composable torch modules.

A kernel is called on two sets of points, `kernel(A, B)` with shapes (a, d) and (b, d), and
returns the covariance matrix of shape (a, b); `kernel.diag(B)` returns the b prior variances.
Positive parameters are stored as logarithms, so that an optimiser can move them freely.
Kernels add and multiply: `RBF() + Linear()`, `Constant() * Matern32()`.
"""

import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

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

    shift_invariant = False
    """Whether k(a + c, b + c) = k(a, b) for every c."""

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        """Covariance of the points A, shape (a, d), and B, shape (b, d): shape (a, b)."""
        raise NotImplementedError

    def diag(self, X: Tensor) -> Tensor:
        """Prior variances k(x, x) of the points X, shape (b, d): shape (b,). Cost O(bd)."""
        raise NotImplementedError

    def start(self, Z: Tensor) -> None:
        """Set the starting values that depend on the data, here the points Z, shape (m, d)."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, as of a scikit-learn estimator; those of parts as "k1__variance".

        So `GridSearchCV` can search over `kernel__lengthscale`.
        """
        found = self._own_params()
        for name, part in self._named_parts().items():
            found[name] = part
            if deep:
                found |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by the names that `get_params` has."""
        own, parts = self._own_params(), self._named_parts()
        for name, value in params.items():
            part, _, rest = name.partition("__")
            if name in own:
                self._set_param(name, value)
            elif part in parts and rest:
                parts[part].set_params(**{rest: value})
            else:
                raise InvalidParameter(
                    f"kernel has no parameter {name!r}; choose among "
                    f"{', '.join(self.get_params()) or 'none'}."
                )
        return self

    def __sklearn_clone__(self) -> Self:
        """A copy, for estimators that are cloned."""
        return copy.deepcopy(self)

    def _own_params(self) -> dict[str, Any]:
        return {}

    def _set_param(self, name: str, value: Any) -> None:
        raise NotImplementedError

    def _named_parts(self) -> dict[str, "Kernel"]:
        """Kernels that this one is made of."""
        return {}

    def __add__(self, other: "Kernel") -> "Sum":
        return Sum(self, other)

    def __mul__(self, other: "Kernel") -> "Product":
        return Product(self, other)


def _log(value: float | Sequence[float], name: str) -> Tensor:
    tensor = torch.as_tensor(value, dtype=torch.float64)
    if not bool((torch.isfinite(tensor) & (tensor > 0)).all()):
        raise InvalidParameter(f"{name}={value} is not positive and finite; give a number above 0.")
    return tensor.log()


def _check_spread(spread: float) -> None:
    if not spread > 0:
        raise InvalidParameter(f"spread={spread} is not positive; give a number above 0.")


class _Scaled(Kernel):
    """A kernel with an amplitude: `variance` multiplies the covariance."""

    def __init__(self, variance: float = 1.0) -> None:
        super().__init__()
        self.log_variance = nn.Parameter(_log(variance, "variance"))

    @property
    def variance(self) -> Tensor:
        """The amplitude σ², shape ()."""
        return self.log_variance.exp()

    def _own_params(self) -> dict[str, Any]:
        return {"variance": self.variance.item()}

    def _set_param(self, name: str, value: Any) -> None:
        self.log_variance = nn.Parameter(_log(value, name))

    def extra_repr(self) -> str:
        return f"variance={self.variance.item():.4g}"


# A profile turns squared distances x² and log σ² into K = σ² k(x²) and σ² g, where k' = −g/2.
Profile = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def _squared_distances(A: Tensor, B: Tensor) -> Tensor:
    """‖a − b‖² for the points A, shape (a, d), and B, shape (b, d): shape (a, b).

    The norms are two more columns of the product −2ABᵀ, so they cost no passes over the result.
    """
    ones = A.new_ones(1, 1)
    left = torch.cat([-2 * A, (A * A).sum(1, keepdim=True), ones.expand(len(A), 1)], 1)
    right = torch.cat([B, ones.expand(len(B), 1), (B * B).sum(1, keepdim=True)], 1)
    return (left @ right.T).clamp_min_(0)


class _StationaryFunction(torch.autograd.Function):
    """σ² k(x²) with x² = stretch Σ_d (a_d − b_d)²/ℓ_d², and its derivative written by hand.

    A and B are scaled first, so that x² is the distance of A' and B'. With W = G ∘ σ²g, where G is
    the incoming adjoint of K and k' = −g/2:
    dA' = W B' − W1 ∘ A', d log ℓ² = ½ Σ_ab W_ab (a' − b')², d log σ² = Σ G ∘ K.
    One (a, b) × (b, d) product serves the first two, where autograd would keep the whole graph.
    """

    @staticmethod
    def forward(ctx, profile, stretch, same, A, B, log_lengthscale2, log_variance):  # type: ignore[no-untyped-def]
        scale = math.sqrt(stretch) * torch.exp(-0.5 * log_lengthscale2)
        A_, B_ = A * scale, B * scale
        x2 = _squared_distances(A_, B_)
        if same:
            x2.fill_diagonal_(0)
        K, g = profile(x2, log_variance)
        ctx.same = same
        ctx.save_for_backward(A_, B_, scale, K, g)
        return K

    @staticmethod
    def backward(ctx, G):  # type: ignore[no-untyped-def]
        A_, B_, scale, K, g = ctx.saved_tensors
        W = G * g
        if ctx.same:  # both arguments are the same points: dA holds the whole, dB nothing
            W += W.T.clone()
        WB, row_sum = (W @ torch.cat([B_, B_.new_ones(len(B_), 1)], 1)).tensor_split([-1], 1)
        column_sum = W.sum(0)
        dA = dB = dlengthscale = dvariance = None
        if ctx.needs_input_grad[3]:
            dA = (WB - row_sum * A_) * scale
        if ctx.needs_input_grad[4] and not ctx.same:
            dB = (W.T @ A_ - column_sum[:, None] * B_) * scale
        if ctx.needs_input_grad[5]:
            dlengthscale = (A_ * (row_sum * A_ - 2 * WB)).sum(0) + column_sum @ (B_ * B_)
            dlengthscale *= 0.25 if ctx.same else 0.5
        if ctx.needs_input_grad[6]:
            dvariance = torch.dot(G.reshape(-1), K.reshape(-1))
        return None, None, None, dA, dB, dlengthscale, dvariance


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
            self.log_lengthscale2 = nn.Parameter(2 * _log(initial, name))
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

    @classmethod
    def value(cls, x2: Tensor, log_variance: Tensor) -> Tensor:
        """σ²k alone, where no gradient is wanted; may overwrite x2."""
        return cls.profile(x2, log_variance)[0]

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            scale = math.sqrt(self.stretch) * torch.exp(-0.5 * self.log_lengthscale2)
            x2 = _squared_distances(A * scale, B * scale)
            return self.value(x2.fill_diagonal_(0) if A is B else x2, self.log_variance)
        K: Tensor = _StationaryFunction.apply(  # type: ignore[no-untyped-call]
            self.profile, self.stretch, A is B, A, B, self.log_lengthscale2, self.log_variance
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
    def profile(x2: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
        k = torch.sub(log_variance, x2, alpha=0.5).exp_()
        return k, k

    @classmethod
    def value(cls, x2: Tensor, log_variance: Tensor) -> Tensor:
        return x2.mul_(-0.5).add_(log_variance).exp_()


class Matern12(Stationary):
    """exp(−r): continuous, rough functions."""

    @staticmethod
    def profile(x2: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
        x = x2.sqrt_()
        k = torch.sub(log_variance, x).exp_()
        # At x = 0 the derivative does not exist; 0 keeps coinciding points where they are.
        return k, torch.where(x > 0, k / x, torch.zeros_like(x))

    @classmethod
    def value(cls, x2: Tensor, log_variance: Tensor) -> Tensor:
        return x2.sqrt_().neg_().add_(log_variance).exp_()


class Matern32(Stationary):
    """(1 + x) exp(−x) with x = √3 r: once differentiable functions."""

    stretch = 3.0

    @staticmethod
    def profile(x2: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
        x = x2.sqrt_()
        e = torch.sub(log_variance, x).exp_()
        return torch.addcmul(e, x, e), e

    @classmethod
    def value(cls, x2: Tensor, log_variance: Tensor) -> Tensor:
        x = x2.sqrt_()
        e = torch.sub(log_variance, x).exp_()
        return e.addcmul_(x, e)


class Matern52(Stationary):
    """(1 + x + x²/3) exp(−x) with x = √5 r: twice differentiable functions."""

    stretch = 5.0

    @staticmethod
    def profile(x2: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
        x = x2.sqrt()
        e = torch.sub(log_variance, x).exp_()
        g = torch.addcmul(e, x, e).div_(3)
        return torch.addcmul(3 * g, x2, e, value=1 / 3), g

    @classmethod
    def value(cls, x2: Tensor, log_variance: Tensor) -> Tensor:
        x = x2.sqrt()
        e = torch.sub(log_variance, x).exp_()
        return e.mul_(x.add_(1).add_(x2, alpha=1 / 3))


class Linear(_Scaled):
    """σ² xᵀx': linear functions through the origin; add `Constant()` for an offset."""

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return self.variance * (A @ B.T)

    def diag(self, X: Tensor) -> Tensor:
        return self.variance * (X * X).sum(1)


class Constant(_Scaled):
    """σ²: constant functions."""

    shift_invariant = True

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

    shift_invariant = True

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
        self.shift_invariant = all(part.shift_invariant for part in parts)

    def _named_parts(self) -> dict[str, Kernel]:
        return {f"k{i}": part for i, part in enumerate(self.parts, 1)}  # type: ignore[misc]

    def start(self, Z: Tensor) -> None:
        for part in self.parts:
            part.start(Z)  # type: ignore[operator]


class Sum(_Composite):
    """The sum of kernels: a sum of independent functions.

    Length-scales that come from the data start apart, three times as long in every further
    kernel. Two kernels of one kind that started alike would stay alike.
    """

    apart = 3.0

    def __repr__(self) -> str:
        return " + ".join(repr(part) for part in self.parts)

    def start(self, Z: Tensor) -> None:
        factor = 1.0
        for term in self.terms():
            term.start(Z)
            if isinstance(term, Stationary) and term.from_data:
                term.log_lengthscale2.data += 2 * math.log(factor)
                factor *= self.apart

    def terms(self) -> Iterator[Kernel]:
        """The kernels that are added up, those of sums within this sum among them."""
        for part in self.parts:
            if isinstance(part, Sum):
                yield from part.terms()
            else:
                yield part  # type: ignore[misc]

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        K: Tensor = functools.reduce(torch.add, (part(A, B) for part in self.parts))
        return K

    def diag(self, X: Tensor) -> Tensor:
        diagonals = (part.diag(X) for part in self.parts)  # type: ignore[operator]
        k: Tensor = functools.reduce(torch.add, diagonals)
        return k


class Product(_Composite):
    """The product of kernels."""

    def __repr__(self) -> str:
        return " * ".join(
            f"({part})" if isinstance(part, Sum) else repr(part) for part in self.parts
        )

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return torch.stack([part(A, B) for part in self.parts]).prod(0)

    def diag(self, X: Tensor) -> Tensor:
        return torch.stack([part.diag(X) for part in self.parts]).prod(0)  # type: ignore[operator]


class PerClass(_Composite):
    """A kernel for each of C latent functions: covariances of shape (C, a, b), variances (C, b)."""

    def __repr__(self) -> str:
        return "PerClass(" + ", ".join(repr(part) for part in self.parts) + ")"

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return torch.stack([part(A, B) for part in self.parts])

    def diag(self, X: Tensor) -> Tensor:
        return torch.stack([part.diag(X) for part in self.parts])  # type: ignore[operator]


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

    def _named_parts(self) -> dict[str, Kernel]:
        return {"kernel": self.kernel}

    def start(self, Z: Tensor) -> None:
        with torch.no_grad():
            self.kernel.start(self.module(Z))

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        mapped = self.module(A)
        return self.kernel(mapped, mapped if A is B else self.module(B))  # type: ignore[no-any-return]

    def diag(self, X: Tensor) -> Tensor:
        return self.kernel.diag(self.module(X))


HIDDEN = 32
"""Units of the hidden layer of a `Warped` kernel, unless told otherwise."""


class Warped(Kernel):
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

    def _named_parts(self) -> dict[str, Kernel]:
        return {"kernel": self.kernel}

    def warp(self, X: Tensor) -> Tensor:
        """φ(x) of the rows X, shape (b, d): shape (b, d). Cost O(d·hidden) per row."""
        activation = torch.tanh(self.unit * torch.addmm(self.c, X, self.W))
        return torch.addmm(X, activation, self.V, alpha=self.unit)

    def start(self, Z: Tensor) -> None:
        if len(self.W) != Z.shape[1]:
            self._weigh(Z.shape[1])
        with torch.no_grad():
            self.kernel.start(self.warp(Z))

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        warped = self.warp(A)
        return self.kernel(warped, warped if A is B else self.warp(B))  # type: ignore[no-any-return]

    def diag(self, X: Tensor) -> Tensor:
        return self.kernel.diag(self.warp(X))

    def extra_repr(self) -> str:
        return f"hidden={self.hidden}"


KERNELS: dict[str, type[Stationary]] = {
    "rbf": RBF,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
}

AUTO = "auto"
MANY_FEATURES = 100
"""Above this, the default is one kernel instead of two."""


def named(name: str, n_features: int, n_classes: int = 2) -> Kernel:
    """The kernel that a name stands for: one of `KERNELS`, or several of them joined by "+".

    "auto" is "matern32+matern32": a rough function of some features, and a smoother one of
    others. With more than two classes the first is "rbf". With more than `MANY_FEATURES` the first
    is all there is, because distances between rows are then most of the work.
    """
    if name == AUTO:
        first = "matern32" if n_classes == 2 else "rbf"
        name = first if n_features > MANY_FEATURES else f"{first}+matern32"
    kernels = [KERNELS[part.strip()]() for part in name.split("+")]
    return kernels[0] if len(kernels) == 1 else Sum(*kernels)
