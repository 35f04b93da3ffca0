"""Data sets of the catalogue from OpenML, through scikit-learn."""

from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np

from sepgp.errors import InvalidData
from sepgp.experiments.catalogue import CATALOGUE, DataSet, described, store
from sepgp.files.atomic import Location


def fetch(name: str, folder: Location | None = None) -> Path:
    """Download a data set into a folder, or into that of SEPGP_DATA; return the path of its file.

    What OpenML sends must have the rows that the catalogue knows, or nothing is written.
    """
    file = described(name).file
    entry = next(entry for entry in CATALOGUE.values() if entry.file == file)
    if entry.openml is None:
        known = ", ".join(e.name for e in CATALOGUE.values() if e.openml is not None)
        raise InvalidData(
            f"OpenML does not have {name} in this form; put {file} into the folder yourself "
            f"(it is made from {entry.source}), or fetch one of {known}."
        )
    try:
        from sklearn.datasets import fetch_openml

        name_, version = entry.openml.name, entry.openml.version
        table = fetch_openml(name_, version=version, as_frame=True, parser="auto")
    except (URLError, OSError) as error:
        raise InvalidData(
            f"OpenML cannot be reached for {name} ({error}); "
            f"connect to the internet, or put {file} into the folder yourself."
        ) from error
    return store(entry.name, *_rows(table.data, table.target, entry), folder)


def _rows(features: Any, target: Any, entry: DataSet) -> tuple[Any, Any]:
    """Complete rows as numbers: X, shape (n, d), and y, shape (n,)."""
    assert entry.openml is not None
    if features.shape[1] != len(entry.features):
        raise InvalidData(
            f"OpenML's {entry.openml.name} has {features.shape[1]} features instead of "
            f"{len(entry.features)}; put the original {entry.file} into the folder yourself."
        )
    complete = features.notna().all(axis=1).to_numpy()
    # Columns of categories hold numbers as text.
    X = np.column_stack([features[c].astype(str).to_numpy(np.float64) for c in features])
    labels = target.astype(str).to_numpy()
    if entry.openml.positive is None:
        return X[complete].astype(np.uint8), labels[complete].astype(np.uint8)
    return X[complete], (labels[complete] == entry.openml.positive).astype(np.int8)
