"""A small problem and a classifier that trains on it in a moment, for tests of the estimator."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp import GPClassifier

METHODS = ("sep", "ep", "adf")


def quick(**changes: Any) -> GPClassifier:
    """A classifier for tests in which the quality of the fit does not matter."""
    return GPClassifier(**({"n_inducing": 10, "max_iter": 20, "random_state": 0} | changes))


def blobs(n: int = 60, d: int = 2, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """n rows in two clouds that overlap a little, shape (n, d), and their labels 0 and 1."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return random.normal(size=(n, d)) + 3 * y[:, None] / np.sqrt(d), y


def assert_one_sentence(message: str) -> None:
    """One line with one full stop, at its end."""
    assert "\n" not in message
    assert not re.search(r"\. ", message)
    assert len(message) < 400
