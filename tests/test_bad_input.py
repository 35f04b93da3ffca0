"""Bad input gets one clear sentence and changes nothing."""

import copy
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from quick import METHODS, assert_one_sentence, blobs, quick
from sklearn.exceptions import NotFittedError

from sepgp import GPClassifier, InvalidData, InvalidParameter, kernels

X, Y = blobs(40, d=3)
TABLE = pd.DataFrame(X, columns=["age", "height", "colour"])
ONES = np.ones(len(X))
NUMBERS_AND_TEXT = X.astype(object)
NUMBERS_AND_TEXT[:, 1] = "red"


def changed(array: Any, where: Any, value: Any) -> Any:
    """A copy with some entries replaced."""
    array = array.astype(np.float64)
    array[where] = value
    return array


class Bad(NamedTuple):
    """What is handed in instead of something good, and the words of the complaint."""

    match: str
    X: Any = X
    y: Any = Y
    sample_weight: Any = None
    error: type[Exception] = InvalidData


BAD_DATA = {
    "NaN": Bad(
        r"X contains NaN in column 1 \(2 of 40 rows\); impute", changed(X, ([3, 5], 1), np.nan)
    ),
    "infinity": Bad(r"X contains infinity .* column 0 \(1 of 40", changed(X, (7, 0), np.inf)),
    "minus infinity": Bad("X contains infinity .* column 2", changed(X, (7, 2), -np.inf)),
    "infinity of both signs": Bad(
        "infinity .* column 2", changed(X, ([7, 8], 2), [np.inf, -np.inf])
    ),
    "infinity in a table": Bad("infinity .* column 'age'", TABLE.assign(age=-np.inf)),
    "columns of the same name": Bad(
        "X has several columns 'age'; give each its own name",
        TABLE.set_axis(["age", "height", "age"], axis=1),
    ),
    "mixed values in a column": Bad(
        r"column of mixed .*column colour", TABLE.assign(colour=[[1], "red"] * 20)
    ),
    "lists in a column": Bad(
        r"Column 'colour' has values of type list<.*, which is neither .*columns=\[",
        TABLE.assign(colour=[[1]] * 40),
    ),
    "an identifier": Bad(
        r"no column to learn from but those that are left out \('name'\); add one",
        pd.DataFrame({"name": [f"no {i}" for i in range(40)]}),
    ),
    "text in an array": Bad("X .* text .*column 1", NUMBERS_AND_TEXT),
    "text alone": Bad("X .* text .*column 0", np.full((40, 3), "red")),
    "no rows": Bad("0 sample", X[:0], Y[:0], error=ValueError),
    "no columns": Bad("0 feature", X[:, :0], error=ValueError),
    "one class": Bad("y contains one class only", y=np.full(40, "yes")),
    "one row": Bad("y contains one class only", X[:1], Y[:1]),
    "labels of several types": Bad(
        "y has labels of several types, int and str; give",
        y=np.array([*range(20), *"abcdefghijklmnopqrst"], dtype=object),
    ),
    "missing labels": Bad("y has no label in 20 rows; drop", y=np.where(Y == 1, np.nan, 0.0)),
    "missing text labels": Bad(
        "y has no label in 20 rows; drop", y=pd.Series(np.where(Y == 1, "yes", None))
    ),
    "missing labels of pandas": Bad(
        "y has no label in 20 rows; drop",
        y=pd.array(["yes", None] * 20, dtype=pd.StringDtype(na_value=pd.NA)),
    ),
    "whole numbers beyond 64 bits": Bad(
        "X has a column of mixed or unknown values .*; give",
        pd.DataFrame({"a": [10**30] * 40, "b": ["u", "v"] * 20}),
    ),
    "infinite labels": Bad("y contains .*inf", y=np.where(Y == 1, np.inf, 0.0)),
    "fewer labels than rows": Bad("y has 39 values but X has 40 rows; give one", y=Y[:-1]),
    "fewer rows than labels": Bad("y has 40 values but X has 39 rows; give one", X[:-1]),
    "negative weight": Bad("sample_weight .* negative", sample_weight=changed(ONES, 3, -1)),
    "NaN weight": Bad("sample_weight .* NaN", sample_weight=changed(ONES, 3, np.nan)),
    "infinite weight": Bad("sample_weight .* infinite", sample_weight=changed(ONES, 3, np.inf)),
    "weights too few": Bad(
        "sample_weight has 39 values but X has 40 rows", sample_weight=ONES[:-1]
    ),
    "weights all zero": Bad("sample_weight is zero for every row; give", sample_weight=0 * ONES),
    "weights of one class zero": Bad(
        "sample_weight leaves no row of class 0; give", sample_weight=Y
    ),
    "text weights": Bad("sample_weight", sample_weight=["heavy"] * 40),
    "table of weights": Bad("sample_weight", sample_weight=np.ones((40, 2))),
}
BAD_PARAMETERS = [
    *(
        ("n_inducing", value, "whole number of at least 1 or 'auto'")
        for value in (0, -1, 2.5, True, "ten", np.array([5, 6]))
    ),
    ("method", "vb", "unknown; choose one of 'auto', 'sep', 'ep', 'adf'"),
    ("method", None, "unknown; choose one of 'auto', 'sep', 'ep', 'adf'"),
    ("kernel", "matern", "unknown; choose one of .*'matern32'"),
    ("kernel", kernels.RBF, "unknown; choose one of"),
    ("kernel", kernels.RBF([1.0, 2.0]), "lengthscale has 2 values but .* 3 features; give"),
    ("dtype", "float16", "unknown; choose one of 'auto', 'float64', 'float32'"),
    ("dtype", np.float32, "unknown; choose one of 'auto', 'float64', 'float32'"),
    ("optimizer", "sgd", "unknown; choose one of 'adam', 'sign'"),
    ("site_step", "slow", "unknown; choose one of 'paper', 'average'"),
    ("site_step", -0.1, "number of at least 0"),
    ("device", "toaster", "device='toaster'"),
    ("inducing", "grid", "unknown; choose one of 'kmeans', 'random'"),
    ("inducing", X[:5, :2], r"shape \(5, 2\); give a finite array of shape \(n_inducing, 3\)"),
    ("inducing", X[0], "give a finite array of shape"),
    ("inducing", X[:0], "give a finite array of shape"),
    ("inducing", X[:5] * np.nan, "give a finite array of shape"),
    ("inducing", [["a", "b", "c"]], "give a finite array of shape"),
    ("max_iter", 0, "whole number of at least 1"),
    ("max_iter", 10.0, "whole number of at least 1"),
    ("batch_size", 0, "whole number of at least 1"),
    *(
        ("validation_fraction", value, "number of at least 0")
        for value in (-0.1, 1, np.nan, True, None, "a tenth")
    ),
    ("time_budget", -1, "number of at least 0"),
    ("time_budget", "1h", "number of at least 0"),
    ("tol", np.nan, "number of at least 0"),
    ("learning_rate", -0.1, "number of at least 0"),
    ("class_weight", {0: -1.0, 1: 1.0}, "negative"),
    ("class_weight", {0: np.nan, 1: 1.0}, "NaN"),
    ("class_weight", "equal", "balanced"),
]
EVERY_BAD_DATA = pytest.mark.parametrize("bad", BAD_DATA.values(), ids=BAD_DATA)
EVERY_BAD_PARAMETER = pytest.mark.parametrize(("name", "value", "match"), BAD_PARAMETERS)


@pytest.fixture
def fitted() -> GPClassifier:
    return quick(max_iter=3).fit(X, Y)


@EVERY_BAD_DATA
def test_bad_data_leaves_a_new_model_new(bad) -> None:
    model = quick()
    with pytest.raises(bad.error, match=bad.match) as caught:
        model.fit(bad.X, bad.y, bad.sample_weight)
    assert_one_sentence(str(caught.value))
    assert vars(model).keys() == model.get_params().keys()
    with pytest.raises(NotFittedError):
        model.predict(X)


@EVERY_BAD_DATA
def test_bad_data_leaves_a_fitted_model_as_it_was(bad, fitted) -> None:
    before, state = fitted.predict_proba(X), dict(vars(fitted))
    with pytest.raises(bad.error):
        fitted.fit(bad.X, bad.y, bad.sample_weight)
    assert vars(fitted) == state
    assert_array_equal(fitted.predict_proba(X), before)


@EVERY_BAD_PARAMETER
def test_bad_parameter_changes_nothing(name, value, match, fitted) -> None:
    model = quick(**{name: value})
    with pytest.raises(InvalidParameter, match=match) as caught:
        model.fit(X, Y)
    assert name in str(caught.value) or name == "kernel"
    assert_one_sentence(str(caught.value))
    assert vars(model).keys() == model.get_params(deep=False).keys()

    before, good = fitted.predict_proba(X), fitted.get_params(deep=False)
    with pytest.raises(InvalidParameter):
        fitted.set_params(**{name: value}).fit(X, Y)
    assert_array_equal(fitted.set_params(**good).predict_proba(X), before)


@pytest.mark.parametrize("value", [0, "vb", None])
def test_the_constructor_does_not_judge(value) -> None:
    assert GPClassifier(method=value, n_inducing=value).method is value


@pytest.mark.parametrize(
    "method",
    ["predict", "predict_proba", "predict_log_proba", "decision_function", "predict_latent"],
)
@pytest.mark.parametrize(
    ("rows", "error", "match"),
    [
        (X[:, :2], ValueError, "X has 2 features, but GPClassifier is expecting 3 features"),
        (changed(X, (3, 1), np.nan), InvalidData, "X contains NaN in column 1"),
        (changed(X, (3, 1), np.inf), InvalidData, "X contains infinity .* column 1"),
        (NUMBERS_AND_TEXT, InvalidData, "X .* text .*column 1"),
    ],
    ids=["columns", "NaN", "infinity", "text"],
)
def test_bad_rows_at_prediction(method, rows, error, match, fitted) -> None:
    with pytest.raises(error, match=match) as caught:
        getattr(fitted, method)(rows)
    assert_one_sentence(str(caught.value))


# --- partial_fit ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "y", "error", "match"),
    [
        (X[:, :2], Y, ValueError, "X has 2 features, but GPClassifier is expecting 3"),
        (X, Y + 1, InvalidData, r"label .*2.*, but the classes are"),
        (changed(X, (3, 1), np.nan), Y, InvalidData, "X contains NaN in column 1"),
        (X, Y[:-1], InvalidData, "y has 39 values but X has 40 rows"),
    ],
    ids=["columns", "label", "NaN", "lengths"],
)
@pytest.mark.parametrize("method", METHODS)
def test_bad_block_changes_nothing(method, X, y, error, match) -> None:
    good, labels = blobs(40, d=3)
    model = quick(method=method).partial_fit(good, labels)
    before, state = model.predict_proba(good), dict(vars(model))
    with pytest.raises(error, match=match) as caught:
        model.partial_fit(X, y)
    assert_one_sentence(str(caught.value))
    assert vars(model) == state
    assert_array_equal(model.predict_proba(good), before)


@pytest.mark.parametrize(
    ("y", "classes", "match"),
    [
        (0 * Y, None, "one class only"),
        (Y, [0], "classes contains one class only"),
        (Y, [], "classes is empty"),
        (Y, np.arange(1001), "1,001 classes"),
        (Y, [1, 2], r"label .*0.*, but the classes are"),
        (Y, ["a", "b"], r"label .*0.*, but the classes are"),
    ],
    ids=["one label", "one class", "no class", "too many classes", "other classes", "text classes"],
)
def test_bad_first_block_leaves_a_new_model_new(y, classes, match) -> None:
    model = quick()
    with pytest.raises(InvalidData, match=match) as caught:
        model.partial_fit(X, y, classes=classes)
    assert_one_sentence(str(caught.value))
    assert vars(model).keys() == model.get_params().keys()


# --- failures in the middle -------------------------------------------------------------------


class Interrupt:
    """A callback that is interrupted at its first step."""

    def __call__(self, record) -> None:
        if record.iteration % 10 == 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("batch_size", [10, None])
@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_interrupted_training_changes_nothing(method, batch_size, call) -> None:
    model = quick(method=method, batch_size=batch_size, warm_start=True, max_iter=10).fit(X, Y)
    twin = copy.deepcopy(model)
    model.set_params(callbacks=[Interrupt()])
    with pytest.raises(KeyboardInterrupt):
        getattr(model, call)(X[::-1], Y)
    model.set_params(callbacks=None)
    assert_array_equal(model.predict_proba(X), twin.predict_proba(X))
    assert_array_equal(model.fit(X, Y).predict_proba(X), twin.fit(X, Y).predict_proba(X))


def test_kernel_of_noise_alone_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="cannot be factorised"):
        quick(kernel=kernels.White()).fit(X, Y)


def test_single_function_as_callbacks_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"give a list, such as callbacks=\[function\]"):
        quick(callbacks=print).fit(X, Y)


def test_warm_start_with_other_labels_is_refused() -> None:
    model = quick(warm_start=True).fit(X, Y)
    with pytest.raises(InvalidData, match="use the same labels or warm_start=False"):
        model.fit(X, Y + 5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_weight_of_1e50_ended_in_an_error_of_torch(n_classes) -> None:
    X, y = blobs(60, 2)[0], np.arange(60) % n_classes
    weight = np.ones(60)
    weight[7] = 1e50
    with pytest.raises(InvalidData, match="sample_weight has a value of 1e") as caught:
        quick().fit(X, y, sample_weight=weight)
    assert_one_sentence(str(caught.value))
    weight[7] = 1e15
    assert np.isfinite(quick().fit(X, y, sample_weight=weight).predict_proba(X)).all()
