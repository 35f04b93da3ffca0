"""A sum of stationary kernels as one function of the flat vector ξ.

Covariances and their derivative by ξ are those of the kernels themselves. One node of autograd
takes the place of some thirty, whose overhead is a twentieth of a step with few rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sepgp.gp.kernels.base import Kernel, Sum
from sepgp.gp.kernels.stationary import Profile, Stationary, adjoints, squared_distances


class Term(NamedTuple):
    """One kernel of the sum, and where ξ has its parameters."""

    profile: Profile
    stretch: float
    log_lengthscale2: slice
    log_variance: slice


class Flat(NamedTuple):
    """The sum, and where ξ has the inducing points."""

    terms: tuple[Term, ...]
    inducing: slice
    n_features: int

    def Kmm(self, xi: Tensor) -> Tensor:
        """Covariance of the inducing points at ξ, shape (m, m). Cost O(m²d)."""
        K: Tensor = _Covariances.apply(self, xi, None)[0]  # type: ignore[no-untyped-call]
        return K

    def Kmb(self, xi: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
        """Covariance with rows X, shape (b, d), and their prior variances: (m, b) and (b,)."""
        return _Covariances.apply(self, xi, X)  # type: ignore[no-any-return, no-untyped-call]

    def points(self, values: Tensor) -> Tensor:
        """The inducing points in ξ, shape (m, d)."""
        return values[self.inducing].view(-1, self.n_features)


def flat(kernel: Kernel, places: Mapping[str, slice], Z: Tensor, inducing: str) -> Flat | None:
    """The kernel as a function of ξ, by the places of its parameters and of Z in ξ.

    None unless it is a stationary kernel, or a sum of them, and ξ holds all of it.
    """
    modules = {module: path for path, module in kernel.named_modules()}
    parts = list(kernel.terms()) if type(kernel) is Sum else [kernel]
    if inducing not in places or not all(map(_plain, parts)):
        return None
    paths = [f"{modules[part]}." if modules[part] else "" for part in parts]
    names = [(f"{path}log_lengthscale2", f"{path}log_variance") for path in paths]
    if any(name not in places for pair in names for name in pair):
        return None
    terms = (
        Term(part.profile, part.stretch, *(places[name] for name in pair))  # type: ignore[arg-type]
        for part, pair in zip(parts, names, strict=True)
    )
    return Flat(tuple(terms), places[inducing], Z.shape[1])


def _plain(kernel: Kernel) -> bool:
    """Whether a kernel is a function of the distance that has changed nothing but its profile."""
    own = type(kernel)
    return (
        isinstance(kernel, Stationary)
        and own.forward is Stationary.forward
        and own.diag is Stationary.diag
        and {name for name, _ in kernel.named_parameters()} == {"log_lengthscale2", "log_variance"}
    )


def pull(matrices: Sequence[Tensor], adjoints: Sequence[Tensor]) -> Tensor | None:
    """From adjoints of `Kmm`, or of what `Kmb` gives, to that of ξ, shape (p,).

    It is what autograd does, without its engine, which takes a fiftieth of a step with few rows.
    None if the matrices are not from one `Flat`.
    """
    node: Any = matrices[0].grad_fn
    together = all(k.grad_fn is node and k.output_nr == i for i, k in enumerate(matrices))
    if not together or not isinstance(getattr(node, "flat", None), Flat):
        return None
    by_K, by_kdiag = (*adjoints, None)[:2]
    return _Covariances.backward(node, by_K, by_kdiag)[1]  # type: ignore[no-any-return]


class _Covariances(torch.autograd.Function):
    """Σ_k σ_k² k_k at Z and X, or at Z alone, and at rows by themselves."""

    @staticmethod
    def forward(ctx, flat, xi, X):  # type: ignore[no-untyped-def]
        same = X is None
        values = xi if same else xi.to(X.dtype)
        Z = flat.points(values)
        B = Z if same else X
        kdiag, kept = values.new_zeros(1), []
        for term in flat.terms:
            scale2 = term.stretch * torch.exp(-values[term.log_lengthscale2])
            log_variance = values[term.log_variance]
            x2 = squared_distances(Z, B, scale2, same)
            kept += [scale2, *term.profile(x2, log_variance)]
            kdiag = kdiag + log_variance.exp()
        K = sum(kept[4::3], kept[1])
        ctx.flat, ctx.same = flat, same
        ctx.save_for_backward(xi, Z, B, *kept)
        return K, kdiag.expand(len(B))

    @staticmethod
    @once_differentiable
    def backward(ctx, G, by_kdiag):  # type: ignore[no-untyped-def]
        xi, Z, B, *kept = ctx.saved_tensors
        gradient = torch.zeros_like(xi)
        dZ = ctx.flat.points(gradient)
        for i, term in enumerate(ctx.flat.terms):
            scale2, K, g = kept[3 * i : 3 * i + 3]
            dA, dlengthscale, dvariance = adjoints(G, Z, B, scale2, K, g, ctx.same)
            gradient[term.log_lengthscale2] = dlengthscale
            if by_kdiag is not None:
                dvariance = dvariance + xi[term.log_variance].exp() * by_kdiag.sum()
            gradient[term.log_variance] = dvariance
            dZ += dA
        return None, gradient, None
