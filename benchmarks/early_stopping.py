"""What held-out rows and early stopping cost and save: NLL, ECE and seconds of `fit`.

The test rows of `tables.py` take no part: a tenth of the other rows, at most 10,000, is a fold to
compare on. `GPClassifier` is fitted to the rest without held-out rows, and with the rows that
`validation_fraction` holds out: by default those of "auto", which are none of fewer than 10,000.
Both have the same time budget and the same seed. Printed are the NLL of the fold, the expected
calibration error (ECE) and what right probabilities would have by chance, steps and seconds; and
what one number that the latent function is multiplied by, fitted on the held-out rows, would make
of NLL and ECE.

    OMP_NUM_THREADS=1 python benchmarks/early_stopping.py [NAME ...] [--folds 2] [--seconds 30]
        [--fraction 0.1]
"""

import argparse
import time

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, ndtr, ndtri
from sklearn.model_selection import train_test_split
from tables import splits

from sepgp import GPClassifier
from sepgp.data.split import Draw, held_out_share
from sepgp.evaluation.two_classes import calibration_error, chance_of_calibration_error
from sepgp.training.memory import keep_freed_memory

SETS = (
    *("higgs_7500", "credit_default", "bank_marketing", "htru2"),
    *("mammography", "eeg_eye", "electricity"),
)


def probits(model: GPClassifier, X: np.ndarray) -> np.ndarray:
    """z = Φ⁻¹(p) of rows, shape (n,)."""
    return ndtri(np.clip(model.predict_proba(X)[:, 1], 1e-12, 1 - 1e-12))


def nll(z: np.ndarray, y: np.ndarray) -> float:
    """The mean of −log Φ(±z)."""
    return float(-log_ndtr(np.where(y > 0, z, -z)).mean())


def ece(z: np.ndarray, y: np.ndarray) -> float:
    """The expected calibration error of probabilities Φ(z)."""
    return calibration_error(ndtr(z), (y > 0).astype(float), np.ones(len(y)))


def report(name: str, fold: int, seconds: float, fraction: float | str) -> np.ndarray:
    """Print a line for each way on a fold of a set; return NLL, ECE and seconds, shape (2, 3)."""
    X, y = next(splits(name, 1))[:2]
    y = (y > 0).astype(np.int64)
    X, X_fold, y, y_fold = train_test_split(
        X, y, test_size=min(10_000, len(y) // 10), stratify=y, random_state=1 + fold
    )
    found = []
    for way in (0.0, fraction):
        model = GPClassifier(time_budget=seconds, validation_fraction=way, random_state=fold)
        begin = time.perf_counter()
        model.fit(X, y)
        took = time.perf_counter() - begin
        z = probits(model, X_fold)
        chance = chance_of_calibration_error(ndtr(z), np.ones(len(z)))
        line = (
            f"{name:15s} fold {fold}, {way!s:4s}: NLL {nll(z, y_fold):.4f}, ECE "
            f"{ece(z, y_fold):.4f} ({chance:.4f} by chance), step {model.model_.best_iteration} of "
            f"{model.n_iter_} in {took:.1f} s"
        )
        share = held_out_share(way, len(y), 2000)
        if share:
            rows = Draw(share, model.model_.seed).held_out(y)
            z_held_out = probits(model, X[rows])
            factor = minimize_scalar(
                lambda t, z=z_held_out, y=y[rows]: nll(t * z, y), bounds=(0.2, 4), method="bounded"
            ).x
            line += (
                f"; latent times {factor:.3f}: NLL {nll(factor * z, y_fold):.4f}, ECE "
                f"{ece(factor * z, y_fold):.4f}"
            )
        print(line, flush=True)
        found.append((nll(z, y_fold), ece(z, y_fold), took))
    return np.array(found)


def main() -> None:
    """Print two lines per set and fold, and the means of every set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fraction", type=float, help="instead of auto")
    arguments = parser.parse_args()
    fraction = "auto" if arguments.fraction is None else arguments.fraction
    keep_freed_memory()
    for name in arguments.sets:
        folds = range(arguments.folds)
        found = [report(name, fold, arguments.seconds, fraction) for fold in folds]
        (before, *of_before), (after, *of_after) = np.mean(found, axis=0)
        print(
            f"{name:15s} mean: NLL {before:.4f} → {after:.4f} ({after - before:+.4f}), ECE "
            f"{of_before[0]:.4f} → {of_after[0]:.4f}, {of_before[1]:.1f} → {of_after[1]:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
