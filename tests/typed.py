"""What type checkers say of predictions; read by mypy in `test_package.py`, never run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from sepgp import GPClassifier

Floats = NDArray[np.float64]


def predictions(model: GPClassifier, X: NDArray[np.float64], path: Path) -> None:
    assert_type(model.predict_proba(X), Floats)
    assert_type(model.predict_latent(X), tuple[Floats, Floats])
    assert_type(model.predict(X), NDArray[Any])
    assert_type(model.predict_proba(path), Iterator[Floats])
    assert_type(model.predict_latent("rows.parquet"), Iterator[tuple[Floats, Floats]])
