"""The paper's data sets by name: what they are, and how their files are read and made."""

import hashlib
import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sepgp.errors import InvalidData
from sepgp.files.atomic import replacing

HHMM = ("dep_time", "arr_time")
"""Columns that hold clock times as hhmm: 1 is a minute past midnight, 2400 the midnight after."""
MNIST_ARRAYS = ("X_train", "y_train", "X_test", "y_test")


class OpenML(NamedTuple):
    """How OpenML names a data set. Its feature columns are those of `DataSet`, in their order."""

    name: str
    version: int
    positive: str | None
    """The label that is y = 1; None if y is the label as a number."""


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
    """Of the file from which all numbers in the documentation come."""
    rows_digest: str
    """`rows_digest` of what the file holds, whichever program wrote it."""
    label: str = "y"
    """The column that is y."""
    n_train: int | None = None
    """As in `Table`."""
    openml: OpenML | None = None
    """Where OpenML has it."""


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
    "b81981f4679f4f01e2a98dc4cd7a23fb892455f5ac6a71076b8518c32bad3b06",
    "1b684fe29c69c82005511571d2ef8424b6a2ff85c853558d9661bb413dd84e92",
    openml=OpenML("Australian", 4, "1"))  # fmt: skip

_ENTRIES = (
    _AUSTRALIAN,
    _AUSTRALIAN._replace(
        name="australian_paper", features=(*_numbered("A", 2, 14), "y"), label="A1",
        meaning="A1 is 1 (its meaning was removed to protect the applicants)"),
    DataSet("breast", "breast.parquet", 683,
            ("Cl_thickness", "Cell_size", "Cell_shape", "Marg_adhesion", "Epith_c_size",
             "Bare_nuclei", "Bl_cromatin", "Normal_nucleoli", "Mitoses"), "malignant",
            "UCI, Breast Cancer Wisconsin (Original), without its 16 incomplete rows", "CC BY 4.0",
            "ac50de2f37ff4d73b52b0446bf430841925bb5161356a1597271278415535dde",
            "11ef2fb25f065b0460b41f97933c1d893e52cd6687808bd3341bee4e3d65c121",
            openml=OpenML("breast-w", 1, "malignant")),
    DataSet("crabs", "crabs.parquet", 200, ("sp_orange", "index", "FL", "RW", "CL", "CW", "BD"),
            "male", "Campbell and Mahon (1974), as in the R package MASS", "as stated by MASS",
            "b5377f83e70f6456fde94516cac1cffa80964029d151dfe551511966d6f999f0",
            "904739e29e38b10656c47baf4438b291b155ab8de6be770b18a9647713cd7668"),
    DataSet("heart", "heart.parquet", 270,
            ("age", "sex", "chest", "resting_blood_pressure", "serum_cholestoral",
             "fasting_blood_sugar", "resting_electrocardiographic_results",
             "maximum_heart_rate_achieved", "exercise_induced_angina", "oldpeak", "slope",
             "number_of_major_vessels", "thal"),
            "disease present", "UCI, Statlog (Heart)", "as stated by UCI",
            "d39c3837158428d510baa7a925e438457ebf7e6ef10d00de50810c2afc46ce72",
            "b20bd6d19105636b1d8eb109cbe49a5938913c43bd4876c04f43a9b7e6886b6a",
            openml=OpenML("heart-statlog", 1, "present")),
    DataSet("ionosphere", "ionosphere.parquet", 351, _numbered("V", 1, 34), "good radar return",
            "UCI, Ionosphere", "as stated by UCI",
            "d145c2d75f22823a2072d092ba8d6ea277f91ca3d6cf1327ef1eb5314a7a4b66",
            "a43559cd85832fb39d813f063171bb338a5da0ad1d779703b25d5a18766d9a89",
            openml=OpenML("ionosphere", 1, "g")),
    DataSet("pima", "pima.parquet", 768,
            ("pregnant", "glucose", "pressure", "triceps", "insulin", "mass", "pedigree", "age"),
            "diabetes", "UCI, Pima Indians Diabetes", "as stated by UCI",
            "9231471e8a92d9780a28db8be2769d10b92bfa121e1671b3758fdbca879fab4d",
            "5b0d16bbf6173217a3f126e4f0acdbc7b983efbc662f882eae6a73ffd6cce987",
            openml=OpenML("diabetes", 1, "tested_positive")),
    DataSet("sonar", "sonar.parquet", 208, _numbered("V", 1, 60), "mine",
            "UCI, Connectionist Bench (Sonar, Mines vs. Rocks)", "as stated by UCI",
            "ab4515bb2f6fb7e25332141c801049b5d16a76244d99164280d803599f5adb12",
            "5f0953f9b66d9ef7a880c5b1bc53a8b2021ca4ad983d1771188d50548f1e825d",
            openml=OpenML("sonar", 1, "Mine")),
    DataSet("mnist", "mnist.npz", 70_000, _numbered("pixel", 1, 784), "odd digit",
            "the MNIST database of handwritten digits (LeCun and Cortes)", "CC BY-SA 3.0",
            "d2fc8bab397b964798b4c839bd1e705e10a4bb65f4d56a88002229d145796751",
            "13e7fb86812ed0d19b5fdbcfc0cd83b27497f6700d315805622f250fc8503bb6",
            n_train=60_000, openml=OpenML("mnist_784", 1, None)),
    DataSet("airline", "airline_2008_jan_apr.parquet", 2_127_066, _FLIGHT, "arrives late",
            "months 1–4 of the public 2008 on-time performance files of the US Bureau of "
            "Transportation Statistics (ASA Data Expo 2009), with the age of the plane from "
            "issue_date in its plane-data.csv; flights with an unknown time or age are left out",
            "public domain (US government work)",
            "e939a40e648fb45f506d489d40dcfb7deafb3db9eb30719c3e2a5937b4bab228",
            "6a5dd41c8caf7b7f03fa495a36b15b9183adc9a4d06017efd3573cde084a172c"),
    DataSet("nycflights13", "nycflights13.parquet", 273_853, _FLIGHT, "arrives late",
            "flights and planes in the R package nycflights13, complete rows", "CC0",
            "ce28ffb5f4380da62ae035709135450b05467eebcf9ceb98b8a21c2cb041b3fb",
            "2c3c8de6274d2b08fd67ae1105458a8dd01177538a0b89b8054364663f3b4bd4"),
)  # fmt: skip

CATALOGUE: Mapping[str, DataSet] = {entry.name: entry for entry in _ENTRIES}
"""All data sets by name.

australian_paper is the file of australian with A1 as the label and the true class, y, among the
features: only so can the paper's row for it be reproduced.
"""


def rows_digest(X: NDArray[Any], y: NDArray[Any]) -> str:
    """SHA-256 of the rows of X, shape (n, d), with their y, shape (n,), in whatever order.

    Files with equal rows can differ, because programs compress in their own ways. Cost O(nd).
    """
    digests = []
    for begin in range(0, len(X), 4096):
        block = slice(begin, begin + 4096)
        table = np.column_stack([X[block], y[block]]).astype("<f8", order="C") + 0.0  # no −0
        digests += [hashlib.blake2b(row, digest_size=16).digest() for row in table]
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


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
    entry = described(name)
    path = data_folder(folder, entry.file) / entry.file
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


def described(name: str) -> DataSet:
    """The entry of a data set, or an `InvalidData` that lists what there is."""
    if name not in CATALOGUE:
        raise InvalidData(f"There is no data set {name!r}; choose one of {', '.join(CATALOGUE)}.")
    return CATALOGUE[name]


def data_folder(folder: str | os.PathLike[str] | None, file: str) -> Path:
    """The folder named, or that of the variable SEPGP_DATA, to look for a file in."""
    folder = folder or os.environ.get("SEPGP_DATA")
    if not folder:
        raise InvalidData(
            f"No folder is given to look for {file} in; "
            "name the folder with the data sets, or set the variable SEPGP_DATA to it."
        )
    return Path(folder)


def store(
    name: str, X: NDArray[Any], y: NDArray[Any], folder: str | os.PathLike[str] | None = None
) -> Path:
    """Write a data set got elsewhere as the file that `load` reads; return its path.

    X, shape (n, d), and y, shape (n,), are as in the file: clock times as hhmm, digits 0 to 9. If
    they are not the rows that the catalogue knows, nothing is written. Another program's file has
    another checksum, so this one's is kept beside it.
    """
    entry = described(name)
    path = data_folder(folder, entry.file) / entry.file
    found = rows_digest(X, y)
    if found != entry.rows_digest:
        raise InvalidData(
            f"What was found for {name} is not what the catalogue knows: {len(X):,} rows with "
            f"digest {found[:16]} instead of {entry.rows:,} with {entry.rows_digest[:16]}; "
            f"put the original {entry.file} into {path.parent} instead."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    content = BytesIO()
    if path.suffix == ".npz":
        n = entry.n_train
        images = X.reshape(-1, 28, 28)
        arrays: dict[str, Any] = dict(
            zip(MNIST_ARRAYS, (images[:n], y[:n], images[n:], y[n:]), strict=True)
        )
        np.savez_compressed(content, **arrays)
    else:
        pandas = _pandas(path)
        table = pandas.DataFrame(X, columns=list(entry.features))
        table[entry.label] = y.astype(np.int8)
        table.to_parquet(content, engine="pyarrow", compression="zstd")
    data = content.getvalue()
    checksum = hashlib.sha256(data).hexdigest().encode()
    for place, bytes_ in ((_checksum_file(path), checksum), (path, data)):
        with replacing(place) as temporary:
            temporary.write_bytes(bytes_)
    return path


def _checksum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _verified(path: Path, entry: DataSet) -> BytesIO:
    try:
        content = path.read_bytes()
    except OSError as error:
        way = command(entry)
        raise InvalidData(
            f"{path} cannot be read ({error.strerror}); put {entry.file} there or set SEPGP_DATA "
            f"to the folder that has it{f', or run `{way}`' if way else ''} "
            f"(it is made from {entry.source})."
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found not in (entry.sha256, _stored_checksum(path)):
        raise InvalidData(
            f"{path} is damaged or another version: its SHA-256 begins with {found[:16]} instead "
            f"of {entry.sha256[:16]}; replace it with the original file."
        )
    return BytesIO(content)


def command(entry: DataSet) -> str | None:
    """The command that gets or makes the file of a data set, where there is one."""
    if entry.name == "airline":
        return "sepgp data airline"
    return None if entry.openml is None else f"sepgp data fetch {entry.name}"


def _stored_checksum(path: Path) -> str | None:
    """The checksum that `store` has left beside a file."""
    try:
        return _checksum_file(path).read_text(encoding="ascii")
    except (OSError, ValueError):
        return None


def _parsed(content: BytesIO, path: Path, entry: DataSet) -> tuple[NDArray[Any], NDArray[Any]]:
    mnist = path.suffix == ".npz"
    stored = np.load(content) if mnist else _pandas(path).read_parquet(content, engine="pyarrow")
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


def _pandas(path: Path) -> Any:
    try:
        import pandas as pd
        import pyarrow  # noqa: F401, what pandas reads Parquet with
    except ImportError as error:
        raise ImportError(
            f"{error.name} is needed for {path}; install it by `pip install sepgp[data]`."
        ) from error
    return pd
