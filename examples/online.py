"""Rows that keep coming, from a world that changes: learn from each day, forget slowly."""

import numpy as np
from sklearn.metrics import log_loss

from sepgp import GPClassifier


def day(number: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a day; the direction that decides turns a little every day."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(n_rows, 2))
    angle = 0.1 * number
    return X, X @ [np.cos(angle), np.sin(angle)] + 0.3 * rng.normal(size=n_rows) > 0


def main(n_days: int = 15, n_rows: int = 500) -> None:
    models = {
        "remembers all": GPClassifier(n_inducing=30, random_state=0),
        "forgets": GPClassifier(n_inducing=30, forgetting=0.6, random_state=0),
    }
    nll = {name: [] for name in models}
    for number in range(n_days):
        X, y = day(number, n_rows)
        for name, model in models.items():
            if number > 0:  # predict the day before learning from it
                nll[name].append(log_loss(y, model.predict_proba(X)[:, 1]))
            model.partial_fit(X, y, classes=[False, True])
    for name, values in nll.items():
        print(f"{name:<14} NLL of the second day {values[0]:.3f}, of the last {values[-1]:.3f}")


if __name__ == "__main__":
    main()
