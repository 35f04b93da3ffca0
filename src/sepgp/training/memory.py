"""Memory: how much there is, what sites need, and keeping what a training step gives back."""

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import psutil
import torch

from sepgp.errors import NotEnoughMemory, out_of_memory
from sepgp.inference.method import Method

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

LEAST = 128 * 2**20
"""Without so many bytes the linear algebra beneath may end the process instead of saying so."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
BLOCK = 32 * 2**20 - 2**16
"""Bytes of a block that is just small enough for glibc to learn from."""
HEAP, END = 2**28, 2**20
"""Bytes that a training keeps of its heap, and of the block behind them that keeps them."""
PLENTY = 8
"""Times as much memory as that has to be free."""


@functools.cache
def learn_to_keep() -> None:
    """Have freed blocks of a training step stay with the process for the next one.

    A step makes and frees some thirty m × m and m × b matrices, and glibc may return them to the
    system, which then has to map and clear the same pages again. But it learns: once a block of up
    to 32 MB was freed, blocks of that size and twice as much at the end of its heap are kept. So
    one is taken, which costs nothing while nobody writes to it, and freed. What the process has
    set itself (`MALLOC_TRIM_THRESHOLD_`) stays; other C libraries have rules of their own.
    """
    torch.empty(BLOCK, dtype=torch.uint8)


@contextmanager
def kept_heap() -> Iterator[None]:
    """Have what steps free stay with the process until the end of the context.

    glibc learns to keep 64 MB at the end of its heap, and steps with many inducing points, or a
    heap with gaps, free more. So a block is held behind a large one that nobody has written to,
    which takes no memory, and is freed at once: the end of the heap is then never free.
    """
    parts = [torch.empty(BLOCK // 2, dtype=torch.uint8) for _ in range(2 * HEAP // BLOCK)]
    end = torch.empty(END, dtype=torch.uint8)
    del parts
    yield
    del end


@functools.cache
def keep_freed_memory() -> None:
    """Let all freed blocks of up to 32 MB stay with the process.

    That lasts beyond `fit`, and holds where glibc was told not to learn. It is a setting of the
    whole process, so `fit` never makes it: commands do, and workers whose process is theirs alone
    (`benchmarks/freed_memory.py` says what both gain).
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
    mallopt(M_TRIM_THRESHOLD, 512 * 2**20)


def available() -> int:
    """Bytes that this process can still have.

    By the system's count, its control group's, and its own limit of addresses (`ulimit -v`).
    """
    free: int = psutil.virtual_memory().available
    if resource is not None:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            free = min(free, max(0, limit - psutil.Process().memory_info().vms))
    group = Path("/sys/fs/cgroup")
    try:
        most, used = ((group / name).read_text() for name in ("memory.max", "memory.current"))
        return min(free, max(0, int(most) - int(used)))
    except (OSError, ValueError):  # no such group, or one without a limit
        return free


@contextmanager
def enough() -> Iterator[None]:
    """Say in one sentence that memory does not suffice, wherever it ends; keep what steps free."""
    if (free := available()) < LEAST:
        raise NotEnoughMemory(
            f"This process may have {free / 1e6:,.0f} MB more memory, and training needs "
            f"{LEAST / 1e6:,.0f} MB at least; raise its limit (ulimit -v), or free some memory."
        )
    try:
        learn_to_keep()
        with kept_heap() if free > PLENTY * HEAP else nullcontext():
            yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, NotEnoughMemory) or (explained := out_of_memory(error)) is None:
            raise
        raise explained from error


def check_sites(
    method: Method,
    n_rows: int,
    n_inducing: int,
    minibatch: bool,
    n_latent: int = 1,
    copies: int = 1,
) -> None:
    """Refuse a method with a site per row if these do not fit into memory.

    It keeps two numbers per row and latent function, and with minibatches m more per row; `copies`
    of them at the same time.
    """
    if not method.per_row:
        return
    numbers = n_rows * (2 * n_latent + (n_inducing if minibatch else 0)) + n_latent * n_inducing**2
    need, free = 8 * numbers * copies, available()
    if need > 0.9 * free:
        raise NotEnoughMemory(
            f"EP needs {need / 1e9:,.1f} GB for the sites of {n_rows:,} rows and {n_inducing:,} "
            f"inducing points, and {free / 1e9:,.1f} GB are free; use method='sep', which needs "
            f"{8 * n_latent * n_inducing**2 / 1e6:,.1f} MB however many rows there are."
        )
