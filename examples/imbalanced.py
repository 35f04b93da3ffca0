"""One row in fifty is positive: choose a threshold by what mistakes cost, not by 0.5."""

import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import average_precision_score, log_loss
from sklearn.model_selection import train_test_split

from sepgp import GPClassifier

MISSED, FALSE_ALARM = 50.0, 1.0
"""What it costs to miss a positive row, and to raise a false alarm."""


def main(n_rows: int = 10_000, max_iter: int = 300) -> None:
    X, y = make_classification(
        n_rows, n_features=8, n_informative=5, weights=[0.98], flip_y=0.005, random_state=0
    )
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    model = GPClassifier(n_inducing=100, max_iter=max_iter, random_state=0).fit(X_train, y_train)
    p = model.predict_proba(X_test)[:, 1]
    print(f"positives {y_test.mean():.3f}, mean probability {p.mean():.3f}")
    print(
        f"NLL {log_loss(y_test, p):.4f}, average precision {average_precision_score(y_test, p):.3f}"
    )

    # With calibrated probabilities the best threshold follows from the costs alone.
    for threshold in (0.5, FALSE_ALARM / (FALSE_ALARM + MISSED)):
        alarm = p >= threshold
        missed, false = np.sum(~alarm & (y_test == 1)), np.sum(alarm & (y_test == 0))
        cost = MISSED * missed + FALSE_ALARM * false
        print(f"threshold {threshold:.3f}: {missed} missed, {false} false alarms, cost {cost:.0f}")


if __name__ == "__main__":
    main()
