"""Kernels as formulas of a graph."""

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from sepgp.data.scaling import Floats
from sepgp.errors import InvalidParameter
from sepgp.export.graph import Graph, Value
from sepgp.gp import kernels
from sepgp.gp.kernels import Kernel


def _rbf(graph: Graph, x2: Value) -> Value:
    return graph.apply("Exp", -0.5 * x2)


def _matern12(graph: Graph, x2: Value) -> Value:
    return graph.apply("Exp", -graph.apply("Sqrt", x2))


def _matern32(graph: Graph, x2: Value) -> Value:
    x = graph.apply("Sqrt", x2)
    return (1.0 + x) * graph.apply("Exp", -x)


def _matern52(graph: Graph, x2: Value) -> Value:
    x = graph.apply("Sqrt", x2)
    return (1.0 + x + x2 / 3.0) * graph.apply("Exp", -x)


SHAPES: dict[type[Kernel], Callable[[Graph, Value], Value]] = {
    kernels.RBF: _rbf,
    kernels.Matern12: _matern12,
    kernels.Matern32: _matern32,
    kernels.Matern52: _matern52,
}
"""Stationary kernels as functions of x² = stretch·r²."""


def covariance(graph: Graph, kernel: Kernel, X: Value, Z: Tensor) -> Value:
    """k(x, z) for rows X, shape (n, d), and inducing points Z, shape (m, d): shape (n, m)."""
    if isinstance(kernel, kernels.Sum | kernels.Product):
        return _joined(kernel, [covariance(graph, part, X, Z) for part in _parts(kernel)])
    if isinstance(kernel, kernels.Warped):
        return covariance(graph, kernel.kernel, _warp(graph, kernel, X), kernel.warp(Z).detach())
    points = _array(Z)
    if isinstance(kernel, kernels.Linear):
        return X @ (kernel.variance.item() * points.T)
    if isinstance(kernel, kernels.Constant):
        return _of_rows(graph, X, kernel.variance.item() * np.ones((1, len(points))))
    if isinstance(kernel, kernels.White):
        return _of_rows(graph, X, np.zeros((1, len(points))))
    _require_known(kernel)
    assert isinstance(kernel, kernels.Stationary)
    scale = math.sqrt(kernel.stretch) / _array(kernel.lengthscale)
    x, z = X * scale, points * scale
    squares = graph.reduce("ReduceSum", x * x, 1)
    x2 = squares + (z * z).sum(1) - 2.0 * (x @ z.T)
    return kernel.variance.item() * SHAPES[type(kernel)](graph, graph.apply("Max", x2, 0.0))


def diagonal(graph: Graph, kernel: Kernel, X: Value) -> Value:
    """k(x, x) for rows X, shape (n, d): shape (n, 1), or (n, C) for a kernel each."""
    if isinstance(kernel, kernels.PerClass):
        return graph.apply("Concat", *(diagonal(graph, k, X) for k in kernel.parts), axis=1)  # type: ignore[arg-type]
    if isinstance(kernel, kernels.Sum | kernels.Product):
        return _joined(kernel, [diagonal(graph, part, X) for part in _parts(kernel)])
    if isinstance(kernel, kernels.Warped):
        return diagonal(graph, kernel.kernel, _warp(graph, kernel, X))
    variance: float = kernel.variance.item()  # type: ignore[operator]
    if isinstance(kernel, kernels.Linear):
        return variance * graph.reduce("ReduceSum", X * X, 1)
    return _of_rows(graph, X, np.full((1, 1), variance))


def _warp(graph: Graph, kernel: kernels.Warped, X: Value) -> Value:
    """φ(x) = x + tanh(xW + c)V."""
    W, c, V = (kernel.unit * _array(weights) for weights in (kernel.W, kernel.c, kernel.V))
    return X + graph.apply("Tanh", X @ W + c) @ V


def _parts(kernel: kernels.Sum | kernels.Product) -> list[Any]:
    return list(kernel.parts)


def _joined(kernel: Kernel, parts: list[Value]) -> Value:
    join = operator.add if isinstance(kernel, kernels.Sum) else operator.mul
    return functools.reduce(join, parts)


def _of_rows(graph: Graph, X: Value, value: Floats) -> Value:
    """The value, shape (1, k), for each of the rows."""
    return value + 0.0 * graph.reduce("ReduceSum", X, 1)


def _array(tensor: Tensor) -> Floats:
    return tensor.detach().cpu().double().numpy()


def _require_known(kernel: Kernel) -> None:
    if type(kernel) not in SHAPES:
        raise InvalidParameter(
            f"kernel has a {type(kernel).__name__}, which is code and cannot be exported to ONNX; "
            "use the kernels of sepgp.kernels other than FeatureMap."
        )
