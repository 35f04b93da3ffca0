"""sepgp: stochastic expectation propagation at the library's default settings."""

import math
from collections.abc import Callable
from typing import Any

import contest
import numpy as np
import torch
from contest import Floats, Rows, Settings
from numpy.typing import NDArray

from sepgp import GPClassifier
from sepgp.data.array_source import ArraySource
from sepgp.data.batches import Batching
from sepgp.data.scaling import identity
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.kernels import named
from sepgp.gp.natural import Natural
from sepgp.gp.predictor import predict, predictor
from sepgp.likelihoods import for_classes
from sepgp.threads import Threads, allowed
from sepgp.training.memory import keep_freed_memory
from sepgp.training.schedule import Schedule, inducing_rate
from sepgp.training.settings import Settings as Training
from sepgp.training.step import Engine

LOOK_CHUNK = 5_000
"""Rows at a time when the test rows are looked at."""


def kernel_name(settings: Settings) -> str:
    """As many Matérn 3/2 kernels as the settings say, or the library's default."""
    if "kernels" in settings:
        return "+".join(["matern32"] * settings["kernels"])
    return str(GPClassifier().kernel)


def classifier(rows: Rows, settings: Settings, seed: int, **options: Any) -> GPClassifier:
    """The estimator, which starts where all contestants start."""
    return GPClassifier(
        inducing=rows.Z.astype(np.float64),
        standardize=False,
        kernel=kernel_name(settings),
        batch_size=settings["batch"],
        dtype=settings["dtype"],
        validation_fraction=0.0,
        random_state=seed,
        **options,
    )


class Sepgp:
    """The steps that `GPClassifier.fit` takes, one by one, so that a look is not on the clock.

    As there, each is taken with the number of threads that is fastest, of those allowed.
    """

    def __init__(self, rows: Rows, settings: Settings, seed: int) -> None:
        keep_freed_memory()
        self._rows, self._arguments = rows, settings
        defaults = Training()
        self._rate = Schedule.of(defaults, batches_per_epoch=2).rate
        Z = torch.from_numpy(rows.Z.astype(np.float64))
        kernel = named(kernel_name(settings), Z.shape[1], rows.n_classes)
        kernel.start(Z)
        self._hyper = Hyperparameters(kernel, Z)
        n, d = rows.X.shape
        dtype = getattr(torch, settings["dtype"])
        how = Batching(identity(d), settings["batch"], seed, dtype)
        self._source = ArraySource(rows.X, rows.y.astype(np.int64), np.ones(n), how)
        self._batches, self._steps = self._source.batches(), 0
        self._likelihood = for_classes(rows.n_classes)
        self._engine = Engine.of(defaults, self._likelihood, self._hyper)
        self._state = self._engine.init(len(Z), n, minibatch=True)
        self._threads = Threads(allowed())

    def warm_up(self) -> None:
        start = self._state
        self.step(1.0)
        self._state, self._steps = start, 0

    def step(self, scale: float) -> None:
        self._steps += 1
        rate = self._rate
        done = math.acos(2 * scale - 1) / math.pi  # the driver's schedule, backwards
        share = inducing_rate(rate, self._steps / done if done else 1.0) / rate
        batch, n = next(self._batches), self._source.total_weight
        with self._threads.timed():
            self._state, _ = self._engine.step(self._state, batch, n, rate * scale, share)

    def nll(self, X: Floats, y: NDArray[np.int8]) -> float:
        # The sites were refined under the hyper-parameters from before the last move.
        kernel, Z = self._hyper.model(self._state.last_xi)
        with torch.no_grad():
            sites = Natural(self._state.sites.Lambda, self._state.sites.b)
            folded = predictor(kernel, Z, sites)
            chunks = torch.from_numpy(X).double().split(LOOK_CHUNK)
            parts = [predict(folded, kernel(Z, x), kernel.diag(x)) for x in chunks]
        mean, variance = (torch.cat(part, -1).T.numpy() for part in zip(*parts, strict=True))
        log_p = self._likelihood.log_probabilities(mean, variance)
        return float(-np.mean(log_p[np.arange(len(y)), y]))

    def predictor(self, chunk: int) -> Callable[[Floats], Floats]:
        """The estimator's `predict_proba`, which chooses its chunks itself."""
        model = self.fitted()
        return lambda X: model.predict_proba(X)[:, 1]

    def fitted(self) -> GPClassifier:
        """The estimator whose predictions are timed."""
        model = classifier(self._rows, self._arguments, 0, max_iter=contest.PREDICT_STEPS)
        return model.fit(self._rows.X, self._rows.y)


class Tasks(contest.Tasks):
    """What a driver may ask, and besides: the estimator itself, with a time budget."""

    def labels(self, folder: str, settings: Settings, chunk: int, rows: int) -> float:
        """Rows per second from an array of features to an array of labels."""
        contestant, X = self.trained(folder, settings)
        return contest.rows_per_second(contestant.fitted().predict, X[:rows])

    def fit(self, folder: str, settings: Settings, seconds: float, seed: int) -> dict[str, Any]:
        """Fit within a time budget: seconds on the clock, steps and test NLL."""
        rows = contest.read(folder, settings["dtype"])
        model = classifier(rows, settings, seed, time_budget=seconds).fit(rows.X, rows.y)
        nll = contest.probit_nll(*model.predict_latent(rows.X_test), rows.y_test)
        clock = float(model.history_["seconds"][-1])
        return {"points": [[seconds, clock, model.n_iter_, nll]], "error": None}


if __name__ == "__main__":
    contest.serve(Tasks(Sepgp))
