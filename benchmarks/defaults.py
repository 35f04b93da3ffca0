"""How far the defaults are from the best of several settings, on validation rows of every set.

A tenth of the rows is put aside as a test set and never touched here; another tenth of the rest
validates. With only X and y a user should come within 0.02 nats of the best setting in each line.

    python benchmarks/defaults.py [--sets higgs_7500 …] [--jobs 2]
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sepgp import GPClassifier

DATA = Path(os.environ.get("SEPGP_DATA", Path(__file__).parents[2] / "shared" / "data"))
SETS = [
    *("banknote", "mammography", "htru2", "eeg_eye", "higgs_7500"),
    *("credit_default", "bank_marketing", "electricity", "skin", "nycflights13"),
]
SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "rate/3": {"learning_rate": 0.01},
    "rate×3": {"learning_rate": 0.1},
    "ρ≥.1": {"site_step": 0.1},
    "ρ=s/n": {"site_step": "paper"},
    "matern52": {"kernel": "matern52"},
    "rbf": {"kernel": "rbf"},
    "steps×3": {"max_iter": 3000},
}


def validation_nll(name: str, setting: dict[str, Any]) -> float:
    """Negative log-likelihood of the validation rows of a set after a fit to the others."""
    torch.set_num_threads(1)
    path = DATA / f"{name}.parquet"
    table = pd.read_parquet(path if path.exists() else DATA / "more" / path.name)
    X, y = table.drop(columns="y").to_numpy(), table["y"].to_numpy()
    for seed in (0, 1):  # the first part put aside is the test set, the second validates
        X, X_aside, y, y_aside = train_test_split(
            X, y, test_size=min(10_000, len(y) // 10), stratify=y, random_state=seed
        )
    model = GPClassifier(random_state=0, **setting).fit(X, y)
    return float(log_loss(y_aside, model.predict_proba(X_aside)))


def main() -> None:
    """Print a line per set, and how far the defaults are from the best of the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    names = arguments.settings
    print(f"{'set':16s}" + "".join(f"{name:>10s}" for name in names) + "   from best", flush=True)
    for name in arguments.sets:
        scores = Parallel(arguments.jobs)(
            delayed(validation_nll)(name, SETTINGS[setting]) for setting in names
        )
        line = "".join(f"{score:10.4f}" for score in scores)
        print(f"{name:16s}{line}{scores[0] - np.min(scores):12.4f}", flush=True)


if __name__ == "__main__":
    main()
