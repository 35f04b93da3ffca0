"""Gradient ascent on one flat vector. Every rule is `init(xi) -> state` and
`step(state, gradient, rate) -> (change, state)`."""

from typing import Any, NamedTuple

import torch
from torch import Tensor


class AdamState(NamedTuple):
    """Running moments of the gradient, each of shape (p,)."""

    first: Tensor
    second: Tensor
    steps: int


class Adam:
    """Adam (Kingma and Ba, 2015)."""

    rate = 0.2
    """The learning rate where none is given."""
    decay1, decay2, epsilon = 0.9, 0.999, 1e-8

    @staticmethod
    def init(xi: Tensor) -> AdamState:
        """State for a vector of shape (p,)."""
        return AdamState(torch.zeros_like(xi), torch.zeros_like(xi), 0)

    @classmethod
    def step(cls, state: AdamState, gradient: Tensor, rate: float) -> tuple[Tensor, AdamState]:
        """The change of ξ, shape (p,), for a gradient to ascend. Cost O(p)."""
        steps = state.steps + 1
        first = torch.lerp(gradient, state.first, cls.decay1)
        second = torch.lerp(gradient * gradient, state.second, cls.decay2)
        correction1, correction2 = 1 - cls.decay1**steps, 1 - cls.decay2**steps
        change = first / ((second / correction2).sqrt_() + cls.epsilon)
        return change * (rate / correction1), AdamState(first, second, steps)


class SignState(NamedTuple):
    """A step size and the last gradient for each parameter, each of shape (p,)."""

    size: Tensor
    gradient: Tensor


class Sign:
    """The batch rule of the paper's authors: a step size per parameter, times the gradient.

    The size starts at the learning rate, grows by 2 % while the gradient keeps its sign, up to 1,
    and is halved when the sign changes. It is meant for exact gradients of small sets.
    """

    rate = 0.01
    """The learning rate where none is given."""

    @staticmethod
    def init(xi: Tensor) -> SignState:
        """State for a vector of shape (p,). A size of 0 stands for 'not started'."""
        return SignState(torch.zeros_like(xi), torch.zeros_like(xi))

    @staticmethod
    def step(state: SignState, gradient: Tensor, rate: float) -> tuple[Tensor, SignState]:
        """The change of ξ, shape (p,), for a gradient to ascend. Cost O(p)."""
        same = state.gradient * gradient >= 0
        size = torch.where(same, (state.size * 1.02).clamp_max(1.0), state.size * 0.5)
        size = torch.where(state.size == 0, torch.full_like(size, rate), size)
        return size * gradient, SignState(size, gradient)


OPTIMIZERS: dict[str, Any] = {"adam": Adam, "sign": Sign}
