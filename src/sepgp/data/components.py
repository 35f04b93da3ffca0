"""Principal components of very many features.

With hundreds of features, such as pixels or embeddings, most directions of their space are noise to
a kernel: distances between rows are made of it, and cost most of the work. The kernel then sees the
first principal components of the standardised features instead.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from sepgp.data.scaling import Scaling

COMPONENTS = 50
"""Kept, at most."""
NUMBERS = 5 * 10**6
"""Rows × features that components are found from, at most, but ten rows for each component."""


def projected(scaling: Scaling, rows: NDArray[np.generic]) -> Scaling:
    """The scaling followed by the projection of rows, shape (k, d), on principal components.

    All of them are divided by the standard deviation of the first. Cost O(NUMBERS · q), once.
    """
    some = max(NUMBERS // rows.shape[1], 10 * COMPONENTS)
    scaled = scaling.standardize(rows[:: -(-len(rows) // some)])
    pca = PCA(min(COMPONENTS, *scaled.shape), svd_solver="randomized", random_state=0).fit(scaled)
    largest = np.sqrt(pca.explained_variance_[0])
    directions = pca.components_.T / (largest if largest > 0 else 1.0)
    directions[scaled.max(0) == scaled.min(0)] = 0.0  # else rounding, which constant features undo
    return scaling._replace(components=directions)
