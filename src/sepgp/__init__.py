"""Gaussian process classification that scales: EP, SEP and ADF behind a scikit-learn estimator."""

import importlib
import logging
from typing import TYPE_CHECKING, Any

from sepgp.errors import InvalidData, InvalidParameter

if TYPE_CHECKING:
    from sepgp.classifier import GPClassifier, load
    from sepgp.gp import kernels

__all__ = ["GPClassifier", "InvalidData", "InvalidParameter", "kernels", "load"]
__version__ = "0.1.0"

logging.getLogger("sepgp").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is first asked for, so that the command line starts fast."""
    if name == "GPClassifier":
        return importlib.import_module("sepgp.classifier").GPClassifier
    if name == "kernels":
        return importlib.import_module("sepgp.gp.kernels")
    if name == "load":
        return importlib.import_module("sepgp.classifier").load
    raise AttributeError(f"module 'sepgp' has no attribute {name!r}")
