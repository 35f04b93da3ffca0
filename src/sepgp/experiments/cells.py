"""A grid of independent cells, each in a process of its own and each kept as soon as it is done.

A finished cell is one JSON file, written under another name, flushed to the disc and renamed.
So a run that is stopped, in whatever way, goes on where it was and loses the cells under way only.
"""

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import sepgp
from sepgp.errors import InvalidData

Result = dict[str, Any]
PRELOAD = [
    "pandas",
    "pyarrow.parquet",
    "sepgp.classifier",
    "sklearn.linear_model",
    "sklearn.model_selection",
    "torch.fx.experimental.symbolic_shapes",  # torch does it at the first gradient
]
"""What the server that cells are forked from imports once, where there is such a server."""


class Cell(NamedTuple):
    """One piece of an experiment."""

    name: str
    """Of its file; unique in the experiment."""
    run: Callable[..., Result]
    """A function of a module, called with `arguments`; its result must go into JSON."""
    arguments: dict[str, Any]
    """All that the result depends on, but for the folder with the data."""
    cost: float = 1.0
    """Roughly how long it takes, in any unit."""


class CellFailed(RuntimeError):
    """A cell ended without a result."""


def finished(cells: Sequence[Cell], folder: Path) -> dict[str, Result]:
    """The results in a folder by the names of their cells.

    A file made with other arguments, or by another version of this package, does not count.
    """
    results = {}
    for cell in cells:
        try:
            stored = json.loads(_path(cell, folder).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(stored, dict) and stored.get("made_by") == _made_by(cell):
            results[cell.name] = stored["result"]
    return results


def run(
    cells: Sequence[Cell], folder: Path, data: Path | None, jobs: int
) -> Generator[Cell, None, None]:
    """Run cells, at most `jobs` at a time, in the order given; yield each when it is done.

    The folder must exist. Every worker computes with one thread. When the caller stops early, by
    an exception or by closing the generator, the workers are ended.
    """
    context = _context()
    waiting = list(reversed(cells))
    working: dict[Connection, tuple[Cell, Any]] = {}
    try:
        while waiting or working:
            while waiting and len(working) < jobs:
                cell = waiting.pop()
                receiver, sender = context.Pipe(duplex=False)
                worker = context.Process(target=_work, args=(cell, folder, data, sender))
                worker.start()
                sender.close()
                working[receiver] = cell, worker
            for ready in wait(list(working)):
                assert isinstance(ready, Connection)
                receiver = ready
                cell, worker = working.pop(receiver)
                try:
                    error = receiver.recv()
                except EOFError:
                    error = CellFailed(
                        f"The cell {cell.name} ended without a result, perhaps for want of memory; "
                        "start the command again with fewer --jobs."
                    )
                receiver.close()
                worker.join()
                if error is not None:
                    raise error
                yield cell
    finally:
        for receiver, (_, worker) in working.items():
            worker.terminate()
            worker.join()
            receiver.close()


def _context() -> Any:
    """Of processes forked from a server that has imported all, where the system can do that."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(PRELOAD)
    return context


def _work(cell: Cell, folder: Path, data: Path | None, sender: Connection) -> None:
    """Compute a cell and write its file; send None, or the error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent sees to it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        import torch
        from threadpoolctl import threadpool_limits

        torch.set_num_threads(1)
        with threadpool_limits(1):
            result = cell.run(data=data, **cell.arguments)
        _write(_path(cell, folder), {"made_by": _made_by(cell), "result": result})
    except (InvalidData, ImportError, OSError, MemoryError) as error:
        sender.send(error)
    except Exception as error:
        sender.send(CellFailed(f"The cell {cell.name} failed: {type(error).__name__}: {error}"))
    else:
        sender.send(None)


def _end_with_parent() -> None:
    """Wait for the parent to go, however it goes, and follow it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _path(cell: Cell, folder: Path) -> Path:
    return folder / f"{cell.name}.json"


def _made_by(cell: Cell) -> Result:
    arguments: Result = json.loads(json.dumps(cell.arguments))
    return {"version": sepgp.__version__, "arguments": arguments}


def _write(path: Path, content: Result) -> None:
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
