"""An estimator that several threads use at the same time."""

import threading

import numpy as np
import pytest
from quick import blobs, quick

X, Y = blobs(200)
# Of one column and of three, so that a mixture of two models could not predict at all.
WIDE = np.column_stack([X, X[:, 0] * X[:, 1]])


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_predictions_during_training_mixed_two_models(how) -> None:
    """Attributes were set one after the other: 121 of 13,841 answers were off by up to .99."""
    model = quick(max_iter=3, n_inducing=5).fit(X, Y)
    models = [model.model_]
    done = threading.Event()
    wrong: list[object] = []
    seen = [0]

    def predict() -> None:
        while not done.is_set():
            try:
                answers.append(model.predict_proba(X[:20]))
            except Exception as error:
                wrong.append(error)
            seen[0] += 1

    answers: list[np.ndarray] = []
    reader = threading.Thread(target=predict)
    reader.start()
    for k in range(40):
        if how == "fit":
            # Labels are turned and kernels change, so that old sites under a new kernel are wrong.
            model.set_params(kernel=["rbf", "matern12"][k % 2], random_state=k)
            model.fit(X * (1 + k % 3), Y if k % 2 else 1 - Y)
        else:
            model.partial_fit(X[k : k + 40], Y[k : k + 40], classes=[0, 1])
        models.append(model.model_)
    done.set()
    reader.join()
    assert not wrong
    assert seen[0] > 40
    possible = np.array([fitted.probabilities(X[:20]) for fitted in models])
    for answer in answers:
        assert np.abs(possible - answer).max((1, 2)).min() < 1e-12


def test_a_failed_fit_leaves_the_model_as_it_was() -> None:
    model = quick(max_iter=3).fit(X, Y)
    before = model.model_
    with pytest.raises(ValueError, match="one class only"):
        model.fit(WIDE, np.zeros(len(X)))
    assert model.model_ is before
