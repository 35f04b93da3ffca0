"""The catalogue: every file is verified, and every fault is one sentence."""

import bz2
import hashlib
import sys
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from sepgp import InvalidData
from sepgp.experiments import airline, catalogue, openml
from sepgp.experiments.catalogue import CATALOGUE, load, rows_digest, store

SMALL = {
    # rows, features, rows with y = 1
    "australian": (690, 14, 307),
    "australian_paper": (690, 14, 468),
    "breast": (683, 9, 239),
    "crabs": (200, 7, 100),
    "heart": (270, 13, 120),
    "ionosphere": (351, 34, 225),
    "pima": (768, 8, 268),
    "sonar": (208, 60, 111),
}
LARGE = {
    "mnist": (70_000, 784, 30_508 + 5_074),
    "airline": (2_127_066, 8, 1_010_346),
    "nycflights13": (273_853, 8, 111_199),
}
CLASSES = {
    # rows, features, rows of each class
    "vehicle": (846, 18, [218, 212, 217, 199]),
    "segment": (2310, 19, [330] * 7),
    "satimage": (6435, 36, [1533, 703, 1358, 626, 707, 1508]),
    "texture": (5500, 40, [500] * 11),
}
SIZES = SMALL | LARGE | CLASSES


def test_every_data_set_is_listed():
    assert set(CATALOGUE) == set(SIZES)


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_entry_is_complete(entry):
    assert (entry.rows, len(entry.features)) == SIZES[entry.name][:2]
    assert len(set(entry.features)) == len(entry.features)
    assert entry.label not in entry.features
    assert all([entry.meaning, entry.source, entry.licence])
    assert len(entry.sha256) == len(entry.rows_digest) == 64


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_checksum_is_that_of_the_file(entry, data_dir):
    assert hashlib.sha256((data_dir / entry.file).read_bytes()).hexdigest() == entry.sha256


@pytest.mark.parametrize("name", CLASSES)
def test_many_classes_are_numbers_from_zero_on(name, data_dir):
    X, y, feature_names, _ = load(name, data_dir)
    n, d, counts = CLASSES[name]
    assert X.shape == (n, d) == (len(y), len(feature_names))
    assert_array_equal(np.bincount(y), counts)


@pytest.mark.parametrize("name", SMALL | LARGE)
def test_table_is_as_documented(name, data_dir):
    X, y, feature_names, n_train = load(name, data_dir)
    n, d, ones = SIZES[name]
    assert X.shape == (n, d)
    assert X.flags.c_contiguous
    assert X.dtype == (np.float64 if name in SMALL else np.uint8 if name == "mnist" else np.int16)
    assert y.shape == (n,)
    assert y.dtype == np.int8
    assert_array_equal(np.unique(y), [0, 1])
    assert y.sum() == ones
    assert feature_names == CATALOGUE[name].features
    assert n_train == (60_000 if name == "mnist" else None)


def test_mnist_has_its_training_rows_first(data_dir):
    X, y, _, n_train = load("mnist", data_dir)
    assert y[:n_train].sum() == 30_508
    with np.load(data_dir / "mnist.npz") as archive:
        assert_array_equal(X[n_train], archive["X_test"][0].ravel())
        assert_array_equal(y[n_train:], archive["y_test"] % 2)


def test_clock_times_become_minutes(data_dir):
    X, _, names, _ = load("nycflights13", data_dir)
    stored = pd.read_parquet(data_dir / "nycflights13.parquet")
    for name in names:
        column = stored[name].to_numpy()
        if name in ("dep_time", "arr_time"):
            column = 60 * (column // 100) + column % 100
            assert column.min() >= 1
            assert column.max() == 24 * 60
        assert_array_equal(X[:, names.index(name)], column)


def test_paper_variant_swaps_the_label_with_the_first_attribute(data_dir):
    true, paper = load("australian", data_dir), load("australian_paper", data_dir)
    assert_array_equal(paper.y, true.X[:, 0])
    assert_array_equal(paper.X[:, :-1], true.X[:, 1:])
    assert_array_equal(paper.X[:, -1], true.y)


def test_folder_comes_from_the_variable(data_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("SEPGP_DATA", str(data_dir))
    assert_array_equal(load("crabs").X, load("crabs", data_dir).X)
    with pytest.raises(InvalidData, match="cannot be read"):  # the argument has precedence
        load("crabs", tmp_path)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Put a table into the catalogue as `toy` with features a, b and 3 rows, and say where."""

    def put(table):
        path = tmp_path / "toy.parquet"
        table.to_parquet(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        entry = CATALOGUE["crabs"]._replace(
            name="toy", file=path.name, rows=3, features=("a", "b"), sha256=digest
        )
        monkeypatch.setattr(catalogue, "CATALOGUE", {"toy": entry})
        return path

    return put


GOOD = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": np.array([0, 1, 1], np.int8), "b": [4, 5, 6]})


def complaint(name, folder=None, action=load):
    """What a user is told: one sentence."""
    with pytest.raises(InvalidData) as caught:
        action(name, folder)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def test_columns_are_found_by_name(toy):
    table = load("toy", toy(GOOD).parent)
    assert_array_equal(table.X, [[1, 4], [2, 5], [3, 6]])
    assert_array_equal(table.y, [0, 1, 1])


def test_unknown_name():
    sentence = complaint("titanic")
    assert "'titanic'" in sentence
    assert all(name in sentence for name in CATALOGUE)


@pytest.mark.parametrize("value", [None, ""], ids=["unset", "empty"])
def test_no_folder(value, monkeypatch):
    if value is None:
        monkeypatch.delenv("SEPGP_DATA", raising=False)
    else:
        monkeypatch.setenv("SEPGP_DATA", value)
    sentence = complaint("heart")
    assert "heart.parquet" in sentence
    assert "SEPGP_DATA" in sentence


@pytest.mark.parametrize("folder", ["", "absent"])
def test_missing_file(folder, tmp_path):
    sentence = complaint("sonar", tmp_path / folder)
    assert str(tmp_path / folder / "sonar.parquet") in sentence
    assert "SEPGP_DATA" in sentence


def test_missing_airline_file_says_how_it_is_made(tmp_path):
    sentence = complaint("airline", tmp_path)
    assert "`sepgp data airline`" in sentence
    assert "months 1–4 of the public 2008 on-time performance files" in sentence


def test_folder_in_place_of_the_file(tmp_path):
    (tmp_path / "heart.parquet").mkdir()
    assert "heart.parquet cannot be read" in complaint("heart", tmp_path)


@pytest.mark.parametrize("damage", ["flipped bit", "truncated", "empty"])
def test_damaged_file_is_never_parsed(damage, toy, monkeypatch):
    path = toy(GOOD)
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    path.write_bytes({"flipped bit": flipped, "truncated": content[:-1], "empty": b""}[damage])
    monkeypatch.setattr(pd, "read_parquet", lambda *_, **__: pytest.fail("parsed"))
    sentence = complaint("toy", path.parent)
    assert f"{path} is damaged" in sentence
    assert "replace it" in sentence


@pytest.mark.parametrize(
    "table",
    [GOOD.drop(columns="b"), GOOD.rename(columns={"y": "label"}), GOOD.assign(extra=0)],
    ids=["missing", "renamed", "too many"],
)
def test_wrong_columns(table, toy):
    path = toy(table)
    sentence = complaint("toy", path.parent)
    assert f"{path} has the columns {', '.join(table)} instead of a, b, y;" in sentence


def test_wrong_arrays(tmp_path, monkeypatch):
    path = tmp_path / "mnist.npz"
    np.savez(path, X_train=np.zeros((2, 28, 28), np.uint8), y_train=np.zeros(2, np.uint8))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    entry = CATALOGUE["mnist"]._replace(sha256=digest)
    monkeypatch.setattr(catalogue, "CATALOGUE", {"mnist": entry})
    assert f"{path} has the columns X_train, y_train instead of" in complaint("mnist", tmp_path)


def test_wrong_number_of_rows(toy):
    path = toy(GOOD[:2])
    assert f"{path} has 2 rows of 2 features instead of 3 of 2;" in complaint("toy", path.parent)


@pytest.mark.parametrize("module", ["pandas", "pyarrow"])
def test_parquet_without_its_readers(module, toy, monkeypatch):
    path = toy(GOOD)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"^{module} is needed .*pip install sepgp\[data\]"):
        load("toy", path.parent)


# ------------------------------------------------------------- files made elsewhere


@pytest.mark.parametrize("name", ["crabs", "sonar", "nycflights13"])
def test_digest_of_rows_is_that_of_the_file(name, data_dir):
    entry = CATALOGUE[name]
    stored = pd.read_parquet(data_dir / entry.file)
    X, y = stored[list(entry.features)].to_numpy(), stored["y"].to_numpy()
    assert rows_digest(X, y) == entry.rows_digest


def test_digest_of_rows_knows_values_not_order():
    X, y = np.array([[0.0, 1.5], [2.0, 3.0]]), np.array([0, 1], np.int8)
    digest = rows_digest(X, y)
    assert rows_digest(X[::-1], y[::-1]) == digest
    assert rows_digest(np.array([[-0.0, 1.5], [2.0, 3.0]], order="F"), y.astype(float)) == digest
    assert rows_digest(X, y[::-1]) != digest
    assert rows_digest(X + 1e-9, y) != digest


@pytest.fixture
def made(monkeypatch):
    """Put three rows in the place of a set of the catalogue."""

    def put(name, X, y, **changes):
        entry = CATALOGUE[name]._replace(
            rows=len(X), sha256="0" * 64, rows_digest=rows_digest(X, y), **changes
        )
        table = {name: entry}
        for module in (catalogue, openml):
            monkeypatch.setattr(module, "CATALOGUE", table)

    return put


SMALL_X, SMALL_Y = np.arange(21.0).reshape(3, 7) / 7, np.array([1, 0, 1], np.int8)


def test_stored_file_is_loaded(made, tmp_path):
    made("crabs", SMALL_X, SMALL_Y)
    path = store("crabs", SMALL_X, SMALL_Y, tmp_path / "new")
    assert path == tmp_path / "new" / "crabs.parquet"
    X, y, *_ = load("crabs", tmp_path / "new")
    assert_array_equal(X, SMALL_X)
    assert_array_equal(y, SMALL_Y)
    path.write_bytes(path.read_bytes() + b"x")
    assert "damaged" in complaint("crabs", tmp_path / "new")


def test_other_rows_are_not_stored(made, tmp_path):
    made("crabs", SMALL_X, SMALL_Y)
    sentence = complaint("crabs", tmp_path, lambda name, to: store(name, -SMALL_X, SMALL_Y, to))
    assert "is not what the catalogue knows" in sentence
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------- OpenML


def answer(monkeypatch, features, target, asked=None):
    """Let OpenML send this table."""

    def fetch_openml(name, **options):
        if asked is not None:
            asked.append((name, options["version"]))
        return SimpleNamespace(data=features, target=target)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)


def test_fetch(made, monkeypatch, tmp_path):
    """Incomplete rows are dropped, categories become numbers and the label 0 or 1."""
    X = np.arange(27.0).reshape(3, 9)
    made("breast", X, SMALL_Y)
    table = pd.DataFrame(np.vstack([X[0], np.full(9, np.nan), X[1:]]))
    table[3] = table[3].astype("category")
    target = pd.Series(["malignant", "benign", "benign", "malignant"], dtype="category")
    asked = []
    answer(monkeypatch, table, target, asked)
    path = openml.fetch("breast", tmp_path)
    assert asked == [("breast-w", 1)]
    assert path == tmp_path / "breast.parquet"
    assert_array_equal(load("breast", tmp_path).X, X)
    assert_array_equal(load("breast", tmp_path).y, SMALL_Y)


def test_fetch_mnist(made, monkeypatch, tmp_path):
    X = np.arange(3 * 784).reshape(3, 784) % 256
    digits = np.array([5, 0, 4])
    made("mnist", X, digits, n_train=2)
    answer(monkeypatch, pd.DataFrame(X), pd.Series(digits.astype(str), dtype="category"))
    openml.fetch("mnist", tmp_path)
    table = load("mnist", tmp_path)
    assert_array_equal(table.X, X)
    assert table.X.dtype == np.uint8
    assert_array_equal(table.y, [1, 0, 0])
    assert table.n_train == 2


def test_fetch_of_the_paper_variant_gets_its_file(data_dir, monkeypatch, tmp_path):
    X, y, *_ = load("australian", data_dir)
    answer(monkeypatch, pd.DataFrame(X), pd.Series(y.astype(str)))
    openml.fetch("australian_paper", tmp_path)
    assert_array_equal(load("australian_paper", tmp_path).y, X[:, 0])


def test_fetch_of_other_rows(monkeypatch, tmp_path):
    answer(monkeypatch, pd.DataFrame(np.ones((3, 13))), pd.Series(["present"] * 3))
    assert "3 rows with digest" in complaint("heart", tmp_path, openml.fetch)
    assert list(tmp_path.iterdir()) == []


def test_fetch_of_other_columns(monkeypatch, tmp_path):
    answer(monkeypatch, pd.DataFrame(np.ones((3, 5))), pd.Series(["present"] * 3))
    assert "has 5 features instead of 13" in complaint("heart", tmp_path, openml.fetch)


def test_fetch_without_a_network(monkeypatch, tmp_path):
    def offline(*_, **__):
        raise URLError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    sentence = complaint("heart", tmp_path, openml.fetch)
    assert "OpenML cannot be reached for heart" in sentence
    assert "heart.parquet" in sentence


@pytest.mark.parametrize("name", ["crabs", "airline"])
def test_fetch_of_what_openml_lacks(name, tmp_path):
    assert f"OpenML does not have {name}" in complaint(name, tmp_path, openml.fetch)


# --------------------------------------------------------------------------- airline

FLIGHTS = """\
Year,Month,DayofMonth,DayOfWeek,DepTime,ArrTime,TailNum,AirTime,ArrDelay,Distance,Cancelled
2008,1,3,4,2003,2211,N712SW,116,-14,810,0
2008,1,3,4,754,1002,N772SW,113,2,810,0
2008,1,3,4,,,N772SW,,,810,1
2008,2,4,5,628,804,,76,14,515,0
2008,2,4,5,926,1054,N999XX,78,-6,515,0
2008,4,30,3,5,2400,N430WN,87,0,515,0
2008,4,30,3,10,100,N000NA,87,1,515,0
2008,5,1,4,628,804,N712SW,76,14,515,0
"""
PLANES = """\
tailnum,type,manufacturer,issue_date,model,status,aircraft_type,engine_type,year
N050AA,,,,,,,,
N712SW,Corporation,BOEING,01/23/1998,737-7H4,Valid,Fixed Wing Multi-Engine,Turbo-Fan,1998
N772SW,Corporation,BOEING,09/01/2000,737-7H4,Valid,Fixed Wing Multi-Engine,Turbo-Fan,2000
N430WN,Corporation,BOEING,10/26/2002,737-7H4,Valid,Fixed Wing Multi-Engine,Turbo-Fan,None
N000NA,Corporation,BOEING,None,737-7H4,Valid,Fixed Wing Multi-Engine,Turbo-Fan,1999
"""
AIRLINE_X = np.array(
    [
        [10, 810, 116, 2003, 2211, 4, 3, 1],
        [8, 810, 113, 754, 1002, 4, 3, 1],
        [6, 515, 87, 5, 2400, 3, 30, 4],
    ],
    np.int16,
)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "bz2"])
def test_build_airline(packed, made, monkeypatch, tmp_path):
    """Only complete flights of January to April, of planes with an issue date."""
    made("airline", AIRLINE_X, np.array([0, 1, 0]))
    flights, planes = tmp_path / ("2008.csv" + ".bz2" * packed), tmp_path / "plane-data.csv"
    flights.write_bytes(bz2.compress(FLIGHTS.encode()) if packed else FLIGHTS.encode())
    planes.write_text(PLANES)
    monkeypatch.setattr(airline, "CHUNK", 3)
    path = airline.build(flights, planes, tmp_path / "data")
    stored = pd.read_parquet(path)
    assert_array_equal(stored.drop(columns="y"), AIRLINE_X)
    assert_array_equal(stored["y"], [0, 1, 0])
    assert load("airline", tmp_path / "data").X[2, 4] == 24 * 60


def test_build_airline_from_other_files(tmp_path):
    flights, planes = tmp_path / "2008.csv", tmp_path / "plane-data.csv"
    build = lambda *_: airline.build(flights, planes, tmp_path)  # noqa: E731
    assert "plane-data.csv cannot be read" in complaint("", None, build)
    planes.write_text("tail,issued\nN1,1\n")
    assert "does not have the columns tailnum, issue_date" in complaint("", None, build)
    planes.write_text(PLANES)
    flights.write_text("Year,Month\n2008,1\n")
    assert "does not have the columns" in complaint("", None, build)
    flights.write_text(FLIGHTS)
    assert "3 rows with digest" in complaint("", None, build)
