"""scikit-learn: its exact Gaussian process, and what a user would pick instead of any."""

import time
from typing import Any

import contest
import numpy as np
from contest import Rows
from sklearn.base import ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

EXACT_ROWS = 500
"""What the exact process is trained on: its cost grows with the cube of the rows."""
MANY_FEATURES = 50
"""Above this, the exact process has one length-scale for all features."""


def exact_process(rows: Rows) -> ClassifierMixin:
    """scikit-learn's Gaussian process (Laplace), with the kernel that the others have."""
    d = rows.X.shape[1]
    scales = np.full(d if d <= MANY_FEATURES else 1, rows.lengthscale)
    return GaussianProcessClassifier(ConstantKernel() * Matern(scales, (1e-2, 1e3), nu=1.5))


MODELS = {
    "exact process": exact_process,
    "logistic regression": lambda rows: LogisticRegression(max_iter=200),
    "boosted trees": lambda rows: HistGradientBoostingClassifier(max_iter=300, random_state=0),
}


class Tasks:
    """What a driver may ask."""

    def __init__(self) -> None:
        self._libraries = contest.peak_memory()

    def fit(self, folder: str, model: str) -> dict[str, Any]:
        """Fit one of `MODELS`: seconds, test NLL, and rows per second in prediction."""
        rows = contest.read(folder, "float64")
        n = EXACT_ROWS if model == "exact process" else len(rows.y)
        estimator = MODELS[model](rows)
        begin = time.perf_counter()
        estimator.fit(rows.X[:n], rows.y[:n])
        seconds = time.perf_counter() - begin
        begin = time.perf_counter()
        probabilities = estimator.predict_proba(rows.X_test)
        rate = len(rows.y_test) / (time.perf_counter() - begin)
        nll = log_loss(rows.y_test, probabilities)
        return {"seconds": seconds, "rows": n, "nll": nll, "predict": rate}

    def memory(self) -> dict[str, int]:
        """Bytes held at most: now, and before there were any rows."""
        return {"peak": contest.peak_memory(), "libraries": self._libraries}


if __name__ == "__main__":
    contest.serve(Tasks())
