"""Making items ahead of the one who works on them."""

import threading
from collections.abc import Generator
from contextlib import closing, suppress
from queue import Empty, Full, Queue
from typing import TypeVar

T = TypeVar("T")


def prefetch(items: Generator[T], depth: int) -> Generator[T]:
    """The same items, made by a thread that keeps up to `depth` of them waiting.

    An exception in the thread is raised here, after the items before it. The thread ends, and
    closes what makes the items, when they end or this iterator is closed.
    """
    queue: Queue[tuple[T | None, BaseException | None]] = Queue(depth)
    stopped = threading.Event()

    def put(item: T | None, error: BaseException | None = None) -> None:
        while not stopped.is_set():
            with suppress(Full):
                return queue.put((item, error), timeout=0.1)

    def work() -> None:
        try:
            with closing(items):
                for item in items:
                    put(item)
                    if stopped.is_set():
                        return
            put(None, StopIteration())
        except BaseException as error:
            put(None, error)

    thread = threading.Thread(target=work, name="sepgp-reader", daemon=True)
    thread.start()
    try:
        while True:
            item, error = queue.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        while thread.is_alive():
            with suppress(Empty):
                queue.get_nowait()
            thread.join(0.05)
