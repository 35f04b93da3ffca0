"""`GPClassifier`: the scikit-learn shell around the engine. No mathematics here."""

import copy
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sepgp import inputs, validation
from sepgp.data import checks
from sepgp.data.batches import MINIBATCH, Source, aligned
from sepgp.data.encoding import Encoding
from sepgp.data.prepared import ArrayData, Data
from sepgp.data.scaling import Floats, Scaling, identity
from sepgp.errors import InvalidData, InvalidParameter
from sepgp.gp.fitc import Natural
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.inducing import start_points
from sepgp.gp.kernels import Kernel, named
from sepgp.gp.predictor import Predictor, predict, predictor
from sepgp.training import loop as training
from sepgp.training import memory, online
from sepgp.training.checkpoint import Checkpoint
from sepgp.training.monitor import Monitor
from sepgp.training.optimizers import OPTIMIZERS
from sepgp.training.progress import ProgressLine

DTYPES = {"float64": torch.float64, "float32": torch.float32}
CHUNK = 4096
"""Rows predicted at a time: prediction never holds more than CHUNK × m numbers."""


class GPClassifier(ClassifierMixin, BaseEstimator):
    """Sparse Gaussian process classifier with a probit likelihood, trained by EP, SEP or ADF.

    The model is y = sign(f(x) + ε) with ε standard normal and f a Gaussian process that m
    inducing points summarise (FITC). Training refines the approximate likelihood factors and
    learns kernel parameters and inducing points by gradient ascent on the evidence log Z_q, one
    step of each per batch. Cost per step: O(m³) + O(m² + md) per row of the batch.

    Parameters
    ----------
    method : one of "sep", "ep", "adf"
        "sep" (stochastic expectation propagation) needs O(m²) memory however many rows there
        are. "ep" keeps a factor per row: O(n) numbers when one batch holds all rows, O(nm) with
        minibatches. "adf" is the baseline that counts a row anew each time it is seen.
    n_inducing : int
        The number m of inducing points; fewer are used if there are fewer distinct rows.
    inducing : "kmeans", "random" or array of shape (m, d)
        Where the inducing points start. An array is in the units of X and sets m.
    kernel : Kernel, "auto", "rbf", "matern12", "matern32", "matern52" or a sum of these names
        The covariance function; see `sepgp.kernels`. "auto" is "matern32+matern32", and with more
        than 100 features "matern32".
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
        0.2, and with "sign" 0.01. In minibatches, whose gradients are noisy, inducing points move
        at 0.1 or less: see `sepgp.training.loop.inducing_rate`.
    optimizer : one of "adam", "sign"
        "sign" is the batch rule of the paper's authors: a step size per parameter.
    site_step : "paper", "average" or a float
        The step ρ of SEP's tied site. "paper" is s/n, a batch's share of the rows; "average"
        weighs all batches of the first epoch alike; a number is a floor under t^−0.6 in step
        t, which forgets what belongs to a kernel that has moved since. The last two stay at or
        below ½, since larger steps can keep the site from settling.
    class_weight : a dict, "balanced" or None
        Weights of the classes, multiplied into `sample_weight`.
    standardize : bool
        Whether features are shifted and scaled to mean 0 and variance 1, and values beyond two
        standard deviations drawn in; see `sepgp.data.scaling.Scaling`.
    tol : float or None
        Training stops when log Z_q per row grows by less than this from one epoch (at least ten
        steps) to the next.
    validation_fraction : float
        The share of the rows, at least 0 and below 1, that `fit` keeps aside. With one, every 50
        steps and after the last the model is measured on at most 10,000 of these rows, and the
        best one measured is kept: usually the last.
    random_state : int, RandomState instance or None
        Seeds the inducing points, the order of the rows and the choice of those kept aside.
    warm_start : bool
        Whether `fit` goes on from the kernel, inducing points and factors of the last fit.
    verbose : bool or int
        Whether a progress line is shown.
    device : str
        Torch device that trains and predicts.
    dtype : one of "float64", "float32"
        Precision of the work on rows. Work on m × m matrices is always in float64, and so is
        training on few rows, up to 2,000 in one batch, where float32 would gain nothing.
    callbacks : sequence of callables or None
        Each is called after every step with a `sepgp.training.loop.Record`; training stops when one
        returns True.
    forgetting : float
        The factor, above 0 and at most 1, by which each block of `partial_fit` multiplies the
        weight of all rows before it. Under drift, 1/(1 − forgetting) blocks are remembered.
    checkpoint : path or None
        A file that `fit` writes its progress to. If it is there, `fit` goes on from it, and ends
        with the same numbers as if it had never been stopped.
    checkpoint_every : float
        Seconds from one checkpoint to the next.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The two labels, sorted: probabilities have their columns in this order.
    n_features_in_ : int
        The number of columns of X.
    feature_names_in_ : array of text
        Their names, when X had names.
    encoding_ : Encoding or None
        How columns of a table became features; None for arrays and tables of plain numbers.
    target_ : str or None
        The column that held the labels.
    kernel_ : Kernel
        With its learned parameters; length-scales are in standardised units.
    inducing_points_ : array of shape (m, d)
        In the units of X.
    log_evidence_ : float
        log Z_q, averaged over the epoch that led to the model, the last one unless an earlier
        model is kept (with one batch for all rows: exact).
    n_iter_ : int
        Steps of the last training.
    history_ : dict of arrays, each of shape (n_iter_,)
        A table with a row per step: see `sepgp.training.loop.Record`.
    """

    def __init__(
        self,
        method: str = "sep",
        n_inducing: int = 200,
        inducing: str | ArrayLike = "kmeans",
        kernel: str | Kernel = "auto",
        batch_size: int | None = None,
        learn_kernel: bool = True,
        learn_inducing: bool = True,
        max_iter: int | None = None,
        time_budget: float | None = None,
        learning_rate: float | None = None,
        optimizer: str = "adam",
        site_step: str | float = 0.01,
        class_weight: dict[Any, float] | str | None = None,
        standardize: bool = True,
        tol: float | None = None,
        validation_fraction: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        verbose: bool | int = False,
        device: str = "cpu",
        dtype: str = "float64",
        callbacks: Sequence[Callable[[training.Record], bool | None]] | None = None,
        forgetting: float = 1.0,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = 60.0,
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
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.device = device
        self.dtype = dtype
        self.callbacks = callbacks
        self.forgetting = forgetting
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    # ------------------------------------------------------------------ training

    classes_: NDArray[Any]
    encoding_: Encoding | None
    target_: str | None
    _scaling: Scaling
    _Z: torch.Tensor
    _sites: training.Sites
    _predictor: Predictor
    _seed: int
    _n_seen: float
    _iteration: int
    _moments: Any
    _memory: online.Memory | None

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | str | None = None,
        *,
        target: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Train on rows with two kinds of labels.

        Parameters
        ----------
        X : array, table, path, callable or Rows
            Rows of shape (n, d) with their labels y, shape (n,); a table or the path of files,
            with the column `target` as labels; or anything else that `sepgp.data.open_rows` takes.
            Rows that do not fit in memory are read anew in every epoch.
        y : array of shape (n,), optional
            The labels, unless X has them.
        sample_weight : array of shape (n,) or name of a column, optional
            A row of weight w counts as w copies of it.
        target : str, optional
            The column of X that holds the labels.
        columns : list of str, optional
            The columns of X to learn from; all others by default.
        """
        with _unchanged_on_error(self):
            validation.parameters(self)
            warm = self.warm_start and hasattr(self, "kernel_")
            checkpoint = self._open_checkpoint()
            rng = check_random_state(self.random_state)
            seed = int(rng.randint(2**31 - 1))
            if checkpoint is not None and checkpoint.seed is not None:
                seed = checkpoint.seed
            data, aside = inputs.training_data(
                self, X, y, sample_weight, target, columns, seed, warm
            )
            if warm and not np.array_equal(data.classes, self.classes_):
                raise InvalidData(
                    f"y has the classes {data.classes.tolist()}, but the model to go on from has "
                    f"{self.classes_.tolist()}; use the same labels or warm_start=False."
                )
            self.classes_, self.target_ = data.classes, target
            if not warm:
                self._start(data, rng, None if checkpoint is None else checkpoint.start)
            source = self._source(data, seed)
            if self.method == "ep":
                minibatch = source.batches_per_epoch > 1
                copies = 1 if checkpoint is None else 2
                memory.check_ep(source.n_rows, len(self._Z), minibatch, copies)
            settings = self._settings(source)
            hyper = self._hyperparameters()
            state = training.init(settings, hyper, len(self._Z), source)
            if warm and self._reusable(state.sites):
                # Steps of minibatch EP write into their state, and this fit may fail.
                sites = copy.deepcopy(self._sites)
                state = state._replace(iteration=self._iteration, sites=sites)
            if checkpoint is not None:
                identity = self._identity(data, aside, state if warm else None)
                checkpoint.identify(identity, seed, self._Z)
            self._seed, self._n_seen = seed, source.total_weight
            monitor = None
            if aside is not None:
                monitor = Monitor(hyper, self._source(aside, seed, CHUNK))
            self._train(settings, hyper, state, source, checkpoint, monitor)
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | str | None = None,
        *,
        target: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Learn from new rows, after all rows seen before.

        The rows are absorbed once with q as their cavity, so that the paper's n grows, and then
        refined in a few more passes; SEP goes again over a sample of at most 20,000 rows seen in
        earlier calls too. With `forgetting` < 1 all rows seen before count less. Encoding, scaling
        and the number of inducing points are those of the first rows. Cost: a pass, and at least
        20 steps; memory does not grow.

        All but `classes` is as for `fit`; the blocks of a source are learned one after the other.

        Parameters
        ----------
        classes : array of shape (2,), optional
            Both classes, in the first call, if its rows may have one of them only.
        """
        with _unchanged_on_error(self):
            validation.parameters(self)
            if not hasattr(self, "kernel_") and classes is not None:
                self.classes_ = np.unique(np.asarray(classes))
                checks.two_classes(self.classes_, "classes")
            if target is not None or not hasattr(self, "target_"):
                self.target_ = target
            if not inputs.is_source(X) and target is None and columns is None:
                online.learn(self, X, y, sample_weight)
            else:
                rows = inputs.training_rows(X, y, sample_weight, target, columns)
                for block in rows.blocks():
                    online.learn(self, block.X, block.y, block.weight)
        return self

    def _open_checkpoint(self) -> Checkpoint | None:
        return (
            None if self.checkpoint is None else Checkpoint(self.checkpoint, self.checkpoint_every)
        )

    def _identity(
        self, data: Data, aside: ArrayData | None, warm: training.TrainingState | None
    ) -> dict[str, Any]:
        """What tells this run from others: its rows, its settings and, if warm, its start."""
        free = ("random_state", "verbose", "callbacks", "checkpoint", "checkpoint_every", "device")
        named = {k: repr(v) for k, v in self.get_params(deep=False).items() if k not in free}
        if warm is not None:
            values = torch.cat([warm.xi.flatten(), warm.sites.Lambda.flatten()])
            named["start"] = hashlib.sha256(values.cpu().numpy().tobytes()).hexdigest()
        if self.random_state is not None:
            named["random_state"] = repr(self.random_state)
        digest = data.digest() if aside is None else data.digest() + aside.digest()
        return {"data": digest, **named}

    def _start(
        self, data: Data, rng: np.random.RandomState, points: torch.Tensor | None = None
    ) -> None:
        """Set scaling, inducing points and kernel to where training starts.

        `points`, shape (m, d), are the inducing points if they are known, in standardised units.
        """
        rows, signs, weight = data.sample()
        inputs.warn_of_identifiers(self, rows)
        scaling = data.scaling() if self.standardize else identity(rows.shape[1])
        if points is not None and points.shape[1] == rows.shape[1]:
            Z = points.numpy()
        elif isinstance(self.inducing, str):
            Z = start_points(self.inducing, rows, signs, weight, self.n_inducing, rng, scaling)
        else:
            Z = scaling.apply(validation.inducing_points(self.inducing, rows.shape[1]))
        kernel = (
            copy.deepcopy(self.kernel)
            if isinstance(self.kernel, Kernel)
            else named(self.kernel, Z.shape[1])
        )
        self._scaling = scaling
        self._memory = None
        if hasattr(self, "_sites"):
            del self._sites
        self._Z = aligned(torch.as_tensor(Z, device=self.device))
        kernel.start(self._Z)
        self.kernel_ = kernel.to(self.device)

    def _hyperparameters(self) -> Hyperparameters:
        return Hyperparameters(self.kernel_, self._Z, self.learn_kernel, self.learn_inducing)

    def _source(self, data: Data, seed: int, size: int | None = None) -> Source:
        size = size or self.batch_size or MINIBATCH
        # Few rows, all in every step: float32 gains no time, and rounding may choose the optimum.
        few = data.n_rows <= min(size, MINIBATCH)
        dtype = torch.float64 if few else DTYPES[self.dtype]
        return data.source(self._scaling, size, seed, dtype, self.device)

    def _settings(self, source: Source, **changes: Any) -> training.Settings:
        whole = source.batches_per_epoch == 1
        max_iter = self.max_iter
        if max_iter is None and self.time_budget is None:
            max_iter = 250 if whole else 1000
        values: dict[str, Any] = {
            "method": self.method,
            "max_iter": max_iter,
            "time_budget": self.time_budget,
            "learning_rate": self.learning_rate or OPTIMIZERS[self.optimizer].rate,
            "optimizer": self.optimizer,
            "decay": self.optimizer == "adam",
            "site_step": self.site_step,
            "tol": self.tol,
        }
        return training.Settings(**(values | changes))

    def _reusable(self, sites: training.Sites) -> bool:
        """Whether the sites of the last fit have the shapes that this fit needs."""
        shapes = [[t.shape for t in s if t is not None] for s in (sites, self._sites)]
        return shapes[0] == shapes[1]

    def _train(
        self,
        settings: training.Settings,
        hyper: Hyperparameters,
        state: training.TrainingState,
        source: Source,
        checkpoint: Checkpoint | None = None,
        monitor: Monitor | None = None,
    ) -> None:
        callbacks = tuple(self.callbacks or ())
        with ExitStack() as stack:
            if self.verbose:
                line = ProgressLine(settings, source, state.iteration)
                # Last, so that whoever sees a step can rely on what the others do with it.
                callbacks = (*callbacks, stack.enter_context(closing(line)))
            last, history = training.train(
                settings, hyper, state, source, callbacks, checkpoint, monitor
            )
        if all(record.rejected for record in history):
            raise InvalidParameter(
                f"kernel={self.kernel!r} gives covariances that cannot be factorised, even with "
                "jitter; add a kernel that relates different points, such as RBF()."
            )
        state = training.chosen(last)
        self.kernel_, self._Z = hyper.model(state.xi)
        self._sites, self._iteration = state.sites, state.iteration
        self._moments = state.optimizer
        self.inducing_points_ = self._scaling.undo(self._Z.cpu().numpy())
        self.n_iter_ = len(history)
        self.history_ = {
            name: np.array([getattr(record, name) for record in history])
            for name in training.Record._fields
        }
        reached = self.n_iter_
        if last.best is not None:
            reached -= last.iteration - last.best.iteration
        epoch = slice(max(0, reached - source.batches_per_epoch), reached)
        self.log_evidence_ = float(np.mean(self.history_["log_evidence"][epoch]))
        with torch.no_grad():
            sites = Natural(self._sites.Lambda, self._sites.b)
            try:
                self._predictor = predictor(self.kernel_, self._Z, sites)
            except RuntimeError as error:  # of torch.linalg: there is no posterior
                if checkpoint is None:
                    raise
                raise checkpoint.damaged() from error

    # ---------------------------------------------------------------- prediction
    #
    # Each takes what `fit` takes. Rows in memory give an array; a source gives an iterator of
    # arrays, block by block, in the order of its rows.

    def predict_latent(self, X: Any) -> Any:
        """Mean and variance of f at the rows X, shape (n, d): two arrays of shape (n,).

        `predict_proba` is Φ(mean/√(1 + variance)); a variance near the kernel's amplitude says
        that the model knows nothing there. Cost O(m² + md) per row; memory O(m) per row of a
        chunk.
        """
        return self._predict(X, lambda mean, variance: (mean, variance))

    def decision_function(self, X: Any) -> Any:
        """z = mean/√(1 + variance) of f at the rows X, shape (n,): P(classes_[1]) = Φ(z)."""
        return self._predict(X, _decision)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the two classes at the rows X, shape (n, 2), columns as `classes_`."""

        def probabilities(mean: Floats, variance: Floats) -> Floats:
            z = _decision(mean, variance)
            return np.column_stack([ndtr(-z), ndtr(z)])

        return self._predict(X, probabilities)

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of `predict_proba`, shape (n, 2), exact for probabilities near 0 too."""

        def logarithms(mean: Floats, variance: Floats) -> Floats:
            z = _decision(mean, variance)
            return np.column_stack([log_ndtr(-z), log_ndtr(z)])

        return self._predict(X, logarithms)

    def predict(self, X: Any) -> Any:
        """The more probable class of each of the rows X, shape (n,)."""

        def label(mean: Floats, variance: Floats) -> NDArray[Any]:
            labels: NDArray[Any] = self.classes_[(_decision(mean, variance) > 0).astype(int)]
            return labels

        return self._predict(X, label)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, which `sepgp.load` reads; see `sepgp.files.model`."""
        from sepgp.files.model import save

        save(self, path)

    def _predict(self, X: Any, result: Callable[[Floats, Floats], Any]) -> Any:
        """The result that mean and variance of f lead to; for a source, one for each block."""
        check_is_fitted(self)
        if inputs.is_source(X):
            blocks = inputs.feature_blocks(self, X)
            return (result(*self._latent(rows)) for rows in blocks)
        return result(*self._latent(inputs.features(self, X)))

    def _latent(self, rows: NDArray[Any]) -> tuple[Floats, Floats]:
        """Mean and variance of f at rows of features, shape (n, d), each of shape (n,)."""
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _decision(mean: Floats, variance: Floats) -> Floats:
    return mean / np.sqrt(1 + variance)


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
