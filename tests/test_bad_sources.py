"""Bad rows, wherever they come from, get one clear sentence and change nothing."""

import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from quick import assert_one_sentence
from sources import NAMES, REAL, TABLE, WEIGHTED, W, X, Y, model, parquet

from sepgp import GPClassifier, InvalidData, InvalidParameter
from sepgp.data import open_rows, stream_source


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Files are named as if the test were alone."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def gives(*items):
    """A function whose blocks are these; an exception is raised in its turn."""

    def source():
        for item in items:
            if isinstance(item, Exception):
                raise item
            yield item

    return source


def file(content: str, name: str = "rows.csv") -> str:
    Path(name).write_bytes(content.encode("latin-1"))
    return name


def two_files(first: pd.DataFrame, second: pd.DataFrame) -> str:
    parquet("a.parquet", first)
    parquet("b.parquet", second)
    return "*.parquet"


def two_csv(first: str, second: str) -> str:
    file(first, "a.csv")
    file(second, "b.csv")
    return "*.csv"


def exhausted():
    items = iter([(X[:30], Y[:30]), (X[30:], Y[30:])])
    return lambda: items


def on_call(*sources):
    """A function that gives other blocks at every call, the last ones for ever."""
    calls = iter(sources)
    last = []

    def source():
        last[:] = next(calls, last)
        return iter(last)

    return source


GOOD = [(X, Y)]
TEXT = np.array(["no", "yes"])[Y]
BAD = {
    "no file": (lambda: "none.parquet", {}, r"no file 'none.parquet'; check"),
    "no match": (lambda: "none*.parquet", {}, r"no file 'none\*.parquet'; check"),
    "empty folder": (lambda: ".", {}, r"folder '.' has no file that ends in .parquet"),
    "not Parquet": (lambda: file("text", "a.parquet"), {}, r"a.parquet cannot be read \(.*replace"),
    "empty file": (lambda: file("", "a.parquet"), {}, r"a.parquet cannot be read \(.*replace"),
    "another format": (
        lambda: file("", "a.docx"),
        {},
        r"a.docx has a name that says no format that is read, which are Parquet .*; convert",
    ),
    "compressed": (lambda: file("", "a.csv.zip"), {}, "a.csv.zip has a name that .*; convert"),
    "not packed": (lambda: file("a", "a.csv.gz"), {}, r"a.csv.gz cannot be read \(.*replace"),
    "two kinds": (
        lambda: (parquet(), file("a,late\n1,2\n")) and "rows.*",
        {},
        r"'rows.\*' stands for files of CSV and Parquet; name",
    ),
    "value over two lines": (
        lambda: file('age,late\n"1\n2\n3",0\n'),
        {"columns": ["age"]},
        "one class only|cannot be read",
    ),
    "binary CSV": (
        lambda: file("a,\0\r\xff\n1,2\n"),
        {},
        "rows.csv (has no column|cannot be read)",
    ),
    "no rows": (lambda: parquet(table=TABLE[:0]), {}, "rows.parquet has no rows; give"),
    "no lines": (lambda: file("age,late\n"), {}, "rows.csv has no rows; give"),
    "empty CSV": (lambda: file(""), {}, "rows.csv has no rows; give"),
    "short line": (
        lambda: file("age,late\n1,2\n3\n"),
        {},
        r"rows.csv has 1 value in line 3 \('3'\), where its header has 2 columns; correct",
    ),
    "labels unlike the beginning": (
        lambda: two_csv("age,late\n1,0\n2,1\n", "age,late\n3,never\n"),
        {},
        "b.csv has 'never' in line 2 of column 'late', which begins with values of type int64; ",
    ),
    "CSV without a column": (
        lambda: two_csv("age,late\n1,0\n2,1\n", "late\n1\n"),
        {},
        "b.csv has no column 'age', which a.csv has; give",
    ),
    "a column less": (
        lambda: two_files(TABLE, TABLE.drop(columns="size")),
        {},
        "b.parquet has no column 'size', which a.parquet has; give",
    ),
    "another type": (
        lambda: two_files(TABLE, TABLE.assign(size="big")),
        {},
        "b.parquet has .*string in column 'size', where a.parquet has double; give",
    ),
    "nested": (lambda: parquet(table=TABLE.assign(size=[[1]] * 60)), {}, "type list.* 'size'"),
    "identifiers alone": (
        lambda: parquet(table=pd.DataFrame({"id": [f"n{i}" for i in range(60)], "late": Y})),
        {},
        "no column to learn from but those that are left out .*'id'.*; add one",
    ),
    "infinity": (lambda: parquet(table=TABLE.assign(size=np.inf)), {}, r"infinity .* 'size'"),
    "no target": (parquet, {"target": None}, "rows.parquet has no labels; name their column"),
    "unknown target": (parquet, {"target": "x"}, "no column 'x'; add .*'age', 'height'"),
    "unknown column": (parquet, {"columns": ["x"]}, "no column 'x'; add it, or name one"),
    "columns as text": (parquet, {"columns": "age"}, "columns='age' is text; give a list"),
    "a column twice": (parquet, {"columns": ["age", "age"]}, "several columns 'age'"),
    "target as feature": (parquet, {"columns": ["late"]}, "columns contains the target"),
    "no columns": (parquet, {"columns": []}, "no column to learn from"),
    "target alone": (lambda: parquet(table=TABLE[["late"]]), {}, "no column to learn from"),
    "unknown weight": (parquet, {"sample_weight": "x"}, "no column 'x'; add it, or name one"),
    "array of weights": (parquet, {"sample_weight": W}, "sample_weight is an array beside"),
    "labels beside": (parquet, {"y": Y}, "y is given beside a source of rows; leave"),
    "labels twice": (lambda: TABLE, {"y": Y}, "y and target are both given; give"),
    "negative weights": (
        lambda: parquet(table=WEIGHTED.assign(w=-W)),
        {"sample_weight": "w"},
        "in column 'w' has a value that is negative",
    ),
    "missing weights": (
        lambda: WEIGHTED.assign(w=np.nan),
        {"sample_weight": "w"},
        "X in column 'w' has a value that is negative, missing",
    ),
    "text as weights": (
        lambda: parquet(table=WEIGHTED.assign(w="x")),
        {"sample_weight": "w"},
        "column 'w' has the weight 'x', which is no number; write",
    ),
    "no weight": (
        lambda: WEIGHTED.assign(w=0.0),
        {"sample_weight": "w"},
        "The weight in X leaves no row of class 0; give",
    ),
    "no weight of a class": (
        lambda: WEIGHTED.assign(w=Y),
        {"sample_weight": "w"},
        "The weight in X leaves no row of class 0; give",
    ),
    "missing labels": (
        lambda: parquet(table=TABLE.assign(late=[0, 1, None] * 20)),
        {},
        "'late' has no label, .* in 20 rows, such as that with .* in 'age'; write .* drop",
    ),
    "missing text": (
        lambda: TABLE.assign(late=["a", "b", None] * 20),
        {},
        "'late' has no label, .* in 20 rows, such as that with .* in 'age'; write .* drop",
    ),
    "NaN as label": (
        lambda: pa.table({"a": [1.0, 2, 3], "late": [0.0, 1.0, np.nan]}),
        {},
        "column 'late' has no label, .* in 1 row, such as that with 3.0 in 'a'; write .* drop",
    ),
    "one class": (lambda: TABLE.assign(late="a"), {}, r"X contains one class only \('a'\)"),
    "numbers as labels": (
        lambda: parquet(table=TABLE.assign(late=X[:, 0])),
        {},
        r"labels with a fraction, such as .*, so it is a quantity .* use a regressor",
    ),
    "columns of an array": (lambda: X, {"y": Y}, "name columns, but X is a ndarray"),
    "name beside an array": (
        lambda: X,
        {"y": Y, "target": None, "sample_weight": "w"},
        "name columns, but X is a ndarray",
    ),
    "no labels": (lambda: REAL, {"target": None}, "y is not given; give"),
    "opened already": (lambda: open_rows(TABLE, "late"), {}, "name them there"),
    "not a source": (lambda: iter(GOOD), {}, "list_iterator, which can be read only once; give"),
    "generator": (lambda: gives(*GOOD)(), {}, "generator, which can be read only once; give"),
}
BAD_FUNCTIONS = {
    "nothing": (gives(), {}, r"source\(\) gave no rows; return"),
    "empty blocks": (gives((X[:0], Y[:0])), {}, r"source\(\) gave no rows; return"),
    "no iterator": (lambda: None, {}, r"<lambda>\(\) raised TypeError in block 1 \('None"),
    "an exception": (
        gives(*GOOD, OSError("The network. It is down.\nSorry.")),
        {},
        r"source\(\) raised OSError in block 2 \(The network\); correct",
    ),
    "an exception at first": (gives(KeyError("x")), {}, r"KeyError in block 1 \('x'\)"),
    "no labels": (gives((X,)), {}, r"source\(\) has no labels; name .*give blocks \(X, y\)"),
    "X alone": (gives(X), {}, r"source\(\) has no labels; name .*give blocks \(X, y\)"),
    "labels once": (gives(*GOOD, X), {}, r"source\(\) has no labels; name"),
    "too many parts": (gives((X, Y, W, W)), {}, "tuple of 4 parts; give"),
    "too few labels": (
        gives((X, Y[1:])),
        {},
        r"y of source\(\) has 59 values but X has 60 rows; give",
    ),
    "column of labels": (
        gives((X, Y[:, None])),
        {},
        r"y of source\(\) has values of shape \(60, 1\) but",
    ),
    "too few weights": (
        gives((X, Y, W[1:])),
        {},
        r"weight of source\(\) has 59 values but X has 60",
    ),
    "negative weight": (
        gives(*GOOD, (X, Y, -W)),
        {},
        r"weight of source\(\) has a value that is negative",
    ),
    "vector": (gives((X[0], Y)), {}, r"rows of shape \(3,\) and type float64; give"),
    "text": (gives((X.astype(str), Y)), {}, r"type <U.*; give arrays of numbers"),
    "NaN": (
        gives(*GOOD, (X * np.nan, Y)),
        {},
        r"contains NaN in column 0 \(60 of 60 rows\); impute",
    ),
    "missing label": (gives((X, np.where(Y, np.nan, 0))), {}, "no label in 30 rows; drop"),
    "None as label": (
        gives((X, np.where(Y, "a", None))),
        {},
        r"source\(\) has no label in 30 rows; drop",
    ),
    "more classes than are told apart": (
        gives(*GOOD, (np.ones((1001, X.shape[1])), np.arange(1001))),
        {},
        r"1,001 classes within its first 1,061 rows \(0, 1, 2, \.\.\.\), and at most 1,000",
    ),
    "labels of two types": (gives(*GOOD, (X, TEXT)), {}, "labels that cannot be compared"),
    "labels of two types at once": (
        gives((X, np.array(["a", 1] * 30, dtype=object))),
        {},
        "labels that cannot be compared",
    ),
    "columns more": (gives(*GOOD, (np.c_[X, X], Y)), {}, "block with other columns than its first"),
    "other columns": (
        gives(TABLE, TABLE.rename(columns={"age": "old"})),
        {"target": "late"},
        "block with other columns than its first",
    ),
    "table, then array": (gives((TABLE[NAMES], Y), (X, Y)), {}, "other columns than its first"),
    "array, then table": (gives((X, Y), (TABLE[NAMES], Y)), {}, "other columns than its first"),
    "other type": (
        gives(TABLE, TABLE.assign(size="big")),
        {"target": "late"},
        "a number in column 'size' of some rows and a text in others; give",
    ),
    "target of arrays": (gives(*GOOD), {"target": "late"}, "name columns, but .* gives arrays"),
    "columns of arrays": (gives(*GOOD), {"columns": ["a"]}, "names columns, but .* gives arrays"),
    "labels twice": (gives((TABLE, Y)), {"target": "late"}, "labels beside a table, but"),
    "only once": (exhausted(), {}, "gave the same list_iterator again, .*; return a fresh"),
    "unknown class": (gives(*GOOD), {"class_weight": {"no": 2.0}}, "weight for 'no', but the"),
    "class of no weight": (
        gives(*GOOD),
        {"class_weight": {0: 0.0}},
        "class_weight leaves no row of class 0; give",
    ),
}


CHANGED = {
    "fewer rows": (
        (X[1:], Y[1:]),
        r"source\(\) no longer has the 60 rows that it had at first.*give",
    ),
    "nothing": ((X[:0], Y[:0]), "no longer has the 60 rows"),
    "another label": ((X, Y + 1), r"source\(\) has other rows than at its first reading; give"),
}


def assert_refused(fitted: GPClassifier, match: str, X, **options) -> None:
    """One sentence, and nothing changes."""
    fitted.set_params(**{k: options.pop(k) for k in ("class_weight",) if k in options})
    before, state = fitted.predict_proba(TABLE[NAMES]), dict(vars(fitted))
    with pytest.raises((InvalidData, InvalidParameter), match=match) as caught:
        fitted.fit(X, **options)
    assert_one_sentence(str(caught.value))
    assert vars(fitted) == state
    assert_array_equal(fitted.predict_proba(TABLE[NAMES]), before)
    assert not any(thread.name.startswith("sepgp-reader") for thread in threading.enumerate())


@pytest.fixture(scope="module")
def fitted() -> GPClassifier:
    return model(max_iter=2).fit(TABLE, target="late")


@pytest.mark.parametrize(("source", "options", "match"), BAD.values(), ids=BAD)
@pytest.mark.filterwarnings("ignore:rows.csv is read as Latin-1")
def test_bad_source_changes_nothing(source, options, match, fitted) -> None:
    assert_refused(fitted, match, source(), **({"target": "late"} | options))


@pytest.mark.parametrize(("source", "options", "match"), BAD_FUNCTIONS.values(), ids=BAD_FUNCTIONS)
def test_bad_function_changes_nothing(source, options, match, fitted) -> None:
    assert_refused(fitted, match, source, **({"class_weight": None} | options))


@pytest.mark.parametrize(("block", "match"), CHANGED.values(), ids=CHANGED)
def test_other_rows_at_the_next_reading(block, match, fitted, monkeypatch) -> None:
    monkeypatch.setattr(stream_source, "MEMORY", 0)
    assert_refused(fitted, match, on_call(GOOD, GOOD, [block]), class_weight=None)


@pytest.mark.parametrize("share", [0.001, 0.2, 0.5, 0.9, 0.999])
def test_truncated_parquet(share, fitted, folder) -> None:
    for number in (1, 2):
        parquet(f"rows{number}.parquet")
    content = (folder / "rows2.parquet").read_bytes()
    (folder / "rows2.parquet").write_bytes(content[: int(share * len(content))])
    assert_refused(
        fitted, r"rows2.parquet cannot be read \(.*\); .* replace it", ".", target="late"
    )
    assert_refused(fitted, r"rows2.parquet cannot", "rows2.parquet", target="late")


def test_parquet_that_is_damaged_in_the_middle(fitted, folder) -> None:
    path = folder / parquet(row_group_size=10, compression="zstd")
    content = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(3).column(1)
    middle = chunk.data_page_offset
    content[middle : middle + 40] = b"\xff" * 40
    path.write_bytes(content)
    assert_refused(
        fitted, r"rows.parquet cannot be read \(.*\); .* replace it", path.name, target="late"
    )
    with pytest.raises(InvalidData, match=r"rows.parquet cannot be read") as caught:
        list(fitted.predict_proba(path.name))
    assert_one_sentence(str(caught.value))


@pytest.mark.parametrize(
    ("source", "match"),
    [
        (lambda: "none.parquet", r"There is no file 'none.parquet'; check"),
        (lambda: ".", r"folder '.' has no file"),
        (lambda: parquet(table=TABLE[NAMES[:2]]), "rows.parquet has no column 'size'; add"),
        (lambda: gives(TABLE[NAMES[:2]]), r"source\(\) has no column 'size'; add"),
        (lambda: gives(), r"source\(\) gave no rows"),
        (lambda: iter([X]), "list_iterator, which can be read only once"),
    ],
    ids=["file", "folder", "column", "block", "nothing", "iterator"],
)
def test_a_wrong_source_is_an_error_of_the_call(source, match, fitted) -> None:
    with pytest.raises(InvalidData, match=match) as caught:
        fitted.predict_proba(source())
    assert_one_sentence(str(caught.value))


@pytest.mark.parametrize(
    ("source", "match"),
    [
        (lambda: gives(TABLE, KeyError("x")), "raised KeyError in block 2"),
        (
            lambda: gives(TABLE, TABLE.assign(size="big")),
            "texts such as 'big' in row 61",
        ),
        (
            lambda: parquet(table=TABLE.assign(size="big")),
            "texts such as 'big' in row 1,",
        ),
        (lambda: gives(X, np.c_[X, X]), "other columns than its first"),
    ],
    ids=["exception", "type", "file", "columns"],
)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_fault_within_a_source_comes_with_its_block(source, match, fitted) -> None:
    probabilities = fitted.predict_proba(source())
    with pytest.raises(InvalidData, match=match) as caught:
        list(probabilities)
    assert_one_sentence(str(caught.value))


@pytest.mark.parametrize("form", [pd.Series, pa.array, lambda values: pa.chunked_array([values])])
def test_a_single_column_is_no_table(form, fitted) -> None:
    with pytest.raises(ValueError, match=r"Expected 2D|Expected a 2-dim"):
        model().fit(form(X[:, 0]), Y)


def test_a_table_of_other_columns_at_prediction(fitted) -> None:
    real = model(max_iter=2).fit(REAL, target="late")
    with pytest.raises(InvalidData, match="X has no column 'colour', which") as caught:
        real.predict_proba(TABLE)
    assert_one_sentence(str(caught.value))
    with pytest.raises(InvalidData, match=r"without column names, but .* age, height") as caught:
        real.predict_proba(X)
    assert_one_sentence(str(caught.value))
