"""The experiments' data sets by name: what they are, and how their files are read and made."""

import hashlib
import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sepgp.errors import InvalidData
from sepgp.files.atomic import Location, replacing

HHMM = ("dep_time", "arr_time")
"""Columns that hold clock times as hhmm: 1 is a minute past midnight, 2400 the midnight after."""
MNIST_ARRAYS = ("X_train", "y_train", "X_test", "y_test")


class OpenML(NamedTuple):
    """How OpenML names a data set. Its feature columns are those of `DataSet`, in their order."""

    name: str
    version: int
    positive: str | None = None
    """The label that is y = 1; None if y is the label as a number."""


class DataSet(NamedTuple):
    """What is known about a data set before its file is opened."""

    name: str
    file: str
    rows: int
    features: tuple[str, ...]
    meaning: str
    """What y = 1 says, or what y is with more than two classes."""
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
    """Labels 0 and 1, or with more classes their numbers from 0 on, shape (n,)."""
    feature_names: tuple[str, ...]
    n_train: int | None
    """Rows before this one are for training, the others for testing; None without such a split."""


def _entry(name: str, stored: dict[str, Any]) -> DataSet:
    features: list[str] = []
    for listed in stored.pop("features"):
        run = re.fullmatch(r"(\D+)(\d+)\.\.(\d+)", listed)
        if run is None:
            features.append(listed)
        else:
            features += [f"{run[1]}{i}" for i in range(int(run[2]), int(run[3]) + 1)]
    openml = OpenML(**stored.pop("openml")) if "openml" in stored else None
    return DataSet(name, features=tuple(features), openml=openml, **stored)


_STORED = tomllib.loads(files("sepgp.experiments").joinpath("catalogue.toml").read_text("utf-8"))
CATALOGUE: Mapping[str, DataSet] = {name: _entry(name, stored) for name, stored in _STORED.items()}
"""All data sets by name."""


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


def load(name: str, folder: Location | None = None) -> Table:
    """Read a data set of the catalogue. Cost O(nd), and the file is held in memory meanwhile.

    Files lie in `folder`, or in that of the variable SEPGP_DATA. Rows are in the order of the file.
    In airline and nycflights13 the clock times `dep_time` and `arr_time` are turned into minutes
    since midnight, 1 to 1440. The images of mnist are rows of 784 pixels, those for training first.
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


def data_folder(folder: Location | None, file: str) -> Path:
    """The folder named, or that of the variable SEPGP_DATA, to look for a file in."""
    folder = folder or os.environ.get("SEPGP_DATA")
    if not folder:
        raise InvalidData(
            f"No folder is given to look for {file} in; "
            "name the folder with the data sets, or set the variable SEPGP_DATA to it."
        )
    return Path(folder)


def store(name: str, X: NDArray[Any], y: NDArray[Any], folder: Location | None = None) -> Path:
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
        n, images = entry.n_train, X.reshape(-1, 28, 28)
        arrays: Any = zip(MNIST_ARRAYS, (images[:n], y[:n], images[n:], y[n:]), strict=True)
        np.savez_compressed(content, **dict(arrays))
    else:
        table = pandas_for(path).DataFrame(X, columns=list(entry.features))
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
    found, known = hashlib.sha256(content).hexdigest(), {entry.sha256}
    with suppress(OSError, ValueError):
        known.add(_checksum_file(path).read_text(encoding="ascii"))  # which `store` has left
    if found not in known:
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


def _parsed(content: BytesIO, path: Path, entry: DataSet) -> tuple[NDArray[Any], NDArray[Any]]:
    mnist = path.suffix == ".npz"
    stored = np.load(content) if mnist else pandas_for(path).read_parquet(content, engine="pyarrow")
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


def pandas_for(path: Location) -> Any:
    """The library that reads a file, or one sentence that says how to install it."""
    try:
        import pandas as pd
        import pyarrow  # noqa: F401, what pandas reads Parquet with
    except ImportError as error:
        raise ImportError(
            f"{error.name} is needed for {path}; install it by `pip install sepgp[data]`."
        ) from error
    return pd
