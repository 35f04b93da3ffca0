"""How far the defaults are from the best of several settings, on validation rows of every set.

A tenth of the rows is put aside as a test set and never touched here; another tenth of the rest
validates. With only X and y a user should come within 0.02 nats of the best setting in each line.
Sets of fewer than 2,000 rows train with all rows in every step: there only the types of numbers and
one kernel instead of two are compared, over ten splits. On airline and MNIST only kernels are, for
time. On sets of more rows the default is the best of four kernels in short trials; each of them
stands beside it.

    python benchmarks/defaults.py [--sets higgs_7500 …] [--settings defaults float32] [--jobs 2]
"""

import argparse
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sepgp import GPClassifier
from sepgp.experiments.catalogue import CATALOGUE, load
from sepgp.gp.kernels import Matern12, Matern32, Warped

DATA = Path(os.environ.get("SEPGP_DATA", Path(__file__).parents[2] / "shared" / "data"))
SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "float32": {"dtype": "float32"},
    "rate/3": {"learning_rate": 0.06},
    "rate×2": {"learning_rate": 0.4},
    "ρ≥.05": {"site_step": 0.05},
    "ρ=s/n": {"site_step": "paper"},
    "one": {"kernel": "matern32"},
    "smooth": {"kernel": "matern32+matern32"},
    "rough": {"kernel": "matern12+matern12"},
    "warped": {"kernel": Warped(Matern32() + Matern32())},
    "warped, rough": {"kernel": Warped(Matern12() + Matern12())},
    "three": {"kernel": "matern32+matern32+matern32"},
    "matern52": {"kernel": "matern52+matern52"},
    "rbf": {"kernel": "rbf+rbf"},
    "steps×3": {"max_iter": 3000},
}
EVERYWHERE = ["defaults", "float32", "one"]
KERNELS = ["defaults", "smooth", "rough", "warped", "warped, rough"]
SMALL = [
    *("australian", "breast", "crabs", "heart", "ionosphere", "pima", "sonar"),
    *("pima_ripley", "banknote"),
]
MIDDLE = [
    *("mammography", "htru2", "eeg_eye", "higgs_7500", "credit_default"),
    *("bank_marketing", "electricity", "skin", "nycflights13"),
]
LARGE = ["mnist", "airline"]
SPLITS = 10
"""Of a small set."""


class Score(NamedTuple):
    """What a fit came to."""

    nll: float
    """Mean negative log-likelihood of the validation rows."""
    rejected: int
    """Steps that were thrown away."""


def read(name: str) -> tuple[Any, Any]:
    """Rows and labels of a set, without the test rows that it comes with."""
    if name in CATALOGUE:
        X, y, _, n_train = load(name, DATA)
        return X[:n_train], y[:n_train]
    path = DATA / f"{name}.parquet"
    table = pd.read_parquet(path if path.exists() else DATA / "more" / path.name)
    return table.drop(columns="y").to_numpy(), table["y"].to_numpy()


def compared(name: str) -> list[str]:
    """The settings to try on a set."""
    if name in MIDDLE:
        return list(SETTINGS)
    return KERNELS if name in LARGE else EVERYWHERE


def validate(name: str, setting: dict[str, Any], split: int) -> Score:
    """Fit to the rows of a set that are neither for the test nor for validation."""
    torch.set_num_threads(1)
    X, y = read(name)
    # The first part put aside is the test set, always the same; the second validates.
    for seed in (0, 1 + split):
        X, X_aside, y, y_aside = train_test_split(
            X, y, test_size=min(10_000, len(y) // 10), stratify=y, random_state=seed
        )
    model = GPClassifier(random_state=0, **setting).fit(X, y)
    nll = float(log_loss(y_aside, model.predict_proba(X_aside)))
    return Score(nll, int(model.history_["rejected"].sum()))


def main() -> None:
    """Print a line per set, and how far the defaults are from the best of the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=MIDDLE + LARGE + SMALL)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    listed = "".join(f"{name:>15s}" for name in arguments.settings)
    print(f"{'set':16s}{listed}   from best  float32  rejected", flush=True)
    for name in arguments.sets:
        names = [s for s in arguments.settings if s in compared(name)]
        splits = range(SPLITS if name in SMALL else 1)
        jobs = [delayed(validate)(name, SETTINGS[s], split) for s in names for split in splits]
        scores = np.array(Parallel(arguments.jobs)(jobs)).reshape(len(names), len(splits), 2)
        nll = dict(zip(names, scores[:, :, 0].mean(1), strict=True))
        line = "".join(f"{nll[s]:15.4f}" if s in nll else " " * 15 for s in arguments.settings)
        ours = nll.get("defaults", np.nan)
        others = [ours - min(nll.values()), nll.get("float32", np.nan) - ours]
        rejected = scores[:, :, 1].sum()
        print(f"{name:16s}{line}{others[0]:12.4f}{others[1]:9.4f}{rejected:10.0f}", flush=True)


if __name__ == "__main__":
    main()
