"""Checks of what users hand in: one sentence that names the input, the fault and the remedy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.errors import InvalidData, InvalidParameter


def one_of(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value that is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise InvalidParameter(f"{name}={value!r} is unknown; choose one of {listed}.")


def at_least(name: str, value: Any, least: float, whole: bool = False) -> None:
    """Refuse a value that is not a number of at least `least`."""
    number = isinstance(value, (int, np.integer)) or (
        not whole and isinstance(value, (float, np.floating))
    )
    if isinstance(value, bool) or not number or not value >= least:
        kind = "a whole number" if whole else "a number"
        raise InvalidParameter(f"{name}={value!r} must be {kind} of at least {least}.")


def finite_columns(X: NDArray[Any], names: Sequence[str] | None) -> None:
    """Refuse rows X, shape (n, d), with NaN or infinity, and name the first column that has any."""
    if X.dtype.kind != "f" or np.isfinite(X.sum()):
        return
    bad = ~np.isfinite(X)
    if not bad.any():  # the sum itself overflowed
        return
    column = int(np.argmax(bad.any(0)))
    what = "NaN" if np.isnan(X[:, column]).any() else "infinity (inf)"
    name = f"{column}" if names is None else f"{names[column]!r}"
    raise InvalidData(
        f"X contains {what} in column {name} ({int(bad[:, column].sum())} of {len(X)} rows); "
        "impute these values or drop the rows."
    )


def same_length(X: NDArray[Any], y: NDArray[Any], what: str = "y") -> None:
    """Refuse rows X, shape (n, d), and values y of another length."""
    if len(X) != len(y):
        raise InvalidData(
            f"{what} has {len(y)} values but X has {len(X)} rows; give one value per row."
        )


def two_classes(y: NDArray[Any]) -> NDArray[Any]:
    """The two classes of the labels y, shape (n,), sorted; refuses any other number of classes."""
    classes = np.unique(y)
    if len(classes) < 2:
        raise InvalidData(
            f"y contains one class only ({classes[0]!r}); a classifier needs rows of two classes."
        )
    if len(classes) > 2:
        raise InvalidData(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"y has {len(classes)} classes; wrap the classifier in "
            "sklearn.multiclass.OneVsRestClassifier, or choose two classes."
        )
    return classes
