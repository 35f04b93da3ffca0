"""What all tests share."""

import os
import signal
from pathlib import Path

import pytest

# The last digits depend on the number of threads, and what the docs show was made with one.
os.environ["OMP_NUM_THREADS"] = "1"
# A shell starts jobs in the background deaf to Ctrl-C, and so would be the commands under test.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The one long check of scikit-learn, which sets a thousand steps, is in make test-all."""
    for item in items:
        if "check_class_weight_classifiers" in item.name:
            item.add_marker(pytest.mark.slow)


def pytest_itemcollected(item: pytest.Item) -> None:
    """mutmut 3.8 asks for a name that pytest 9.2 no longer has."""
    item._nodeid = item.nodeid


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with real data sets: $SEPGP_DATA, or ../shared/data beside the repository."""
    folder = Path(os.environ.get("SEPGP_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no data at {folder}; set SEPGP_DATA to the folder with the data sets")
    return folder
