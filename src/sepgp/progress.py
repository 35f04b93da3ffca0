"""The progress line of `verbose` training."""

import sys
import time
from typing import TextIO

from sepgp.training import Record, Settings, Source, progress


class ProgressLine:
    """A callback that says how training goes: rate, evidence and time left.

    On a terminal one line is rewritten; elsewhere a line is added every few seconds.
    """

    def __init__(self, settings: Settings, source: Source, stream: TextIO | None = None) -> None:
        self._settings = settings
        self._n_rows = source.n_rows
        self._n_batches = source.batches_per_epoch
        self._stream = sys.stderr if stream is None else stream
        self._pause = 0.1 if self._stream.isatty() else 5.0
        self._first: int | None = None
        self._next = 0.0
        self._unshown: Record | None = None

    def __call__(self, record: Record) -> None:
        """Write a line for this step, if it is time for one or the step is the last."""
        if self._first is None:
            self._first = record.iteration - 1
        done = min(1.0, progress(self._settings, record.iteration - self._first, record.seconds))
        now = time.monotonic()
        self._unshown = record
        if now < self._next and done < 1:
            return
        self._next = now + self._pause
        left = record.seconds * (1 - done) / max(done, 1e-9)
        self._show(record, left)

    def close(self) -> None:
        """Show the last step, if training stopped early, and end the line."""
        if self._unshown is not None:
            self._show(self._unshown, None)
        if self._stream.isatty():
            self._stream.write("\n")
            self._stream.flush()

    def _show(self, record: Record, left: float | None) -> None:
        self._unshown = None
        epochs = (record.iteration - (self._first or 0)) / self._n_batches
        rate = epochs * self._n_rows / max(record.seconds, 1e-9)
        line = (
            f"step {record.iteration}  epoch {record.epoch:.2f}  {rate:,.0f} rows/s  "
            f"log evidence {record.log_evidence / self._n_rows:.4f} per row  "
            f"{record.seconds:.0f} s, {'stopped' if left is None else f'{left:.0f} s left'}"
        )
        if self._stream.isatty():
            self._stream.write("\r\x1b[K" + line)
        else:
            self._stream.write(line + "\n")
        self._stream.flush()
