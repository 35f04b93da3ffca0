"""Making items ahead of the one who works on them."""

import threading
from collections.abc import Generator
from contextlib import closing
from queue import Empty, Full, Queue
from typing import TypeVar

T = TypeVar("T")


def prefetch(items: Generator[T], depth: int) -> Generator[T]:
    """The same items, made by a thread that keeps up to `depth` of them waiting.

    An exception in the thread is raised here, after the items before it. The thread ends, and
    closes what makes the items, when they end or this iterator is closed.
    """
    queue: Queue[tuple[T | None, BaseException | None, bool]] = Queue(depth)
    stopped = threading.Event()

    def put(entry: tuple[T | None, BaseException | None, bool]) -> bool:
        while not stopped.is_set():
            try:
                queue.put(entry, timeout=0.1)
            except Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            with closing(items):
                for item in items:
                    if not put((item, None, False)):
                        return
            put((None, None, True))
        except BaseException as error:
            put((None, error, True))

    thread = threading.Thread(target=work, name="sepgp-reader", daemon=True)
    thread.start()
    try:
        while True:
            item, error, last = queue.get()
            if error is not None:
                raise error
            if last:
                return
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        while thread.is_alive():
            try:
                queue.get_nowait()
            except Empty:
                thread.join(0.05)
