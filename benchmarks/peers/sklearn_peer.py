"""scikit-learn: its exact Gaussian process, what a user would pick, and one against the rest."""

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
from sklearn.multiclass import OneVsRestClassifier

from sepgp import GPClassifier

EXACT_ROWS = 500
"""What the exact process is trained on: its cost grows with the cube of the rows."""
TRIAL_STEPS = 5, 25
"""From whose difference the time of a step is known."""
MANY_FEATURES = 50
"""Above this, the exact process has one length-scale for all features."""


def exact_process(rows: Rows) -> ClassifierMixin:
    """scikit-learn's Gaussian process (Laplace), with the kernel that the others have."""
    d = rows.X.shape[1]
    scales = np.full(d if d <= MANY_FEATURES else 1, rows.lengthscale)
    return GaussianProcessClassifier(ConstantKernel() * Matern(scales, (1e-2, 1e3), nu=1.5))


def boosted_trees(rows: Rows) -> ClassifierMixin:
    """300 rounds; with many classes the usual 100, since small sets are overfitted by more."""
    rounds = 300 if rows.n_classes == 2 else 100
    return HistGradientBoostingClassifier(max_iter=rounds, random_state=0)


def one_against_the_rest(rows: Rows, seconds: float) -> ClassifierMixin:
    """sepgp for each class, with as many steps as the seconds allow, by the time of some."""

    def classifier(steps: int) -> GPClassifier:
        return GPClassifier(
            inducing=rows.Z,
            standardize=False,
            max_iter=steps,
            batch_size=2000,
            validation_fraction=0.0,
            random_state=0,
        )

    times = []
    for steps in TRIAL_STEPS:
        begin = time.process_time()
        classifier(steps).fit(rows.X, rows.y == 0)
        times.append(time.process_time() - begin)
    step = (times[1] - times[0]) / (TRIAL_STEPS[1] - TRIAL_STEPS[0])
    return OneVsRestClassifier(classifier(max(10, round(seconds / rows.n_classes / step))))


MODELS = {
    "exact process": exact_process,
    "logistic regression": lambda rows: LogisticRegression(max_iter=200),
    "boosted trees": boosted_trees,
}


class Tasks:
    """What a driver may ask."""

    def __init__(self) -> None:
        self._libraries = contest.peak_memory()

    def fit(
        self, folder: str, model: str, budget: float = 0.0, processor: bool = False
    ) -> dict[str, Any]:
        """Fit one of `MODELS`: seconds, test NLL, and rows per second in prediction.

        The budget is for one against the rest. Seconds may be those of the processor.
        """
        rows = contest.read(folder, "float64")
        n = EXACT_ROWS if model == "exact process" else len(rows.y)
        now = time.process_time if processor else time.perf_counter
        if model == "one against the rest":
            estimator = one_against_the_rest(rows, budget)
        else:
            estimator = MODELS[model](rows)
        begin = now()
        estimator.fit(rows.X[:n], rows.y[:n])
        seconds = now() - begin
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
