"""A tenth of a peer's time, or less: test NLL of whole fits with a short time budget.

The lowest test NLL that GPflow or GPyTorch had on the same rows, by `benchmarks/peers`, is beside
it, with the seconds that it took. sepgp has its defaults but for the type of numbers. On texture,
which has eleven classes and where seconds are those of the processor, run it with
OMP_NUM_THREADS=1. The test rows choose nothing.

    python benchmarks/short_budgets.py [--sets nycflights13 …] [--seeds 0 1 2]
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from sepgp import GPClassifier
from sepgp.experiments.splits import Split, large_split

sys.path.append(str(Path(__file__).parent / "peers"))
import sets

PEERS = {
    "nycflights13": (0.5242, 24.0, 2.4),
    "airline": (0.6164, 60.0, 6.0),
    "mnist": (0.0732, 30.0, 3.0),
    "texture": (0.0401, 3.6, 0.72),
}
"""The lowest NLL of a peer, its seconds, and those of sepgp."""


def split(name: str) -> Split:
    """The rows of `benchmarks/peers`, as they come."""
    return sets.MADE[name](None) if name in sets.MADE else large_split(name, None)


def line(name: str, rows: Split, dtype: str, seed: int) -> str:
    """Fit once, and look at the test rows."""
    peer, seconds, budget = PEERS[name]
    begin = time.perf_counter()
    model = GPClassifier(time_budget=budget, dtype=dtype, random_state=seed).fit(rows.X, rows.y)
    took = time.perf_counter() - begin
    log_p = model.predict_log_proba(rows.X_test)
    nll = -float(np.mean(log_p[np.arange(len(rows.y_test)), rows.y_test.astype(int)]))
    return (
        f"{name:13s} {dtype} {seed:4d} {took:7.2f} {model.n_iter_:5d}  {nll:.4f}   "
        f"{peer:.4f} in {seconds:4.1f} s  {'lower' if nll <= peer else 'higher'}"
    )


def main() -> None:
    """Print a line for each set, type of numbers and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(PEERS), choices=PEERS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    arguments = parser.parse_args()
    GPClassifier(max_iter=2).fit(np.eye(4), [0, 1, 0, 1])  # so that imports are not on the clock
    print("set           dtype   seed seconds steps  NLL      lowest of a peer")
    for name in arguments.sets:
        rows = split(name)
        for dtype in ("float64", "float32"):
            for seed in arguments.seeds:
                print(line(name, rows, dtype, seed), flush=True)


if __name__ == "__main__":
    main()
