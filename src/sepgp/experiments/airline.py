"""The airline data set, built from the public files of 2008 as the ASA Data Expo distributes them.

2008.csv, plain or compressed, has a row for each flight, and plane-data.csv one for each plane.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.errors import InvalidData
from sepgp.experiments.catalogue import described, pandas_for, store
from sepgp.files.atomic import Location

YEAR = 2008
MONTHS = range(1, 5)
KNOWN = ("DepTime", "ArrTime", "AirTime", "ArrDelay")
"""A flight for which one of these is missing is left out."""
COLUMNS = {
    "Distance": "distance", "AirTime": "airtime", "DepTime": "dep_time", "ArrTime": "arr_time",
    "DayOfWeek": "day_of_week", "DayofMonth": "day_of_month", "Month": "month",
}  # fmt: skip
"""Of the flights, by what they become."""
CHUNK = 500_000
"""Flights read at a time."""


def build(flights: Location, planes: Location, folder: Location | None = None) -> Path:
    """Make the file of `airline` in a folder, or in that of SEPGP_DATA; return its path.

    Kept are the flights of January to April whose times and arrival delay are known and whose
    plane has an issue date. Rows stay in the order of the flights. Memory is that of the result,
    38 MB, and of a chunk.
    """
    issued = issue_years(planes)
    needed = [*COLUMNS, "ArrDelay", "TailNum"]
    chunks = _read(flights, needed, dtype={"TailNum": str}, chunksize=CHUNK)
    parts = [rows(chunk, issued) for chunk in chunks]
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return store("airline", X, y, folder)


def issue_years(planes: Location) -> dict[str, int]:
    """The year of the issue date of each plane that has one, by tail number."""
    written = _read(planes, ["tailnum", "issue_date"], dtype=str).set_index("tailnum")["issue_date"]
    dates = pandas_for(planes).to_datetime(written, format="%m/%d/%Y", errors="coerce").dropna()
    return dict(dates.dt.year)


def rows(flights: Any, issued: dict[str, int]) -> tuple[NDArray[np.int16], NDArray[np.int8]]:
    """X, shape (n, 8), and y, shape (n,), of a table of flights, in the catalogue's columns."""
    age = YEAR - flights["TailNum"].map(issued)
    kept = flights["Month"].isin(MONTHS) & flights[list(KNOWN)].notna().all(axis=1) & age.notna()
    table = flights[kept].rename(columns=COLUMNS).assign(plane_age=age[kept])
    X = table[list(described("airline").features)].to_numpy(np.int16)
    return X, (table["ArrDelay"] > 0).to_numpy(np.int8)


def _read(path: Location, columns: list[str], **options: Any) -> Any:
    """A table, or chunks of one, with an `InvalidData` if the file is not what it should be."""
    pandas = pandas_for(path)
    try:
        return pandas.read_csv(path, usecols=columns, **options)
    except OSError as error:
        fault = f"cannot be read ({error.strerror})"
    except ValueError as error:
        fault = f"does not have the columns {', '.join(columns)} ({error})"
    raise InvalidData(f"{path} {fault}; give the file as the ASA Data Expo distributes it.")
