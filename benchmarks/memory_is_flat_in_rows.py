"""Peak memory and speed of training from Parquet, for 1, 10 and 100 million rows.

Files of 8 features are generated on disk and removed afterwards; the largest takes 3.4 GB. Each
run is a process of its own: m = 50, minibatches of 5,000, one pass over the rows, or as many as
make 10 million. Peak memory is the largest resident set of that process. Rows per second are those
of the training steps, by the median over stretches of 100 steps, since a machine that has other
things to do slows down some of them.

    OMP_NUM_THREADS=1 python benchmarks/memory_is_flat_in_rows.py [--millions 1 10 100] [--steps N]

With --steps every run ends after that many steps.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

GROUP = 2**20
BATCH = 5000
MILLION = 1_000_000


def generate(path: Path, n_rows: int) -> None:
    """Rows whose label depends on the first three of eight features, in time order."""
    random = np.random.default_rng(0)
    names = [f"x{i}" for i in range(8)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.int8())])
    with pq.ParquetWriter(path, schema) as file:
        for begin in range(0, n_rows, GROUP):
            X = random.normal(size=(min(GROUP, n_rows - begin), 8)).astype(np.float32)
            f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
            y = (f + random.normal(size=len(X)) > 0).astype(np.int8)
            file.write_table(pa.table([*X.T, y], schema=schema))


def train(path: str, n_rows: int, most: int | None) -> None:
    """Fit, and print what was measured as JSON."""
    from sepgp import GPClassifier

    steps = -(-n_rows // BATCH)
    steps *= max(1, -(-10 * MILLION // n_rows))
    steps = min(steps, most or steps)
    model = GPClassifier(n_inducing=50, batch_size=BATCH, max_iter=steps, random_state=0)
    begin = time.perf_counter()
    model.fit(path, target="y")
    seconds = time.perf_counter() - begin
    length = min(100, steps)
    stretches = np.diff(np.concatenate([[0.0], model.history_["seconds"]])[::length])
    print(
        json.dumps(
            {
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "rate": length * BATCH / float(np.median(stretches)),
                "mean": steps * BATCH / model.history_["seconds"][-1],
                "before": seconds - model.history_["seconds"][-1],
                "evidence": model.log_evidence_ / n_rows,
            }
        )
    )


def measure(n_rows: int, folder: str, most: int | None) -> dict[str, float]:
    """Generate a file, train on it in a process of its own and remove it."""
    path = Path(folder, "rows.parquet")
    generate(path, n_rows)
    try:
        command = [sys.executable, __file__, "--train", str(path), str(n_rows)]
        command += [] if most is None else ["--steps", str(most)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    finally:
        path.unlink()
    return json.loads(done.stdout)


def main() -> None:
    """Print a line per number of rows, and how far they are apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", nargs="+", type=float, default=[1, 10, 100])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--train", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train[0], int(arguments.train[1]), arguments.steps)
        return
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for millions in arguments.millions:
            run = measure(round(millions * MILLION), folder, arguments.steps)
            found.append(run)
            print(
                f"{millions:6g} million rows: peak {run['peak']:6.1f} MB, "
                f"{run['rate']:8,.0f} rows/s (mean {run['mean']:8,.0f}), "
                f"{run['before']:5.1f} s before training, "
                f"log evidence {run['evidence']:.4f} per row",
                flush=True,
            )
    for name, of in (("peak", "MB"), ("rate", "rows/s")):
        values = [run[name] for run in found]
        apart = max(values) - min(values)
        print(f"{name}: {apart:,.1f} {of} apart, {100 * apart / max(values):.1f} % of the largest")


if __name__ == "__main__":
    main()
