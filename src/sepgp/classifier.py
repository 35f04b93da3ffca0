"""`GPClassifier`: the scikit-learn shell around the engine. No mathematics here."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sepgp.data.inputs import Given
from sepgp.errors import InvalidParameter
from sepgp.evaluation.about import about_if_quick
from sepgp.files import model as files
from sepgp.files.content import DAMAGE, damaged
from sepgp.fitted import Fitted
from sepgp.gp.kernels import Kernel
from sepgp.training import online
from sepgp.training.fit import Run, fit
from sepgp.training.record import Record
from sepgp.training.settings import Settings

logger = logging.getLogger(__name__)

OF_A_RUN = ("callbacks", "checkpoint", "device", "random_state", "verbose", "warm_start")
"""Parameters that belong to a run and not to its model."""


class GPClassifier(Fitted):
    """Sparse Gaussian process classifier with a probit likelihood, trained by EP, SEP or ADF.

    For two classes the model is y = sign(f(x) + ε) with ε standard normal and f a Gaussian process
    that m inducing points summarise (FITC). For C > 2 classes there is an f for each, with one
    kernel and the same inducing points, and y = argmax_c (f_c(x) + ε_c). Training refines the
    approximate likelihood factors and learns kernel parameters and inducing points by gradient
    ascent on the evidence log Z_q, one step of each per batch. Cost per step: O(m³) + O(m² + md)
    per row of the batch; for C > 2 the terms without d are C-fold.

    Parameters
    ----------
    method : one of "auto", "sep", "ep", "adf"
        "auto" is "ep" in `fit`, a warm start included, where that is exact and affordable: where
        all rows, of two classes, are in one batch, and every row is an inducing point. A default
        kernel then has a `spread` of 1. Else it is "sep", as in `partial_fit` and with a `mean` or
        another `n_factors`, `power`, `site_step` or `shared_kernel` than the default.
        "sep" (stochastic expectation propagation) needs O(m²) memory however many rows there
        are. "ep" keeps a factor per row: O(n) numbers when one batch holds all rows, O(nm) with
        minibatches. "adf" is the baseline that counts a row anew each time it is seen.
    n_inducing : int or "auto"
        The number m of inducing points; fewer are used if there are fewer distinct rows. "auto" is
        200; with a time budget of at most 10 seconds for two classes it is 100, of half a second
        50, and from two minutes on 400; and 300 from 30 seconds on for 10,000 rows and more, but
        1,000 for each second at most.
    inducing : "kmeans", "random" or array of shape (m, d)
        Where the inducing points start. An array is in the units of X and sets m.
    kernel : Kernel, "auto", "rbf", "matern12", "matern32", "matern52" or a sum of these names
        The covariance function; see `sepgp.kernels`. "auto" is "matern32+matern32", with more
        than two classes "rbf+matern32", and with more than 100 features "rbf". Before a long
        training with minibatches it is the best of several on held-out rows of a sample: smooth
        or rough, of the features or a learned map of them, or of principal components.
        With more than two classes it sees features of a skewness above 1 by their logarithms too.
    batch_size : int or None
        Rows per step. None takes all rows up to 2,000, and else minibatches of 2,000, or of fewer
        with a time budget below one second for two classes.
    learn_kernel, learn_inducing : bool
        Whether gradients move the kernel's parameters and the inducing points. In `fit` these stay
        where every row is one of them.
    max_iter, time_budget : int or None, float or None
        Steps, and wall-clock seconds for all of `fit`, to which the learning rate fits itself.
        With neither, 250 steps when every step sees all rows, and 1,000 with minibatches.
    learning_rate : float or None
        Of the optimiser at the start; with "adam" it falls to 0 along a half cosine. None takes
        0.2, for minibatches with a time budget of at most 5 seconds 0.5, and with "sign" 0.01. In
        minibatches inducing points move at 0.1 or less.
    optimizer : one of "adam", "sign"
        "sign" is the batch rule of the paper's authors: a step size per parameter.
    site_step : "paper", "average" or a float
        The step ρ of SEP's tied site. "paper" is s/n, a batch's share of the rows; "average" weighs
        all batches of the first epoch alike; a number is a floor under t^−0.6 in step t. The last
        two stay at or below ½. See `sepgp.training.schedule.site_step`.
    class_weight : a dict, "balanced" or None
        Weights of the classes, multiplied into `sample_weight`.
    standardize : bool
        Whether features are shifted and scaled to mean 0 and variance 1, and values beyond two
        standard deviations compressed; see `sepgp.data.scaling.Scaling`.
    tol : float or None
        Training stops when log Z_q per row has grown by less than this over an epoch, and over ten
        steps at least.
    validation_fraction : float or "auto"
        The share of the rows, at least 0 and below 1, that `fit` holds out. The model is measured
        on at most 10,000 of them at intervals, and the best one is kept: usually the last. "auto"
        is a tenth, and at most 3,000 rows, where 10,000 or more are trained on by minibatches and
        are arrays, tables or Parquet; else it is 0, as with a time budget below 10 seconds and no
        `mean`. From 5,000 to 9,999 rows of two classes, with 500 of each, a second training does
        without a fifth of them, and these calibrate the model of all rows: see
        `sepgp.training.calibration`.
    early_stopping : bool
        Whether training ends early, its learning rate falling to 0 all the same, when held-out rows
        have not improved in a fifth of its steps or time, and 50 steps at least.
    pos_label : label or None
        Of two classes, the one that commands and reports are about; None for the second.
    random_state : int, RandomState instance or None
        Seeds the inducing points, the order of the rows and the choice of those held out.
    warm_start : bool
        Whether `fit` goes on from the kernel, inducing points and factors of the last fit.
    verbose, device : bool or int, str
        Whether a progress line is shown, and the torch device that trains and predicts.
    dtype : one of "auto", "float64", "float32"
        Precision of the work on rows. "auto" is float32, which is up to 1.6 times as fast, where
        10,000 rows or more are trained on by minibatches and are standardised. Work on m × m
        matrices is always in float64, and so is training on few rows, up to 2,000 in one batch,
        or up to 500 in a minibatch and 2 per inducing point, where float32 would gain nothing.
    callbacks : sequence of callables or None
        Called after every step with a `sepgp.training.record.Record`; one that is True stops it.
    forgetting : float
        The factor, above 0 and at most 1, by which each block of `partial_fit` multiplies the
        weight of all rows before it. Under drift, 1/(1 − forgetting) blocks are remembered.
    checkpoint, checkpoint_every : path or None, float
        A file that `fit` writes its progress to every so many seconds. If it is there, `fit` goes
        on from it, and ends with the same numbers as if it had never been stopped.
    n_factors : int, "class" or a dict such as {"month": [3.5, 6.5]}
        Tied factors of "sep", nearer to EP in O(K m²) memory: one for each of K clusters of rows,
        for each class, or for each interval of a column between these numbers.
    power : float
        The share of a factor that cavities lack: 1 for EP and SEP, 0 for variational inference.
    mean : classifier, "trees" or None
        A classifier of scikit-learn's kind, with predict_proba, that gives the prior mean of f; the
        process learns what it has missed. "trees" is HistGradientBoostingClassifier(), for more
        than 10,000 rows with larger trees if these are better on rows kept aside. A copy of it is
        fitted in `fit`, and rows of training are scored by cross-fitting.
    shared_kernel : bool
        With more than two classes, whether their latent functions have one kernel, or each its own.

    Attributes
    ----------
    classes_ : array of shape (C,)
        The labels, sorted: probabilities have their columns in this order.
    n_features_in_, feature_names_in_ : int, array of text
        The number of columns of X, and their names when X had names.
    encoding_, target_ : Encoding or None, str or None
        How columns of a table became features, if they had to, and the column with the labels.
    kernel_, inducing_points_ : Kernel, array of shape (m, d)
        As learned; length-scales are in standardised units, inducing points in those of X.
    log_evidence_, n_iter_ : float, int
        log Z_q (power 0: the ELBO), averaged over the model's last epoch; steps of the training.
    history_ : dict of arrays, each of shape (n_iter_,)
        A table with a row per step: see `sepgp.training.record.Record`.
    """

    def __init__(
        self,
        method: str = "auto",
        n_inducing: int | str = "auto",
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
        validation_fraction: float | str = "auto",
        early_stopping: bool = True,
        pos_label: Any = None,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        verbose: bool | int = False,
        device: str = "cpu",
        dtype: str = "auto",
        callbacks: Sequence[Callable[[Record], bool | None]] | None = None,
        forgetting: float = 1.0,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = 60.0,
        n_factors: int | str | Mapping[str, Sequence[float]] = 1,
        power: float = 1.0,
        mean: Any = None,
        shared_kernel: bool = True,
    ) -> None:
        self.method = method
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.kernel = kernel
        self.batch_size = batch_size
        self.learn_kernel = learn_kernel
        self.learn_inducing = learn_inducing
        self.max_iter, self.time_budget = max_iter, time_budget
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.site_step = site_step
        self.class_weight = class_weight
        self.standardize = standardize
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.pos_label = pos_label
        self.random_state = random_state
        self.warm_start, self.verbose = warm_start, verbose
        self.device, self.dtype = device, dtype
        self.callbacks = callbacks
        self.forgetting = forgetting
        self.checkpoint, self.checkpoint_every = checkpoint, checkpoint_every
        self.n_factors, self.power = n_factors, power
        self.mean, self.shared_kernel = mean, shared_kernel

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | str | None = None,
        *,
        target: str | None = None,
        columns: Sequence[str] | None = None,
        read: Mapping[str, str] | None = None,
        dayfirst: bool | None = None,
    ) -> Self:
        """Train on rows with labels of two or more classes.

        Parameters
        ----------
        X : array, table, path, callable or Rows
            Rows of shape (n, d) with their labels y, shape (n,); a table or the path of files,
            with the column `target` as labels; or anything else that `sepgp.data.open_rows` takes.
            Rows that do not fit in memory are read anew in every epoch.
        y, sample_weight : arrays of shape (n,), or name of a column for the weights, optional
            The labels, unless X has them; a row of weight w counts as w copies of it.
        target, columns : str and list of str, optional
            The column of X with the labels, and those to learn from: all others by default.
        read, dayfirst : dict and bool, optional
            How columns named here are read: "number", "text", "date", or "drop" for one that is
            left out; and whether dates such as 3/4/2021 begin with the day. By default their
            values decide.
        """
        previous = getattr(self, "model_", None) if self.warm_start else None
        given = Given(X, y, sample_weight, target, columns, read, dayfirst)
        self.model_ = fit(self._settings(), given, previous, self._run())
        done = self.n_iter_, self.history_["seconds"][-1], self.log_evidence_
        logger.info("fit: %d steps in %.1f s, log evidence %.6g", *done)
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
        read: Mapping[str, str] | None = None,
        dayfirst: bool | None = None,
    ) -> Self:
        """Learn from new rows, after all rows seen before.

        The rows are absorbed once with q as their cavity, so that the paper's n grows, and then
        refined in a few more passes; SEP goes again over a sample of at most 20,000 rows seen in
        earlier calls too. Encoding, scaling and the number of inducing points are those of the
        first rows. Cost: a pass, and at least 20 steps; memory does not grow. All but `classes` is
        as for `fit`; the blocks of a source are learned one after the other.

        Parameters
        ----------
        classes : array of shape (C,), optional
            All classes, in the first call, if its rows may lack some of them.
        """
        before = getattr(self, "model_", None)
        given = Given(X, y, sample_weight, target, columns, read, dayfirst)
        model = online.learn(self._settings(), given, classes, before, self._run())
        if model is not None:
            self.model_ = model
        return self

    def _settings(self) -> Settings:
        return Settings.of(self.get_params(deep=False))

    def _run(self) -> Run:
        return Run(**{field.name: getattr(self, field.name) for field in fields(Run)})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, which `sepgp.load` reads; see `sepgp.files.model`."""
        if not hasattr(self, "model_"):
            raise InvalidParameter("The model is not fitted yet; fit it before it is saved.")
        parameters = self.get_params(deep=False)
        kept = {name: value for name, value in parameters.items() if name not in OF_A_RUN}
        files.save(self.model_, kept, path, about_if_quick(self.model_))


def load(path: str | os.PathLike[str]) -> GPClassifier:
    """Read a model that `save` wrote. No code in the file is run, and everything is checked."""
    model, parameters = files.load(path)
    estimator = GPClassifier()
    unknown = set(parameters) - (set(estimator.get_params(deep=False)) - set(OF_A_RUN))
    try:
        if unknown:
            raise ValueError(f"it has the parameter {min(unknown)}, which belongs to a run")
        estimator.set_params(**parameters)
        estimator._settings()
    except DAMAGE as error:
        raise damaged(path, error) from error
    estimator.model_ = model
    return estimator
