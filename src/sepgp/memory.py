"""Telling the C library to keep the memory that a training step gives back."""

import ctypes
import functools

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


@functools.cache
def keep_freed_memory() -> None:
    """Let freed blocks of up to 32 MB stay with the process instead of going back to the system.

    A step makes and frees some thirty m × m and m × b matrices. By default glibc returns each to
    the system, which then has to map and clear the same pages again: at m = 200 a quarter of the
    step. Other C libraries have no such call and are left alone.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
    mallopt(M_TRIM_THRESHOLD, 512 * 2**20)
