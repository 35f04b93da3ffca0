"""The vector ξ of all learnable hyper-parameters: of kernel and prior mean, and inducing points."""

import copy
import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sepgp.gp.kernels import LOG_BOUNDS, Kernel, Stationary, Warped
from sepgp.gp.kernels.flat import flat, pull

INDUCING, FACTOR = "Z", "factor"
BOUNDS = LOG_BOUNDS | {FACTOR: (0.0, math.inf)}
"""By name. Scores out of sample are a little below 0 where labels are above their mean, so that the
factor of a classifier that knows nothing would be negative."""


class _Covariances(nn.Module):
    """The kernel as one function of Z and X, in the form that `functional_call` wants."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, Z: Tensor, X: Tensor | None) -> Tensor | tuple[Tensor, Tensor]:
        if X is None:
            return self.kernel(Z, Z)  # type: ignore[no-any-return]
        return self.kernel(Z, X), self.kernel.diag(X)


class Hyperparameters:
    """The map between a kernel with inducing points and one flat vector ξ.

    Parameters
    ----------
    kernel : Kernel
        Copied, never changed.
    Z : Tensor of shape (m, d)
        Inducing points.
    learn_kernel, learn_inducing : bool
        What ξ holds; the rest stays as it is.
    factor : float or None
        The factor c on the score of a classifier that is the prior mean of f, if there is one; it
        is learned with the kernel.

    Attributes
    ----------
    start, lower, upper : Tensor of shape (p,)
        ξ of the kernel and the points handed in, and the bounds it is kept within.
    inducing, mean : slice
        Where ξ holds the inducing points, and the factor; empty if it does not.
    """

    def __init__(
        self,
        kernel: Kernel,
        Z: Tensor,
        learn_kernel: bool = True,
        learn_inducing: bool = True,
        factor: float | None = None,
    ) -> None:
        self._covariances = _Covariances(copy.deepcopy(kernel))
        values = {k: v.detach() for k, v in self._covariances.named_parameters()}
        if factor is not None:
            values[FACTOR] = Z.new_tensor(factor)
        learned = dict(values) if learn_kernel else {}
        self._frozen = {} if learn_kernel else values
        self._frozen |= {
            k: v for k, v in self._covariances.named_buffers() if v.is_floating_point()
        }
        if learn_inducing:
            learned[INDUCING] = Z
        else:
            self._frozen[INDUCING] = Z
        self._spreads = {
            f"{path}.log_lengthscale2": module.spread
            for path, module in self._covariances.named_modules()
            if isinstance(module, Stationary)
        }
        self._decays = {
            f"{path}.V": module.spread
            for path, module in self._covariances.named_modules()
            if isinstance(module, Warped)
        }
        self._shapes = {name: value.shape for name, value in learned.items()}
        self._sizes = [value.numel() for value in learned.values()]
        self._places = list(itertools.pairwise(itertools.accumulate(self._sizes, initial=0)))
        places = {
            name.removeprefix("kernel."): slice(*place)
            for name, place in zip(learned, self._places, strict=True)
        }
        self._flat = flat(self._covariances.kernel, places, Z, INDUCING)
        bounds = [BOUNDS.get(name.split(".")[-1], (-math.inf, math.inf)) for name in learned]
        starts = [value.reshape(-1).double() for value in learned.values()]
        empty = [torch.zeros(0, dtype=torch.float64)]
        self.start = torch.cat(starts + empty)
        begin = len(self.start) - (Z.numel() if learn_inducing else 0)
        self.inducing = slice(begin, None)
        self.mean = slice(begin - (FACTOR in learned), begin)  # the last before the points
        pairs = list(zip(starts, bounds, strict=True))
        self.lower = torch.cat([torch.full_like(v, low) for v, (low, _) in pairs] + empty)
        self.upper = torch.cat([torch.full_like(v, high) for v, (_, high) in pairs] + empty)

    def _unpack(self, xi: Tensor) -> dict[str, Tensor]:
        parts = torch.split(xi, self._sizes) if self._sizes else ()
        shaped = (
            part.view(shape) for part, shape in zip(parts, self._shapes.values(), strict=True)
        )
        return dict(zip(self._shapes, shaped, strict=True)) | self._frozen

    def Kmm(self, xi: Tensor) -> Tensor:
        """Prior covariance of the inducing points at ξ, shape (m, m), float64. Cost O(m²d)."""
        with torch.set_grad_enabled(xi.requires_grad):
            if self._flat is not None:
                return self._flat.Kmm(xi)
            return self._call(self._unpack(xi), None)  # type: ignore[return-value]

    def Kmb(self, xi: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
        """Covariance of inducing points and rows X, shape (b, d), and the rows' prior variances.

        Shapes (m, b) and (b,), in the dtype of X; differentiable in ξ, as `Kmm` is. Cost O(md)
        per row.
        """
        with torch.set_grad_enabled(xi.requires_grad):
            if self._flat is not None:
                return self._flat.Kmb(xi, X)
            values = {name: value.to(X.dtype) for name, value in self._unpack(xi).items()}
            return self._call(values, X)  # type: ignore[return-value]

    def _call(self, values: dict[str, Tensor], X: Tensor | None) -> Tensor | tuple[Tensor, Tensor]:
        parameters = {k: v for k, v in values.items() if k not in (INDUCING, FACTOR)}
        return functional_call(self._covariances, parameters, (values[INDUCING], X))  # type: ignore[no-any-return]

    def offset(self, xi: Tensor, score: Tensor | None) -> Tensor | None:
        """The prior mean c·h of f for rows with the score h, shape (b,), or (C, b); None for 0.

        In the dtype of the score; differentiable in ξ, as `Kmm` is.
        """
        if score is None:
            return None
        with torch.set_grad_enabled(xi.requires_grad):
            return self._unpack(xi)[FACTOR].to(score.dtype) * score

    def factor(self, xi: Tensor) -> float | None:
        """The factor c at ξ; None if there is no prior mean."""
        value = self._unpack(xi).get(FACTOR)
        return None if value is None else float(value)

    def prior_gradient(self, xi: Tensor) -> Tensor:
        """Gradient, shape (p,), of the weak log prior of ξ. Cost O(p).

        The log ℓ² of the features of a kernel are N(c, spread²) about a free common c, so the
        gradient is (their mean − log ℓ²)/spread². The V of a warped kernel is N(0, spread²).
        """
        gradient = torch.zeros_like(xi)
        for (begin, end), name in zip(self._places, self._shapes, strict=True):
            part = xi[begin:end]
            if name in self._decays:
                gradient[begin:end] = part / -(self._decays[name] ** 2)
            elif name in self._spreads:
                gradient[begin:end] = (part.mean() - part) / self._spreads[name] ** 2
        return gradient

    def model(self, xi: Tensor) -> tuple[Kernel, Tensor]:
        """A kernel and inducing points, shape (m, d), with the values of ξ."""
        values = self._unpack(xi)
        kernel = copy.deepcopy(self._covariances.kernel)
        with torch.no_grad():
            for name, parameter in kernel.named_parameters():
                parameter.copy_(values[f"kernel.{name}"])
        return kernel, values[INDUCING].detach().clone()


def pull_back(xi: Tensor, matrices: Sequence[Tensor], adjoints: Sequence[Tensor]) -> Tensor:
    """From adjoints of kernel matrices at ξ to the gradient by ξ, shape (p,); 0 if ξ is held.

    Cost O(md) per row or inducing point.
    """
    pairs = [(k, a) for k, a in zip(matrices, adjoints, strict=True) if k.requires_grad]
    if not pairs:
        return torch.zeros_like(xi)
    outputs, seeds = zip(*pairs, strict=True)
    gradient = pull(outputs, seeds)
    return torch.autograd.grad(outputs, xi, seeds)[0] if gradient is None else gradient
