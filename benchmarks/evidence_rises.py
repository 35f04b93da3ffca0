"""How far log Z_q of batch SEP falls on its way, on the paper's UCI sets.

The splits and the setting of uci_table.py. A fall is the distance of a step below the highest of
the steps before it, of those after the first 30, in % of the range of the whole curve. The data
folder is `SEPGP_DATA`, or ../shared/data.

    python benchmarks/evidence_rises.py [--methods sep ep] [--splits 20] [--jobs 2]
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from uci_table import problem, table

FIRST = 30


def deepest_fall(log_evidence: ArrayLike) -> float:
    """In % of the range."""
    values = np.asarray(log_evidence)
    later = values[FIRST:]
    return float(100 * (np.maximum.accumulate(later) - later).max() / np.ptp(values))


def one_fit(name: str, split: int, splits: int, method: str) -> tuple[float, float, int]:
    """Deepest fall, log Z_q at the end, and the number of moves taken back, of one fit."""
    model, train, _ = problem(name, split, splits, method)
    evidence = model.fit(*train).history_["log_evidence"]
    repeated = int((np.diff(evidence) == 0).sum())
    return deepest_fall(evidence), float(evidence[-1]), repeated


def line(fits: NDArray[np.float64]) -> str:
    """The means of some fits, and the deepest fall of all."""
    fall, end, back = fits.T
    return f"{fall.max():23.2f} {fall.mean():6.2f} {end.mean():20.2f} {back.mean():12.1f}"


if __name__ == "__main__":
    header = " deepest fall %: worst   mean   log Z_q at the end   taken back"
    table(__doc__, ["sep"], header, one_fit, line)
