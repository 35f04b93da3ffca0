"""What every kernel is, and sums and products of kernels."""

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any, Self

import torch
from torch import Tensor, nn

from sepgp.errors import InvalidParameter


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

    def at(self, Z: Tensor) -> Callable[[Tensor], Tensor]:
        """k(Z, ·) for points Z, shape (m, d), where no gradient is wanted: from (b, d) to (m, b).

        What depends on Z alone is done once for all rows.
        """
        return functools.partial(self, Z)

    def start(self, Z: Tensor) -> None:
        """Set the starting values that depend on the data, here the points Z, shape (m, d)."""

    def lengthen(self, factor: float) -> bool:
        """Multiply length-scales that `start` took from the data; whether there are any."""
        return False

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


class Composite(Kernel):
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


class Sum(Composite):
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
            if term.lengthen(factor):
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

    def at(self, Z: Tensor) -> Callable[[Tensor], Tensor]:
        parts = [part.at(Z) for part in self.parts]  # type: ignore[operator]
        return lambda X: functools.reduce(torch.add, (part(X) for part in parts))

    def diag(self, X: Tensor) -> Tensor:
        diagonals = (part.diag(X) for part in self.parts)  # type: ignore[operator]
        k: Tensor = functools.reduce(torch.add, diagonals)
        return k


class Product(Composite):
    """The product of kernels."""

    def __repr__(self) -> str:
        return " * ".join(
            f"({part})" if isinstance(part, Sum) else repr(part) for part in self.parts
        )

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return torch.stack([part(A, B) for part in self.parts]).prod(0)

    def diag(self, X: Tensor) -> Tensor:
        return torch.stack([part.diag(X) for part in self.parts]).prod(0)  # type: ignore[operator]


class PerClass(Composite):
    """A kernel for each of C latent functions: covariances of shape (C, a, b), variances (C, b)."""

    def __repr__(self) -> str:
        return "PerClass(" + ", ".join(repr(part) for part in self.parts) + ")"

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return torch.stack([part(A, B) for part in self.parts])

    def diag(self, X: Tensor) -> Tensor:
        return torch.stack([part.diag(X) for part in self.parts])  # type: ignore[operator]
