"""Peak memory and speed of training from Parquet, for 1, 10 and 100 million rows.

Files of 8 features are generated on disk and removed afterwards; the largest takes 3.4 GB. Each
run is a process of its own, with m = 50 and minibatches of 5,000. Peak memory is the largest
resident set of a process that goes once over the rows, or as often as makes 10 million. Speed is
that of the training steps in shorter runs of 400 steps, which take turns: the time of a step as a
multiple of a matrix product that is timed after each step, because the machine may have other
things to do; the median over the rounds.

    OMP_NUM_THREADS=1 python benchmarks/memory_is_flat_in_rows.py [--millions 1 10 100] [--steps N]

With --steps the runs for memory end after that many steps.
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
import torch

from sepgp import GPClassifier
from sepgp.training import Record

GROUP = 2**20
BATCH = 5000
MILLION = 1_000_000
ROUND = 400
"""Steps of a run for speed."""


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


class Product:
    """A callback that times a matrix product: how fast the machine is at that moment."""

    def __init__(self) -> None:
        self.left = torch.randn(200, 200, dtype=torch.float64)
        self.right = torch.randn(200, 1000, dtype=torch.float64)
        self.seconds = 0.0

    def __call__(self, record: Record) -> None:
        begin = time.perf_counter()
        torch.mm(self.left, self.right)
        self.seconds += time.perf_counter() - begin


def train(path: str, n_rows: int, most: int | None) -> None:
    """Fit, and print what was measured as JSON."""
    steps = -(-n_rows // BATCH)
    steps *= max(1, -(-10 * MILLION // n_rows))
    steps = min(steps, most or steps)
    product = Product()
    model = GPClassifier(
        n_inducing=50, batch_size=BATCH, max_iter=steps, random_state=0, callbacks=[product]
    )
    begin = time.perf_counter()
    model.fit(path, target="y")
    seconds = time.perf_counter() - begin - product.seconds
    training = model.history_["seconds"][-1] - product.seconds
    print(
        json.dumps(
            {
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "rate": steps * BATCH / training,
                "products": training / product.seconds,
                "before": seconds - training,
                "evidence": model.log_evidence_ / n_rows,
            }
        )
    )


def measure(path: Path, n_rows: int, most: int | None) -> dict[str, float]:
    """Train on a file in a process of its own."""
    command = [sys.executable, __file__, "--train", str(path), str(n_rows)]
    command += [] if most is None else ["--steps", str(most)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def main() -> None:
    """Print a line per number of rows, and how far they are apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", nargs="+", type=float, default=[1, 10, 100])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--train", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train[0], int(arguments.train[1]), arguments.steps)
        return
    with tempfile.TemporaryDirectory() as folder:
        files = {Path(folder, f"{m:g}.parquet"): round(m * MILLION) for m in arguments.millions}
        peaks, speeds = [], []
        for path, n_rows in files.items():
            generate(path, n_rows)
            run = measure(path, n_rows, arguments.steps)
            peaks.append(run["peak"])
            print(
                f"{path.stem:>4} million rows: peak {run['peak']:6.1f} MB, "
                f"{run['rate']:8,.0f} rows/s, {run['before']:5.1f} s before training, "
                f"log evidence {run['evidence']:.4f} per row",
                flush=True,
            )
        for _ in range(arguments.rounds):
            runs = [measure(*file, ROUND) for file in files.items()]
            speeds.append([run["products"] for run in runs])
            listed = (f"{run['products']:.2f} ({run['rate']:,.0f} rows/s)" for run in runs)
            print("a step in products, in turns: " + ", ".join(listed), flush=True)
    report("peak", "MB", peaks)
    if speeds:
        report("step", "products", np.median(speeds, axis=0).tolist())


def report(name: str, unit: str, values: list[float]) -> None:
    """Print values and how far they are apart."""
    apart = max(values) - min(values)
    listed = " / ".join(f"{value:,.2f}" for value in values)
    print(f"{name}: {listed} {unit}; {apart:,.2f} apart, {100 * apart / max(values):.1f} %")


if __name__ == "__main__":
    main()
