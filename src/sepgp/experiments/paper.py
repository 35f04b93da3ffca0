"""The numbers that the paper prints in Table 1."""

from typing import NamedTuple

METHODS = ("adf", "ep", "sep")
"""In the order of the paper's columns."""
SHARES = (15, 25, 50)
"""Inducing points, in per cent of the training rows."""


class Printed(NamedTuple):
    """A mean and a standard deviation as the paper prints them."""

    mean: float
    deviation: float


_PRINTED = """
australian_paper .70 .07 .69 .07 .63 .05  .70 .08 .67 .07 .63 .05  .67 .06 .64 .05 .63 .05
breast           .12 .06 .11 .05 .11 .05  .12 .05 .11 .05 .11 .05  .12 .05 .11 .05 .11 .06
crabs            .08 .06 .06 .06 .06 .07  .09 .06 .06 .06 .06 .07  .08 .06 .06 .06 .06 .07
heart            .45 .18 .40 .13 .39 .11  .48 .18 .41 .12 .40 .11  .46 .17 .41 .11 .40 .12
ionosphere       .29 .18 .26 .19 .28 .16  .30 .17 .27 .20 .27 .17  .33 .19 .27 .19 .27 .17
pima             .52 .07 .52 .07 .49 .05  .58 .10 .51 .06 .49 .05  .62 .09 .50 .05 .49 .05
sonar            .40 .15 .33 .10 .35 .11  .46 .32 .32 .10 .35 .12  .46 .24 .29 .09 .33 .12
seconds         18.2  .3 19.3 .5 18.8 .1 38.5 .5 38.9 .6 40.2 .2   145 4.0 136 3.0 149 1.0
"""
"""Of each set, mean and deviation by share of inducing points and then by method."""


def _row(numbers: list[float]) -> dict[tuple[int, str], Printed]:
    columns = [(share, method) for share in SHARES for method in METHODS]
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return {column: Printed(*pair) for column, pair in zip(columns, pairs, strict=True)}


NLL = {
    name: _row([float(number) for number in numbers])
    for name, *numbers in map(str.split, _PRINTED.strip().splitlines())
}
"""Test negative log-likelihood by set, then by share of inducing points and method.

The paper calls the first set Australian. Its numbers can only be those of the column A1.
"""
SECONDS = NLL.pop("seconds")
"""Average training time in seconds."""
