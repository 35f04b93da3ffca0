"""Classifiers in files, by skops: as data that is read without running any code of the file."""

import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.errors import InvalidParameter

TRUSTED = ["sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"]
"""Types beside those that skops trusts: the trees of boosted trees, whose nodes are checked."""


def library() -> Any:
    """The module `skops.io`."""
    try:
        import skops.io
    except ImportError:
        raise InvalidParameter(
            "mean is a classifier, which files keep by skops; install it by "
            "pip install 'sepgp[skops]'."
        ) from None
    return skops.io


def encoded(content: Any) -> NDArray[np.uint8]:
    """Classifiers in lists and dicts as bytes, shape (n,)."""
    skops = library()
    data = skops.dumps(content, compression=zipfile.ZIP_DEFLATED)
    unknown = skops.get_untrusted_types(data=data)
    others = sorted(set(unknown) - set(TRUSTED))
    if others:
        raise InvalidParameter(
            f"mean has a {others[0]}, which skops does not trust and a model file cannot keep; use "
            "another classifier, such as HistGradientBoostingClassifier, or pickle the model."
        )
    return np.frombuffer(data, np.uint8)


def decoded(data: NDArray[np.uint8]) -> Any:
    """What `encoded` was given; a ValueError or TypeError if it is nothing of the kind."""
    content = library().loads(data.tobytes(), trusted=TRUSTED)
    for boosted in _boosted(content, set()):
        for stage in boosted._predictors:
            for tree in stage:
                _check(tree, int(boosted.n_features_in_))
    return content


def _boosted(value: Any, seen: set[int]) -> Iterator[Any]:
    """The boosted trees in a value, wherever they are."""
    if id(value) in seen or isinstance(value, np.ndarray | str | bytes | int | float | type(None)):
        return
    seen.add(id(value))
    if hasattr(value, "_predictors"):
        yield value
    inside = getattr(value, "__dict__", {}).values()
    if isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, list | tuple | set):
        inside = value
    for part in inside:
        yield from _boosted(part, seen)


def _check(tree: Any, n_features: int) -> None:
    """Raise a ValueError if a tree leads anywhere but down to its leaves: it is not checked again.

    Nodes are numbered from the root down.
    """
    nodes = tree.nodes
    here = np.arange(len(nodes))
    inner = nodes["is_leaf"] == 0
    feature = nodes["feature_idx"][inner]
    right = len(nodes) > 0 and bool(((feature >= 0) & (feature < n_features)).all())
    for child in ("left", "right"):
        to = nodes[child].astype(np.int64)[inner]
        right &= bool(((to > here[inner]) & (to < len(nodes))).all())
    sets = nodes["bitset_idx"][inner & (nodes["is_categorical"] == 1)]
    for bits in (tree.raw_left_cat_bitsets, tree.binned_left_cat_bitsets):
        right &= bool((sets < len(bits)).all())
    if not right:
        raise ValueError("a tree of the classifier has no end")
