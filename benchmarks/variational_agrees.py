"""Power 0 is variational inference: the same ELBO and predictions as GPflow's SVGP.

Both have the same rows in one batch, the same RBF kernel and inducing points, which are held, and
the probit without a floor. GPflow's q is found by natural gradients, in whitened coordinates and by
a Gauss–Hermite rule; ours by SEP's step at power 0. Printed are the two bounds and the largest
differences of the mean and variance of f over test rows. Ends with code 1 if one is above 1e-4.

    python benchmarks/variational_agrees.py [--sets heart pima]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from sepgp import GPClassifier
from sepgp.experiments.catalogue import load
from sepgp.gp.cholesky import JITTER
from sepgp.gp.kernels import RBF

HERE = Path(__file__).parent
sys.path.append(str(HERE / "peers"))

import environments  # noqa: E402, which is in the folder of the peers

DATA = Path(os.environ.get("SEPGP_DATA", HERE.parents[1] / "shared" / "data"))
INDUCING = 40
VARIANCE = 4.0
TOLERANCE = 1e-4


def rows(name: str) -> dict[str, np.ndarray]:
    """Standardised rows of a set, a quarter of them to test, and the kernel that is held."""
    X, y = load(name, DATA)[:2]
    X = (X - X.mean(0)) / np.maximum(X.std(0), 1e-12)
    order = np.random.default_rng(0).permutation(len(y))
    test, train = np.split(order, [len(y) // 4])
    Z = X[train[:INDUCING]]
    lengthscale = np.full(X.shape[1], float(torch.pdist(torch.as_tensor(Z)).median()))
    return {
        "X": X[train], "y": y[train], "X_test": X[test], "Z": Z, "lengthscale": lengthscale,
        "variance": np.array(VARIANCE), "jitter": np.array(JITTER * VARIANCE),
    }  # fmt: skip


def ours(given: dict[str, np.ndarray]) -> tuple[float, np.ndarray, np.ndarray]:
    """The ELBO, and mean and variance of f at the test rows."""
    model = GPClassifier(
        power=0.0,
        inducing=given["Z"],
        kernel=RBF(given["lengthscale"].tolist(), VARIANCE),
        learn_kernel=False,
        learn_inducing=False,
        standardize=False,
        batch_size=len(given["y"]),
        site_step=0.5,
        max_iter=300,
    ).fit(given["X"], given["y"])
    return model.log_evidence_, *model.predict_latent(given["X_test"])


def theirs(given: dict[str, np.ndarray]) -> tuple[float, np.ndarray, np.ndarray]:
    """The same by GPflow, in an environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder, "given.npz"), **given)
        variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        variables |= {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
        variables["CUDA_VISIBLE_DEVICES"] = "-1"
        script = HERE / "peers" / "gpflow_fixed.py"
        subprocess.run([environments.python("gpflow"), script, folder], check=True, env=variables)
        found = np.load(Path(folder, "found.npz"))
        return float(found["elbo"]), found["mean"], found["variance"]


def main() -> None:
    """Compare on the sets that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["heart", "pima"])
    worst = 0.0
    for name in parser.parse_args().sets:
        given = rows(name)
        (elbo, mean, variance), (elbo_, mean_, variance_) = ours(given), theirs(given)
        gaps = abs(elbo - elbo_), np.abs(mean - mean_).max(), np.abs(variance - variance_).max()
        print(
            f"{name}: {len(given['y'])} rows, m = {INDUCING}; ELBO {elbo:.6f}, GPflow's "
            f"{elbo_:.6f}; differences: ELBO {gaps[0]:.1e}, mean {gaps[1]:.1e}, "
            f"variance {gaps[2]:.1e}",
            flush=True,
        )
        worst = max(worst, *gaps)
    sys.exit(int(worst > TOLERANCE))


if __name__ == "__main__":
    main()
