"""Probability and uncertainty on two features of a real table, beside boosted trees.

Writes uncertainty.svg and uncertainty.png into the folder of this script, or one named by --out.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier

from sepgp import GPClassifier
from sepgp.experiments.style import drawing

COLUMNS = ["mean radius", "mean texture"]
CLASSES = {"malignant": ("#b2182b", "^"), "benign": ("#2166ac", "o")}


def table() -> tuple[np.ndarray, np.ndarray]:
    """Two measurements of 569 tumours, shape (569, 2), and whether each is malignant."""
    data = load_breast_cancer(as_frame=True)
    return data.data[COLUMNS].to_numpy(), (data.target == 0).to_numpy()


def grid(X: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two axes that reach well beyond the rows, and all their pairs, shape (size², 2)."""
    high = X.max(0)
    across, up = (np.linspace(0.0, 1.5 * high[k], size) for k in (0, 1))
    return across, up, np.column_stack([v.ravel() for v in np.meshgrid(across, up)])


def draw(stem: Path, size: int, max_iter: int) -> None:
    X, malignant = table()
    across, up, points = grid(X, size)
    process = GPClassifier(n_inducing=50, max_iter=max_iter, random_state=0).fit(X, malignant)
    trees = HistGradientBoostingClassifier(random_state=0).fit(X, malignant)
    sd = np.sqrt(process.predict_latent(points)[1])
    probability, of_trees = (m.predict_proba(points)[:, 1] for m in (process, trees))
    panels = [
        ("sepgp: probability", probability, "RdBu_r", 1.0),
        ("sepgp: standard deviation", sd, "Purples", 3.0),
        ("boosted trees: probability", of_trees, "RdBu_r", 1.0),
    ]
    with drawing(stem, 1, 3, 8.2, 3.1, sharex=True, sharey=True) as (figure, axes):
        for axis, (title, values, colours, most) in zip(axes[0], panels, strict=True):
            values = values.reshape(size, size)
            scale = {"cmap": colours, "vmin": 0, "vmax": most, "rasterized": True}
            mesh = axis.pcolormesh(across, up, values, **scale)
            figure.colorbar(mesh, ax=axis, ticks=[0, most / 2, most], format="%g")
            for name, (colour, marker) in CLASSES.items():
                rows = X[malignant == (name == "malignant")]
                axis.plot(*rows.T, marker, ms=3, mfc=colour, mec="white", mew=0.4, label=name)
            axis.set(title=title, xlabel=COLUMNS[0], xticks=[0, 20, 40])
            axis.grid(False)
        axes[0, 0].set_ylabel(COLUMNS[1])
        axes[0, 0].legend(loc="upper right", frameon=True, handletextpad=0, markerscale=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--small", action="store_true", help="a coarse picture, in a second")
    options = parser.parse_args()
    size, max_iter = (20, 10) if options.small else (200, 250)
    draw(options.out / "uncertainty", size, max_iter)


if __name__ == "__main__":
    main()
