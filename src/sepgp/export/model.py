"""A fitted model as a file of ONNX."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp import __version__
from sepgp.data.scaling import Floats
from sepgp.errors import InvalidData, InvalidParameter
from sepgp.export import columns, kernels, likelihoods
from sepgp.export.graph import Graph, Value, library
from sepgp.files import atomic
from sepgp.gp.kernels import PerClass
from sepgp.model import Model

OUTPUTS = "label", "probabilities", "mean", "variance"
LARGEST = 2_000_000_000
"""Bytes of a file: ONNX keeps a graph in one message of protobuf, which ends at 2 GiB."""


def write(model: Model, path: str | os.PathLike[str]) -> None:
    """Write the graph of a model to a file, which is replaced at once or not at all."""
    library()
    if model.mean is not None:
        raise InvalidParameter(
            "mean is a classifier, which has no graph here; train without it to write ONNX."
        )
    size = 8 * model.predictor.F.numel()
    if size > LARGEST:
        raise InvalidParameter(
            f"n_inducing={len(model.Z)} with {len(model.classes)} classes makes a graph of "
            f"{size / 1e9:.1f} GB, and ONNX allows 2; train with fewer inducing points."
        )
    atomic.check(path)
    content = graph_of(model).to_bytes(__version__)
    with atomic.replacing(path) as temporary:
        temporary.write_bytes(content)


def graph_of(model: Model) -> Graph:
    """Rows to labels, probabilities, and mean and variance of the latent functions.

    Work is in float64, whatever the model's own type of numbers.
    """
    graph = Graph()
    given = columns.features(graph, model.schema)
    taken = [name for name, _, _ in graph.inputs if name in OUTPUTS]
    if taken:
        raise InvalidData(
            f"Column {taken[0]!r} has the name of an output of the graph; "
            "rename it before training."
        )
    X = columns.scaled(graph, model.scaling, given)
    mean, explained = _folded(graph, model, X)
    difference = kernels.diagonal(graph, model.kernel, X) - explained
    variance = graph.apply("Max", difference, 0.0)
    many = len(model.classes) > 2
    p = (likelihoods.of_many if many else likelihoods.of_two)(graph, mean, variance)
    labels = _labels(model.classes)
    graph.output("label", graph.apply("Gather", labels, _code(graph, p)), labels)
    graph.output("probabilities", p, np.empty(0), len(labels))
    for name, value in (("mean", mean), ("variance", variance)):
        if many:
            graph.output(name, value, np.empty(0), len(labels))
        else:
            graph.output(name, graph.apply("Squeeze", value, np.array([1])), np.empty(0))
    return graph


def _folded(graph: Graph, model: Model, X: Value) -> tuple[Value, Value]:
    """kᵀβ and ‖F k‖² for rows X, shape (n, d): each (n, 1), or (n, C)."""
    beta, F = (part.cpu().double().numpy() for part in model.predictor)
    if isinstance(model.kernel, PerClass):
        each = [
            _of_one(graph, kernels.covariance(graph, kernel, X, model.Z), *own)  # type: ignore[arg-type]
            for kernel, *own in zip(model.kernel.parts, beta, F, strict=True)
        ]
        mean, explained = zip(*each, strict=True)
        return graph.apply("Concat", *mean, axis=1), graph.apply("Concat", *explained, axis=1)
    K = kernels.covariance(graph, model.kernel, X, model.Z)
    if beta.ndim == 1:
        return _of_one(graph, K, beta, F)
    products = K @ F.transpose(0, 2, 1)  # shape (C, n, m)
    squares = graph.reduce("ReduceSum", products * products, 2, keep=False)
    return K @ beta.T, graph.apply("Transpose", squares, perm=[1, 0])


def _of_one(graph: Graph, K: Value, beta: Floats, F: Floats) -> tuple[Value, Value]:
    """kᵀβ and ‖F k‖² of one latent function for K of shape (n, m): each (n, 1)."""
    products = K @ F.T
    return K @ beta[:, None], graph.reduce("ReduceSum", products * products, 1)


def _code(graph: Graph, p: Value) -> Value:
    """The number of the most probable class, shape (n,)."""
    return graph.apply("ArgMax", p, axis=1, keepdims=0)


def _labels(classes: NDArray[Any]) -> NDArray[Any]:
    """The labels in a type that ONNX has: int64, bool, float64 or text."""
    kind = classes.dtype.kind
    if kind in "iu":
        return classes.astype(np.int64)
    if kind in "bf":
        return classes.astype(bool if kind == "b" else np.float64)
    return np.array([str(label) for label in classes], object)
