"""How near SEP with one tied site per part comes to EP: NLL and the distance of the posteriors.

Kernel and inducing points are learned by SEP and then held; all methods go over the same rows, all
of them in every step, until they settle. Parts are the digits of MNIST (odd against even), the
classes, clusters, and the months of airline. The distance is KL(q_EP ‖ q) over the inducing
points, in nats; the NLL is that of test rows.

    python benchmarks/sites.py [mnist] [pima] [australian] [airline] [--rows 2000]
"""

import argparse
from typing import NamedTuple

import numpy as np
import torch
from large_sets import DATA
from torch import Tensor

from sepgp import GPClassifier
from sepgp.data.batches import Batch
from sepgp.experiments.catalogue import load
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.inducing import cluster_centres
from sepgp.gp.predictor import posterior, predict, predictor
from sepgp.likelihoods import for_classes
from sepgp.training.settings import Settings
from sepgp.training.step import Engine

STEPS = 80
SETTLED = 1e-6


class Case(NamedTuple):
    """Rows to learn from and rows to test, and the part of each of the former by several rules."""

    X: np.ndarray
    y: np.ndarray
    test: tuple[np.ndarray, np.ndarray]
    parts: dict[str, np.ndarray]
    m: int


def case(name: str, n_rows: int) -> Case:
    """A data set by its name, and so many of its rows if it has more."""
    if name == "mnist":
        with np.load(DATA / "mnist.npz") as file:
            digits = file["y_train"]
            images, labels = file["X_train"].reshape(len(digits), -1) / 255.0, digits % 2
    else:
        images, labels = load(name, DATA)[:2]
    order = np.random.default_rng(0).permutation(len(labels))
    n_train = min(n_rows, int(0.7 * len(order)))
    train, test = order[:n_train], order[n_train : n_train + n_rows]
    X, y = images[train].astype(float), np.unique(labels[train], return_inverse=True)[1]
    codes = np.searchsorted(np.unique(labels[train]), labels[test])
    parts = {"class": y}
    if name == "mnist":
        parts["digit"] = digits[train]
    if name == "airline":
        parts["month"] = np.unique(X[:, 7], return_inverse=True)[1]
    m = 100 if len(order) > 1000 else 50
    return Case(X, y, (images[test].astype(float), codes), parts, m)


def settled(engine: Engine, batch: Batch, m: int) -> Tensor:
    """The sites after so many steps that they do not move any more."""
    n = len(batch.y)
    state = engine.init(m, n, minibatch=False)
    for _ in range(STEPS):
        before = state.sites.b
        state, info = engine.step(state, batch, float(n), 0.0)
        assert info.ok
        if float((state.sites.b - before).norm() / state.sites.b.norm()) < SETTLED:
            break
    return state.sites


def divergence(exact, other) -> float:
    """KL(exact ‖ other) of two Gaussians."""
    factor = torch.linalg.cholesky(other.cov)
    both = torch.linalg.solve_triangular(factor, torch.linalg.cholesky(exact.cov), upper=False)
    step = torch.linalg.solve_triangular(factor, (exact.mean - other.mean)[:, None], upper=False)
    log_det = 2 * (factor.diagonal().log().sum() - torch.logdet(exact.cov) / 2)
    return float(0.5 * ((both**2).sum() + (step**2).sum() - len(exact.mean) + log_det))


@torch.no_grad()
def report(name: str, n_rows: int) -> None:
    """Print a line for each rule."""
    given = case(name, n_rows)
    how = {"n_inducing": given.m, "max_iter": 200, "validation_fraction": 0.0}
    fitted = GPClassifier(**how, random_state=0).fit(given.X, given.y)
    model, likelihood = fitted.model_, for_classes(2)
    X, test = (torch.as_tensor(model.scaling.apply(x)) for x in (given.X, given.test[0]))
    kernel, Z = model.kernel, model.Z
    hyper = Hyperparameters(kernel, Z)
    rows = Batch(X, torch.as_tensor(given.y), torch.ones(len(X), dtype=torch.float64), None)
    Kmb, kdiag = kernel(Z, test), kernel.diag(test)

    def outcome(engine: Engine) -> tuple[float, object]:
        sites = settled(engine, rows, len(Z))
        folded = predictor(kernel, Z, sites)
        mean, variance = (values.numpy() for values in predict(folded, Kmb, kdiag))
        nll = -likelihood.log_probability(given.test[1], mean, variance).mean()
        return float(nll), posterior(kernel, Z, sites)[1]

    ep_nll, exact = outcome(Engine.of(Settings(method="ep"), likelihood, hyper))
    print(f"{name:10s} {len(X):6,d} rows, m = {len(Z)}, EP: NLL {ep_nll:.5f}", flush=True)
    one = np.zeros(len(X), int)
    centres = torch.as_tensor(cluster_centres(Z.numpy(), 10))
    clusters = torch.cdist(X, centres).argmin(1).numpy()
    for rule, part in ({"SEP": one} | given.parts | {"10 clusters": clusters}).items():
        K = int(part.max()) + 1
        where = torch.as_tensor(part)
        by = None if K == 1 else lambda batch, where=where: where
        nll, q = outcome(Engine.of(Settings(), likelihood, hyper, K, by))
        print(
            f"  {rule:12s} {K:3d} sites: NLL {nll:.5f} ({nll - ep_nll:+.5f}), "
            f"KL {divergence(exact, q):.5f}",
            flush=True,
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=["mnist", "pima", "australian", "airline"])
    parser.add_argument("--rows", type=int, default=2000)
    arguments = parser.parse_args()
    for name in arguments.sets:
        report(name, arguments.rows)


if __name__ == "__main__":
    main()
