"""The vector ξ of all learnable hyper-parameters: kernel parameters and inducing points."""

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sepgp.gp.kernels import LOG_BOUNDS, Kernel, Stationary, Warped

INDUCING = "Z"


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

    Attributes
    ----------
    start, lower, upper : Tensor of shape (p,)
        ξ of the kernel and the points handed in, and the bounds it is kept within.
    inducing : slice
        Where ξ holds the inducing points.
    """

    def __init__(
        self, kernel: Kernel, Z: Tensor, learn_kernel: bool = True, learn_inducing: bool = True
    ) -> None:
        self._covariances = _Covariances(copy.deepcopy(kernel))
        values = {k: v.detach() for k, v in self._covariances.named_parameters()}
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
        bounds = [LOG_BOUNDS.get(name.split(".")[-1], (-math.inf, math.inf)) for name in learned]
        flat = [value.reshape(-1).double() for value in learned.values()]
        empty = [torch.zeros(0, dtype=torch.float64)]
        self.start = torch.cat(flat + empty)
        self.inducing = slice(len(self.start) - (Z.numel() if learn_inducing else 0), None)
        pairs = list(zip(flat, bounds, strict=True))
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
            return self._call(self._unpack(xi), None)  # type: ignore[return-value]

    def Kmb(self, xi: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
        """Covariance of inducing points and rows X, shape (b, d), and the rows' prior variances.

        Shapes (m, b) and (b,), in the dtype of X; differentiable in ξ, as `Kmm` is. Cost O(md)
        per row.
        """
        with torch.set_grad_enabled(xi.requires_grad):
            values = {name: value.to(X.dtype) for name, value in self._unpack(xi).items()}
            return self._call(values, X)  # type: ignore[return-value]

    def _call(self, values: dict[str, Tensor], X: Tensor | None) -> Tensor | tuple[Tensor, Tensor]:
        parameters = {name: value for name, value in values.items() if name != INDUCING}
        return functional_call(self._covariances, parameters, (values[INDUCING], X))  # type: ignore[no-any-return]

    def prior_gradient(self, xi: Tensor) -> Tensor:
        """Gradient, shape (p,), of the weak log prior of ξ. Cost O(p).

        The log ℓ² of the features of a kernel are N(c, spread²) about a free common c, so the
        gradient is (their mean − log ℓ²)/spread². The V of a warped kernel is N(0, spread²).
        """
        parts = torch.split(xi, self._sizes) if self._sizes else ()
        pulls = [
            -part / self._decays[name] ** 2
            if name in self._decays
            else (part.mean() - part) / self._spreads.get(name, math.inf) ** 2
            for name, part in zip(self._shapes, parts, strict=True)
        ]
        return torch.cat(pulls) if pulls else torch.zeros_like(xi)

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
    return torch.autograd.grad(outputs, xi, seeds)[0]
