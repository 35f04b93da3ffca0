"""A cluster of 1 and 2 workers beside one process, and the memory of the client.

`speed` trains on the airline delays in 20 Parquet files with m = 200, after which all have seen the
same number of rows: in one process with two threads, and on a LocalCluster of one and of two
workers of one thread each. It prints rows per second of the rounds and test negative
log-likelihood (all test rows). With several `--rounds` the runs take turns, and last comes what two
workers do beside the others, by medians over the rounds. `memory` trains on rows that the workers
make, 10⁶ and 10⁷ of them, and prints the largest resident set of the client. Every run is a process
of its own.

    python benchmarks/cluster.py speed [--steps 2000] [--rounds 3] [--only threads 1 2]
    python benchmarks/cluster.py memory
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

N_FILES = 20
NAMES = {"threads": "one process, 2 threads", "1": "1 worker", "2": "2 workers"}
SETTINGS: dict[str, Any] = {"n_inducing": 200, "validation_fraction": 0.0, "random_state": 0}


def write(folder: Path) -> None:
    """The training rows of airline in time order, in files, and the test rows beside them."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from large_sets import airline
    from streams import table

    X, y, X_test, y_test = airline()
    order = np.lexsort((X[:, 3], X[:, 6], X[:, 7]))
    (folder / "rows").mkdir()
    for number, rows in enumerate(np.array_split(order, N_FILES)):
        part = table(X[rows]).append_column("late", pa.array(y[rows]))
        pq.write_table(part, folder / "rows" / f"{number:02}.parquet")
    pq.write_table(table(X_test).append_column("late", pa.array(y_test)), folder / "test.parquet")


def measured(model: Any, folder: Path) -> dict[str, float]:
    """Rows per second of all rounds or steps but the first, seconds, and test NLL."""
    import pyarrow.parquet as pq
    from sklearn.metrics import log_loss

    test = pq.read_table(folder / "test.parquet")
    history, n = model.history_, model.model_.n_seen
    rows = (history["epoch"][-1] - history["epoch"][0]) * n
    return {
        "rows/s": rows / (history["seconds"][-1] - history["seconds"][0]),
        "rows": history["epoch"][-1] * n,
        "seconds": history["seconds"][-1],
        "nll": log_loss(test["late"].to_numpy(), model.predict_proba(test.drop(["late"]))),
    }


def client(n_workers: int) -> Any:
    """Of the LocalCluster that is started where there is no client, with so many workers."""
    import distributed

    from sepgp.dask.local import local_cluster

    return distributed.Client(local_cluster(n_workers))


def train(how: str, steps: int, folder: Path) -> dict[str, float]:
    """Train in one process, or with so many workers, on the same number of rows."""
    from sepgp import GPClassifier
    from sepgp.training.memory import keep_freed_memory

    rows = str(folder / "rows")
    if how == "threads":
        keep_freed_memory()  # as workers do
        model = GPClassifier(max_iter=steps, **SETTINGS).fit(rows, target="late")
        return measured(model, folder)
    from sepgp.dask import DaskGPClassifier

    with client(int(how)):
        model = DaskGPClassifier(max_iter=steps // int(how), **SETTINGS).fit(rows, target="late")
        return measured(model, folder)


def generated(block: Any, block_info: Any = None) -> np.ndarray:
    """Rows of eight numbers, which depend on their place alone; the last column is the label."""
    (begin, end), _ = block_info[None]["array-location"]
    random = np.random.default_rng(begin)
    rows = random.normal(size=(end - begin, 9))
    rows[:, 8] = np.sin(2 * rows[:, 0]) + rows[:, 1] * rows[:, 2] + rows[:, 8] > 0
    return rows


def memory(n_rows: int) -> dict[str, float]:
    """The client's largest resident set, in MB, when a training on so many rows is over."""
    import dask.array as da

    from sepgp.dask import DaskGPClassifier

    with client(2):
        size = n_rows // N_FILES
        places = da.zeros((n_rows, 1), chunks=(size, 1))
        rows = places.map_blocks(generated, dtype=float, chunks=((size,) * N_FILES, (9,)))
        begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        model = DaskGPClassifier(max_iter=100, **SETTINGS).fit(rows[:, :8], rows[:, 8])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"before, MB": begin, "peak, MB": peak, "seconds": model.history_["seconds"][-1]}


def separately(*words: str, threads: int = 1) -> dict[str, float]:
    """What a run in a process of its own prints last."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, __file__, *words], env=environment, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def speed(kinds: list[str], steps: int, rounds: int, folder: str) -> None:
    """Print a line per run, and two workers beside the others."""
    rates: dict[str, list[float]] = {how: [] for how in kinds}
    for how in kinds * rounds:
        words = ("train", "--only", how, "--steps", str(steps), "--folder", folder)
        found = separately(*words, threads=2 if how == "threads" else 1)
        rates[how].append(found["rows/s"])
        print(f"{NAMES[how]:24s}", {k: round(v, 4) for k, v in found.items()}, flush=True)
    middle = {how: float(np.median(rate)) for how, rate in rates.items()}
    for how in set(kinds) - {"2"} if "2" in kinds else ():
        print(f"2 workers beside {NAMES[how]}: {middle['2'] / middle[how]:.2f} times")


def main() -> None:
    """Print a line per run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["speed", "memory", "train", "remember"])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=["threads", "1", "2"])
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "train":
        found = train(arguments.only[0], arguments.steps, arguments.folder)
        print(json.dumps(found), flush=True)
    elif arguments.what == "remember":
        print(json.dumps(memory(arguments.steps)), flush=True)
    elif arguments.what == "memory":
        for n_rows in (10**6, 10**7):
            print(f"{n_rows:,} rows", separately("remember", "--steps", str(n_rows)), flush=True)
    else:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
            speed(arguments.only, arguments.steps, arguments.rounds, folder)


if __name__ == "__main__":
    main()
