"""What all tests share."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with real data sets: $SEPGP_DATA, or ../shared/data beside the repository."""
    folder = Path(os.environ.get("SEPGP_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no data at {folder}; set SEPGP_DATA to the folder with the data sets")
    return folder
