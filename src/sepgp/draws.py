"""Random draws for rows by their numbers: the same for a row wherever it is met."""

import numpy as np
from numpy.typing import NDArray


def draw(numbers: NDArray[np.int64], seed: int) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Of each row number, whether the row is in the second half, and a number in [0, 1).

    By the mixing function of SplitMix64: the same for a row wherever it is met.
    """
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) + np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z & np.uint64(1)) == 1, (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
