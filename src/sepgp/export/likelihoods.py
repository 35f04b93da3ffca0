"""Probabilities of the classes as formulas of a graph."""

import numpy as np

from sepgp.export.graph import Graph, Value
from sepgp.export.normal import ndtr
from sepgp.likelihoods.multinomial import FINENESS, MOST_NODES, NOISE, REACH
from sepgp.likelihoods.quadrature import LOG_SQRT_2PI


def of_two(graph: Graph, mean: Value, variance: Value) -> Value:
    """Φ(−z) and Φ(z), shape (n, 2), for one latent function, shape (n, 1)."""
    z = mean / graph.apply("Sqrt", 1.0 + variance)
    return graph.apply("Concat", ndtr(graph, -z), ndtr(graph, z), axis=1)


def of_many(graph: Graph, mean: Value, variance: Value) -> Value:
    """P(f_c + ε_c is the largest), shape (n, C), for C latent functions, shape (n, C).

    As in `sepgp.likelihoods.multinomial`, but with as many nodes for all rows as one of them needs.
    """
    root = graph.apply("Sqrt", NOISE + variance)
    low, high = (graph.reduce("ReduceMax", mean + side * root, 1) for side in (-REACH, REACH))
    span = high - low
    n_nodes = _nodes(graph, span / graph.reduce("ReduceMin", root, 1))
    places = (graph.apply("Range", 0.0, n_nodes, 1.0) + 0.5) / n_nodes
    g = graph.insert(low + span * places, 1)  # shape (n, 1, nodes)
    z = (g - graph.insert(mean, 2)) / graph.insert(root, 2)
    log_below = graph.apply("Log", ndtr(graph, z))
    log_product = graph.reduce("ReduceSum", log_below, 1)
    share = graph.apply("Exp", log_product - log_below - 0.5 * (z * z) - LOG_SQRT_2PI)
    p = graph.reduce("ReduceSum", share, 2, keep=False) / root * span
    return p / graph.reduce("ReduceSum", p, 1)


def _nodes(graph: Graph, spans: Value) -> Value:
    """How many nodes the row needs whose span is the most roots of its narrowest class, shape ().

    Without rows it is what classes of equal variance need.
    """
    least = graph.constant(np.full((1, 1), 2 * REACH))
    most = graph.reduce("ReduceMax", graph.apply("Concat", spans, least, axis=0), 0, keep=False)
    needed = graph.apply("Ceil", FINENESS * graph.apply("Squeeze", most))
    return graph.apply("Min", needed, float(MOST_NODES))
