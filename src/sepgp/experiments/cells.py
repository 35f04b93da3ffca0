"""A grid of independent cells, computed by several processes and each kept as soon as it is done.

A finished cell is one JSON file, so a run that is stopped, in whatever way, goes on where it was
and loses the cells under way only.
"""

import json
import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import sepgp
from sepgp.errors import InvalidData
from sepgp.files.atomic import replacing

Result = dict[str, Any]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""In the environment of the workers."""


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
    from joblib.externals.loky import ProcessPoolExecutor

    # A worker that holds much memory after a cell is replaced by a new one, as it should be.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs")
    pool = ProcessPoolExecutor(jobs, env=ONE_THREAD, initializer=_follow, initargs=(os.getpid(),))
    waiting = iter(cells)
    running: dict[Future[Result], Cell] = {}
    try:
        while True:
            # No more than are computed, since the pool cannot be ended quietly with more. Workers
            # inherit that they hear no interrupts: the parent sees to Ctrl-C.
            with _without_interrupts():
                for cell in islice(waiting, jobs - len(running)):
                    running[pool.submit(_work, cell, data)] = cell
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell = running.pop(future)
                content = {"made_by": _made_by(cell), "result": future.result()}
                with replacing(_path(cell, folder)) as temporary:
                    temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
                yield cell
    except BrokenProcessPool:
        raise CellFailed(
            "A cell ended without a result, perhaps for want of memory; start the command again "
            "with fewer --jobs."
        ) from None
    finally:
        # A pool that was interrupted while it began has no thread yet that could be waited for;
        # its workers end with this process.
        with suppress(RuntimeError):
            pool.shutdown(kill_workers=True)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Keep SIGINT waiting, where the system can do that."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(cell: Cell, data: Path | None) -> Result:
    try:
        return cell.run(data=data, **cell.arguments)
    except (InvalidData, ImportError, OSError, MemoryError):
        raise
    except Exception as error:
        raise CellFailed(f"The cell {cell.name} failed: {type(error).__name__}: {error}") from error


def _follow(parent: int) -> None:
    """End this process when its parent goes, even if that is killed."""
    import psutil

    def end() -> None:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(parent).wait()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _path(cell: Cell, folder: Path) -> Path:
    return folder / f"{cell.name}.json"


def _made_by(cell: Cell) -> Result:
    arguments: Result = json.loads(json.dumps(cell.arguments))
    return {"version": sepgp.__version__, "arguments": arguments}
