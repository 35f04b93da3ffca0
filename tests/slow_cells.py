"""Cells that sleep or fail; `python slow_cells.py FOLDER` runs slow ones, for a test to kill."""

import os
import sys
import time
from pathlib import Path

from sepgp.errors import InvalidData
from sepgp.experiments.cells import Cell, run


def fails(data, kind):
    if kind == "data":
        raise InvalidData("heart.parquet cannot be read; put it there.")
    if kind == "dies":
        os._exit(1)
    raise ZeroDivisionError("by nothing")


def slow(data, number):
    time.sleep(0.4)
    return {"number": number, "pid": os.getpid()}


def threads(data):
    import numpy  # noqa: F401, whose BLAS has threads of its own
    import torch
    from threadpoolctl import threadpool_info

    blas = {pool["num_threads"] for pool in threadpool_info()}
    return {"torch": torch.get_num_threads(), "blas": sorted(blas)}


CELLS = [Cell(f"cell-{number}", slow, {"number": number}) for number in range(6)]

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    from slow_cells import CELLS  # as a module, so that a worker finds it

    for _ in run(CELLS, folder, None, jobs=1):
        pass
