"""What early stopping costs and saves: test NLL and seconds of `fit` with it, beside the whole run.

A tenth of the rows is the test set; of the others a tenth is held out, as `sepgp train` does. Both
ways train on the same rows from the same start, one after the other, and the seconds are the
processor's, so that a busy machine slows both down alike.

    OMP_NUM_THREADS=1 python benchmarks/early_stopping.py [NAME ...] [--splits 2]
"""

import argparse
import time

import numpy as np
import pandas as pd
from large_sets import DATA
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sepgp import GPClassifier
from sepgp.training.memory import keep_freed_memory

SETS = ("bank_marketing", "credit_default", "htru2", "mammography", "electricity", "eeg_eye")


def compare(name: str, split: int) -> tuple[float, float]:
    """Print a line on one split of a set; return the ratio of seconds and the rise of the NLL."""
    table = pd.read_parquet(DATA / "more" / f"{name}.parquet")
    y = table.pop("y").to_numpy()
    parts = train_test_split(table.to_numpy(), y, test_size=0.1, random_state=split, stratify=y)
    X, X_test, y, y_test = parts
    seconds, nll, steps = [], [], []
    for early_stopping in (False, True):
        model = GPClassifier(
            validation_fraction=0.1, early_stopping=early_stopping, random_state=split
        )
        begin = time.process_time()
        model.fit(X, y)
        seconds.append(time.process_time() - begin)
        nll.append(log_loss(y_test, model.predict_proba(X_test)))
        steps.append(model.n_iter_)
    ratio, rise = seconds[1] / seconds[0], nll[1] - nll[0]
    print(
        f"{name:15s} split {split}: {steps[0]:5d} → {steps[1]:4d} steps, "
        f"seconds × {ratio:.2f}, NLL {nll[0]:.4f} → {nll[1]:.4f} ({rise:+.4f})",
        flush=True,
    )
    return ratio, rise


def main() -> None:
    """Print a line per set and split, and the means of every set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--splits", type=int, default=2)
    arguments = parser.parse_args()
    keep_freed_memory()
    for name in arguments.sets:
        found = [compare(name, split) for split in range(arguments.splits)]
        ratio, rise = np.mean(found, axis=0)
        print(f"{name:15s} mean: seconds × {ratio:.2f}, NLL {rise:+.4f}", flush=True)


if __name__ == "__main__":
    main()
