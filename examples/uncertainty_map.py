"""Where a model knows nothing: probability and standard deviation over two features.

Needs matplotlib. Writes uncertainty_map.png.
"""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import make_moons

from sepgp import GPClassifier


def main(n_rows: int = 400, size: int = 150, max_iter: int = 200) -> None:
    X, y = make_moons(n_rows, noise=0.2, random_state=0)
    model = GPClassifier(n_inducing=40, max_iter=max_iter, random_state=0).fit(X, y)

    across, up = np.linspace(-4, 5, size), np.linspace(-4, 5, size)
    points = np.column_stack([values.ravel() for values in np.meshgrid(across, up)])
    probability = model.predict_proba(points)[:, 1]
    sd = np.sqrt(model.predict_latent(points)[1])

    figure = Figure(figsize=(9, 4), layout="constrained")
    for axis, values, title in zip(
        figure.subplots(1, 2), (probability, sd), ("probability", "sd of f"), strict=True
    ):
        figure.colorbar(axis.pcolormesh(across, up, values.reshape(size, size)), ax=axis)
        axis.scatter(*X.T, c=y, s=6, cmap="coolwarm")
        axis.set_title(title)
    figure.savefig("uncertainty_map.png", dpi=120)

    edge = np.array([[0.5, 0.25], [5.0, 5.0]])
    for where, p, v in zip(
        ("between the moons", "far away"),
        model.predict_proba(edge)[:, 1],
        model.predict_latent(edge)[1],
        strict=True,
    ):
        print(f"{where:<18} probability {p:.2f}, sd of f {v**0.5:.2f}")


if __name__ == "__main__":
    main()
