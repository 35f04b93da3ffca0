"""`DaskGPClassifier`: the estimator for rows that lie on a cluster."""

import copy
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import dask
import distributed
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from sepgp.backends.cluster import Cluster
from sepgp.backends.fit import Given, fit
from sepgp.backends.loop import LOCAL_STEPS, Plan
from sepgp.backends.partitions import Partition, rows_of
from sepgp.classifier import GPClassifier
from sepgp.dask.collections import delayed_partitions, is_collection, lazily
from sepgp.dask.local import local_cluster
from sepgp.data import checks
from sepgp.data.columns.texts import Choices
from sepgp.data.rows.base import Wanted
from sepgp.errors import ClusterLost, InvalidData, InvalidParameter, brief
from sepgp.gp.kernels import Kernel
from sepgp.model import Model
from sepgp.training.record import Record


class DaskGPClassifier(GPClassifier):
    """`GPClassifier` for rows on a Dask cluster, which stay there.

    Training goes in rounds. The rows are in parts, each of which is worked on by one thread of the
    cluster; in a round every part gets the state, O(C m²) numbers, takes some steps on its own
    rows, and a tree of sums adds what they learned. A worker that is lost costs the steps of its
    parts in this round and the reading of its rows, and changes no number of the result.

    All parameters that are not listed here are as in `GPClassifier`, with steps, their `batch_size`
    and `max_iter` counted for each part; `history_` has a row per round, and `callbacks` are called
    after every round. With `validation_fraction="auto"` no rows are held out.

    Parameters
    ----------
    client : distributed.Client or None
        The cluster; None for the default client. If there is none, a LocalCluster of a process for
        each core is started. It is never pickled.
    n_parts : int or None
        Parts of the rows, of neighbouring partitions each; None for as many as the cluster has
        threads. Results depend on it, not on the number of workers.
    local_steps : int
        Steps that a part takes between two rounds.
    quorum : float
        The share of the parts that must have answered before a round ends. Below 1, an answer that
        comes late counts in the next round, and results depend on who was late.
    n_factors : int, "class", "part" or a dict
        As in `GPClassifier`; "part" gives each part a tied factor of its own.
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
        client: distributed.Client | None = None,
        n_parts: int | None = None,
        local_steps: int = LOCAL_STEPS,
        quorum: float = 1.0,
    ) -> None:
        given = locals()
        super().__init__(**{name: given[name] for name in GPClassifier._get_param_names()})
        self.client = client
        self.n_parts, self.local_steps, self.quorum = n_parts, local_steps, quorum

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: str | None = None,
        columns: Sequence[str] | None = None,
        read: Mapping[str, str] | None = None,
        dayfirst: bool | None = None,
    ) -> Self:
        """Train on rows with labels of two or more classes.

        Parameters
        ----------
        X : Dask array of shape (n, d), Dask DataFrame or path
            Rows with their labels y; a DataFrame, or the path of files or a pattern, with the
            column `target` as labels. Each file is opened by the worker that works on it, so the
            path must be the same for all workers.
        y, sample_weight : Dask arrays or Series, or name of a column for the weights, optional
            The labels, unless X has them, and weights, with chunks like those of X.
        target, columns, read, dayfirst
            As in `GPClassifier.fit`.
        """
        settings, run = self._settings(), self._run()
        if self.mean is not None:
            raise InvalidParameter(
                f"mean={self.mean!r} is not for rows on a cluster; leave it out, or use "
                "GPClassifier."
            )
        plan = Plan(self.n_parts, self.local_steps, self.quorum)
        plan.check()
        client = self._connected()
        weight = sample_weight if isinstance(sample_weight, str) else None
        choices = Choices(read or {}, dayfirst)
        checks.choices(choices)
        if y is not None and (target is not None or isinstance(X, str | os.PathLike)):
            raise InvalidData("y is given beside target or a path; give the labels once.")
        beside = None if weight is not None else sample_weight
        partitions = delayed_partitions(X, y, beside, Wanted(target, columns, weight))
        partitions = [_on_cluster(client, partition) for partition in partitions]
        previous = getattr(self, "model_", None) if self.warm_start else None
        try:
            given = Given(partitions, target, choices)
            self.model_ = fit(settings, given, previous, run, plan, Cluster(client))
        except ClusterLost as error:
            if isinstance(error.model, Model):
                self.model_ = error.model
            raise
        except Exception as error:
            _blame(partitions, error)
            raise
        return self

    def partial_fit(self, X: Any, *arguments: Any, **options: Any) -> Self:
        """Learn from new rows in memory, in this process: see `GPClassifier.partial_fit`."""
        if is_collection(X):
            raise InvalidParameter(
                f"X is a Dask {type(X).__name__}, and partial_fit learns from rows in memory; use "
                "fit with warm_start=True, or give the rows block by block."
            )
        return super().partial_fit(X, *arguments, **options)

    def predict_latent(self, X: Any) -> Any:
        """Mean and variance of f at the rows X, two collections if X is one."""
        if not is_collection(X):
            return super().predict_latent(X)
        columns = self._latent_columns()
        model = self._fitted()
        return tuple(lazily(model, X, which, float, columns) for which in (mean, variance))

    def decision_function(self, X: Any) -> Any:
        """As in `GPClassifier`, lazily if X is a collection of Dask."""
        if not is_collection(X):
            return super().decision_function(X)
        return lazily(self._fitted(), X, decision, float, self._latent_columns())

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, lazily if X is a collection: an array for an array.

        For a DataFrame it is one with a column for each class and the same index.
        """
        if not is_collection(X):
            return super().predict_proba(X)
        return lazily(self._fitted(), X, probabilities, float, self.classes_)

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of `predict_proba`, exact for probabilities near 0 too."""
        if not is_collection(X):
            return super().predict_log_proba(X)
        return lazily(self._fitted(), X, log_probabilities, float, self.classes_)

    def predict(self, X: Any) -> Any:
        """The most probable class of each row, lazily if X is a collection."""
        if not is_collection(X):
            return super().predict(X)
        return lazily(self._fitted(), X, labels, self.classes_.dtype)

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, target: str | None = None
    ) -> float:
        """The share of right labels, found where the rows are."""
        if not is_collection(X):
            return super().score(X, y, sample_weight, target=target)
        model = self._fitted()
        named = (target or model.target) if y is None else None
        weight = sample_weight if isinstance(sample_weight, str) else None
        wanted = Wanted(named, model.schema.names if hasattr(X, "columns") else None, weight)
        beside = None if weight is not None else sample_weight
        sent = dask.delayed(model, traverse=False)
        sums = [
            dask.delayed(_right)(sent, *partition)
            for partition in delayed_partitions(X, y, beside, wanted)
        ]
        right, total = np.sum(dask.compute(*sums), axis=0)
        return float(right / total)

    @property
    def client_(self) -> distributed.Client:
        """The client of the cluster: the one given, or the default one."""
        return distributed.default_client() if self.client is None else self.client

    def to_local(self) -> GPClassifier:
        """An ordinary `GPClassifier` with the same model."""
        parameters = self.get_params(deep=False)
        names = GPClassifier._get_param_names()
        local = GPClassifier(**{name: parameters[name] for name in names})
        if hasattr(self, "model_"):
            local.model_ = self.model_
        return local

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, which `sepgp.load` reads as a `GPClassifier`."""
        self.to_local().save(path)

    def _latent_columns(self) -> Any:
        return None if len(self.classes_) == 2 else self.classes_

    def _connected(self) -> distributed.Client:
        try:
            return self.client_
        except ValueError:
            cores = os.cpu_count() or 1
            warnings.warn(
                f"There is no Dask client, so a LocalCluster of {cores} processes was started on "
                "this machine; make a Client to use another cluster.",
                UserWarning,
                stacklevel=3,
            )
            return distributed.Client(local_cluster(cores))

    def __getstate__(self) -> Any:
        return super().__getstate__() | {"client": None}

    def __sklearn_clone__(self) -> "DaskGPClassifier":
        parameters = self.get_params(deep=False)
        client = parameters.pop("client")
        copies = {name: clone(value, safe=False) for name, value in parameters.items()}
        return type(self)(client=client, **copies)

    def __deepcopy__(self, memo: dict[int, Any]) -> "DaskGPClassifier":
        other = type(self)(client=self.client)
        others = {name: value for name, value in vars(self).items() if name != "client"}
        other.__dict__.update(copy.deepcopy(others, memo))
        return other


def _on_cluster(client: distributed.Client, partition: Partition) -> Partition:
    """A partition whose delayed values are tasks of the cluster."""
    parts = [client.compute(part) if is_collection(part) else part for part in partition[1:4]]
    return partition._replace(X=parts[0], y=parts[1], weight=parts[2])


def _blame(partitions: Sequence[Partition], error: Exception) -> None:
    """Say which partition it is that Dask could not compute, if it is one."""
    for partition in partitions:
        for part in partition[1:4]:
            if isinstance(part, distributed.Future) and part.status == "error":
                said = brief(str(error)).replace(". ", ", ").rstrip(".")
                raise InvalidData(
                    f"{partition.name} cannot be computed ({said}); correct what it is made from."
                ) from error


def mean(model: Model, X: Any) -> Any:
    """The mean of f at rows in memory."""
    return model.latent(X)[0]


def variance(model: Model, X: Any) -> Any:
    """The variance of f at rows in memory."""
    return model.latent(X)[1]


def decision(model: Model, X: Any) -> Any:
    """What `decision_function` gives for rows in memory."""
    return model.predict(X, model.likelihood.decision)


def probabilities(model: Model, X: Any) -> Any:
    """The probabilities of the classes at rows in memory."""
    return model.probabilities(X)


def log_probabilities(model: Model, X: Any) -> Any:
    """Their logarithms."""
    return model.log_probabilities(X)


def labels(model: Model, X: Any) -> Any:
    """The most probable classes at rows in memory."""
    return model.labels(X)


def _right(model: Model, *partition: Any) -> tuple[float, float]:
    """The weight of the rows of a partition that get their label, and of all of them."""
    right = total = 0.0
    rows = rows_of(Partition(*partition))
    for block in () if rows is None else rows.blocks():
        y = checks.like_classes(np.asarray(block.y), model.classes)
        right += float(block.weight @ (model.labels(block.X) == y))
        total += float(block.weight.sum())
    return right, total
