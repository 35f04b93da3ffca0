"""From the columns of rows to scaled features, as formulas of a graph."""

import itertools
import math

import numpy as np

from sepgp.data.columns.missing import SIGNS
from sepgp.data.columns.texts import LEVELS
from sepgp.data.encoding import Encoder, Number, Text, Time
from sepgp.data.logarithms import Logarithms
from sepgp.data.scaling import FARTHEST, LARGEST, Scaling
from sepgp.data.schema import Schema
from sepgp.errors import InvalidData
from sepgp.export.graph import Graph, Value


def features(graph: Graph, schema: Schema) -> Value:
    """The features, shape (n, d): of one input X, or of an input of shape (n, 1) per column."""
    if schema.encoding is None:
        return graph.input("X", np.float64, schema.n_columns)
    parts = [_encoded(graph, encoder) for encoder in schema.encoding.encoders]
    return graph.apply("Concat", *parts, axis=1)


def scaled(graph: Graph, scaling: Scaling, X: Value) -> Value:
    """`Scaling.apply` of features, shape (n, d)."""
    z = (X - scaling.mean) / scaling.scale
    if math.isfinite(scaling.tail):
        size = graph.apply("Abs", z)
        near = graph.apply("Min", size, np.minimum(scaling.far, LARGEST))
        beyond = graph.apply("Log", 1.0 + graph.apply("Max", near - scaling.tail, 0.0))
        pulled = graph.apply("Sign", z) * (scaling.tail + beyond + (size - near))
        z = graph.where(size > scaling.tail, pulled, z)
    z = graph.apply("Max", graph.apply("Min", z, FARTHEST), -FARTHEST)
    if scaling.logarithms is not None:
        return graph.apply("Concat", z, _logarithms(graph, scaling.logarithms, z), axis=1)
    return z if scaling.components is None else z @ scaling.components


def _logarithms(graph: Graph, found: Logarithms, z: Value) -> Value:
    """`Logarithms.apply` of standardised features, shape (n, d)."""
    t = (graph.apply("Gather", z, found.columns, axis=1) - found.origin) / found.unit
    logarithm = graph.apply("Sign", t) * graph.apply("Log", 1.0 + graph.apply("Abs", t))
    return (logarithm - found.mean) / found.deviation


def _encoded(graph: Graph, encoder: Encoder) -> Value:
    """The features of a column, shape (n, k)."""
    if isinstance(encoder, Time):
        raise InvalidData(
            f"Column {encoder.name!r} has dates, which ONNX has no type for; turn it into numbers "
            "before training, or leave it out."
        )
    if isinstance(encoder, Text) and encoder.folded:
        raise InvalidData(
            f"Column {encoder.name!r} has texts that differ in case or spaces only and were taken "
            "for one, which ONNX cannot do; write them alike before training."
        )
    if isinstance(encoder, Text) and encoder.means is not None:
        raise InvalidData(
            f"Column {encoder.name!r} has more than {LEVELS} texts, which count by the labels of "
            "their rows and are found by a hash, which ONNX cannot do; turn them into fewer before "
            "training, or leave it out."
        )
    if isinstance(encoder, Text):
        return _levels(graph, encoder)
    return _number(graph, encoder)


def _number(graph: Graph, encoder: Number) -> Value:
    x = graph.input(encoder.name, np.float64, 1)
    absent = graph.apply("IsNaN", x)
    filled = graph.where(absent, encoder.fill[0], x)
    if not encoder.missing:
        return filled
    return graph.apply("Concat", filled, graph.where(absent, 1.0, 0.0), axis=1)


def _levels(graph: Graph, encoder: Text) -> Value:
    """One-hot: a row of the unit matrix for every text."""
    texts = graph.apply("Squeeze", graph.input(encoder.name, str, 1), np.array([1]))
    another = len(encoder.levels)
    places = {level: place for place, level in enumerate(encoder.levels)}
    if encoder.missing:
        places = {sign: another + 1 for sign in _signs()} | places
    place = graph.apply(
        "LabelEncoder",
        texts,
        keys_strings=list(places),
        values_int64s=list(places.values()),
        default_int64=another,
    )
    return graph.apply("Gather", np.eye(len(encoder.features)), place)


def _signs() -> list[str]:
    """The signs for a missing value, in every mixture of upper and lower case."""
    cases = (itertools.product(*({c, c.upper()} for c in sign)) for sign in SIGNS)
    return sorted("".join(letters) for sign in cases for letters in sign)
