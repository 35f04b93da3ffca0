"""What a process gains that keeps the memory that training steps free.

Steps of `GPClassifier.fit` in processes with and without `keep_freed_memory`, in turns: median
milliseconds of a step, and their ratio.

    python benchmarks/freed_memory.py
"""

import statistics
import subprocess
import sys

SIZES = ((50, 200), (200, 200), (200, 2000), (400, 2000))
"""Inducing points m and batch."""
ROUNDS = 3


def measure(keep: bool) -> list[float]:
    """Median seconds of a step for every size, in this process."""
    import numpy as np

    from sepgp import GPClassifier
    from sepgp.training.memory import keep_freed_memory

    if keep:
        keep_freed_memory()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 8))
    y = X[:, 0] + 0.3 * rng.normal(size=len(X)) > 0
    seconds = []
    for m, batch in SIZES:
        model = GPClassifier(
            n_inducing=m, batch_size=batch, max_iter=60, validation_fraction=0.0, random_state=0
        )
        seconds.append(float(np.median(np.diff(model.fit(X, y).history_["seconds"]))))
    return seconds


def main() -> None:
    """Print a table."""
    if len(sys.argv) > 1:
        print(*measure(sys.argv[1] == "keep"))
        return
    runs: dict[str, list[list[float]]] = {"plain": [], "keep": []}
    for _ in range(ROUNDS):
        for how, found in runs.items():
            done = subprocess.run(
                [sys.executable, __file__, how], capture_output=True, text=True, check=True
            )
            found.append([float(value) for value in done.stdout.split()])
    print("    m  batch  plain ms  kept ms  ratio")
    for i, (m, batch) in enumerate(SIZES):
        plain, keep = (1e3 * statistics.median(r[i] for r in runs[how]) for how in runs)
        print(f"{m:5d}  {batch:5d}  {plain:8.2f}  {keep:7.2f}  {plain / keep:5.2f}")


if __name__ == "__main__":
    main()
