"""Finished measurements as files, so that an interrupted run goes on where it was."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from worker import Failed


class Entry(NamedTuple):
    """A measurement."""

    result: Any
    """None if it failed."""
    error: str | None
    run: str
    """When the run that made it began."""


class Store:
    """Measurements by name in a folder.

    Parameters
    ----------
    folder : Path
        A file for each measurement.
    run : str
        The name of this run.
    only : set of str
        Contestants to measure anew, whatever the folder has of them; of the others, what the
        folder has is taken, and nothing is measured. Empty: measure what the folder does not have.
    """

    def __init__(self, folder: Path, run: str, only: set[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._run, self._only = folder, run, only

    def get(
        self, name: str, contestant: str, arguments: dict[str, Any], measure: Callable[[], Any]
    ) -> Entry:
        """The measurement of that name, made with these arguments.

        A failure is an entry too, but the next run tries again.
        """
        path = self._folder / f"{name}.json"
        wanted = json.loads(json.dumps(arguments))
        kept = self._read(path)
        if kept is not None and kept["arguments"] == wanted:
            entry = Entry(kept["result"], kept["error"], kept["run"])
            if entry.run == self._run or (entry.error is None and contestant not in self._only):
                return entry
        if self._only and contestant not in self._only:
            return Entry(None, "not measured", self._run)
        print(f"  {name}", flush=True)
        try:
            entry = Entry(measure(), None, self._run)
        except Failed as error:
            entry = Entry(None, str(error), self._run)
            print(f"    failed: {error}", flush=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps({"arguments": wanted, **entry._asdict()}, indent=1))
        os.replace(partial, path)
        return entry

    @staticmethod
    def _read(path: Path) -> Any:
        try:
            return json.loads(path.read_text())
        except (OSError, ValueError):
            return None
