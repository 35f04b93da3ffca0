"""Where the inducing points start."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float64]


def start_points(
    how: str,
    X: Floats,
    y: NDArray[Any],
    weight: Floats,
    n_inducing: int,
    rng: np.random.RandomState,
) -> Floats:
    """Choose at most `n_inducing` distinct points, shape (m, d), for scaled rows X, shape (n, d).

    Every class in y, shape (n,), gets a number of points in proportion to the root of its weight,
    so that a rare class is not left without any. "kmeans" takes the centres of a minibatch k-means
    in each class, "random" distinct rows. With no more than `n_inducing` distinct rows these are
    the points. Cost O(md) per row.
    """
    classes = np.unique(y)
    groups = [np.unique(X[y == label], axis=0, return_inverse=True) for label in classes]
    if max(len(rows) for rows, _ in groups) <= n_inducing:
        distinct = np.unique(np.concatenate([rows for rows, _ in groups]), axis=0)
        if len(distinct) <= n_inducing:
            return distinct
    weights = [
        np.bincount(inverse.ravel(), weight[y == label], len(rows))
        for label, (rows, inverse) in zip(classes, groups, strict=True)
    ]
    shares = np.sqrt([w.sum() for w in weights])
    sizes = np.array([len(rows) for rows, _ in groups])
    counts = allocate(shares, sizes, n_inducing)
    points = []
    # On a busy machine threads that wait for each other would take many times as long.
    with threadpool_limits(1):
        for (rows, _), w, count in zip(groups, weights, counts, strict=True):
            if count == len(rows):
                points.append(rows)
            elif how == "random":
                points.append(rows[np.sort(rng.choice(len(rows), count, replace=False))])
            elif count:
                kmeans = MiniBatchKMeans(count, max_iter=20, batch_size=4096, random_state=rng)
                points.append(kmeans.fit(rows, sample_weight=w).cluster_centers_)
    return np.unique(np.concatenate(points).astype(np.float64), axis=0)


def among(X: Floats, Z: Floats) -> bool:
    """Whether every row of X, shape (n, d), is one of the points Z, shape (m, d). Cost O((m + n)d).

    They are compared bit for bit, but for the sign of 0.
    """
    points = {point.tobytes() for point in Z + 0.0}  # −0 + 0 is 0
    return all(row.tobytes() in points for row in X + 0.0)


def cluster_centres(Z: Floats, n_clusters: int) -> Floats:
    """Centres of clusters of the points Z, shape (m, d): as many as asked for, or m if fewer."""
    if n_clusters >= len(Z):
        return Z
    centres: Floats = KMeans(n_clusters, random_state=0).fit(Z).cluster_centers_
    return centres


def allocate(shares: Floats, sizes: NDArray[np.int_], total: int) -> NDArray[np.int_]:
    """Split `total` in proportion to `shares`, no part above its size. All of shape (classes,).

    Every part has one at least if there are enough.
    """
    least = int(total >= len(sizes))
    counts: NDArray[np.int_] = np.clip((total * shares / shares.sum()).astype(int), least, sizes)
    while counts.sum() > total:
        counts[np.argmax(counts)] -= 1
    while counts.sum() < min(total, sizes.sum()):
        wanting = np.where(counts < sizes, total * shares / shares.sum() - counts, -np.inf)
        counts[np.argmax(wanting)] += 1
    return counts
