"""`GPClassifier`: the scikit-learn shell around the engine. No mathematics here."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from sepgp import training, validation
from sepgp.data.arrays import ArraySource, merged
from sepgp.data.scaling import Floats, Scaling, identity, standardization
from sepgp.errors import InvalidData, InvalidParameter
from sepgp.gp.fitc import Natural
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.inducing import start_points
from sepgp.gp.kernels import KERNELS, Kernel
from sepgp.gp.predictor import Predictor, predict, predictor
from sepgp.progress import ProgressLine

DTYPES = {"float64": torch.float64, "float32": torch.float32}
CHUNK = 4096
"""Rows predicted at a time: prediction never holds more than CHUNK × m numbers."""
MINIBATCH = 2000
"""Rows in a batch, unless told otherwise; a set of no more rows is one batch."""
REFINEMENTS = 4
"""How often `partial_fit` goes over new rows again once it has absorbed them."""


class GPClassifier(ClassifierMixin, BaseEstimator):
    """Sparse Gaussian process classifier with a probit likelihood, trained by EP, SEP or ADF.

    The model is y = sign(f(x) + ε) with ε standard normal and f a Gaussian process that m
    inducing points summarise (FITC). Training refines the approximate likelihood factors and
    learns kernel parameters and inducing points by gradient ascent on the evidence log Z_q, one
    step of each per batch. Cost per step: O(m³) + O(m² + md) per row of the batch.

    Parameters
    ----------
    method : {"sep", "ep", "adf"}
        "sep" (stochastic expectation propagation) needs O(m²) memory however many rows there
        are. "ep" keeps a factor per row: O(n) numbers when one batch holds all rows, O(nm) with
        minibatches. "adf" is the baseline that counts a row anew each time it is seen.
    n_inducing : int
        The number m of inducing points; fewer are used if there are fewer distinct rows.
    inducing : {"kmeans", "random"} or array of shape (m, d)
        Where the inducing points start. An array is in the units of X and sets m.
    kernel : Kernel, {"rbf", "matern12", "matern32", "matern52"}
        The covariance function; see `sepgp.kernels`.
    batch_size : int or None
        Rows per step. None takes all rows up to 2,000, and else minibatches of 2,000.
    learn_kernel, learn_inducing : bool
        Whether gradients move the kernel's parameters and the inducing points.
    max_iter : int or None
        Steps. None takes 250 when every step sees all rows and 1,000 with minibatches, or with a
        time budget as many as fit into it.
    time_budget : float or None
        Wall-clock seconds for training. The learning-rate schedule fits itself to it.
    learning_rate : float or None
        Of the optimiser at the start; with "adam" it falls to 0 along a half cosine. None takes
        0.2 when every step sees all rows and 0.03 otherwise; with "sign" it takes 0.01.
    optimizer : {"adam", "sign"}
        "sign" is the batch rule of the paper's authors: a step size per parameter.
    site_step : {"paper", "average"} or float
        The step ρ of SEP's tied site. "paper" is s/n, a batch's share of the rows; "average"
        weighs all batches of the first epoch alike; a number is a floor under "average". The
        last two stay at or below ½, since larger steps can keep the site from settling.
    class_weight : dict, "balanced" or None
        Weights of the classes, multiplied into `sample_weight`.
    standardize : bool
        Whether features are shifted and scaled to mean 0 and variance 1, and values beyond two
        standard deviations drawn in; see `sepgp.data.scaling.Scaling`.
    tol : float or None
        Training stops when log Z_q per row grows by less than this from one epoch (at least ten
        steps) to the next.
    random_state : int, RandomState or None
        Seeds the inducing points and the order of the rows.
    warm_start : bool
        Whether `fit` goes on from the kernel, inducing points and factors of the last fit.
    verbose : bool or int
        Whether a progress line is shown.
    device : str
        Torch device that trains and predicts.
    dtype : {"float64", "float32"}
        Precision of the work on rows. Work on m × m matrices is always in float64.
    callbacks : sequence of callables or None
        Each is called after every step with a `sepgp.training.Record`; training stops when one
        returns True.

    Attributes
    ----------
    classes_ : array of shape (2,)
    n_features_in_ : int
    feature_names_in_ : array of shape (d,), when X had column names
    kernel_ : Kernel
        With its learned parameters; length-scales are in standardised units.
    inducing_points_ : array of shape (m, d)
        In the units of X.
    log_evidence_ : float
        log Z_q, averaged over the last epoch (with one batch for all rows: exact).
    n_iter_ : int
    history_ : dict of arrays, each of shape (n_iter_,)
        A table with a row per step: see `sepgp.training.Record`.
    """

    def __init__(
        self,
        method: str = "sep",
        n_inducing: int = 200,
        inducing: str | ArrayLike = "kmeans",
        kernel: str | Kernel = "matern32",
        batch_size: int | None = None,
        learn_kernel: bool = True,
        learn_inducing: bool = True,
        max_iter: int | None = None,
        time_budget: float | None = None,
        learning_rate: float | None = None,
        optimizer: str = "adam",
        site_step: str | float = 0.02,
        class_weight: dict[Any, float] | str | None = None,
        standardize: bool = True,
        tol: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        verbose: bool | int = False,
        device: str = "cpu",
        dtype: str = "float64",
        callbacks: Sequence[Callable[[training.Record], bool | None]] | None = None,
    ) -> None:
        self.method = method
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.kernel = kernel
        self.batch_size = batch_size
        self.learn_kernel = learn_kernel
        self.learn_inducing = learn_inducing
        self.max_iter = max_iter
        self.time_budget = time_budget
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.site_step = site_step
        self.class_weight = class_weight
        self.standardize = standardize
        self.tol = tol
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.device = device
        self.dtype = dtype
        self.callbacks = callbacks

    # ------------------------------------------------------------------ training

    classes_: NDArray[Any]
    _scaling: Scaling
    _Z: torch.Tensor
    _sites: training.Sites
    _predictor: Predictor
    _n_seen: float
    _iteration: int

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on rows X, shape (n, d), with two kinds of labels y, shape (n,).

        `sample_weight`, shape (n,): a row of weight w counts as w copies of it.
        """
        with _unchanged_on_error(self):
            warm = self.warm_start and hasattr(self, "kernel_")
            rows, signs, weight, classes = self._check_training(X, y, sample_weight, reset=not warm)
            if warm and not np.array_equal(classes, self.classes_):
                raise InvalidData(
                    f"y has the classes {classes.tolist()}, but the model to go on from has "
                    f"{self.classes_.tolist()}; use the same labels or warm_start=False."
                )
            self.classes_ = classes
            rng = check_random_state(self.random_state)
            seed = int(rng.randint(2**31 - 1))
            if not warm:
                self._start(rows, signs, weight, rng)
            source = self._source(rows, signs, weight, seed)
            settings = self._settings(source)
            hyper = self._hyperparameters()
            state = training.init(settings, hyper, len(self._Z), source)
            if warm and self._reusable(state.sites):
                # Steps of minibatch EP write into their state, and this fit may fail.
                sites = copy.deepcopy(self._sites)
                state = state._replace(iteration=self._iteration, sites=sites)
            self._n_seen = source.total_weight
            self._train(settings, hyper, state, source)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from new rows X, shape (n, d), after all rows seen before.

        The rows are absorbed once with q as their cavity, so that the paper's n grows, and then
        refined in a few more passes. `classes` names both classes in the first call if the
        first rows may have one of them only. Cost as for `fit`; memory does not grow.
        """
        with _unchanged_on_error(self):
            first = not hasattr(self, "kernel_")
            if first and classes is not None:
                self.classes_ = validation.two_classes(np.asarray(classes), "classes")
            rows, signs, weight, seen = self._check_training(
                X, y, sample_weight, reset=first, partial=True
            )
            if first and classes is None:
                self.classes_ = seen
            rng = check_random_state(self.random_state)
            if first:
                self._n_seen = 0.0
                self._start(rows, signs, weight, rng)
            self._absorb(rows, signs, weight, rng)
        return self

    def _absorb(
        self, rows: NDArray[Any], signs: Floats, weight: Floats, rng: np.random.RandomState
    ) -> None:
        self._n_seen += float(weight.sum())
        source = self._source(rows, signs, weight, int(rng.randint(2**31 - 1)))
        source.total_weight = self._n_seen
        epoch = source.batches_per_epoch
        passes = {"sep": (1, REFINEMENTS), "ep": (0, 1 + REFINEMENTS), "adf": (1, 0)}
        absorbing, refining = passes[self.method]
        for method, epochs in (("adf", absorbing), (self.method, refining)):
            if not epochs:
                continue
            settings = self._settings(
                source,
                method=method,
                max_iter=epochs * epoch,
                time_budget=None,
                learning_rate=self._learning_rate(exact=False),
                decay=False,
                site_step="paper",
            )
            hyper = self._hyperparameters()
            state = training.init(settings, hyper, len(self._Z), source, whole=False)
            if hasattr(self, "_sites"):
                known = {"Lambda": self._sites.Lambda, "b": self._sites.b}
                state = state._replace(sites=state.sites._replace(**known))
            self._train(settings, hyper, state, source)

    def _check_training(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        reset: bool,
        partial: bool = False,
    ) -> tuple[NDArray[Any], Floats, Floats, NDArray[Any]]:
        """The rows of positive weight, their labels as −1 and 1, their weights, and the classes."""
        validation.parameters(self)
        rows = self._check_rows(X, reset=reset, y=y)
        labels = column_or_1d(y, warn=True)
        validation.same_length(rows, labels)
        validation.known_labels(labels)
        check_classification_targets(labels)
        if partial and hasattr(self, "classes_"):
            classes = self.classes_
            unknown = np.setdiff1d(labels, classes)
            if len(unknown):
                raise InvalidData(
                    f"y contains the label {unknown.tolist()[0]!r}, but the classes are "
                    f"{classes.tolist()}; "
                    "name both classes in the first call of partial_fit."
                )
        else:
            classes = validation.two_classes(labels)
        weight = np.ones(len(rows))
        if sample_weight is not None:
            weight = validation.weights(sample_weight, len(rows))
        if self.class_weight is not None:
            weight *= compute_sample_weight(self.class_weight, labels)
        kept = weight > 0
        if not kept.any():
            raise InvalidData(
                "sample_weight is zero for every row; give some rows positive weight."
            )
        if not partial and len(np.unique(labels[kept])) < 2:
            raise InvalidData(
                "sample_weight leaves rows of one class only; give both classes positive weight."
            )
        signs = np.where(labels == classes[1], 1.0, -1.0)
        if not kept.all():
            rows, signs, weight = rows[kept], signs[kept], weight[kept]
        if len(rows) <= min(self.batch_size or MINIBATCH, MINIBATCH):
            rows, signs, weight = merged(rows, signs, weight)
        return rows, signs, weight, classes

    def _check_rows(self, X: ArrayLike, reset: bool, y: Any = "") -> NDArray[Any]:
        try:
            rows: NDArray[Any] = validate_data(
                self,
                X,
                y=None if y is None else "no_validation",
                reset=reset,
                dtype="numeric",
                ensure_all_finite=False,
            )
            if rows.dtype == object:  # of a table with categories
                rows = rows.astype(np.float64)
        except ValueError:
            validation.numeric_columns(X)
            raise
        validation.finite_columns(rows, getattr(self, "feature_names_in_", None))
        return rows

    def _start(
        self, rows: NDArray[Any], signs: Floats, weight: Floats, rng: np.random.RandomState
    ) -> None:
        """Set scaling, inducing points and kernel to where training starts."""
        scaling = standardization(rows, weight) if self.standardize else identity(rows.shape[1])
        if isinstance(self.inducing, str):
            Z = start_points(self.inducing, rows, signs, weight, self.n_inducing, rng, scaling)
        else:
            Z = scaling.apply(validation.inducing_points(self.inducing, rows.shape[1]))
        kernel = (
            copy.deepcopy(self.kernel)
            if isinstance(self.kernel, Kernel)
            else KERNELS[self.kernel]()
        )
        self._scaling = scaling
        if hasattr(self, "_sites"):
            del self._sites
        self._Z = torch.as_tensor(Z, device=self.device)
        kernel.start(self._Z)
        self.kernel_ = kernel.to(self.device)

    def _hyperparameters(self) -> Hyperparameters:
        return Hyperparameters(self.kernel_, self._Z, self.learn_kernel, self.learn_inducing)

    def _source(self, rows: NDArray[Any], signs: Floats, weight: Floats, seed: int) -> ArraySource:
        size = MINIBATCH if self.batch_size is None else self.batch_size
        return ArraySource(
            rows, signs, weight, self._scaling, size, seed, DTYPES[self.dtype], self.device
        )

    def _settings(self, source: ArraySource, **changes: Any) -> training.Settings:
        whole = source.batches_per_epoch == 1
        max_iter = self.max_iter
        if max_iter is None and self.time_budget is None:
            max_iter = 250 if whole else 1000
        values: dict[str, Any] = {
            "method": self.method,
            "max_iter": max_iter,
            "time_budget": self.time_budget,
            "learning_rate": self._learning_rate(exact=whole),
            "optimizer": self.optimizer,
            "decay": self.optimizer == "adam",
            "site_step": self.site_step,
            "tol": self.tol,
        }
        return training.Settings(**(values | changes))

    def _learning_rate(self, exact: bool) -> float:
        """The learning rate, for exact gradients of all rows or for noisy ones of a part."""
        if self.learning_rate is not None:
            return self.learning_rate
        if self.optimizer == "sign":
            return 0.01
        return 0.2 if exact else 0.03

    def _reusable(self, sites: training.Sites) -> bool:
        """Whether the sites of the last fit have the shapes that this fit needs."""
        shapes = [[t.shape for t in s if t is not None] for s in (sites, self._sites)]
        return shapes[0] == shapes[1]

    def _train(
        self,
        settings: training.Settings,
        hyper: Hyperparameters,
        state: training.TrainingState,
        source: ArraySource,
    ) -> None:
        callbacks = tuple(self.callbacks or ())
        with ExitStack() as stack:
            if self.verbose:
                line = stack.enter_context(closing(ProgressLine(settings, source)))
                callbacks = (line, *callbacks)
            state, history = training.train(settings, hyper, state, source, callbacks)
        if all(record.rejected for record in history):
            raise InvalidParameter(
                f"kernel={self.kernel!r} gives covariances that cannot be factorised, even with "
                "jitter; add a kernel that relates different points, such as RBF()."
            )
        self.kernel_, self._Z = hyper.model(state.xi)
        self._sites, self._iteration = state.sites, state.iteration
        self.inducing_points_ = self._scaling.undo(self._Z.cpu().numpy())
        self.n_iter_ = len(history)
        self.history_ = {
            name: np.array([getattr(record, name) for record in history])
            for name in training.Record._fields
        }
        self.log_evidence_ = float(
            np.mean(self.history_["log_evidence"][-source.batches_per_epoch :])
        )
        with torch.no_grad():
            sites = Natural(self._sites.Lambda, self._sites.b)
            self._predictor = predictor(self.kernel_, self._Z, sites)

    # ---------------------------------------------------------------- prediction

    def predict_latent(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Mean and variance of f at the rows X, shape (n, d): two arrays of shape (n,).

        `predict_proba` is Φ(mean/√(1 + variance)); a variance near the kernel's amplitude says
        that the model knows nothing there. Cost O(m² + md) per row; memory O(m) per row of a
        chunk.
        """
        check_is_fitted(self)
        rows = self._check_rows(X, reset=False)
        dtype = DTYPES[self.dtype]
        kernel = copy.deepcopy(self.kernel_).to(dtype)
        Z = self._Z.to(dtype)
        folded = type(self._predictor)(*(part.to(dtype) for part in self._predictor))
        mean, variance = np.empty(len(rows)), np.empty(len(rows))
        with torch.no_grad():
            for begin in range(0, len(rows), CHUNK):
                chunk = slice(begin, begin + CHUNK)
                x = torch.as_tensor(self._scaling.apply(rows[chunk])).to(dtype).to(self.device)
                part = predict(folded, kernel(Z, x), kernel.diag(x))
                mean[chunk], variance[chunk] = (values.cpu().numpy() for values in part)
        return mean, variance

    def decision_function(self, X: ArrayLike) -> Floats:
        """z = mean/√(1 + variance) of f at the rows X, shape (n,): P(classes_[1]) = Φ(z)."""
        mean, variance = self.predict_latent(X)
        return mean / np.sqrt(1 + variance)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities of the two classes at the rows X, shape (n, 2), columns as `classes_`."""
        z = self.decision_function(X)
        return np.column_stack([ndtr(-z), ndtr(z)])

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Logarithms of `predict_proba`, shape (n, 2), exact for probabilities near 0 too."""
        z = self.decision_function(X)
        return np.column_stack([log_ndtr(-z), log_ndtr(z)])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The more probable class of each of the rows X, shape (n,)."""
        positive = self.decision_function(X) > 0
        labels: NDArray[Any] = self.classes_[positive.astype(int)]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


@contextmanager
def _unchanged_on_error(estimator: GPClassifier) -> Iterator[None]:
    """Put the estimator back as it was if anything goes wrong inside."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
