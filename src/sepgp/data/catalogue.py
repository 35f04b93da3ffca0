"""The paper's data sets by name: what they are, and how their files are read."""

import hashlib
import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sepgp.errors import InvalidData

HHMM = ("dep_time", "arr_time")
"""Columns that hold clock times as hhmm: 1 is a minute past midnight, 2400 the midnight after."""
MNIST_ARRAYS = ("X_train", "y_train", "X_test", "y_test")


class DataSet(NamedTuple):
    """What is known about a data set before its file is opened."""

    name: str
    file: str
    rows: int
    features: tuple[str, ...]
    meaning: str
    """What y = 1 says."""
    source: str
    licence: str
    sha256: str
    label: str = "y"
    """The column that is y."""
    n_train: int | None = None
    """As in `Table`."""


class Table(NamedTuple):
    """A data set in memory."""

    X: NDArray[Any]
    """Features as they are stored, neither scaled nor shuffled, shape (n, d)."""
    y: NDArray[np.int8]
    """Labels 0 and 1, shape (n,)."""
    feature_names: tuple[str, ...]
    n_train: int | None
    """Rows before this one are for training, the others for testing; None without such a split."""


def _numbered(prefix: str, first: int, last: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(first, last + 1))


_FLIGHT = ("plane_age", "distance", "airtime", *HHMM, "day_of_week", "day_of_month", "month")

_AUSTRALIAN = DataSet(
    "australian", "australian.parquet", 690, _numbered("A", 1, 14), "class 1 (approved)",
    "UCI, Statlog (Australian Credit Approval)", "CC BY 4.0",
    "b81981f4679f4f01e2a98dc4cd7a23fb892455f5ac6a71076b8518c32bad3b06")  # fmt: skip

_ENTRIES = (
    _AUSTRALIAN,
    _AUSTRALIAN._replace(
        name="australian_paper", features=(*_numbered("A", 2, 14), "y"), label="A1",
        meaning="A1 is 1 (its meaning was removed to protect the applicants)"),
    DataSet("breast", "breast.parquet", 683,
            ("Cl_thickness", "Cell_size", "Cell_shape", "Marg_adhesion", "Epith_c_size",
             "Bare_nuclei", "Bl_cromatin", "Normal_nucleoli", "Mitoses"), "malignant",
            "UCI, Breast Cancer Wisconsin (Original), without its 16 incomplete rows", "CC BY 4.0",
            "ac50de2f37ff4d73b52b0446bf430841925bb5161356a1597271278415535dde"),
    DataSet("crabs", "crabs.parquet", 200, ("sp_orange", "index", "FL", "RW", "CL", "CW", "BD"),
            "male", "Campbell and Mahon (1974), as in the R package MASS", "as stated by MASS",
            "b5377f83e70f6456fde94516cac1cffa80964029d151dfe551511966d6f999f0"),
    DataSet("heart", "heart.parquet", 270,
            ("age", "sex", "chest", "resting_blood_pressure", "serum_cholestoral",
             "fasting_blood_sugar", "resting_electrocardiographic_results",
             "maximum_heart_rate_achieved", "exercise_induced_angina", "oldpeak", "slope",
             "number_of_major_vessels", "thal"),
            "disease present", "UCI, Statlog (Heart)", "as stated by UCI",
            "d39c3837158428d510baa7a925e438457ebf7e6ef10d00de50810c2afc46ce72"),
    DataSet("ionosphere", "ionosphere.parquet", 351, _numbered("V", 1, 34), "good radar return",
            "UCI, Ionosphere", "as stated by UCI",
            "d145c2d75f22823a2072d092ba8d6ea277f91ca3d6cf1327ef1eb5314a7a4b66"),
    DataSet("pima", "pima.parquet", 768,
            ("pregnant", "glucose", "pressure", "triceps", "insulin", "mass", "pedigree", "age"),
            "diabetes", "UCI, Pima Indians Diabetes", "as stated by UCI",
            "9231471e8a92d9780a28db8be2769d10b92bfa121e1671b3758fdbca879fab4d"),
    DataSet("sonar", "sonar.parquet", 208, _numbered("V", 1, 60), "mine",
            "UCI, Connectionist Bench (Sonar, Mines vs. Rocks)", "as stated by UCI",
            "ab4515bb2f6fb7e25332141c801049b5d16a76244d99164280d803599f5adb12"),
    DataSet("mnist", "mnist.npz", 70_000, _numbered("pixel", 1, 784), "odd digit",
            "the MNIST database of handwritten digits (LeCun and Cortes)", "CC BY-SA 3.0",
            "d2fc8bab397b964798b4c839bd1e705e10a4bb65f4d56a88002229d145796751",
            n_train=60_000),
    DataSet("airline", "airline_2008_jan_apr.parquet", 2_127_066, _FLIGHT, "arrives late",
            "months 1–4 of the public 2008 on-time performance files of the US Bureau of "
            "Transportation Statistics (ASA Data Expo 2009), with the age of the plane from "
            "issue_date in its plane-data.csv; flights with an unknown time or age are left out",
            "public domain (US government work)",
            "e939a40e648fb45f506d489d40dcfb7deafb3db9eb30719c3e2a5937b4bab228"),
    DataSet("nycflights13", "nycflights13.parquet", 273_853, _FLIGHT, "arrives late",
            "flights and planes in the R package nycflights13, complete rows", "CC0",
            "ce28ffb5f4380da62ae035709135450b05467eebcf9ceb98b8a21c2cb041b3fb"),
)  # fmt: skip

CATALOGUE: Mapping[str, DataSet] = {entry.name: entry for entry in _ENTRIES}
"""All data sets by name.

australian_paper is the file of australian with A1 as the label and the true class, y, among the
features: only so can the paper's row for it be reproduced.
"""


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Table:
    """Read a data set of the catalogue. Cost O(nd), and the file is held in memory meanwhile.

    Parameters
    ----------
    name : str
        A key of `CATALOGUE`.
    folder : path, optional
        Where the files lie; the variable SEPGP_DATA when not given.

    Returns
    -------
    Table
        X of shape (n, d) and y of shape (n,), in the order of the file. In airline and
        nycflights13 the clock times `dep_time` and `arr_time` are turned into minutes since
        midnight, 1 to 1440. The images of mnist are rows of 784 pixels, those for training first.

    Nothing is parsed before its checksum is verified; a file that fails is an `InvalidData`.
    """
    if name not in CATALOGUE:
        raise InvalidData(f"There is no data set {name!r}; choose one of {', '.join(CATALOGUE)}.")
    entry = CATALOGUE[name]
    folder = folder or os.environ.get("SEPGP_DATA")
    if not folder:
        raise InvalidData(
            f"No folder is given to look for {entry.file} in; "
            "name the folder with the data sets, or set the variable SEPGP_DATA to it."
        )
    path = Path(folder) / entry.file
    X, y = _parsed(_verified(path, entry), path, entry)
    if X.shape != (entry.rows, len(entry.features)):
        raise InvalidData(
            f"{path} has {X.shape[0]} rows of {X.shape[1]} features instead of "
            f"{entry.rows} of {len(entry.features)}; replace it with the original file."
        )
    for column in (entry.features.index(c) for c in HHMM if c in entry.features):
        hours, minutes = np.divmod(X[:, column], 100)
        X[:, column] = 60 * hours + minutes
    return Table(X, y.astype(np.int8), entry.features, entry.n_train)


def _verified(path: Path, entry: DataSet) -> BytesIO:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidData(
            f"{path} cannot be read ({error.strerror}); put {entry.file} there or set SEPGP_DATA "
            f"to the folder that has it (it is made from {entry.source})."
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != entry.sha256:
        raise InvalidData(
            f"{path} is damaged or another version: its SHA-256 begins with {found[:16]} instead "
            f"of {entry.sha256[:16]}; replace it with the original file."
        )
    return BytesIO(content)


def _parsed(content: BytesIO, path: Path, entry: DataSet) -> tuple[NDArray[Any], NDArray[Any]]:
    mnist = path.suffix == ".npz"
    stored = np.load(content) if mnist else _parquet(content, path)
    expected = MNIST_ARRAYS if mnist else (*entry.features, entry.label)
    if set(stored) != set(expected):
        raise InvalidData(
            f"{path} has the columns {', '.join(stored)} instead of {', '.join(expected)}; "
            "replace it with the original file."
        )
    if mnist:
        X, y = (np.concatenate([stored[f"{a}_train"], stored[f"{a}_test"]]) for a in "Xy")
        return X.reshape(len(X), -1), y % 2
    return np.array(stored[list(entry.features)], order="C"), stored[entry.label].to_numpy()


def _parquet(content: BytesIO, path: Path) -> Any:
    try:
        import pandas as pd
        import pyarrow  # noqa: F401, what pandas reads Parquet with
    except ImportError as error:
        raise ImportError(
            f"{error.name} is needed to read {path}; install it by `pip install sepgp[data]`."
        ) from error
    return pd.read_parquet(content, engine="pyarrow")
