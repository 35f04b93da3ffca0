"""The catalogue: every file is verified, and every fault is one sentence."""

import hashlib
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from sepgp import InvalidData
from sepgp.data import catalogue
from sepgp.data.catalogue import CATALOGUE, load

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
SIZES = SMALL | LARGE


def test_every_data_set_is_listed():
    assert set(CATALOGUE) == set(SIZES)


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_entry_is_complete(entry):
    assert (entry.rows, len(entry.features)) == SIZES[entry.name][:2]
    assert len(set(entry.features)) == len(entry.features)
    assert entry.label not in entry.features
    assert all([entry.meaning, entry.source, entry.licence])
    assert len(entry.sha256) == 64


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_checksum_is_that_of_the_file(entry, data_dir):
    assert hashlib.sha256((data_dir / entry.file).read_bytes()).hexdigest() == entry.sha256


@pytest.mark.parametrize("name", SIZES)
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


def complaint(name, folder=None):
    """What a user is told: one sentence."""
    with pytest.raises(InvalidData) as caught:
        load(name, folder)
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


def test_missing_airline_file_says_what_it_is_made_from(tmp_path):
    sentence = complaint("airline", tmp_path)
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
