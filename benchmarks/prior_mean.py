"""A prior mean from boosted trees: NLL of the trees, of the process, and of both together.

The test rows of `tables.py` take no part. In every split a fifth of the other rows, at most 10,000,
is kept aside to compare on. The trees are `HistGradientBoostingClassifier()` on all other rows.
For each set NLL and calibration error (ECE) are printed, as means over the splits, and how much
both together have more than the trees, and than the process, with twice the standard error by pairs
of rows. A row may be in more than one split, so that it is a little too small.

    OMP_NUM_THREADS=1 python benchmarks/prior_mean.py [NAME ...] [--splits 3] [--steps 600]
        [--rows 50000] [--models trees process both]
"""

import argparse
import time
from functools import partial

import numpy as np
from scipy.special import ndtr
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from tables import splits

from sepgp import GPClassifier
from sepgp.evaluation.two_classes import calibration_error
from sepgp.training.memory import keep_freed_memory

SETS = (
    *("bank_marketing", "credit_default", "eeg_eye", "electricity", "higgs_7500", "htru2"),
    *("mammography", "nycflights13"),
)
MODELS = {
    "trees": lambda steps, seed: HistGradientBoostingClassifier(random_state=seed),
    "process": lambda steps, seed: GPClassifier(max_iter=steps, random_state=seed),
    "both": lambda steps, seed: GPClassifier(mean="trees", max_iter=steps, random_state=seed),
}


def answers(name: str, model, n_splits: int, most: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Probabilities of class 1 and labels of the rows kept aside in each split."""
    X, y = next(splits(name, 1))[:2]
    y, found = (y > 0).astype(int), []
    for seed in range(n_splits):
        X_fit, X_aside, y_fit, y_aside = train_test_split(
            X, y, test_size=min(10_000, len(y) // 5), stratify=y, random_state=1 + seed
        )
        fitted = model(seed=seed).fit(X_fit[:most], y_fit[:most])
        found.append((fitted.predict_proba(X_aside)[:, 1], y_aside))
        if isinstance(fitted, GPClassifier) and fitted.model_.mean is not None:
            mean = fitted.model_.mean
            measured = np.nan_to_num(fitted.history_["validation_nll"], nan=np.inf)
            kept = 1 + np.argmin(measured) if np.isfinite(measured).any() else fitted.n_iter_
            p = ndtr(mean.score(X_aside) / mean.ratio)
            print(
                f"  split {seed}: its trees alone {losses([(p, y_aside)]).mean():.4f}, factor "
                f"{mean.factor:.2f}, ratio {mean.ratio:.2f}, step {kept} of {fitted.n_iter_} kept",
                flush=True,
            )
    return found


def losses(found: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """−log p(y) of every row."""
    p, y = map(np.concatenate, zip(*found, strict=True))
    return -np.log(np.clip(np.where(y > 0, p, 1 - p), 1e-15, 1))


def compare(name: str, models: list[str], steps: int, n_splits: int, most: int) -> None:
    """Print a line on one set."""
    line, found = [f"{name:15s}"], {}
    for label in models:
        begin = time.process_time()
        given = answers(name, partial(MODELS[label], steps), n_splits, most)
        found[label] = losses(given)
        ece = np.mean([calibration_error(p, y.astype(float), np.ones(len(p))) for p, y in given])
        seconds = (time.process_time() - begin) / n_splits
        line.append(f"{label} {found[label].mean():.4f} ECE {ece:.4f} {seconds:.0f} s")
    for other in models:
        if "both" in found and other != "both":
            rise = found["both"] - found[other]
            error = 2 * rise.std() / np.sqrt(len(rise))
            line.append(f"both − {other} {rise.mean():+.4f} ± {error:.4f}")
    print(" | ".join(line), flush=True)


def main() -> None:
    """Print a line per set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--rows", type=int, default=50_000)
    given = parser.parse_args()
    keep_freed_memory()
    for name in given.sets:
        compare(name, given.models, given.steps, given.splits, given.rows)


if __name__ == "__main__":
    main()
