"""What an estimator answers once it has a model."""

import os
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sepgp.data.inputs import Given
from sepgp.data.rows import Rows
from sepgp.data.scaling import Floats
from sepgp.evaluation.relevance import relevance
from sepgp.export import model as export
from sepgp.model import Model

Stream = str | os.PathLike[str] | Rows | Callable[..., Any] | Iterator[Any]
"""Rows that are read block by block: predictions of them are an iterator of one per block."""


class Fitted(ClassifierMixin, BaseEstimator):
    """Predictions and attributes of a classifier with a fitted model."""

    model_: Model
    """All that training found, set as a whole: other threads predict by the old or the new one."""

    @overload
    def predict_latent(self, X: Stream) -> Iterator[tuple[Floats, Floats]]: ...

    @overload
    def predict_latent(self, X: Any) -> tuple[Floats, Floats]: ...

    def predict_latent(self, X: Any) -> Any:
        """Mean and variance of f at the rows X: two arrays of shape (n,), or (n, C) for C > 2.

        For two classes `predict_proba` is Φ(mean/√(1 + variance)); a variance near the kernel's
        amplitude says that the model knows nothing there. Cost O(m² + md) per row.
        """
        return self._model_for(X).latent(X)

    @overload
    def decision_function(self, X: Stream) -> Iterator[Floats]: ...

    @overload
    def decision_function(self, X: Any) -> Floats: ...

    def decision_function(self, X: Any) -> Any:
        """For two classes z = mean/√(1 + variance) of f, shape (n,): P(classes_[1]) = Φ(z).

        For C > 2 the logarithms of the probabilities, shape (n, C).
        """
        model = self._model_for(X)
        return model.predict(X, model.likelihood.decision)

    @overload
    def predict_proba(self, X: Stream) -> Iterator[Floats]: ...

    @overload
    def predict_proba(self, X: Any) -> Floats: ...

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes at the rows X, shape (n, C), columns as `classes_`."""
        return self._model_for(X).probabilities(X)

    @overload
    def predict_log_proba(self, X: Stream) -> Iterator[Floats]: ...

    @overload
    def predict_log_proba(self, X: Any) -> Floats: ...

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of `predict_proba`, shape (n, C), exact for probabilities near 0 too."""
        return self._model_for(X).log_probabilities(X)

    @overload
    def predict(self, X: Stream) -> Iterator[NDArray[Any]]: ...

    @overload
    def predict(self, X: Any) -> NDArray[Any]: ...

    def predict(self, X: Any) -> Any:
        """The most probable class of each of the rows X, shape (n,)."""
        return self._model_for(X).labels(X)

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, target: str | None = None
    ) -> float:
        """The share of right labels; without y they are in `target`, or the column of training."""
        if y is not None:
            return float(super().score(X, y, sample_weight))
        model = self._fitted()
        given = Given(X, None, sample_weight, target or model.target, model.schema.names)
        return model.accuracy(given.rows())

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model as a graph of ONNX, which predicts without torch and sepgp.

        It has one input X, float64 of shape (n, d), or for tables with text or missing values an
        input of shape (n, 1) per column: float64 with NaN for missing, or text with "" for missing.
        Its outputs are label, probabilities, and mean and variance of f. Dates and kernels with
        code of their own are refused. Needs `sepgp[onnx]`.
        """
        export.write(self._fitted(), path)

    def _model_for(self, X: Any) -> Model:
        """The fitted model, after a warning of values of X that it cannot use as they are."""
        model = self._fitted()
        model.schema.warn_of_strange(X)
        return model

    def _fitted(self) -> Model:
        check_is_fitted(self)
        return self.model_

    classes_ = property(attrgetter("model_.classes"))
    n_features_in_ = property(attrgetter("model_.schema.n_columns"))
    encoding_ = property(attrgetter("model_.schema.encoding"))
    target_ = property(attrgetter("model_.target"))
    kernel_ = property(attrgetter("model_.kernel"))
    inducing_points_ = property(attrgetter("model_.inducing_points"))
    log_evidence_ = property(attrgetter("model_.log_evidence"))
    history_ = property(attrgetter("model_.history"))
    n_iter_ = property(attrgetter("model_.n_iter"))

    @property
    def feature_importances_(self) -> Floats:
        """The share of every column of X in how much f depends on them, shape (n_features_in_,).

        Sobol's total effect over the inducing points, see `sepgp.evaluation.relevance`; zeros if f
        is constant. It is computed anew at every look, in O(m²d) per column.
        """
        model = self._fitted()
        shares = relevance(model)
        return np.array([shares.get(name, 0.0) for name, _, _ in model.schema.columns])

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns of X, when it had names."""
        names = self.model_.schema.names
        if names is None:
            raise AttributeError("The rows of training had no names.")
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
