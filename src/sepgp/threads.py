"""How many threads torch may use, and how many it is faster with."""

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from statistics import median
from typing import Any, TypeVar

import joblib
import torch
from threadpoolctl import ThreadpoolController

SHARE = 0.005
"""The part of the time that trying other numbers of threads may cost."""
TRIED = 3
"""Steps that a number of threads is tried for, unless the first is hopeless."""
HOPELESS = 1.5
"""A first step so many times as long as usual ends a try, and usual steps so many times as long as
those of another number were begin one."""
GAIN = 0.97
"""Another number of threads is taken if its steps take less than this part of the time."""
LONG = 0.05
"""Seconds of a first step that what only the first step does cannot have made so long."""
WAITING = 0.1
"""The part of its time that one thread waits for a core, from which on cores are contended."""
WATCHED = 0.05
"""Seconds of one thread's steps that are looked at before the first try of two."""
REMEMBERED = 1.0
"""Seconds after which what was seen of its waiting counts a third."""
STALL, STALL_STEPS = 1.0, 10
"""Seconds, or steps of one thread, that a try may cost where cores are contended."""

T = TypeVar("T")

_forked = False
_worker = threading.local()
"""Of a worker, whether its work was given up."""


def _after_fork() -> None:
    """A child has its parent's pool of threads without the threads, and would wait for ever."""
    global _forked
    _forked = True
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)


def allowed() -> int:
    """Threads that this process may use.

    By affinity, the control group's quota and `LOKY_MAX_CPU_COUNT` (all three by joblib), and by
    what torch is set to: `OMP_NUM_THREADS`, which joblib sets in its workers, or
    `torch.set_num_threads`. A forked child uses one.
    """
    return 1 if _forked else min(torch.get_num_threads(), joblib.cpu_count())


@contextmanager
def using(count: int) -> Iterator[None]:
    """So many threads within the context; what was set before comes back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _NumpyLimit:
    """Who wants NumPy's products to be by one thread: the first sets it, the last puts it back."""

    def __init__(self) -> None:
        self._lock, self._users = threading.Lock(), 0
        self._limited: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._limited = _blas_of_numpy().limit(limits=1)
                _let_any_thread_set()

    def __exit__(self, *details: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._limited.restore_original_limits()
                _let_any_thread_set()


@cache
def _blas_of_numpy() -> ThreadpoolController:
    """The BLAS that wheels of NumPy and SciPy bring. Another one may be torch's too: it is left."""
    return ThreadpoolController().select(prefix="libscipy_openblas")


def _let_any_thread_set() -> None:
    """The last of two fits may be in another thread than the first; threadpoolctl would mind."""
    for library in _blas_of_numpy().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):  # from 3.7 on
            library.clear_controlling_thread()


_numpy_limit = _NumpyLimit()


@contextmanager
def numpy_by_one() -> Iterator[None]:
    """NumPy's products by one thread within the context.

    They are few beside torch's. Two threads gain little in them, and while another process has one
    of the cores, each product would take as long as a slice of the scheduler.
    """
    with _numpy_limit:
        yield


def spread(work: Callable[[T], None], pieces: Sequence[T]) -> None:
    """Do all pieces of work: a worker for each thread that is allowed, torch with one in each.

    Workers never wait for each other, so a busy core delays its own piece alone. Long work asks
    `given_up` from time to time, so that Ctrl-C need not wait for it.
    """
    workers, before = min(allowed(), len(pieces)), torch.get_num_threads()
    if workers < 2:
        with using(1):
            for piece in pieces:
                work(piece)
        return
    end = threading.Event()

    def begin() -> None:
        torch.set_num_threads(1)
        _worker.end = end

    try:
        with ThreadPoolExecutor(workers, "sepgp", begin) as pool:
            try:
                for _ in pool.map(work, pieces):
                    pass
            except BaseException:
                end.set()
                raise
    finally:  # what a worker sets holds for threads that start later too
        torch.set_num_threads(before)


def given_up() -> bool:
    """Whether nobody waits any more for the work that this thread does for `spread`."""
    end = getattr(_worker, "end", None)
    return end is not None and end.is_set()


class Threads:
    """The number of threads that steps are fastest with now, found by timing them.

    Threads of a team wait for each other some thirty times in a step. While another process has
    one of the cores, each wait is as long as a slice of the scheduler, and two threads are many
    times slower than one. So the number starts at 1 and is doubled as long as this helps; later
    half and double are tried from time to time, so seldom that what the tries lose is at most
    `SHARE` of the time; and at once when steps are much slower than another number's were. While
    one thread has to wait for its core, two are hardly ever tried.

    Parameters
    ----------
    limit : int
        Never more than this.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.count = limit, 1
        self._usual: deque[float] = deque(maxlen=5)
        self._alone, self._waited = 0.0, 0.0
        """Seconds in one thread, and those of them that it had no core; old ones fade."""
        self._took: dict[int, float] = {}
        """Seconds of a step with other numbers, when they were last in use."""
        self._tried: list[float] = []
        self._trial: int | None = None
        self._up, self._credit, self._warm = True, 0.0, False
        self._enough = 1
        """Usual steps before a try; the first try must not wait, since long steps are few."""

    @property
    def now(self) -> int:
        """The number for the next step."""
        return self._trial or self.count

    @contextmanager
    def timed(self, clock: Callable[[], float] = time.perf_counter) -> Iterator[None]:
        """One step with the number that is best or to be tried."""
        begin, worked = clock(), time.thread_time()
        with using(self.now):
            yield
        seconds = clock() - begin
        self.see(seconds, seconds - (time.thread_time() - worked))

    def see(self, seconds: float, waited: float = 0.0) -> None:
        """A step took so many seconds, and its thread had no core for some of them."""
        if self.limit == 1:
            return
        first, self._warm = not self._warm, True
        if first and seconds < LONG:  # the first step of all does what no other does
            return
        if self._trial is None:
            self._usual.append(seconds)
            if self.count == 1:
                fading = math.exp(-seconds / REMEMBERED)
                self._alone = fading * self._alone + seconds
                self._waited = fading * self._waited + waited
            self._credit += SHARE * seconds
            if len(self._usual) >= self._enough and self._affordable():
                self._trial = self._other()
        else:
            self._tried.append(seconds)
            self._judge(median(self._usual))

    def _other(self) -> int:
        """The number to be tried next: the double or the half, by turns."""
        if self.count == 1 or (self._up and self.count < self.limit):
            return min(2 * self.count, self.limit)
        return self.count // 2

    def _affordable(self) -> bool:
        """Whether what was saved up pays for a try."""
        if self.count > 1:
            other = self._took.get(self._other(), math.inf)
            return self._credit >= 0 or median(self._usual) > HOPELESS * other
        if self._waited > WAITING * self._alone:
            return self._credit >= max(STALL, STALL_STEPS * median(self._usual))
        return self._credit >= 0 and self._alone >= WATCHED

    def _judge(self, usual: float) -> None:
        """End the try if it is clear what it says."""
        if len(self._tried) < TRIED and self._tried[0] < HOPELESS * usual:
            return
        new = median(self._tried)
        self._took |= {self.count: usual, self._trial: new}  # type: ignore[dict-item]
        if new < GAIN * usual:
            old, self.count = self.count, self._trial  # type: ignore[assignment]
            self._up = self.count > old
            # To try the old number again would cost what has just been gained, as far as is known.
            self._credit = -min(usual - new, new) if self._other() == old else 0.0
            self._usual = deque(self._tried, maxlen=self._usual.maxlen)
        else:
            self._up = not self._up
            gained = len(self._tried) * usual - sum(self._tried)
            self._credit = min(0.0, self._credit) + min(0.0, gained)
        self._trial, self._tried, self._enough = None, [], TRIED
