"""Peak memory and speed of training from Parquet, for 1, 10 and 100 million rows.

Files of 8 features are generated on disk and removed afterwards; the largest takes 3.4 GB. Each
run is a process of its own, with m = 50 and minibatches of 5,000. Peak memory is the largest
resident set of a process that goes once over the rows, or as often as makes 10 million. For the
speed all files are trained on at once, in turns of two seconds in which the other processes are
stopped: a machine that is slow for a while is slow for all of them. Compared is what each did in a
round beside the mean of the round, by the median over the rounds.

    OMP_NUM_THREADS=1 python benchmarks/memory_is_flat_in_rows.py [--millions 1 10 100] [--steps N]

With --steps the runs for memory end after that many steps.
"""

import argparse
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sepgp import GPClassifier
from sepgp.training.record import Record

GROUP = 2**20
BATCH = 5000
MILLION = 1_000_000
TURN = 2.0
"""Seconds that a run lasts before another has its turn."""
SETTLED = 50
"""Steps before a run is measured."""


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


class Steps:
    """A callback that writes the number of steps to a file, so that another process sees it."""

    def __init__(self, path: Path | None) -> None:
        self.count = None if path is None else np.memmap(path, np.int64, "r+", shape=1)

    def __call__(self, record: Record) -> None:
        if self.count is not None:
            self.count[0] = record.iteration


def train(path: str, n_rows: int, most: int | None, steps_file: Path | None) -> None:
    """Fit, and print what was measured as JSON."""
    steps = -(-n_rows // BATCH)
    steps *= max(1, -(-10 * MILLION // n_rows))
    steps = most or steps
    model = GPClassifier(
        n_inducing=50,
        batch_size=BATCH,
        max_iter=steps,
        early_stopping=False,
        random_state=0,
        callbacks=[Steps(steps_file)],
    )
    begin = time.perf_counter()
    model.fit(path, target="y")
    seconds = time.perf_counter() - begin
    training = model.history_["seconds"][-1]
    print(
        json.dumps(
            {
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "rate": steps * BATCH / training,
                "before": seconds - training,
                "evidence": model.log_evidence_ / n_rows,
            }
        )
    )


def command(path: Path, n_rows: int, *options: object) -> list[str]:
    """How a file is trained on in a process of its own."""
    return [sys.executable, __file__, "--train", str(path), str(n_rows), *map(str, options)]


def measure(path: Path, n_rows: int, most: int | None) -> dict[str, float]:
    """Train on a file, once over the rows, and say what it took."""
    limit = () if most is None else ("--steps", most)
    done = subprocess.run(
        command(path, n_rows, *limit), check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout)


class Runner:
    """A process that trains without end, and rests until its turn comes."""

    def __init__(self, path: Path, n_rows: int) -> None:
        counter = path.with_suffix(".steps")
        self.count = np.memmap(counter, np.int64, "w+", shape=1)
        endless = command(path, n_rows, "--steps", MILLION, "--count", counter)
        # In a session of its own: a stopped process in ours would bring a hang-up to all of it.
        self.process = subprocess.Popen(endless, stdout=subprocess.DEVNULL, start_new_session=True)
        while self.count[0] < SETTLED:
            if self.process.poll() is not None:
                raise RuntimeError(f"Training on {path} ended early.")
            time.sleep(0.1)
        self.process.send_signal(signal.SIGSTOP)

    def turn(self) -> float:
        """Let it run for a while; rows per second."""
        before, begin = int(self.count[0]), time.perf_counter()
        self.process.send_signal(signal.SIGCONT)
        time.sleep(TURN)
        self.process.send_signal(signal.SIGSTOP)
        return (int(self.count[0]) - before) * BATCH / (time.perf_counter() - begin)


def speeds(files: dict[Path, int], rounds: int) -> list[list[float]]:
    """Rows per second of each file in each round, in turns of a few seconds."""
    runners: list[Runner] = []
    try:
        for path, n_rows in files.items():
            runners.append(Runner(path, n_rows))
        return [[runner.turn() for runner in runners] for _ in range(rounds)]
    finally:
        for runner in runners:
            runner.process.kill()
            runner.process.wait()


def main() -> None:
    """Print a line per number of rows, and how far they are apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", nargs="+", type=float, default=[1, 10, 100])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--train", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        path, n_rows = arguments.train
        train(path, int(n_rows), arguments.steps, arguments.count)
        return
    with tempfile.TemporaryDirectory() as folder:
        files = {Path(folder, f"{m:g}.parquet"): round(m * MILLION) for m in arguments.millions}
        peaks = []
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
        report("peak", "MB", peaks)
        if arguments.rounds:
            table = np.array(speeds(files, arguments.rounds))
            report("speed", "rows/s", np.median(table, axis=0).tolist())
            relative = np.median(table / table.mean(1, keepdims=True), axis=0)
            report("speed", "of the round's mean", relative.tolist())


def report(name: str, unit: str, values: list[float]) -> None:
    """Print values and how far they are apart."""
    apart = max(values) - min(values)
    listed = " / ".join(f"{value:,.2f}" for value in values)
    print(f"{name}: {listed} {unit}; {apart:,.2f} apart, {100 * apart / max(values):.1f} %")


if __name__ == "__main__":
    main()
