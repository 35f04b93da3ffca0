"""Rows that do not fit in memory: train and predict from Parquet files, block by block."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sepgp import GPClassifier


def write(path: Path, n_rows: int, seed: int) -> None:
    """A file of rows; in earnest it comes from elsewhere."""
    rng = np.random.default_rng(seed)
    distance, hour = rng.exponential(800, n_rows), rng.uniform(5, 23, n_rows)
    carrier = rng.choice(["north", "south", "west"], n_rows)
    late = hour / 10 + (carrier == "west") - distance / 4000 + rng.normal(size=n_rows) > 1.8
    columns = {"distance": distance, "hour": hour, "carrier": carrier, "late": late}
    pq.write_table(pa.table(columns), path)


def main(n_files: int = 4, n_rows: int = 50_000, max_iter: int = 300) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i in range(n_files):
            write(folder / f"part-{i}.parquet", n_rows, seed=i)
        write(folder / "new.parquet", n_rows, seed=n_files)

        model = GPClassifier(n_inducing=50, max_iter=max_iter, random_state=0)
        model.fit(str(folder / "part-*.parquet"), target="late")
        print(f"{n_files} files, {n_files * n_rows:,} rows, {model.n_iter_} steps")

        # Predictions of a file are an iterator: one array for each block of rows.
        late = sum(p[:, 1].sum() for p in model.predict_proba(folder / "new.parquet"))
        print(f"expected to be late: {late:,.0f} of {n_rows:,}")
        print(f"accuracy {model.score(folder / 'new.parquet'):.3f}")


if __name__ == "__main__":
    main()
