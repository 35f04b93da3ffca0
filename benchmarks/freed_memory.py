"""What a process gains that keeps the memory that training steps free.

Steps of `GPClassifier.fit` in turns: without what it does about it, as it comes (what glibc has
learned to keep), and with `keep_freed_memory`, as commands and workers have it: median milliseconds
of a step, and how many times as fast the last two are.

    python benchmarks/freed_memory.py
"""

import statistics
import subprocess
import sys

SIZES = ((50, 200), (200, 200), (200, 2000), (400, 2000), (1000, 2000))
"""Inducing points m and batch."""
ROUNDS = 3


def measure(how: str) -> list[float]:
    """Median seconds of a step for every size, in this process."""
    import numpy as np

    from sepgp import GPClassifier
    from sepgp.training import memory

    if how == "plain":
        memory.learn_to_keep = lambda: None
    if how == "kept":
        memory.keep_freed_memory()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 8))
    y = X[:, 0] + 0.3 * rng.normal(size=len(X)) > 0
    seconds = []
    for m, batch in SIZES:
        model = GPClassifier(
            n_inducing=m,
            batch_size=batch,
            max_iter=60 if m < 1000 else 15,
            validation_fraction=0.0,
            random_state=0,
        )
        seconds.append(float(np.median(np.diff(model.fit(X, y).history_["seconds"]))))
    return seconds


def main() -> None:
    """Print a table."""
    if len(sys.argv) > 1:
        print(*measure(sys.argv[1]))
        return
    runs: dict[str, list[list[float]]] = {"plain": [], "learned": [], "kept": []}
    for _ in range(ROUNDS):
        for how, found in runs.items():
            done = subprocess.run(
                [sys.executable, __file__, how], capture_output=True, text=True, check=True
            )
            found.append([float(value) for value in done.stdout.split()])
    print("    m  batch  plain ms  learned   kept  ratios")
    for i, (m, batch) in enumerate(SIZES):
        plain, learned, kept = (1e3 * statistics.median(r[i] for r in runs[how]) for how in runs)
        print(
            f"{m:5d}  {batch:5d}  {plain:8.2f}  {learned:7.2f}  {kept:5.2f}"
            f"  {plain / learned:.2f}  {plain / kept:.2f}"
        )


if __name__ == "__main__":
    main()
