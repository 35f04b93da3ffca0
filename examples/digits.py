"""Handwritten digits, odd against even: SEP beside two classifiers of scikit-learn."""

import time
from typing import NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from sepgp import GPClassifier, report


class Result(NamedTuple):
    name: str
    nll: float
    error: float
    seconds: float
    rows_per_second: float


def models(n_features: int) -> dict[str, ClassifierMixin]:
    # Standardised rows lie about √d apart, and from a length-scale of 1 the optimiser gets nowhere.
    kernel = ConstantKernel() * RBF(length_scale=np.sqrt(n_features))
    return {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
        "full GP, Laplace (scikit-learn)": make_pipeline(
            StandardScaler(), GaussianProcessClassifier(kernel)
        ),
        "sparse GP, SEP (sepgp)": GPClassifier(random_state=0),
    }


def evaluate(name, model, X_train, X_test, y_train, y_test) -> Result:
    begin = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - begin
    probabilities = model.predict_proba(X_test)
    return Result(
        name,
        nll=log_loss(y_test, probabilities),
        error=100 * np.mean(probabilities.argmax(axis=1) != y_test),
        seconds=seconds,
        rows_per_second=len(X_train) / seconds,
    )


def main() -> None:
    X, digit = load_digits(return_X_y=True)
    odd = digit % 2
    split = train_test_split(X, odd, test_size=0.3, stratify=odd, random_state=0)
    n_train, n_test = len(split[0]), len(split[1])
    print(f"Digits, odd against even: {n_train} training rows, {n_test} held-out rows.")
    print("NLL is the mean negative log-likelihood of a held-out row, in nats; rows/s is training")
    print("rows / fit seconds, however often a row is visited. Every model has one thread.")
    print("The full GP has one RBF length-scale, SEP two Matérn kernels with one per feature.")
    print()
    print(f"{'model':<32}{'NLL':>8}{'error %':>9}{'fit s':>8}{'rows/s':>9}", flush=True)

    candidates = models(X.shape[1])
    results = []
    for name, model in candidates.items():
        # On a busy machine two threads can be many times slower than one.
        with threadpool_limits(limits=1):
            result = evaluate(name, model, *split)
        results.append(result)
        print(
            f"{name:<32}{result.nll:>8.4f}{result.error:>9.2f}"
            f"{result.seconds:>8.2f}{result.rows_per_second:>9.0f}",
            flush=True,
        )

    sep = candidates[results[-1].name]
    linear, full, sparse = results
    print()
    m = len(sep.inducing_points_)
    print(f"SEP: log evidence {sep.log_evidence_:.1f}, {m} inducing points.")
    print(
        f"Shown: held-out NLL of SEP {sparse.nll:.4f}, of the full GP {full.nll:.4f}, "
        f"of logistic regression {linear.nll:.4f}."
    )
    report.write(sep, split[1], split[3], "demo.html", title="Handwritten digits, odd against even")
    print("demo.html: a report on SEP and the held-out rows; open it in a browser.")


if __name__ == "__main__":
    main()
