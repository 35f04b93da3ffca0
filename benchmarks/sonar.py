"""What decides the result on sonar, the hard set of Table 1: kernel, optimiser and prior.

Mean test negative log-likelihood of EP and SEP at m = 15 % on 20 stratified splits other than
those of Table 1. The data folder is `SEPGP_DATA`, or ../shared/data.

    python benchmarks/sonar.py [--jobs 2]
"""

import argparse
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit

from sepgp import GPClassifier
from sepgp.experiments.catalogue import load
from sepgp.gp.kernels import RBF

DATA = Path(os.environ.get("SEPGP_DATA", Path(__file__).parents[2] / "shared" / "data"))
SPLITS = 20
SETTINGS: dict[str, dict[str, Any]] = {
    "defaults (two Matérn 3/2, Adam)": {},
    "defaults with RBF": {"kernel": RBF()},
    "RBF, authors' rule (Table 1)": {"kernel": RBF(4.0), "optimizer": "sign"},
    "the same without the prior": {"kernel": RBF(4.0, spread=math.inf), "optimizer": "sign"},
}


def one_fit(settings: dict[str, Any], method: str, split: int) -> float:
    """Test negative log-likelihood of one fit."""
    torch.set_num_threads(1)
    X, y = load("sonar", DATA)[:2]
    shuffle = StratifiedShuffleSplit(SPLITS, test_size=0.1, random_state=1)
    train, test = list(shuffle.split(X, y))[split]
    model = GPClassifier(
        method=method,
        n_inducing=round(0.15 * len(train)),
        batch_size=len(train),
        max_iter=250,
        random_state=split,
        **settings,
    )
    return log_loss(y[test], model.fit(X[train], y[train]).predict_proba(X[test]))


def main() -> None:
    """Print a line per setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    for name, settings in SETTINGS.items():
        line = f"{name:33s}"
        for method in ("ep", "sep"):
            nll = Parallel(arguments.jobs)(
                delayed(one_fit)(settings, method, split) for split in range(SPLITS)
            )
            line += f"  {method} {np.mean(nll):.3f} ({np.std(nll, ddof=1) / SPLITS**0.5:.3f})"
        print(line, flush=True)


if __name__ == "__main__":
    main()
