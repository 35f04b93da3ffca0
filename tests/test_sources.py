"""Rows from anywhere train the same model."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from quick import assert_one_sentence, quick
from sklearn.metrics import roc_auc_score
from sources import (
    NAMES,
    REAL,
    TABLE,
    WEIGHTED,
    W,
    X,
    Y,
    assert_same,
    blocks,
    hive,
    memmap,
    model,
    parquet,
)

from sepgp import GPClassifier, InvalidData
from sepgp.data import Rows, open_rows
from sepgp.data.rows import lines
from sepgp.data.rows.files import find_files


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


# --- the same rows --------------------------------------------------------------------------


def test_memmap(expected, monkeypatch) -> None:
    assert_same(model().fit(memmap(X), Y), expected)
    monkeypatch.setattr("sepgp.data.inputs._large", lambda X: True)
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


@pytest.mark.slow
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
    part = open_rows(find_files("hive")[0])
    assert column not in part.schema.names
    one = np.concatenate(list(fitted.predict_proba(find_files("hive")[0])))
    assert_allclose(one, fitted.predict_proba(table)[: len(one)], atol=1e-12)


def test_numbers_in_the_path_are_numbers() -> None:
    for year, part in TABLE.assign(year=2000 + Y).groupby("year"):
        Path(f"run=7/year={year}").mkdir(parents=True)
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
    monkeypatch.setattr(lines, "PIECE", piece)
    TABLE.to_csv("rows.csv", index=False, **options)
    assert_same(model().fit("rows.csv", target="late"), expected)


def test_commas_in_some_text_are_no_decimal_points(folder) -> None:
    rows = [f"{i / 4};{'1,5' if i % 3 else 'large'};{i % 2}" for i in range(30)]
    (folder / "rows.csv").write_text("\n".join(["a;b;late", *rows]))
    fitted = model().fit("rows.csv", target="late")
    assert fitted.encoding_.kinds == (("a", "number"), ("b", "text"))


def test_csv_without_an_end_of_the_last_line_or_with_empty_lines(expected, folder) -> None:
    TABLE.to_csv("rows.csv", index=False)
    text = (folder / "rows.csv").read_text()
    for changed in (text.rstrip("\n"), text + "\n\n", text.replace("\n", "\n\n")):
        (folder / "rows.csv").write_text(changed)
        assert_same(model().fit("rows.csv", target="late"), expected)


@pytest.mark.parametrize("piece", [2**20, 300])
def test_several_csv_files(expected, piece, monkeypatch, folder) -> None:
    monkeypatch.setattr(lines, "PIECE", piece)
    TABLE[:0].to_csv("rows0.csv", index=False)
    TABLE[:20].to_csv("rows1.csv", index=False)
    TABLE[20:][["late", *NAMES[::-1]]].to_csv("rows2.csv", index=False, sep=";")
    for source in (".", "*.csv"):
        assert_same(model().fit(source, target="late"), expected)


@pytest.mark.parametrize("piece", [2**20, pytest.param(300, marks=pytest.mark.slow)])
def test_csv_has_the_types_of_a_table(piece, monkeypatch) -> None:
    monkeypatch.setattr(lines, "PIECE", piece)
    tricky = REAL.assign(colour=["one, two", 'say "no"', None] * 20, day=REAL["day"].dt.date)
    tricky.to_csv("rows.csv", index=False)
    rows = open_rows("rows.csv", target="late")
    assert rows.n_pieces == 1 if piece > 300 else rows.n_pieces > 5
    actual, expected = model().fit(rows), model().fit(tricky, target="late")
    assert actual.encoding_.features == expected.encoding_.features
    assert_allclose(actual.inducing_points_, expected.inducing_points_, rtol=1e-9, atol=1e-9)
    read = np.concatenate(list(actual.predict_proba("rows.csv")))
    assert_allclose(read, actual.predict_proba(tricky), rtol=1e-12)


@pytest.mark.slow
def test_types_of_csv_are_those_of_several_places(monkeypatch, folder) -> None:
    monkeypatch.setattr(lines, "PIECE", 40)
    rows = [f"{i},,2008-01-01,x{i % 3},{i % 2}" for i in range(30)]
    rows[15] = "0.5,,2008-01-01 06:00:00,5,1"
    rows[-1] = "7,1.5,2008-01-01 06:00:00.25,6,1"
    (folder / "rows.csv").write_text("\n".join(["a,b,c,d,late", *rows]))
    fitted = model().fit("rows.csv", target="late")
    kinds = [("a", "number"), ("b", "number"), ("c", "time"), ("d", "text")]
    assert list(fitted.encoding_.kinds) == kinds


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
    [["no", "yes"], [False, True], [-1, 1], [0.0, 2.5]],
    ids=["text", "truth", "signs", "numbers"],
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


def test_labels_of_bytes_in_tables_are_text() -> None:
    """A model file holds no bytes, so the model was lost when it was to be saved."""
    y = np.array([b"a", b"b"])[Y]
    table = TABLE.assign(late=y)
    for source in (table, parquet(table=table), TABLE.assign(late=pd.Categorical(y))):
        assert model().fit(source, target="late").classes_.tolist() == ["a", "b"]
    with pytest.raises(InvalidData, match="labels of type bytes; give text"):
        model().fit(blocks(X, y))
    with pytest.raises(InvalidData, match="bytes that are not text in UTF-8"):
        model().fit(TABLE.assign(late=np.array([b"\xff", b"b"])[Y]), target="late")


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


@pytest.mark.slow
@pytest.mark.parametrize("source", REAL_SOURCES.values(), ids=REAL_SOURCES)
def test_sources_of_a_real_table(source) -> None:
    rows, expected = source(), model().fit(REAL, target="late")
    fitted = model().fit(rows, target=None if isinstance(rows, Rows) else "late")
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


@pytest.mark.slow
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


@pytest.mark.parametrize("hole", ["?", "-", "--", "None", "n.a.", "NA", "N/A", "null", ""])
def test_one_sign_for_missing_made_text_of_a_column_of_numbers(hole, tmp_path) -> None:
    """3 % of "?" in the column that tells the classes apart took the area from .99 to .51."""
    random = np.random.default_rng(0)
    x = random.normal(size=600)
    y = (x + 0.1 * random.normal(size=600) > 0).astype(int)
    shown = np.where(random.random(600) < 0.03, hole, np.round(x, 4).astype(str))
    path = tmp_path / "rows.csv"
    lines = [f"{a},{b:.4f},{c}" for a, b, c in zip(shown, random.normal(size=600), y, strict=True)]
    path.write_text("informative,noise,y\n" + "\n".join(lines) + "\n")
    model = quick(n_inducing=30, max_iter=40).fit(str(path), target="y")
    assert dict(model.encoding_.kinds) == {"informative": "number", "noise": "number"}
    assert roc_auc_score(y, np.concatenate(list(model.predict_proba(str(path))))[:, 1]) > 0.95
