"""Where the inducing points start."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sepgp.gp.inducing import allocate, among, cluster_centres, start_points

HOW = pytest.mark.parametrize("how", ["kmeans", "random"])


def start(how, X, y, m, weight=None, seed=0):
    weight = np.ones(len(X)) if weight is None else weight
    return start_points(how, X, y, weight, m, np.random.RandomState(seed))


def rows(n: int = 400, d: int = 2) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d))


def nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return np.abs(points[:, None] - centres).sum(2).argmin(1)


@HOW
def test_few_distinct_rows_are_the_points(how) -> None:
    X = np.repeat(rows(5), 3, axis=0)
    for m in (5, 6):
        assert_array_equal(start(how, X, np.arange(15) % 2, m), np.unique(X, axis=0))
    assert len(start(how, X, np.arange(15) % 2, 4)) <= 4


def test_rows_that_are_all_points() -> None:
    Z = rows(5)
    assert among(Z[[3, 0, 0]], Z)
    assert not among(rows(6), Z)
    assert not among(Z * (1 + 1e-12), Z)
    assert among(np.array([[0.0, 1.0]]), np.array([[-0.0, 1.0]]))


@HOW
def test_classes_share_the_points_by_the_roots_of_their_weights(how) -> None:
    """Classes far from each other, with 360 and 40 rows of weight 1: points as 3 to 1."""
    y = (np.arange(400) >= 360).astype(int)
    X = rows() + 100 * y[:, None]
    points = start(how, X, y, 20)
    assert points.shape == (20, 2)
    assert_array_equal(np.bincount(nearest(points, np.array([[0, 0], [100, 100]]))), [15, 5])
    # Rows of the second class that count 81 times turn it round: 360 against 3,240.
    points = start(how, X, y, 20, np.where(y, 81.0, 1.0))
    assert_array_equal(np.bincount(nearest(points, np.array([[0, 0], [100, 100]]))), [5, 15])


@HOW
def test_a_class_of_one_row_has_that_row(how) -> None:
    X = rows()
    y = np.arange(400) == 7
    points = start(how, X, y, 10)
    assert len(points) == 10
    assert (points == X[7]).all(1).any()


def test_random_points_are_distinct_rows() -> None:
    X, y = np.repeat(rows(50), 4, axis=0), np.arange(200) % 3
    points = start("random", X, y, 30)
    assert len(np.unique(points, axis=0)) == len(points)
    assert all((point == X).all(1).any() for point in points)
    assert_array_equal(start("random", X, y, 30), points)
    assert not np.array_equal(start("random", X, y, 30, seed=1), points)


def test_kmeans_finds_clusters_and_heeds_weights() -> None:
    """Four tight clusters have a point each, at the weighted mean of their rows."""
    corners = 10 * np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    which = np.arange(400) % 4
    X = corners[which] + 0.1 * rows()
    weight = np.where(X[:, 0] > corners[which, 0], 5.0, 1.0)
    points = start("kmeans", X, np.zeros(400), 4, weight)
    of_rows = nearest(X, points)
    assert len(set(of_rows)) == 4
    for k, point in enumerate(points):
        mine = of_rows == k
        assert_allclose(point, np.average(X[mine], axis=0, weights=weight[mine]), atol=0.03)
        assert point[0] > X[mine, 0].mean() + 0.03


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.01, 100), st.integers(1, 50)), min_size=1, max_size=8),
    st.integers(1, 120),
)
def test_a_total_is_split_in_proportion_as_far_as_sizes_allow(parts, total) -> None:
    shares, sizes = np.array([p[0] for p in parts]), np.array([p[1] for p in parts])
    counts = allocate(shares, sizes, total)
    assert counts.sum() == min(total, sizes.sum())
    assert (counts <= sizes).all()
    assert (counts >= (total >= len(parts))).all()
    wanted = total * shares / shares.sum()
    if (wanted >= 1).all() and (wanted <= sizes).all():
        assert (np.abs(counts - wanted) < 1).all()


def test_what_one_class_cannot_take_is_split_evenly_among_the_others() -> None:
    assert_array_equal(allocate(np.array([9.0, 3.0, 1.0]), np.array([2, 50, 50]), 13), [2, 7, 4])
    assert_array_equal(allocate(np.array([1.0, 1.0, 98.0]), np.array([9, 9, 90]), 10), [1, 1, 8])


def test_cluster_centres_are_the_means_of_clusters() -> None:
    Z = np.repeat([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], 20, axis=0) + 0.1 * rows(60)
    centres = cluster_centres(Z, 3)
    of_rows = nearest(Z, centres)
    assert_allclose(centres, [Z[of_rows == k].mean(0) for k in range(3)])
    assert set(of_rows) == {0, 1, 2}
    for k in (60, 61):
        assert cluster_centres(Z, k) is Z
    assert len(cluster_centres(Z, 59)) == 59
