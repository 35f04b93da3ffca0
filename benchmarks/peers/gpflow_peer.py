"""GPflow: a stochastic variational GP, whitened, with or without natural gradients.

With many classes, a latent function for each with one kernel, and robust-max or softmax.
"""

import functools
import operator
import os
from collections.abc import Callable
from typing import Any

import contest
import gpflow
import numpy as np
import tensorflow as tf
import tf_keras
from contest import Floats, Rows, Settings
from numpy.typing import NDArray

LOOK_CHUNK = 5_000
"""Rows at a time when the test rows are looked at."""
LIKELIHOODS = {
    "probit": lambda n_classes: gpflow.likelihoods.Bernoulli(),
    "robust-max": gpflow.likelihoods.MultiClass,
    "softmax": gpflow.likelihoods.Softmax,
}
KERNELS = {"matern32": gpflow.kernels.Matern32, "rbf": gpflow.kernels.SquaredExponential}
JITTER = {"float64": 1e-6, "float32": 1e-4}
"""GPflow's own, and one that float32 can see."""


class GPflow:
    """A model under training; `settings["gamma"]` is the natural gradients' rate, 0 for none."""

    def __init__(self, rows: Rows, settings: Settings, seed: int) -> None:
        dtype = np.dtype(settings["dtype"]).type
        self._config = gpflow.config.Config(float=dtype, jitter=JITTER[settings["dtype"]])
        self._rates = settings["rate"], settings["gamma"]
        self._steps = 0
        self._batches = contest.minibatches(len(rows.y), settings["batch"], seed)
        d, C = rows.Z.shape[1], rows.n_classes
        self._name = settings.get("likelihood", "probit")
        latents = 1 if self._name == "probit" else C
        label = dtype if self._name == "probit" else np.int32
        with gpflow.config.as_context(self._config):
            kernels = [
                KERNELS[settings.get("kernel", "matern32")](lengthscales=lengthscales)
                for lengthscales in contest.lengthscales(rows, settings)
            ]
            self._model = gpflow.models.SVGP(
                functools.reduce(operator.add, kernels),
                LIKELIHOODS[self._name](C),
                rows.Z.astype(dtype),
                mean_function=gpflow.functions.Constant(np.zeros(latents, dtype)),
                num_latent_gps=latents,
                num_data=len(rows.y),
                whiten=True,
            )
            self._gamma = tf.Variable(settings["gamma"], dtype=dtype, trainable=False)
        self._adam = tf_keras.optimizers.Adam(settings["rate"])
        self._compiled = self._step(
            tf.constant(rows.X), tf.constant(rows.y[:, None].astype(label)), settings["gamma"] > 0
        )

        signature = [tf.TensorSpec([None, d], dtype), tf.TensorSpec([None, 1], label)]

        @tf.function(input_signature=signature)
        def log_density(X: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            density = self._model.predict_log_density((X, y))
            return tf.reduce_sum(tf.cast(density, tf.float64))

        @tf.function(input_signature=[tf.TensorSpec([None, d], dtype)])
        def latent(X: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return self._model.predict_f(X)

        self._log_density, self._latent, self._label = log_density, latent, label

    def _step(self, X: tf.Tensor, y: tf.Tensor, natural: bool) -> Any:
        model, adam = self._model, self._adam
        variational = [(model.q_mu, model.q_sqrt)]
        if natural:
            for parameter in variational[0]:
                gpflow.set_trainable(parameter, False)
        by_natural_gradient = gpflow.optimizers.NaturalGradient(self._gamma)
        adam.build(model.trainable_variables)

        @tf.function
        def step(rows: tf.Tensor) -> None:
            batch = tf.gather(X, rows), tf.gather(y, rows)
            loss = model.training_loss_closure(batch, compile=False)
            if natural:
                by_natural_gradient.minimize(loss, variational)
            adam.minimize(loss, model.trainable_variables)

        return step

    def warm_up(self) -> None:
        with gpflow.config.as_context(self._config):
            self.step(0.0)

    def step(self, scale: float) -> None:
        rate, gamma = self._rates
        self._adam.learning_rate.assign(rate * scale)
        self._gamma.assign(gamma * scale * contest.ramp(self._steps))
        self._steps += 1
        self._compiled(tf.constant(next(self._batches)))

    def nll(self, X: Floats, y: NDArray[np.int8]) -> float:
        if self._name == "softmax":  # whose own density is by 100 samples
            return self._softmax_nll(X, y)
        total = 0.0
        with gpflow.config.as_context(self._config):
            for i in range(0, len(X), LOOK_CHUNK):
                chunk = slice(i, i + LOOK_CHUNK)
                labels = tf.constant(y[chunk, None].astype(self._label))
                total -= float(self._log_density(tf.constant(X[chunk]), labels))
        return total / len(y)

    def _softmax_nll(self, X: Floats, y: NDArray[np.int8]) -> float:
        with gpflow.config.as_context(self._config):
            chunks = (tf.constant(X[i : i + LOOK_CHUNK]) for i in range(0, len(X), LOOK_CHUNK))
            parts = [self._latent(chunk) for chunk in chunks]
        return contest.softmax_nll(*map(np.concatenate, zip(*parts, strict=True)), y)

    def predictor(self, chunk: int) -> Callable[[Floats], Floats]:
        with gpflow.config.as_context(self._config):
            posterior = self._model.posterior(gpflow.posteriors.PrecomputeCacheType.TENSOR)
        d = self._model.inducing_variable.Z.shape[1]

        @tf.function(input_signature=[tf.TensorSpec([None, d], self._config.float)])
        def probabilities(x: tf.Tensor) -> tf.Tensor:
            mean, variance = posterior.predict_f(x)
            return self._model.likelihood.predict_mean_and_var(x, mean, variance)[0][:, 0]

        def predict(X: Floats) -> Floats:
            with gpflow.config.as_context(self._config):
                chunks = (X[i : i + chunk] for i in range(0, len(X), chunk))
                return np.concatenate([probabilities(tf.constant(x)) for x in chunks])

        return predict


if __name__ == "__main__":
    threads = int(os.environ["OMP_NUM_THREADS"])
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    contest.serve(contest.Tasks(GPflow))
