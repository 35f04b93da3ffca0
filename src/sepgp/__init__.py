"""Gaussian process classification that scales: EP, SEP and ADF behind a scikit-learn estimator."""

from sepgp.classifier import GPClassifier
from sepgp.errors import InvalidData, InvalidParameter
from sepgp.gp import kernels

__all__ = ["GPClassifier", "InvalidData", "InvalidParameter", "kernels"]
__version__ = "0.1.0.dev0"
