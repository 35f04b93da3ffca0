"""GPflow's variational GP with kernel and inducing points held, run to its optimum.

Reads the arrays of a folder and writes `found.npz` there; `../variational_agrees.py` asks for it,
in GPflow's own environment.
"""

import sys
from pathlib import Path

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

POINTS = 100
"""Of the Gauss–Hermite rule; GPflow's own 20 are not enough for four digits where f is wide."""
STEPS = 300
GAMMA = 0.5


class Probit(gpflow.likelihoods.Bernoulli):
    """log Φ(± f), without the floor of .001 that GPflow's own has, and exact in the far tail."""

    def _scalar_log_prob(self, X: tf.Tensor, F: tf.Tensor, Y: tf.Tensor) -> tf.Tensor:
        normal = tfp.distributions.Normal(np.float64(0), np.float64(1))
        return normal.log_cdf((2 * Y - 1) * F)


def main(folder: Path) -> None:
    """Optimise q by natural gradients with all rows, and predict."""
    given = np.load(folder / "given.npz")
    gpflow.config.set_default_jitter(float(given["jitter"]))
    likelihood = Probit()
    likelihood.quadrature = gpflow.quadrature.NDiagGHQuadrature(1, POINTS)
    model = gpflow.models.SVGP(
        gpflow.kernels.SquaredExponential(float(given["variance"]), given["lengthscale"]),
        likelihood,
        given["Z"],
        num_data=len(given["y"]),
        whiten=True,
    )
    data = given["X"], given["y"][:, None].astype(np.float64)
    loss = model.training_loss_closure(data)
    natural = gpflow.optimizers.NaturalGradient(GAMMA)
    for _ in range(STEPS):
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
    mean, variance = model.predict_f(given["X_test"])
    elbo = float(model.elbo(data))
    np.savez(folder / "found.npz", elbo=elbo, mean=mean[:, 0], variance=variance[:, 0])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
