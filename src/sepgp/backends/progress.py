"""The progress line of a training in rounds."""

from typing import TextIO

from sepgp.backends.rounds import Leader
from sepgp.training.progress import ProgressLine
from sepgp.training.record import Record
from sepgp.training.schedule import Schedule


class RoundLine(ProgressLine):
    """A callback that says how training goes: rounds, time left, rows per second over the cluster.

    Beside them it has the evidence and the validation NLL: see `ProgressLine`.
    """

    def __init__(
        self, schedule: Schedule, leader: Leader, first: int, stream: TextIO | None = None
    ) -> None:
        super().__init__(schedule, _Rows(leader), first, stream)  # type: ignore[arg-type]
        self._rounds = 0

    def __call__(self, record: Record) -> None:
        """Write a line for this round, if it is time for one."""
        self._rounds += 1
        super().__call__(record)

    def _place(self, record: Record) -> str:
        return f"round {self._rounds}"

    def _epochs(self, record: Record) -> float:
        return record.epoch


class _Rows:
    """What the line has to know of the rows."""

    def __init__(self, leader: Leader) -> None:
        self.n_rows, self.total_weight = sum(leader.view.counts), leader.n
