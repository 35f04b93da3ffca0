"""Making items ahead of the one who works on them."""

from collections import deque
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def prefetch(items: Generator[T], depth: int) -> Generator[T]:
    """The same items, made by a thread that keeps up to `depth` of them waiting.

    An exception in the thread is raised here, after the items before it. The thread ends, and
    closes what makes the items, when they end or this iterator is closed.
    """
    end: Any = object()
    pool = ThreadPoolExecutor(1, thread_name_prefix="sepgp-reader")
    waiting = deque(pool.submit(next, items, end) for _ in range(depth))
    try:
        while (item := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, items, end))
            yield item
    finally:
        for future in waiting:
            future.cancel()
        pool.submit(items.close)
        pool.shutdown()
