"""What is said to help most: time, inducing points, rows or columns."""

from dataclasses import replace

import numpy as np
import pytest
from quick import blobs, quick

from sepgp.data.rows.array import ArrayRows
from sepgp.evaluation.advice import advice, advice_on, last_fall, left_open

HISTORY = {"seconds": np.arange(1.0, 11.0), "validation_nll": np.full(10, np.nan)}


def history(**nll):
    """Ten seconds, with the NLL of held-out rows in some of them: `at3=0.5`."""
    values = HISTORY["validation_nll"].copy()
    for name, value in nll.items():
        values[int(name.removeprefix("at")) - 1] = value
    return HISTORY | {"validation_nll": values}


@pytest.fixture(scope="module")
def model():
    """Two features and a third that says nothing, many rows, and few inducing points."""
    X, y = blobs(400, 3)
    X[:, 2] = np.random.default_rng(1).normal(size=len(X))
    return quick(max_iter=60).fit(X, y).model_


def test_a_training_that_still_falls_at_its_end_wants_time(model):
    falling = replace(model, history=history(at2=0.7, at7=0.5, at10=0.45))
    words = advice(falling, np.zeros((1, 3)), 0.1, 0.9, {})
    assert words.startswith("more time, since the negative log-likelihood")
    assert "0.0500 in the last 20" in words


@pytest.mark.parametrize(
    ("nll", "fall"),
    [
        ({}, 0.0),
        ({"at10": 0.4}, 0.0),  # nothing before it to compare with
        ({"at5": 0.4, "at10": 0.4}, 0.0),
        ({"at5": 0.4, "at10": 0.5}, 0.0),  # the best was before
        ({"at5": 0.4, "at8": 0.5, "at9": 0.3}, 0.1),
    ],
)
def test_what_counts_is_the_lowest_nll_before_the_last_part(nll, fall):
    assert last_fall(history(**nll)) == pytest.approx(fall)


def test_noise_asks_for_columns(model):
    assert advice(model, np.zeros((1, 3)), 0.7, 0.3, {}).startswith("better columns")
    assert advice(model, np.zeros((1, 3)), 0.0, 0.0, {}).startswith("better columns")


def test_variance_far_from_the_inducing_points_asks_for_more_of_them(model):
    far = np.full((5, 3), 1e3)
    assert left_open(model, far) == pytest.approx(1.0)
    assert advice(model, far, 0.3, 0.7, {}).startswith("more inducing points than 10, since 70")


def test_points_at_all_rows_cannot_be_more(model):
    every = replace(model, n_seen=len(model.Z))
    assert advice(every, np.full((5, 3), 1e3), 0.3, 0.7, {}).startswith("more rows")


def test_variance_at_the_inducing_points_asks_for_rows(model):
    near = model.inducing_points
    assert left_open(model, near) < 0.05
    assert advice(model, near, 0.3, 0.7, {}).startswith("more rows, since 70")


def test_idle_columns_are_named(model):
    shares = {"a": 0.9, "b": 0.0995, **dict.fromkeys(("c", "d", "e", "f"), 1e-4)}
    words = advice(model, model.inducing_points, 0.3, 0.7, shares)
    assert words.startswith("more rows, or fewer columns (c, d, e and 1 more hardly matter), since")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_sample_of_rows_is_enough(n_classes):
    X, y = blobs(90)
    y = np.arange(90) % n_classes
    fitted = quick().fit(X, y).model_
    assert advice_on(fitted, ArrayRows(X, y)).endswith(".")
