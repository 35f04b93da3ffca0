"""Whether `time_budget` covers all of `fit`: seconds of whole calls beside what was asked for.

python benchmarks/budgets.py
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from sepgp import GPClassifier

ROWS = (1_000, 100_000, 3_000_000)
BUDGETS = (1.0, 5.0, 30.0)


def table(n: int) -> pd.DataFrame:
    """Eight features and a label that two of them decide."""
    rng = np.random.RandomState(0)
    X = rng.randn(n, 8)
    rows = pd.DataFrame(X, columns=list("abcdefgh"))
    return rows.assign(y=(X[:, 0] * X[:, 1] + 0.5 * rng.randn(n) > 0).astype(int))


def main() -> None:
    GPClassifier(max_iter=2).fit([[0.0], [1.0]], [0, 1])  # loads what is loaded once
    print("rows       as       budget  seconds  steps  over (allowed: 5 % or .2 s)")
    with tempfile.TemporaryDirectory() as folder:
        for n in ROWS:
            rows, path = table(n), Path(folder) / f"{n}.parquet"
            rows.to_parquet(path, row_group_size=100_000)
            X, y = rows.to_numpy()[:, :8].copy(), rows["y"].to_numpy()
            for budget in BUDGETS:
                for kind in ("array", "parquet"):
                    model = GPClassifier(n_inducing=200, time_budget=budget, random_state=0)
                    begin = time.perf_counter()
                    model.fit(X, y) if kind == "array" else model.fit(path, target="y")
                    seconds = time.perf_counter() - begin
                    over = seconds - budget
                    verdict = "held" if over <= max(0.05 * budget, 0.2) else "NOT HELD"
                    print(
                        f"{n:9,}  {kind:7}  {budget:6.0f}  {seconds:7.2f}  {model.n_iter_:5}  "
                        f"{over:+.2f} {verdict}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
