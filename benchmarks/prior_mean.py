"""A prior mean from boosted trees: test NLL of the trees, of the process, and of both together.

A fifth of the rows is the test set, which chooses nothing; of the others a tenth is held out, as
`sepgp train` does. The trees are `HistGradientBoostingClassifier()` on all rows that are not in the
test set, so the comparison favours them. NLL is followed by its rise over the trees with twice its
standard error, by pairs of rows.

    OMP_NUM_THREADS=1 python benchmarks/prior_mean.py [NAME ...] [--steps 400] [--rows 50000]
"""

import argparse
import time

import numpy as np
import pandas as pd
from large_sets import DATA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from sepgp import GPClassifier
from sepgp.training.memory import keep_freed_memory

SETS = (
    "bank_marketing",
    "banknote",
    "credit_default",
    "eeg_eye",
    "electricity",
    "higgs_7500",
    "htru2",
    "mammography",
    "nycflights13",
)


def losses(model, X, y) -> np.ndarray:
    """−log p(y) of every row, with probabilities of 10⁻⁶ at least, shape (n,)."""
    p = model.predict_proba(X)[np.arange(len(y)), y]
    return -np.log(np.maximum(p, 1e-6))


def compare(name: str, steps: int, most: int) -> None:
    """Print a line on one set."""
    path = DATA / "more" / f"{name}.parquet"
    table = pd.read_parquet(path if path.exists() else DATA / f"{name}.parquet")
    y = table.pop("y").to_numpy().astype(int)
    parts = train_test_split(table.to_numpy(), y, test_size=0.2, random_state=0, stratify=y)
    X, X_test, y, y_test = (part[:most] for part in parts)
    how = {"max_iter": steps, "validation_fraction": 0.1, "random_state": 0}
    line, trees = [f"{name:15s} {len(y):6d} × {X.shape[1]:2d}"], None
    for label, model in {
        "trees": HistGradientBoostingClassifier(random_state=0),
        "process": GPClassifier(**how),
        "both": GPClassifier(mean=HistGradientBoostingClassifier(), **how),
    }.items():
        begin = time.process_time()
        loss = losses(model.fit(X, y), X_test, y_test)
        text = f"{label} {loss.mean():.4f}"
        if trees is None:
            trees = loss
        else:
            rise = loss - trees
            text += f" ({rise.mean():+.4f} ± {2 * rise.std() / np.sqrt(len(rise)):.4f})"
        line.append(f"{text} {time.process_time() - begin:.0f} s")
    line.append(f"factor {model.model_.mean.factor:.2f}")
    print(" | ".join(line), flush=True)


def main() -> None:
    """Print a line per set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rows", type=int, default=50_000)
    arguments = parser.parse_args()
    keep_freed_memory()
    for name in arguments.sets:
        compare(name, arguments.steps, arguments.rows)


if __name__ == "__main__":
    main()
