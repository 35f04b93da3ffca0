"""Files of every format that is read, however packed and encoded, and frames of other libraries."""

import bz2
import gzip
import json
import pathlib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from quick import assert_one_sentence, quick
from scipy import sparse
from sources import REAL, TABLE, X, Y, assert_same, model

from sepgp import InvalidData
from sepgp.data import open_rows
from sepgp.data.rows import arrow, lines
from sepgp.data.summary import Summary


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(name: str, content: bytes) -> str:
    with open(name, "wb") as file:
        file.write(content)
    return name


def jsonl(table: pd.DataFrame) -> bytes:
    rows = json.loads(table.to_json(orient="records", date_format="iso"))
    return "\n".join(json.dumps(row) for row in rows).encode()


def zst(content: bytes) -> bytes:
    with pa.output_stream("rows.tmp", compression="zstd") as file:
        file.write(content)
    with open("rows.tmp", "rb") as file:
        return file.read()


CSV = TABLE.to_csv(index=False)
FILES = {
    "gzip": lambda: written("rows.csv.gz", gzip.compress(CSV.encode())),
    "zstandard": lambda: written("rows.csv.zst", zst(CSV.encode())),
    "bzip2": lambda: written("rows.tsv.bz2", bz2.compress(CSV.replace(",", "\t").encode())),
    "UTF-16": lambda: written("rows.csv", CSV.encode("utf-16")),
    "UTF-16, big end first": lambda: written("rows.csv", b"\xfe\xff" + CSV.encode("utf-16-be")),
    "packed UTF-16": lambda: written("rows.csv.gz", gzip.compress(CSV.encode("utf-16"))),
    "Feather": lambda: pyarrow.feather.write_feather(TABLE, "rows.feather") or "rows.feather",
    "JSON lines": lambda: written("rows.jsonl", jsonl(TABLE)),
    "packed JSON lines": lambda: written("rows.ndjson.gz", gzip.compress(jsonl(TABLE))),
}


@pytest.mark.parametrize("piece", [2**20, 100])
@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_files(file, piece, monkeypatch) -> None:
    monkeypatch.setattr(lines, "PIECE", piece)
    path, expected = file(), model().fit(X, Y)
    fitted = model().fit(path, target="late")
    if "json" in path or "nd" in path:  # ten digits
        assert_allclose(fitted.inducing_points_, expected.inducing_points_, rtol=1e-6)
    else:
        assert_same(fitted, expected)
    read = np.concatenate(list(fitted.predict_proba(path)))
    assert_allclose(read, expected.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("form", ["feather", "jsonl"])
def test_a_real_table(form) -> None:
    path = f"rows.{form}"
    if form == "feather":
        pyarrow.feather.write_feather(REAL, path)
    else:
        written(path, jsonl(REAL))
    fitted, expected = model().fit(path, target="late"), model().fit(REAL, target="late")
    assert fitted.encoding_.kinds == expected.encoding_.kinds
    assert_allclose(fitted.predict_proba(REAL), expected.predict_proba(REAL), atol=1e-6)


def test_several_files_of_feather(monkeypatch) -> None:
    for i, part in enumerate((TABLE[:20], TABLE[20:])):
        pyarrow.feather.write_feather(part, f"{i}.feather", chunksize=7)
    assert open_rows(".", "late").n_pieces == 9
    assert_same(model().fit(".", target="late"), model().fit(X, Y))
    pyarrow.feather.write_feather(TABLE.assign(size="big"), "2.feather")
    with pytest.raises(InvalidData, match=r"2.feather has .*string in column 'size'") as caught:
        open_rows(".", "late")
    assert_one_sentence(str(caught.value))


def test_a_name_that_comes_late_in_json_lines_is_missing_before(monkeypatch) -> None:
    monkeypatch.setattr(lines, "PIECE", 200)
    rows = [{"a": i / 7, "late": i % 2} | ({"b": i} if i > 50 else {}) for i in range(60)]
    written("rows.jsonl", "\n".join(map(json.dumps, rows)).encode())
    fitted = model().fit("rows.jsonl", target="late")
    assert fitted.encoding_.features == ("a", "b", "b is missing")


def test_numbers_and_text_in_one_column_of_json_lines() -> None:
    rows = [{"a": i / 7 if i % 30 else "n/a", "late": i % 2} for i in range(60)]
    written("rows.jsonl", "\n".join(map(json.dumps, rows)).encode())
    fitted = model().fit("rows.jsonl", target="late")
    assert fitted.encoding_.features == ("a", "a is missing")


@pytest.mark.parametrize("line", ["{", '{"a": 1', "[1, 2]", "text"])
def test_a_line_that_is_no_object_is_refused(line) -> None:
    written("rows.jsonl", f'{{"a": 1, "late": 0}}\n{line}\n'.encode())
    with pytest.raises(InvalidData, match=r"rows.jsonl cannot be read \(.*\); the file") as caught:
        model().fit("rows.jsonl", target="late")
    assert_one_sentence(str(caught.value))


def test_a_first_line_that_names_the_delimiter() -> None:
    text = TABLE.to_csv(index=False, sep=";", decimal=",")
    written("rows.csv", b"sep=;\r\n" + text.encode())
    assert_same(model().fit("rows.csv", target="late"), model().fit(X, Y))


@pytest.mark.slow
@pytest.mark.parametrize("piece", [2**20, 40, 200])
def test_line_breaks_in_quotes(piece, monkeypatch) -> None:
    monkeypatch.setattr(lines, "PIECE", piece)
    notes = ["one\nline", 'two "quotes"\n\n', "plain"] * 20
    table = TABLE.assign(note=notes)[["note", *TABLE]]
    table.to_csv("rows.csv", index=False)
    rows = open_rows("rows.csv", "late")
    assert_array_equal(np.concatenate([block.y for block in rows.blocks()]), Y)
    read = [text for block in rows.blocks() for text in block.X["note"].to_pylist()]
    assert read == notes
    fitted = model().fit(rows)
    assert set(fitted.encoding_.encoders[0].levels) == set(notes)


def test_a_sign_for_inches_is_no_quote(monkeypatch) -> None:
    monkeypatch.setattr(lines, "PIECE", 100)
    table = TABLE.assign(pipe=['5" pipe' if i == 7 else "rod" for i in range(60)])
    text = table.to_csv(index=False, quoting=3, escapechar="\\").replace("\\", "")
    written("rows.csv", text.encode())
    rows = open_rows("rows.csv", "late")
    assert_array_equal(np.concatenate([block.y for block in rows.blocks()]), Y)


@pytest.mark.parametrize("place", [0, 59])
def test_latin_1_is_read_with_a_warning(place) -> None:
    words = ["plain"] * 60
    words[place] = "café"
    TABLE.assign(word=words).to_csv("rows.csv", index=False, encoding="latin-1")
    match = "rows.csv is read as Latin-1, since it is not in UTF-8"
    with pytest.warns(UserWarning, match=match) as caught:
        fitted = model().fit("rows.csv", target="late")
    assert_one_sentence(str(caught[0].message))
    assert set(fitted.encoding_.encoders[-1].levels) == {"café", "plain"}


def test_what_was_made_of_a_file_is_removed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = open_rows(FILES["gzip"](), "late")
    assert len(list(tmp_path.glob("sepgp-*/*"))) == 1
    assert rows.name == "rows.csv.gz"
    del rows
    assert not list(tmp_path.glob("sepgp-*"))


# --- frames and matrices ------------------------------------------------------------------------


def test_lazy_frames() -> None:
    lazy = pl.from_pandas(TABLE).lazy()
    fitted, expected = model().fit(lazy, target="late"), model().fit(X, Y)
    assert_same(fitted, expected)
    assert_array_equal(fitted.predict_proba(lazy), expected.predict_proba(X))
    assert_same(model().fit(open_rows(lazy, "late")), expected)
    model().partial_fit(lazy, target="late")


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_matrices(form) -> None:
    dense = np.where(np.abs(X) > 1, X, 0.0)
    fitted, expected = model().fit(form(dense), Y), model().fit(dense, Y)
    assert_same(fitted, expected)
    assert_array_equal(fitted.predict_proba(form(dense)), expected.predict_proba(dense))
    assert_same(model().partial_fit(form(dense), Y), model().partial_fit(dense, Y))


def test_numbers_and_text_in_one_column_of_pandas() -> None:
    mixed = TABLE.assign(size=[*X[:55, 2], *["?", "large", None, 3, True]])
    with pytest.warns(UserWarning, match=r"is read as numbers, .* such as 'large' in row 57; they"):
        fitted = model().fit(mixed, target="late")
    assert dict(fitted.encoding_.kinds)["size"] == "number"
    with pytest.warns(UserWarning, match=r"'size' has values that are no numbers, such as 'large'"):
        assert np.isfinite(fitted.predict_proba(mixed)).all()


def test_numbers_beside_texts_with_decimal_commas_in_pandas() -> None:
    values = pd.Series([1, "2,5", 3.25, *["4,75", 5.5] * 20, "x"], dtype=object)
    encoding, _ = Summary.of(arrow(pd.DataFrame({"a": values})), np.ones(44)).encoding()
    found = encoding.values(arrow(pd.DataFrame({"a": values})))["a"].to_numpy()
    assert_array_equal(found, [1, 2.5, 3.25, *[4.75, 5.5] * 20, np.nan])


# --- lines that are no rows ---------------------------------------------------------------------


def test_a_title_above_the_header_is_left_out() -> None:
    lines = [f"{i};{i % 7};{'ja' if i % 2 else 'nein'}" for i in range(60)]
    title = ["Umsatz, Kunden, und mehr", "Stand: 31.12.2021;;", "", "nr;size;late"]
    pathlib.Path("rows.csv").write_text("\n".join(title + lines) + "\n")
    match = "rows.csv has its header in line 4; .* such as 'Umsatz, Kunden, und mehr'"
    with pytest.warns(UserWarning, match=match) as caught:
        rows = open_rows("rows.csv", "late")
    assert_one_sentence(str(caught[0].message))
    assert rows.schema.names == ["nr", "size"]
    assert sum(len(block) for block in rows.blocks()) == 60


def test_a_total_below_the_rows_is_named() -> None:
    lines = ["nr,size,late", *(f"{i},{i % 7},{i % 2}" for i in range(60))]
    pathlib.Path("rows.csv").write_text("\n".join([*lines, "60 rows in all"]) + "\n")
    match = r"rows.csv has 1 value in line 62 \('60 rows in all'\), where .* 3 columns; correct"
    with pytest.raises(InvalidData, match=match) as caught:
        open_rows("rows.csv", "late")
    assert_one_sentence(str(caught.value))
    pathlib.Path("rows.csv").write_text("\n".join([*lines, "Total,180,"]) + "\n")
    with pytest.raises(InvalidData, match=r"in 1 row, such as that with 'Total' in 'nr'"):
        list(open_rows("rows.csv", "late").blocks())
    (block,) = open_rows("rows.csv", "late", drop_unlabelled=True).blocks()
    assert len(block) == 60


def test_tabs_in_a_file_of_text() -> None:
    text = "nr\tsize\tlate\n" + "".join(f"{i}\t{i % 7}\t{i % 2}\n" for i in range(60))
    pathlib.Path("rows.txt").write_text(text)
    assert open_rows("rows.txt", "late").schema.names == ["nr", "size"]
    pathlib.Path("rows.xlsx").write_text("")
    with pytest.raises(InvalidData, match=r"rows.xlsx is a spreadsheet; save it as CSV"):
        open_rows("rows.xlsx", "late")


# --- weights ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["{:.2f}", "{:.1f} €", "{:,.1f}"])
@pytest.mark.parametrize("comma", [False, True])
def test_weights_are_read_as_features_are(form, comma) -> None:
    weights = 1 + 997 * np.arange(60) / 4
    texts = [form.format(w) for w in weights]
    if comma:
        texts = [t.translate(str.maketrans(".,", ",.")) for t in texts]
    TABLE.assign(w=texts).to_csv("rows.csv", index=False)
    (block,) = open_rows("rows.csv", "late", weight="w").blocks()
    assert_allclose(block.weight, weights, atol=0.051)


def test_weights_that_may_be_read_in_two_ways_are_refused() -> None:
    TABLE.assign(w="1,234").to_csv("rows.csv", index=False)
    match = "column 'w' has the weight '1,234', which may be read in two ways; write"
    with pytest.raises(InvalidData, match=match):
        list(open_rows("rows.csv", "late", weight="w").blocks())


def test_a_label_of_another_type_was_told_by_its_row_in_a_block(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(lines, "PIECE", 100)
    rows = [f"{i},{i % 2}" for i in range(1000)]
    rows[300] = "300,maybe"
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["a,y", *rows]))
    match = r"rows.csv has 'maybe' in line 302 of column 'y', .* type int64; correct"
    with pytest.raises(InvalidData, match=match):
        quick().fit(path, target="y")


def test_folders_that_are_links_were_left_out(tmp_path) -> None:
    for name in ("elsewhere", "data"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.csv").write_text("x,y\n1,a\n2,b\n")
    (tmp_path / "data" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "back").symlink_to(tmp_path / "data")
    assert sum(map(len, open_rows(str(tmp_path / "data")).blocks())) == 4


def test_columns_named_by_numbers_were_refused_where_they_had_to_be_changed() -> None:
    X = sparse.random(60, 3, 0.5, random_state=0)
    y = np.arange(60) % 2
    fitted = quick(max_iter=2).fit(pd.DataFrame.sparse.from_spmatrix(X), y)
    expected = quick(max_iter=2).fit(pd.DataFrame(X.toarray()), y)
    assert_array_equal(fitted.predict_proba(X.toarray()), expected.predict_proba(X.toarray()))
    mixed = pd.DataFrame({0: [1, "2,5", 3] * 20, 1: y})
    assert quick(max_iter=2).fit(mixed, y).encoding_.features == ("0", "1")
    assert mixed[0].tolist()[:2] == [1, "2,5"]


def test_sparse_columns_of_pandas_were_refused() -> None:
    places = pd.get_dummies(pd.Series(["a", "b", "c"] * 20), sparse=True)
    dense = pd.get_dummies(pd.Series(["a", "b", "c"] * 20))
    words = pd.Series(["u", "v"] * 30)
    fitted = quick(max_iter=2).fit(places.assign(word=words), np.arange(60) % 2)
    expected = quick(max_iter=2).fit(dense.assign(word=words), np.arange(60) % 2)
    assert_array_equal(fitted.predict_proba(places.assign(word=words)),
                       expected.predict_proba(dense.assign(word=words)))  # fmt: skip
