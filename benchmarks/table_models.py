"""The models of `tables.py`: sepgp, boosted trees, logistic regression, and other processes.

Each is a function of the rows to train with, raw features and labels 0 and 1, and of the seconds it
may take; it returns something with `predict_proba`. Those with settings to choose choose them by
rows of their own training part. A library that is not installed is an `ImportError`.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sepgp import GPClassifier

sys.path.append(str(Path(__file__).parent / "peers"))

Fit = Callable[[np.ndarray, np.ndarray, float], Any]
ALL_ROWS = 2_000
"""Up to so many rows sepgp has all of them in every step, and a number of steps as its default."""
GPBOOST_ROWS = 2_000
"""GPBoost has no time limit: Vecchia took 274 s for 187 rows of 60 features and 129 s for 5,404 of
five, and FITC more than six minutes for 6,750 of 28."""
GPYTORCH = {"dtype": "float32", "batch": 1000, "gamma": 0.1, "rate": 0.1}
"""Natural gradients beside Adam with a cosine, the settings that `peers` chose most often."""
BOOSTED = "learning_rate", "max_iter", "max_leaf_nodes", "min_samples_leaf", "l2_regularization"
LIGHT = "learning_rate", "n_estimators", "num_leaves", "min_child_samples", "reg_lambda"
EXTREME = "learning_rate", "n_estimators", "max_leaves", "min_child_weight", "reg_lambda"
"""What scikit-learn, LightGBM and XGBoost call the settings that are drawn."""


def process(X: np.ndarray, y: np.ndarray, seconds: float, mean: str | None = None) -> Any:
    """sepgp with its defaults; where all rows are in every step, its default number of steps."""
    budget = {} if len(y) <= ALL_ROWS else {"time_budget": seconds}
    return GPClassifier(random_state=0, mean=mean, **budget).fit(X, y)


def trees(X: np.ndarray, y: np.ndarray, seconds: float, **settings: Any) -> Any:
    """scikit-learn's boosted trees, by default with 100 rounds."""
    return HistGradientBoostingClassifier(random_state=0, **settings).fit(X, y)


def lightgbm(X: np.ndarray, y: np.ndarray, seconds: float, **settings: Any) -> Any:
    """LightGBM, by default with 100 rounds."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=0, verbose=-1, **settings).fit(X, y)


def xgboost(X: np.ndarray, y: np.ndarray, seconds: float, **settings: Any) -> Any:
    """XGBoost, by default with 100 rounds; with a number of leaves, these alone limit its trees."""
    from xgboost import XGBClassifier

    if "max_leaves" in settings:
        settings |= {"max_depth": 0, "grow_policy": "lossguide"}
    return XGBClassifier(random_state=0, **settings).fit(X, y)


def tuned(
    fit: Callable[..., Any],
    names: tuple[str, ...],
    X: np.ndarray,
    y: np.ndarray,
    seconds: float,
) -> Any:
    """The best on a tenth of the rows: the defaults, then random settings until time is over."""
    begin, random = time.perf_counter(), np.random.default_rng(0)
    X_fit, X_valid, y_fit, y_valid = train_test_split(
        X, y, test_size=0.1, stratify=y, random_state=0
    )
    best, settings, last = (np.inf, None), {}, 0.0
    while best[1] is None or time.perf_counter() - begin + last < seconds:
        started = time.perf_counter()
        model = fit(X_fit, y_fit, seconds, **settings)
        nll = log_loss(y_valid, model.predict_proba(X_valid)[:, 1])
        best = min(best, (nll, model), key=lambda pair: pair[0])
        last, settings = time.perf_counter() - started, drawn(names, random)
    return best[1]


def drawn(names: tuple[str, ...], random: np.random.Generator) -> dict[str, Any]:
    """Random settings of boosted trees."""
    values = (
        float(np.exp(random.uniform(np.log(0.02), np.log(0.2)))),
        int(random.choice([100, 200, 400, 800])),
        int(random.choice([7, 15, 31, 63, 127])),
        int(random.choice([5, 20, 50])),
        float(random.choice([0.0, 1.0, 10.0])),
    )
    return dict(zip(names, values, strict=True))


def logistic(X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
    """Logistic regression on standardised features."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(X, y)


class Scaled:
    """A peer that predicts one probability for each row of standardised features."""

    def __init__(self, scale: Callable[[np.ndarray], Any], predict: Callable[..., Any]) -> None:
        self._scale, self._predict = scale, predict

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Of both classes, shape (n, 2)."""
        p = np.asarray(self._predict(self._scale(X)))
        return np.column_stack([1 - p, p])


def gpytorch(X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
    """GPyTorch's stochastic variational process, as in `peers`: 200 points, same start."""
    import contest
    import sets
    from gpytorch_peer import LOOK_CHUNK, GPyTorch

    begin = time.perf_counter()
    scaling, Z, lengthscale = sets.start(X, y)

    def scale(rows: np.ndarray) -> np.ndarray:
        return scaling.apply(rows).astype(GPYTORCH["dtype"])

    codes = y.astype(np.int8)
    rows = contest.Rows(scale(X), codes, scale(X[:0]), codes[:0], Z, lengthscale, 2)
    kernels = 1 if X.shape[1] > 100 else 2
    batch = min(GPYTORCH["batch"], len(y))
    peer = GPyTorch(rows, GPYTORCH | {"kernels": kernels, "batch": batch}, 0)
    while (spent := time.perf_counter() - begin) < seconds:
        peer.step(contest.cosine(spent / seconds))
    return Scaled(scale, peer.predictor(LOOK_CHUNK))


def gpboost(X: np.ndarray, y: np.ndarray, seconds: float, approximation: str) -> Any:
    """GPBoost's Laplace approximation with FITC or Vecchia, a Matérn 3/2 kernel, few rows."""
    from gpboost import GPModel

    if len(y) > GPBOOST_ROWS:
        raise ValueError(f"not tried with more than {GPBOOST_ROWS:,} rows")
    scaler = StandardScaler().fit(X)
    model = GPModel(
        gp_coords=scaler.transform(X),
        cov_function="matern_ard",
        cov_fct_shape=1.5,
        likelihood="bernoulli_probit",
        gp_approx=approximation,
        num_ind_points=min(200, len(y)) if approximation == "fitc" else None,
        seed=0,
    ).fit(y.astype(np.float64))
    return Scaled(scaler.transform, lambda rows: model.predict(gp_coords_pred=rows)["mu"])


REFERENCE = "trees"
OURS = ("sepgp", "sepgp, mean=trees")
MODELS: dict[str, Fit] = {
    REFERENCE: trees,
    "trees, 300 rounds": partial(trees, max_iter=300),
    "lightgbm": lightgbm,
    "xgboost": xgboost,
    "logistic": logistic,
    OURS[0]: process,
    OURS[1]: partial(process, mean="trees"),
    "tuned trees": partial(tuned, trees, BOOSTED),
    "tuned lightgbm": partial(tuned, lightgbm, LIGHT),
    "tuned xgboost": partial(tuned, xgboost, EXTREME),
    "gpytorch": gpytorch,
    "gpboost, FITC": partial(gpboost, approximation="fitc"),
    "gpboost, Vecchia": partial(gpboost, approximation="vecchia"),
}
UNTIMED = {REFERENCE, "trees, 300 rounds", "lightgbm", "xgboost", "logistic"}
"""Models that take as long as they need, whatever they may."""
MOST_SPLITS = {
    "tuned trees": 5,
    "tuned lightgbm": 5,
    "tuned xgboost": 5,
    "gpytorch": 5,
    "gpboost, FITC": 1,
    "gpboost, Vecchia": 1,
}
"""On sets with many splits slow models see the first few."""
