"""Seconds of the whole command `sepgp train`, as it comes and without early stopping and trials.

A tenth of the rows of each set, written as CSV, is the test set. The longer way is 1,000 steps with
a fixed kernel. Both are processes of their own, one after the other: imports, reading, training and
saving all count.

    python benchmarks/train_command.py [NAME ...]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
from large_sets import DATA
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import sepgp

SETS = ("htru2", "credit_default", "bank_marketing", "mammography")
WHOLE = ["--no-early-stopping", "--kernel", "matern32+matern32"]


def trained(rows: Path, options: list[str]) -> tuple[float, sepgp.GPClassifier]:
    """Seconds of the command with these options, and its model."""
    out = rows.with_name("model.sepgp")
    command = [sys.executable, "-m", "sepgp", "train", rows, "--target", "y", "--out", out, "-q"]
    begin = time.perf_counter()
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    model = sepgp.load(out)
    for file in rows.parent.glob("model.sepgp*"):
        file.unlink()
    return seconds, model


def main() -> None:
    """Print a line per set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=SETS)
    for name in parser.parse_args().sets:
        table = pd.read_parquet(DATA / "more" / f"{name}.parquet")
        rows, test = train_test_split(table, test_size=0.1, random_state=0, stratify=table["y"])
        y = test.pop("y")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.csv"
            rows.to_csv(path, index=False)
            (whole, long), (seconds, model) = trained(path, WHOLE), trained(path, [])
        before, after = (log_loss(y, m.predict_proba(test)) for m in (long, model))
        print(
            f"{name:15s} {long.n_iter_:5d} → {model.n_iter_:4d} steps, "
            f"{whole:5.1f} → {seconds:5.1f} s (× {seconds / whole:.2f}), "
            f"NLL {before:.4f} → {after:.4f} ({after - before:+.4f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
