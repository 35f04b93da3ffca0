"""What the cavity is: q without the site of a row, and how a new site comes from it."""

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import norm

from sepgp import GPClassifier, kernels
from sepgp.experiments.style import drawing

KERNEL = {"lengthscale": 1.0, "variance": 4.0}
ROW = 5


def posterior(X, nu, mu, at) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f at points, from sites exp(−½ ν̃ f² + μ̃ f) at the rows X."""

    def k(a, b):
        gap = a[:, None] - b[None]
        return KERNEL["variance"] * np.exp(-0.5 * (gap / KERNEL["lengthscale"]) ** 2)

    solve = np.linalg.solve(k(X, X) + np.diag(1 / nu), np.column_stack([mu / nu, k(X, at)]))
    mean = k(at, X) @ solve[:, 0]
    return mean, KERNEL["variance"] - np.sum(k(X, at) * solve[:, 1:], 0)


def draw(stem: Path, max_iter: int) -> None:
    X = np.array([-3.0, -2.2, -1.6, -0.9, -0.3, 0.6, 1.5, 2.1, 2.9])
    y = np.array([0, 0, 0, 1, 1, 1, 0, 0, 1])
    held = {"learn_kernel": False, "learn_inducing": False, "standardize": False}
    model = GPClassifier(
        method="ep", kernel=kernels.RBF(**KERNEL), inducing=X[:, None], max_iter=max_iter, **held
    ).fit(X[:, None], y)
    nu, mu = (getattr(model.model_.sites, name).numpy() for name in ("nu", "mu"))
    others = np.arange(len(X)) != ROW
    x, f = np.linspace(-4, 4, 300), np.linspace(-3, 7, 400)
    with drawing(stem, 1, 2, 8.2, 3.6) as (_, (axes,)):
        for name, rows, colour in (
            ("q, all rows", slice(None), "#0072b2"),
            ("cavity of the marked row", others, "#d55e00"),
        ):
            mean, variance = posterior(X[rows], nu[rows], mu[rows], x)
            band = mean - 2 * np.sqrt(variance), mean + 2 * np.sqrt(variance)
            axes[0].plot(x, mean, color=colour, label=name)
            axes[0].fill_between(x, *band, color=colour, alpha=0.15, lw=0)
        axes[0].scatter(X, np.where(y, 5.2, -5.2), c=np.where(y, "#b2182b", "#2166ac"), s=18)
        axes[0].axvline(X[ROW], ymax=0.75, color="black", lw=0.8, ls=":")
        axes[0].set(title="f over x", xlabel="x", ylabel="f", ylim=(-6, 9))
        axes[0].legend(loc="upper left")

        mean, variance = (v[0] for v in posterior(X[others], nu[others], mu[others], X[[ROW]]))
        cavity = norm.pdf(f, mean, np.sqrt(variance))
        tilted = cavity * norm.cdf(f)
        tilted /= tilted.sum() * (f[1] - f[0])
        center = np.sum(f * tilted) * (f[1] - f[0])
        spread = np.sqrt(np.sum((f - center) ** 2 * tilted) * (f[1] - f[0]))
        axes[1].plot(f, cavity, color="#d55e00", label="cavity")
        axes[1].plot(f, 0.3 * norm.cdf(f), color="grey", ls="--", label="likelihood Φ(f) × 0.3")
        axes[1].plot(f, tilted, color="black", label="tilted: their product")
        matched = norm.pdf(f, center, spread)
        axes[1].plot(f, matched, color="#0072b2", ls=":", lw=2.5, label="Gaussian of its moments")
        axes[1].set(title="f at the marked row", xlabel="f", ylim=(-0.01, 0.55))
        axes[1].legend(loc="upper right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--small", action="store_true", help="few steps, in a second")
    options = parser.parse_args()
    draw(options.out / "cavity", 5 if options.small else 100)


if __name__ == "__main__":
    main()
