"""The airline data set, built from the public files of 2008 as the ASA Data Expo distributes them.

2008.csv, plain or compressed, has a row for each flight, and plane-data.csv one for each plane.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.errors import InvalidData
from sepgp.experiments.catalogue import described, store

YEAR = 2008
MONTHS = range(1, 5)
KNOWN = ("DepTime", "ArrTime", "AirTime", "ArrDelay")
"""A flight for which one of these is missing is left out."""
COLUMNS = {
    "Distance": "distance",
    "AirTime": "airtime",
    "DepTime": "dep_time",
    "ArrTime": "arr_time",
    "DayOfWeek": "day_of_week",
    "DayofMonth": "day_of_month",
    "Month": "month",
}
"""Of the flights, by what they become."""
CHUNK = 500_000
"""Flights read at a time."""


def build(
    flights: str | os.PathLike[str],
    planes: str | os.PathLike[str],
    folder: str | os.PathLike[str] | None = None,
) -> Path:
    """Make the file of `airline` in a folder, or in that of SEPGP_DATA; return its path.

    Kept are the flights of January to April whose times and arrival delay are known and whose
    plane has an issue date. Rows stay in the order of the flights. Memory is that of the result,
    38 MB, and of a chunk.
    """
    issued = issue_years(planes)
    parts = list(_parts(flights, issued))
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return store("airline", X, y, folder)


def issue_years(planes: str | os.PathLike[str]) -> dict[str, int]:
    """The year of the issue date of each plane that has one, by tail number."""
    import pandas as pd

    table = _read(planes, ["tailnum", "issue_date"], dtype=str)
    dates = pd.to_datetime(table["issue_date"], format="%m/%d/%Y", errors="coerce")
    known = dates.notna()
    return dict(zip(table["tailnum"][known], dates[known].dt.year, strict=True))


def rows(flights: Any, issued: dict[str, int]) -> tuple[NDArray[np.int16], NDArray[np.int8]]:
    """X, shape (n, 8), and y, shape (n,), of a table of flights, in the catalogue's columns."""
    age = YEAR - flights["TailNum"].map(issued)
    kept = flights["Month"].isin(MONTHS) & flights[list(KNOWN)].notna().all(axis=1) & age.notna()
    table = flights[kept].rename(columns=COLUMNS).assign(plane_age=age[kept])
    X = table[list(described("airline").features)].to_numpy(np.int16)
    return X, (table["ArrDelay"] > 0).to_numpy(np.int8)


def _parts(
    flights: str | os.PathLike[str], issued: dict[str, int]
) -> Iterator[tuple[NDArray[np.int16], NDArray[np.int8]]]:
    needed = [*COLUMNS, "ArrDelay", "TailNum"]
    for chunk in _read(flights, needed, dtype={"TailNum": str}, chunksize=CHUNK):
        yield rows(chunk, issued)


def _read(path: str | os.PathLike[str], columns: list[str], **options: Any) -> Any:
    """A table, or chunks of one, with an `InvalidData` if the file is not what it should be."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            f"{error.name} is needed to read {path}; install it by `pip install 'sepgp[data]'`."
        ) from error
    try:
        return pd.read_csv(path, usecols=columns, **options)
    except OSError as error:
        raise InvalidData(
            f"{path} cannot be read ({error.strerror}); give the file as the ASA Data Expo "
            "distributes it."
        ) from None
    except ValueError as error:
        raise InvalidData(
            f"{path} does not have the columns {', '.join(columns)} ({error}); give the file as "
            "the ASA Data Expo distributes it."
        ) from None
