"""The history of a training, a record per step."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Record(NamedTuple):
    """One line of the history."""

    iteration: int
    seconds: float
    epoch: float
    log_evidence: float
    """Estimate of log Z_q from the batch of this step; that of the step before, if its move of the
    hyper-parameters was taken back."""
    learning_rate: float
    jitter: float
    """Relative jitter that the Cholesky factor of Kmm needed."""
    skipped: int
    """Rows whose site was left as it was (EP alone)."""
    rejected: bool
    """Whether the step was thrown away."""
    state_size: int
    """How many numbers the sites hold: O(m²) for SEP and ADF, more for EP."""
    validation_nll: float
    """Mean negative log-likelihood of held-out rows; NaN in steps that do not measure it."""


Callback = Callable[[Record], bool | None]
History = dict[str, NDArray[Any]]
"""A column of records by name."""


class Listeners:
    """Callbacks as one, which remembers whether any of them has said stop."""

    def __init__(self, callbacks: Sequence[Callback] | None) -> None:
        self._callbacks, self.said_stop = tuple(callbacks or ()), False

    def __call__(self, record: Record) -> bool:
        """Call all of them."""
        stop = any([callback(record) for callback in self._callbacks])
        self.said_stop |= stop
        return stop


def as_columns(records: Sequence[Record]) -> History:
    """The history as a table, each column in its own type."""
    return {
        name: np.array([getattr(record, name) for record in records]) for name in Record._fields
    }
