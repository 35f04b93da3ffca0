"""The progress line of `verbose` training."""

import math
import time
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from sepgp.data.batches import Source
from sepgp.training.record import Record
from sepgp.training.schedule import Schedule


class ProgressLine:
    """A callback that says how training goes: time left, rate, evidence and validation NLL.

    On a terminal one line is rewritten; elsewhere a line is added every 5 seconds, and every
    minute when training takes long.

    Parameters
    ----------
    schedule, source
        Those of the training.
    first : int
        The number of steps before its first one.
    stream : file, optional
        Where the line goes; standard error by default.
    stage : str
        What the training is for, if it is not the model.
    """

    def __init__(
        self,
        schedule: Schedule,
        source: Source,
        first: int,
        stream: TextIO | None = None,
        stage: str = "",
    ) -> None:
        self._schedule, self._source, self._first = schedule, source, first
        self._stage = stage
        self._console = Console(file=stream, stderr=True)
        self._live = Live(console=self._console, auto_refresh=False)
        self._next = time.monotonic() + self._pause(0.0)
        self._last: Record | None = None
        self._nll = math.nan

    def __call__(self, record: Record) -> None:
        """Write a line for this step, if it is time for one."""
        self._last = record
        if not math.isnan(record.validation_nll):
            self._nll = record.validation_nll
        done, now = self._done(record), time.monotonic()
        if now >= self._next and done < 1:
            self._next = now + self._pause(record.seconds)
            self._show(record, f"{duration(record.seconds * (1 - done) / done)} left")

    def close(self) -> None:
        """Show the last step and end the line."""
        if self._last is not None:
            end = "done" if self._done(self._last) >= 1 else "stopped"
            self._show(self._last, f"{end} after {duration(self._last.seconds)}")
        self._live.stop()

    def _pause(self, seconds: float) -> float:
        """Seconds to the next line when training has taken so many."""
        return 0.1 if self._console.is_interactive else min(max(5.0, 0.05 * seconds), 60.0)

    def _done(self, record: Record) -> float:
        return self._schedule.done(record.iteration - self._first, record.seconds)

    def _place(self, record: Record) -> str:
        return f"step {record.iteration}"

    def _epochs(self, record: Record) -> float:
        """How often this training has seen all rows."""
        return (record.iteration - self._first) / self._source.batches_per_epoch

    def _show(self, record: Record, time_left: str) -> None:
        rate = self._epochs(record) * self._source.n_rows / max(record.seconds, 1e-9)
        parts = [
            self._place(record),
            time_left,
            f"{rate:,.0f} rows/s",
            f"evidence {record.log_evidence / self._source.total_weight:.4f}/row",
        ]
        if self._stage:
            parts.insert(0, self._stage)
        if not math.isnan(self._nll):
            parts.append(f"validation NLL {self._nll:.4f}")
        line = Text("  ".join(parts))
        if self._console.is_interactive:
            # A line that wraps could not be rewritten; a terminal adds ^C for Ctrl-C.
            line.truncate(self._console.width - 3, overflow="ellipsis")
            self._live.start()
            self._live.update(line, refresh=True)
        else:
            self._console.print(line, soft_wrap=True)


def duration(seconds: float) -> str:
    """A time in the unit that makes it easy to read."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"
