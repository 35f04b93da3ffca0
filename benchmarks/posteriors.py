"""Which power is nearest to the true posterior in mean, in variance and in probability?

Kernel and inducing points are learned once, by SEP on all rows, and then held. The posterior of the
inducing values u under them is sampled by elliptical slice sampling: p(u) = N(0, K) and
p(y_i | u) = Φ(y_i υ_iᵀu/√(1 + s_i)), with nothing approximated. Then SEP and EP are run to their
fixed points with each power. Distances are over the rows that were held out:

    mean         root mean square of (mean − true mean)/true sd, of the latent function f
    variance     mean of log(variance/true variance): below 0 the method is too sure
    probability  mean and largest |p − true p|

Several chains show how exact the sampling itself is: the last line of a set is each chain beside
all of them.

    python benchmarks/posteriors.py [--sets heart sonar] [--samples 100000]
"""

import argparse
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from sepgp import GPClassifier
from sepgp.experiments.catalogue import load
from sepgp.gp.cholesky import safe_cholesky
from sepgp.gp.kernels import RBF, Kernel

DATA = Path(os.environ.get("SEPGP_DATA", Path(__file__).parents[2] / "shared" / "data"))
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
INDUCING = 40
CHAINS = 4
BURN_IN = 2_000
Floats = NDArray[np.float64]


class Rows(NamedTuple):
    """FITC conditionals of rows in whitened coordinates: f | v ~ N(A v, s) with v ~ N(0, I)."""

    A: Floats
    """Shape (n, m)."""
    s: Floats
    """Shape (n,)."""


class Latent(NamedTuple):
    """What is said about the held-out rows, each of shape (t,)."""

    mean: Floats
    variance: Floats
    p: Floats


def conditionals(kernel: Kernel, Z: torch.Tensor, X: Floats) -> Rows:
    """Those of rows X, shape (n, d), given the inducing points."""
    with torch.no_grad():
        x = torch.as_tensor(X)
        V = torch.linalg.solve_triangular(safe_cholesky(kernel(Z, Z)).L, kernel(Z, x), upper=False)
        s = kernel.diag(x) - (V * V).sum(0)
    return Rows(V.T.numpy(), s.clamp_min(0).numpy())


def sampled(train: Rows, y: Floats, samples: int, seed: int) -> Floats:
    """Samples of v by elliptical slice sampling (Murray, Adams and MacKay, 2010)."""
    random = np.random.default_rng(seed)
    signed = y[:, None] * train.A / np.sqrt(1 + train.s)[:, None]
    z = np.zeros(len(y))
    v = np.zeros(train.A.shape[1])
    kept = np.empty((samples, len(v)))
    for i in range(-BURN_IN, samples):
        other = random.normal(size=len(v))
        z_other = signed @ other
        level = log_ndtr(z).sum() + np.log(random.uniform())
        angle = random.uniform(0, 2 * np.pi)
        low, high = angle - 2 * np.pi, angle
        while True:
            new_z = z * np.cos(angle) + z_other * np.sin(angle)
            if log_ndtr(new_z).sum() > level:
                break
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = random.uniform(low, high)
        v, z = v * np.cos(angle) + other * np.sin(angle), new_z
        if i >= 0:
            kept[i] = v
    return kept


def by_samples(v: Floats, test: Rows) -> Latent:
    """What samples, shape (samples, m), say about the held-out rows."""
    mean, square, p = (np.zeros(len(test.s)) for _ in range(3))
    for part in np.array_split(v, max(1, len(v) // 5000)):
        f = part @ test.A.T
        mean += f.sum(0)
        square += (f * f).sum(0)
        p += ndtr(f / np.sqrt(1 + test.s)).sum(0)
    mean, square, p = mean / len(v), square / len(v), p / len(v)
    return Latent(mean, square - mean**2 + test.s, p)


def distances(found: Latent, truth: Latent) -> str:
    """In words for a table."""
    mean = np.sqrt(np.mean((found.mean - truth.mean) ** 2 / truth.variance))
    variance = np.mean(np.log(found.variance / truth.variance))
    gap = np.abs(found.p - truth.p)
    return f"{mean:8.4f} {variance:+9.4f} {gap.mean():9.5f} {gap.max():9.5f}"


def compare(name: str, samples: int) -> None:
    """Print the distances on one set."""
    X, y = load(name, DATA)[:2]
    X = (X - X.mean(0)) / np.maximum(X.std(0), 1e-12)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[: 3 * len(y) // 4], order[3 * len(y) // 4 :]
    common = {"batch_size": len(train), "standardize": False, "random_state": 0}
    start = GPClassifier(n_inducing=INDUCING, kernel=RBF(), max_iter=250, **common)
    start.fit(X[train], y[train])
    learned, Z = start.kernel_, start.inducing_points_
    kernel = RBF(learned.lengthscale.tolist(), learned.variance.item())
    kernel.start(torch.as_tensor(Z))
    rows, held_out = (conditionals(kernel, torch.as_tensor(Z), X[part]) for part in (train, test))
    chains = [sampled(rows, 2.0 * y[train] - 1, samples, seed) for seed in range(CHAINS)]
    truth = by_samples(np.concatenate(chains), held_out)
    print(
        f"{name}: {len(train)} rows, {len(test)} held out, m = {len(Z)}, σ² = {kernel.variance:.1f}"
    )
    print("method power     mean  variance   p, mean   p, most")
    for method in ("sep", "ep"):
        for power in POWERS:
            model = GPClassifier(
                method=method,
                power=power,
                inducing=Z,
                kernel=kernel,
                learn_kernel=False,
                learn_inducing=False,
                site_step=0.5,
                max_iter=300,
                **common,
            ).fit(X[train], y[train])
            mean, variance = model.predict_latent(X[test])
            found = Latent(mean, variance, model.predict_proba(X[test])[:, 1])
            print(f"{method:6s} {power:5.2f} {distances(found, truth)}", flush=True)
    for v in chains:
        print(f"chain        {distances(by_samples(v, held_out), truth)}")


def main() -> None:
    """Compare on the sets that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["heart", "sonar"])
    parser.add_argument("--samples", type=int, default=100_000, help="of each chain")
    given = parser.parse_args()
    for name in given.sets:
        compare(name, given.samples)


if __name__ == "__main__":
    main()
