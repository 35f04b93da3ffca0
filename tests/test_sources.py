"""Rows from anywhere train the same model, and bad ones get one clear sentence."""

import itertools
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from quick import assert_one_sentence, blobs, quick

from sepgp import GPClassifier, InvalidData, InvalidParameter
from sepgp.data import files, open_rows

X, Y = blobs(60, d=3)
W = np.random.default_rng(1).uniform(0.1, 2, 60)
NAMES = ["age", "height", "size"]
TABLE = pd.DataFrame(X, columns=NAMES).assign(late=Y)
WEIGHTED = TABLE.assign(w=W)
REAL = TABLE.assign(
    colour=["red", "blue", None] * 20,
    day=pd.date_range("2008-01-01", periods=60).where(X[:, 0] > -1),
    size=np.where(X[:, 2] > 2, np.nan, X[:, 2]),
    true=X[:, 1] > 0,
)


def model(**changes) -> GPClassifier:
    return quick(**({"n_inducing": 5, "max_iter": 3} | changes))


def parameters(fitted: GPClassifier) -> list:
    return [fitted.inducing_points_, *(p.detach().numpy() for p in fitted.kernel_.parameters())]


def assert_same(actual: GPClassifier, expected: GPClassifier) -> None:
    """The same numbers to the last bit."""
    for a, b in zip(parameters(actual), parameters(expected), strict=True):
        assert_array_equal(a, b)
    assert_array_equal(actual.classes_, expected.classes_)


def blocks(*parts, sizes=(7, 20, 33)):
    """A function that gives rows in blocks of these sizes."""
    edges = np.cumsum((0, *sizes))

    def function():
        for begin, end in itertools.pairwise(edges):
            yield tuple(part[begin:end] for part in parts)

    return function


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Files are named as if the test were alone."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def expected() -> GPClassifier:
    return model().fit(X, Y)


@pytest.fixture(scope="module")
def weighted() -> GPClassifier:
    return model(class_weight="balanced").fit(X[5:], Y[5:], W[5:])


def memmap(array: np.ndarray) -> np.memmap:
    mapped = np.memmap("rows.bin", array.dtype, "w+", shape=array.shape)
    mapped[:] = array
    return mapped


# --- the same rows --------------------------------------------------------------------------


def test_memmap(expected, monkeypatch) -> None:
    assert_same(model().fit(memmap(X), Y), expected)
    monkeypatch.setattr("sepgp.inputs._large", lambda X: True)
    assert_same(model().fit(memmap(X), Y), expected)


@pytest.mark.parametrize(
    "form",
    [
        lambda: TABLE,
        lambda: pa.Table.from_pandas(TABLE),
        lambda: pa.RecordBatch.from_pandas(TABLE),
        lambda: TABLE[["late", *NAMES]].set_index(np.arange(60)[::-1]),
    ],
    ids=["pandas", "arrow", "record batch", "other order"],
)
def test_tables(form, expected) -> None:
    fitted = model().fit(form(), target="late")
    assert_same(fitted, expected)
    assert list(fitted.feature_names_in_) == NAMES
    assert_array_equal(fitted.predict_proba(form()), expected.predict_proba(X))
    assert_same(model().fit(open_rows(form(), target="late")), expected)


def test_a_table_and_its_labels(expected) -> None:
    for rows in (TABLE[NAMES], pa.Table.from_pandas(TABLE[NAMES])):
        fitted = model().fit(rows, Y)
        assert_same(fitted, expected)
        assert_allclose(fitted.predict_proba(rows), expected.predict_proba(X), rtol=1e-12)


def parquet(path="rows.parquet", table=TABLE, **options) -> str:
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path, **options)
    return path


def test_parquet_file(expected, folder) -> None:
    path = parquet(row_group_size=11)
    assert_same(model().fit(path, target="late"), expected)
    assert_same(model().fit(folder / path, target="late"), expected)


@pytest.mark.parametrize("source", [".", "*.parquet", "**/*.parquet", "rows?.parquet"])
def test_several_parquet_files(source, expected, folder) -> None:
    parquet("rows1.parquet", TABLE[:20])
    parquet("rows2.parquet", TABLE[20:20])
    parquet("rows3.parquet", TABLE[20:][["late", *NAMES[::-1]]])
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.parquet").touch()
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "half.parquet").touch()
    if "**" not in source:
        assert_same(model().fit(source, target="late"), expected)


def hive(column: str) -> None:
    """Files in folders that are named after the values of a column."""
    for value, part in REAL.groupby(column, dropna=False):
        folder = "__HIVE_DEFAULT_PARTITION__" if pd.isna(value) else value
        path = files.Path("hive") / f"{column}={folder}"
        path.mkdir(parents=True)
        parquet(path / "part.parquet", part.drop(columns=column))


@pytest.mark.parametrize("column", ["colour", "true"])
@pytest.mark.parametrize("source", ["hive", "hive/*", "hive/*/*.parquet", "hive/**/*.parquet"])
def test_hive_partitions(column, source) -> None:
    hive(column)
    fitted = model().fit(source, target="late")
    order = [name for name in REAL if name not in ("late", column)] + [column]
    assert list(fitted.feature_names_in_) == order
    values = REAL[column] if column == "colour" else REAL[column].astype(str)
    place = values.fillna("").argsort(kind="stable")  # that of the folders: missing comes first
    table = REAL.assign(**{column: values}).iloc[place]
    assert_allclose(
        np.concatenate(list(fitted.predict_proba(source))), fitted.predict_proba(table), atol=1e-12
    )
    # One file of it has the column by its path, and one elsewhere has not.
    part = files.file_rows(next(iter(files._find("hive"))))
    assert column not in part.schema.names
    one = np.concatenate(list(fitted.predict_proba(files._find("hive")[0])))
    assert_allclose(one, fitted.predict_proba(table)[: len(one)], atol=1e-12)


def test_numbers_in_the_path_are_numbers() -> None:
    for year, part in TABLE.assign(year=2000 + Y).groupby("year"):
        files.Path(f"run=7/year={year}").mkdir(parents=True)
        parquet(f"run=7/year={year}/part.parquet", part.drop(columns=["year", "late"]))
    fitted = model().fit("run=7", target="year")
    assert fitted.classes_.tolist() == [2000, 2001]
    assert list(fitted.feature_names_in_) == NAMES
    fitted = model().fit("run=7", target="year", columns=["age", "run"])
    assert list(fitted.feature_names_in_) == ["age", "run"]


CSV = {
    "plain": {},
    "semicolon": {"sep": ";"},
    "tab": {"sep": "\t"},
    "CRLF": {"lineterminator": "\r\n"},
    "BOM": {"encoding": "utf-8-sig"},
    "quoted": {"quoting": 1},
    "decimal comma": {"sep": ";", "decimal": ","},
    "decimal comma and tab": {"sep": "\t", "decimal": ","},
}


@pytest.mark.parametrize("options", CSV.values(), ids=CSV)
@pytest.mark.parametrize("piece", [2**20, 100])
def test_csv(options, piece, expected, monkeypatch) -> None:
    monkeypatch.setattr(files, "CSV_PIECE", piece)
    TABLE.to_csv("rows.csv", index=False, **options)
    assert_same(model().fit("rows.csv", target="late"), expected)


def test_commas_in_some_text_are_no_decimal_points(folder) -> None:
    lines = [f"{i / 4};{'1,5' if i % 3 else 'none'};{i % 2}" for i in range(30)]
    (folder / "rows.csv").write_text("\n".join(["a;b;late", *lines]))
    assert open_rows("rows.csv", "late").schema.types == [pa.float64(), pa.string()]


def test_csv_without_an_end_of_the_last_line_or_with_empty_lines(expected, folder) -> None:
    TABLE.to_csv("rows.csv", index=False)
    text = (folder / "rows.csv").read_text()
    for changed in (text.rstrip("\n"), text + "\n\n", text.replace("\n", "\n\n")):
        (folder / "rows.csv").write_text(changed)
        assert_same(model().fit("rows.csv", target="late"), expected)


@pytest.mark.parametrize("piece", [2**20, 300])
def test_several_csv_files(expected, piece, monkeypatch, folder) -> None:
    monkeypatch.setattr(files, "CSV_PIECE", piece)
    TABLE[:0].to_csv("rows0.csv", index=False)
    TABLE[:20].to_csv("rows1.csv", index=False)
    TABLE[20:][["late", *NAMES[::-1]]].to_csv("rows2.csv", index=False, sep=";")
    for source in (".", "*.csv"):
        assert_same(model().fit(source, target="late"), expected)


@pytest.mark.parametrize("piece", [2**20, 300])
def test_csv_has_the_types_of_a_table(piece, monkeypatch) -> None:
    monkeypatch.setattr(files, "CSV_PIECE", piece)
    tricky = REAL.assign(colour=["one, two", 'say "no"', None] * 20, day=REAL["day"].dt.date)
    tricky.to_csv("rows.csv", index=False)
    rows = open_rows("rows.csv", target="late")
    assert rows.n_pieces == 1 if piece > 300 else rows.n_pieces > 5
    actual, expected = model().fit(rows), model().fit(tricky, target="late")
    assert actual.encoding_.features == expected.encoding_.features
    assert_allclose(actual.inducing_points_, expected.inducing_points_, rtol=1e-9, atol=1e-9)
    read = np.concatenate(list(actual.predict_proba("rows.csv")))
    assert_allclose(read, actual.predict_proba(tricky), rtol=1e-12)


def test_types_of_csv_are_those_of_several_places(monkeypatch, folder) -> None:
    monkeypatch.setattr(files, "CSV_PIECE", 40)
    lines = [f"{i},,2008-01-01,x{i % 3},{i % 2}" for i in range(30)]
    lines[15] = "0.5,,2008-01-01 06:00:00,5,1"
    lines[-1] = "7,1.5,2008-01-01 06:00:00.25,6,1"
    (folder / "rows.csv").write_text("\n".join(["a,b,c,d,late", *lines]))
    types = open_rows("rows.csv", "late").schema
    assert types.types == [pa.float64(), pa.float64(), pa.timestamp("ns"), pa.string()]
    model().fit("rows.csv", target="late")


@pytest.mark.parametrize(
    "source",
    [
        blocks(X, Y),
        blocks(X, Y, sizes=[60]),
        blocks(X, Y, sizes=[1] * 60),
        blocks(X, Y, sizes=[0, 30, 0, 0, 30, 0]),
        blocks(X, Y, np.ones(60)),
        blocks(TABLE[NAMES], Y),
        blocks(TABLE[NAMES], TABLE["late"], np.ones(60)),
        lambda: [(X[:0, :1], Y[:0]), (X.tolist(), Y.tolist()), ([], []), pd.DataFrame()],
        lambda: iter([(X[:9], Y[:9]), (X[9:].astype(object).astype(float), Y[9:])]),
    ],
    ids=["blocks", "one", "rows", "empty", "weights", "tables", "series", "list", "iterator"],
)
def test_functions_that_give_labels(source, expected) -> None:
    fitted = model().fit(source)
    assert_same(fitted, expected)
    probabilities = list(fitted.predict_proba(source))
    assert_allclose(np.concatenate(probabilities), expected.predict_proba(X), rtol=1e-12)


def test_functions_that_give_tables_with_the_target(expected) -> None:
    for table in (TABLE, pa.Table.from_pandas(TABLE, preserve_index=False)):

        def tables(table=table):
            yield table[:10]
            yield table[10:]

        fitted = model().fit(tables, target="late")
        assert_same(fitted, expected)
        assert [len(p) for p in fitted.predict_proba(tables)] == [10, 50]


WEIGHTED_SOURCES = {
    "table": lambda: (WEIGHTED, None, "w", "late"),
    "table and array": lambda: (TABLE, None, W, "late"),
    "table and labels": lambda: (WEIGHTED.drop(columns="late"), Y, "w", None),
    "parquet": lambda: (parquet(table=WEIGHTED, row_group_size=20), None, "w", "late"),
    "csv": lambda: (WEIGHTED.to_csv("rows.csv", index=False) or "rows.csv", None, "w", "late"),
    "arrays": lambda: (blocks(X, Y, W), None, None, None),
    "tables": lambda: (lambda: [WEIGHTED[:9], WEIGHTED[9:]], None, "w", "late"),
    "tables and weights": lambda: (blocks(TABLE[NAMES], Y, W), None, None, None),
    "opened": lambda: (open_rows(WEIGHTED, "late", NAMES, "w"), None, None, None),
}


@pytest.mark.parametrize("source", WEIGHTED_SOURCES.values(), ids=WEIGHTED_SOURCES)
def test_weights_of_rows_and_classes(source) -> None:
    setting = {"class_weight": "balanced"}
    rows, y, sample_weight, target = source()
    actual = model(**setting).fit(rows, y, sample_weight, target=target)
    assert_same(actual, model(**setting).fit(X, Y, W))


def test_rows_of_no_weight_count_for_balance_alone() -> None:
    weight = np.where(np.arange(60) < 12, 0.0, W)
    labels = np.where(np.arange(60) < 10, 1, Y)
    for class_weight in (None, "balanced", {0: 2.0}):
        actual = model(class_weight=class_weight).fit(blocks(X, labels, weight))
        assert_same(actual, model(class_weight=class_weight).fit(X, labels, weight))


def test_chosen_columns() -> None:
    path, chosen = parquet(), ["size", "age"]
    expected = model().fit(X[:, [2, 0]], Y)
    for source in (TABLE, path, lambda: [TABLE]):
        fitted = model().fit(source, target="late", columns=chosen)
        assert_same(fitted, expected)
        assert list(fitted.feature_names_in_) == chosen
    assert_same(model().fit(TABLE, Y, columns=chosen), expected)


@pytest.mark.parametrize(
    "names",
    [["no", "yes"], [False, True], [-1, 1], [0.0, 2.5], [b"a", b"b"]],
    ids=["text", "truth", "signs", "numbers", "bytes"],
)
def test_labels_of_any_type(names, expected) -> None:
    y = np.array(names)[Y]
    table = TABLE.assign(late=y)
    sources = {
        "table": (table, None, "late"),
        "parquet": (parquet(table=table), None, "late"),
        "function": (blocks(X, y), None, None),
        "category": (TABLE.assign(late=pd.Categorical(y)), None, "late"),
    }
    for name, (source, labels, target) in sources.items():
        fitted = model().fit(source, labels, target=target)
        assert fitted.classes_.tolist() == names, name
        assert_array_equal(
            fitted.predict(X if name == "function" else TABLE),
            y[:0].tolist() or fitted.classes_[(expected.decision_function(X) > 0).astype(int)],
        )


def test_a_second_label_may_come_late(expected) -> None:
    order = np.argsort(Y, kind="stable")
    fitted = model().fit(blocks(X[order], Y[order], sizes=[10] * 6))
    assert_same(fitted, expected)


# --- a real table ---------------------------------------------------------------------------


def test_a_real_table_works_as_it_is() -> None:
    fitted = model().fit(REAL, target="late")
    assert fitted.n_features_in_ == 6
    assert fitted.inducing_points_.shape[1] == len(fitted.encoding_.features)
    assert fitted.predict_proba(REAL).shape == (60, 2)
    twin = model().fit(REAL.drop(columns="late"), Y)
    assert_same(twin, fitted)
    assert twin.encoding_ == fitted.encoding_


REAL_SOURCES = {
    "parquet": lambda: parquet(table=REAL, row_group_size=7),
    "tables": lambda: lambda: [REAL[:20], REAL[20:]],
    "rows": lambda: open_rows(REAL, "late"),
}


@pytest.mark.parametrize("source", REAL_SOURCES.values(), ids=REAL_SOURCES)
def test_sources_of_a_real_table(source) -> None:
    rows, expected = source(), model().fit(REAL, target="late")
    fitted = model().fit(rows, target=None if isinstance(rows, files.Rows) else "late")
    assert [e.name for e in fitted.encoding_.encoders] == [
        e.name for e in expected.encoding_.encoders
    ]
    assert_allclose(fitted.predict_proba(REAL), expected.predict_proba(REAL), atol=1e-6)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        parts = getattr(fitted, method)(rows)
        expected_parts = getattr(fitted, method)(REAL)
        assert_allclose(np.concatenate(list(parts)), expected_parts, rtol=1e-12, atol=1e-14)
    means, variances = zip(*fitted.predict_latent(rows), strict=True)
    latent = fitted.predict_latent(REAL)
    assert_allclose([np.concatenate(means), np.concatenate(variances)], latent, atol=1e-12)


def test_the_index_of_a_pandas_table_is_no_feature() -> None:
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [0, 1, 0]}, index=[2, 0, 1])
    table.to_parquet("rows.parquet")
    assert "__index_level_0__" in pq.read_schema("rows.parquet").names
    assert open_rows("rows.parquet", "y").schema.names == ["a"]


def test_a_column_may_be_empty_in_some_files() -> None:
    half = REAL.assign(colour=None)
    for parts in ((REAL, half), (half, REAL)):
        parquet("a.parquet", parts[0])
        parquet("b.parquet", parts[1])
        fitted = model().fit("*.parquet", target="late")
        both = model().fit(lambda parts=parts: parts, target="late")
        assert fitted.encoding_ == both.encoding_
        assert fitted.encoding_.encoders[3].levels == ("blue", "red")


def test_arrays_stand_for_tables_of_plain_numbers(expected) -> None:
    fitted = model().fit(parquet(), target="late")
    with pytest.warns(UserWarning, match="feature names"):
        assert_array_equal(fitted.predict_proba(X), expected.predict_proba(X))
    assert_array_equal(
        np.concatenate(list(fitted.predict_proba(lambda: [TABLE]))), expected.predict_proba(X)
    )


def test_a_model_of_arrays_predicts_from_tables_and_files(expected) -> None:
    path = parquet(table=TABLE[NAMES])
    assert_allclose(np.concatenate(list(expected.predict_proba(path))), expected.predict_proba(X))
    named = model().fit(TABLE[NAMES], Y)
    path = parquet(table=TABLE[["late", *NAMES[::-1]]])
    assert_allclose(np.concatenate(list(named.predict_proba(path))), expected.predict_proba(X))
    rows = open_rows(path, columns=NAMES)
    assert_allclose(np.concatenate(list(expected.predict_proba(rows))), expected.predict_proba(X))


def test_warm_start_goes_on_from_sources_of_the_same_columns() -> None:
    fitted = model(warm_start=True).fit(REAL, target="late")
    encoding = fitted.encoding_
    shuffled = REAL[list(REAL)[::-1]].assign(extra=1, colour=None)
    for source in (
        parquet(table=shuffled),
        lambda: [shuffled, REAL.assign(extra=2)[shuffled.columns]],
    ):
        fitted.fit(source, target="late")
        assert fitted.encoding_ is encoding
    before = fitted.predict_proba(REAL)
    for source, target in ((blocks(X, Y), None), (TABLE, "late")):
        with pytest.raises(InvalidData, match="column") as caught:
            fitted.fit(source, target=target)
        assert_one_sentence(str(caught.value))
    assert_array_equal(fitted.predict_proba(REAL), before)


def test_warm_start_from_arrays_with_plain_sources(expected) -> None:
    fitted = model(warm_start=True).fit(X, Y).fit(blocks(X, Y)).fit(TABLE, target="late")
    for source, target in ((blocks(X[:, :2], Y), None), (REAL, "late")):
        with pytest.raises(InvalidData, match="other columns than the model to go on") as caught:
            fitted.fit(source, target=target)
        assert_one_sentence(str(caught.value))


# --- what is refused ------------------------------------------------------------------------


def gives(*items):
    """A function whose blocks are these; an exception is raised in its turn."""

    def source():
        for item in items:
            if isinstance(item, Exception):
                raise item
            yield item

    return source


def file(content: str, name: str = "rows.csv") -> str:
    files.Path(name).write_bytes(content.encode("latin-1"))
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
    "compressed": (lambda: file("", "a.csv.gz"), {}, "a.csv.gz is compressed; unpack"),
    "two kinds": (
        lambda: (parquet(), file("a,late\n1,2\n")) and "rows.*",
        {},
        r"'rows.\*' stands for CSV files and others; name",
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
        r"rows.csv cannot be read \(.*2 columns",
    ),
    "unlike the beginning": (
        lambda: two_csv("age,late\n1,0\n2,1\n", "age,late\nold,1\n"),
        {},
        r"b.csv cannot be read \(.*'old'\)",
    ),
    "CSV without a column": (
        lambda: two_csv("age,late\n1,0\n2,1\n", "late\n1\n"),
        {},
        "b.csv has no column 'age', which a.csv has; give",
    ),
    "Latin 1": (
        lambda: file("age,late\ncaf\xe9,0\n"),
        {},
        "'age' (that|has text that) is not UTF-8; convert",
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
    "identifiers": (
        lambda: parquet(table=pd.concat([TABLE] * 167).assign(size=np.arange(10_020).astype(str))),
        {},
        "Column 'size' has text with more than 1,000 different values; turn .* leave",
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
        "in column 'w' has a weight that is negative",
    ),
    "missing weights": (
        lambda: WEIGHTED.assign(w=np.nan),
        {"sample_weight": "w"},
        "X in column 'w' has a weight that is negative, missing",
    ),
    "text as weights": (
        lambda: parquet(table=WEIGHTED.assign(w="x")),
        {"sample_weight": "w"},
        "column 'w' has weights that are not numbers; convert",
    ),
    "no weight": (
        lambda: WEIGHTED.assign(w=0.0),
        {"sample_weight": "w"},
        "weights of 0 for all rows of one",
    ),
    "no weight of a class": (
        lambda: WEIGHTED.assign(w=Y),
        {"sample_weight": "w"},
        "weights of 0 for all rows of one; give both",
    ),
    "missing labels": (
        lambda: parquet(table=TABLE.assign(late=[0, 1, None] * 20)),
        {},
        "no label in column 'late' of 20 rows; drop",
    ),
    "missing text": (
        lambda: TABLE.assign(late=["a", "b", None] * 20),
        {},
        "no label in column 'late' of 20 rows; drop",
    ),
    "NaN as label": (
        lambda: pa.table({"a": [1.0, 2, 3], "late": [0.0, 1.0, np.nan]}),
        {},
        "column 'late' has no label in 1 rows; drop",
    ),
    "one class": (lambda: TABLE.assign(late="a"), {}, r"X has rows of one class only \('a'\)"),
    "third label": (
        lambda: parquet(table=TABLE.assign(late=[*Y[:-1], 7]), row_group_size=10),
        {},
        r"has 3 labels within its first 60 rows \(0, 1, 7\); choose",
    ),
    "numbers as labels": (
        lambda: parquet(table=TABLE.assign(late=X[:, 0])),
        {},
        r"60 labels within its first 60 rows \(.* and others\); choose two",
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
    "too few labels": (gives((X, Y[1:])), {}, r"labels of shape \(59,\) for 60 rows; give"),
    "column of labels": (gives((X, Y[:, None])), {}, r"labels of shape \(60, 1\) for 60"),
    "too few weights": (gives((X, Y, W[1:])), {}, r"weights of shape \(59,\) for 60 rows"),
    "negative weight": (gives(*GOOD, (X, Y, -W)), {}, r"source\(\) has a weight that is negative"),
    "vector": (gives((X[0], Y)), {}, r"rows of shape \(3,\) and type float64; give"),
    "text": (gives((X.astype(str), Y)), {}, r"type <U.*; give arrays of numbers"),
    "NaN": (gives(*GOOD, (X * np.nan, Y)), {}, "has NaN or infinity in column 0; impute"),
    "missing label": (gives((X, np.where(Y, np.nan, 0))), {}, "no label in 30 rows; drop"),
    "None as label": (
        gives((X, np.where(Y, "a", None))),
        {},
        r"source\(\) has no label in 30 rows; drop",
    ),
    "third label": (
        gives(*GOOD, (X, Y + 1)),
        {},
        r"3 labels within its first 120 rows \(0, 1, 2\)",
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
    "fewer rows again": (
        on_call(GOOD, GOOD, [(X[1:], Y[1:])]),
        {},
        r"source\(\) has not the 60 rows that it had at first.*give",
    ),
    "nothing again": (on_call(GOOD, GOOD, [(X[:0], Y[:0])]), {}, "not the 60 rows"),
    "another label again": (
        on_call(GOOD, GOOD, [(X, Y + 1)]),
        {},
        r"has the label .*2.*, but the classes are \[0, 1\]; correct",
    ),
    "only once": (exhausted(), {}, "gave the same list_iterator again, .*; return a fresh"),
    "unknown class": (gives(*GOOD), {"class_weight": {"no": 2.0}}, "weight for 'no', but the"),
    "class of no weight": (gives(*GOOD), {"class_weight": {0: 0.0}}, "one class only; give both"),
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
    assert not any(thread.name == "sepgp-reader" for thread in threading.enumerate())


@pytest.fixture(scope="module")
def fitted() -> GPClassifier:
    return model(max_iter=2).fit(TABLE, target="late")


@pytest.mark.parametrize(("source", "options", "match"), BAD.values(), ids=BAD)
def test_bad_source_changes_nothing(source, options, match, fitted) -> None:
    assert_refused(fitted, match, source(), **({"target": "late"} | options))


@pytest.mark.parametrize(("source", "options", "match"), BAD_FUNCTIONS.values(), ids=BAD_FUNCTIONS)
def test_bad_function_changes_nothing(source, options, match, fitted) -> None:
    assert_refused(fitted, match, source, **({"class_weight": None} | options))


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
        (lambda: gives(TABLE, TABLE.assign(size="big")), r"text .* in column 'size', where the"),
        (lambda: parquet(table=TABLE.assign(size="big")), r"text .* in column 'size', where the"),
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
