"""What all parts of a run need to know."""

from pathlib import Path
from typing import NamedTuple

from store import Store
from worker import Worker


class Run(NamedTuple):
    """One call of the command."""

    store: Store
    data: Path | None
    """The folder with the data sets; None for that of the variable SEPGP_DATA."""
    threads: int
    log: Path
    """What the contestants write to their standard error."""
    seconds: float
    """Of training on the largest set."""
    repeats: int
    rounds: int
    """Of the measurements of speed, in turns."""
    processor: bool = False
    """Whether seconds of the learning curves are those of the processor."""

    def worker(self, script: str) -> Worker:
        """A process for a contestant."""
        return Worker(script, self.threads, self.log)
