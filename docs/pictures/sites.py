"""What SEP keeps against EP: one tied site instead of a site per row, for nearly the same f."""

import argparse
from pathlib import Path

import numpy as np

from sepgp import GPClassifier, kernels
from sepgp.experiments.style import COLOURS, drawing


def table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """One feature, shape (n, 1), and labels that follow a wave."""
    random = np.random.default_rng(0)
    x = np.sort(random.uniform(-3, 3, n_rows))
    return x[:, None], 3 * np.sin(1.5 * x) + random.normal(size=n_rows) > 0


def draw(stem: Path, n_rows: int, max_iter: int) -> None:
    X, y = table(n_rows)
    settings = {"n_inducing": 8, "max_iter": max_iter, "random_state": 0, "standardize": False}
    fits = {
        method: GPClassifier(method=method, kernel=kernels.RBF(), **settings).fit(X, y)
        for method in ("ep", "sep")
    }
    x = np.linspace(-5, 5, 200)[:, None]
    with drawing(stem, 1, 3, 8.6, 3.1) as (figure, (axes,)):
        nu = fits["ep"].model_.sites.nu.numpy()
        axes[0].vlines(X[:, 0], 0, nu, color=COLOURS["ep"], lw=1)
        axes[0].set(title=f"EP: {2 * n_rows} numbers", xlabel="x of the row")
        axes[0].set_ylabel("precision of its site")
        Lambda = fits["sep"].model_.sites.Lambda.numpy()
        m = len(Lambda)
        most = np.abs(Lambda).max()
        image = axes[1].imshow(Lambda, cmap="PuOr", vmin=-most, vmax=most)
        figure.colorbar(image, ax=axes[1])
        axes[1].set(title=f"SEP: {m * (m + 1)} numbers")
        axes[1].set(xlabel="inducing point", ylabel="inducing point")
        axes[1].grid(False)
        for method, fit in fits.items():
            mean, variance = fit.predict_latent(x)
            band = mean - 2 * np.sqrt(variance), mean + 2 * np.sqrt(variance)
            axes[2].plot(x[:, 0], mean, color=COLOURS[method], label=method.upper())
            axes[2].fill_between(x[:, 0], *band, color=COLOURS[method], alpha=0.15, lw=0)
        axes[2].plot(X[:, 0], np.where(y, 1, -1) * 6.0, "|", color="black", ms=6)
        axes[2].set(title="f ± 2 sd of both", xlabel="x", ylim=(-9, 13))
        axes[2].legend(loc="upper right", ncols=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--small", action="store_true", help="a few rows and steps, in a second")
    options = parser.parse_args()
    draw(options.out / "sites", *((30, 5) if options.small else (200, 250)))


if __name__ == "__main__":
    main()
