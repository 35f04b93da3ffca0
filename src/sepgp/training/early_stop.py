"""Early stopping: a training that held-out rows gain nothing from any more comes to its end."""

import logging
import math
from collections.abc import Sequence

from sepgp.training.record import Record
from sepgp.training.schedule import Schedule

logger = logging.getLogger(__name__)

PATIENCE = 0.2
"""The part of the planned training in which the NLL of held-out rows has to fall ..."""
LEAST_STEPS = 50
"""... and the number of steps, if that is more."""
GAIN = 2.5e-4
"""How far it has to fall at least, in nats per row."""
COOLDOWN = 0.25
"""Steps to the end, as a share of those before it was in sight."""


class EarlyStop:
    """Watches the NLL of held-out rows, and brings the end nearer once it has stopped falling.

    A high learning rate hides a part of what was learned, so training does not stop at once: it
    goes through the rest of its schedule faster, with the rate falling to 0 all the same. What has
    been measured decides, so a run that goes on from a checkpoint ends as if it had never stopped.
    A training that began after step `first` goes on from its history.
    """

    def __init__(self, schedule: Schedule, history: Sequence[Record] = (), first: int = 0) -> None:
        self._schedule = schedule
        self._measured: list[tuple[int, float, float]] = []
        """Steps, the part of the planned training that was done, and the lowest NLL until then."""
        self._turn: tuple[int, float] | None = None
        """The step at which the end came nearer, and the part that was done by then."""
        for record in history:
            self.see(record.iteration - first, record)

    def see(self, number: int, record: Record) -> None:
        """Take note of step `number` of the training."""
        measured = not math.isnan(record.validation_nll)
        if not (self._schedule.early_stopping and measured and self._turn is None):
            return
        done = self._schedule.done(number, record.seconds)
        lowest = min(record.validation_nll, self._measured[-1][-1] if self._measured else math.inf)
        self._measured.append((number, done, lowest))
        before = [
            nll
            for step, part, nll in self._measured
            if part <= done - PATIENCE + 1e-9 and step <= number - LEAST_STEPS
        ]
        if before and before[-1] - lowest < GAIN:
            self._turn = number, done
            logger.info("step %d: held-out NLL no longer falls; training ends early", number)

    def done(self, planned: float, number: int) -> float:
        """The part of the training that is done in step `number`; `planned` is that of the plan."""
        if self._turn is None:
            return planned
        step, done = self._turn
        return max(planned, done + (1 - done) * (number - step) / (COOLDOWN * step))
