"""Airline delays from memory, from a Parquet file in time order, and from one sorted by class.

Prints test negative log-likelihood (10,000 rows) and rows per second of each, the latter also as a
share of the rows per second from memory: of the training steps alone, and of all of `fit`, which
for a file includes the pass over it for labels, scaling and a sample.

    OMP_NUM_THREADS=1 python benchmarks/streams.py [--epochs 1] [--repeats 1]
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from large_sets import airline
from sklearn.metrics import log_loss

from sepgp import GPClassifier
from sepgp.experiments.catalogue import CATALOGUE


def table(X: np.ndarray) -> pa.Table:
    """Rows with the names of their columns."""
    return pa.table({name: X[:, i] for i, name in enumerate(CATALOGUE["airline"].features)})


def write(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    """A Parquet file as pyarrow writes it by default: row groups of 2²⁰ rows."""
    pq.write_table(table(X).append_column("late", pa.array(y)), path)


def main() -> None:
    """Print a line per source."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    X, y, X_test, y_test = airline()
    steps = round(arguments.epochs * -(-len(y) // 2000))
    in_time = np.lexsort((X[:, 3], X[:, 6], X[:, 7]))
    by_class = np.argsort(y, kind="stable")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "time.parquet"), X[in_time], y[in_time])
        write(Path(folder, "class.parquet"), X[by_class], y[by_class])
        sources = {
            "memory": ((X, y), {}),
            "Parquet, in time order": ((Path(folder, "time.parquet"),), {"target": "late"}),
            "Parquet, by class": ((Path(folder, "class.parquet"),), {"target": "late"}),
        }
        for _ in range(arguments.repeats):
            reference = 0.0, 0.0
            for name, (given, named) in sources.items():
                model = GPClassifier(max_iter=steps, early_stopping=False, random_state=0)
                begin = time.perf_counter()
                model.fit(*given, **named)
                seconds = time.perf_counter() - begin
                rows = arguments.epochs * len(y)
                rates = rows / model.history_["seconds"][-1], rows / seconds
                reference = rates if name == "memory" else reference
                test = X_test if name == "memory" else table(X_test)
                nll = log_loss(y_test, model.predict_proba(test))
                print(
                    f"{name:24s} NLL {nll:.4f}, training {rates[0]:8,.0f} rows/s "
                    f"({rates[0] / reference[0]:.2f}), fit {rates[1]:8,.0f} rows/s "
                    f"({rates[1] / reference[1]:.2f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
