"""Messy tables: the informative column is found, or the command refuses with a way out."""

import gzip
import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from commandline import assert_one_line, run
from messy import INFORMATIVE, PAIRS, TABLES, Messy
from numpy.testing import assert_allclose, assert_array_equal
from quick import assert_one_sentence, quick
from sklearn.metrics import roc_auc_score

from sepgp import InvalidData, InvalidParameter
from sepgp.data import checks
from sepgp.data.columns import dates
from sepgp.data.columns.texts import Choices
from sepgp.data.encoding import Text, Time
from sepgp.data.rows import arrow, open_rows
from sepgp.data.summary import Summary

N_TRAIN, N_TEST = 500, 400
FAST = [PAIRS[0]]
EVERY = [
    pytest.param(table, id=str(table), marks=() if table in FAST else pytest.mark.slow)
    for table in TABLES
]


def area(fitted, rows: pd.DataFrame) -> float:
    p = fitted.predict_proba(rows.drop(columns="bought"))[:, 1]
    return roc_auc_score(rows["bought"] == "yes", p)


def fit(table: Messy, form=lambda rows: rows, **options):
    """A model of the frame, with as little effort as shows whether the column was found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rows = form(table.frame(N_TRAIN, 0, holes=True))
        return quick(n_inducing=20, max_iter=60).fit(rows, target="bought", **options)


@pytest.fixture(scope="module")
def clean() -> float:
    """The area under the curve with the clean table."""
    return area(fit(Messy()), Messy().frame(N_TEST, 1, holes=False))


@pytest.mark.parametrize("table", EVERY)
def test_commands(table, clean, tmp_path) -> None:
    train = table.write(tmp_path, "train", N_TRAIN, 0, holes=True)
    test = table.write(tmp_path, "test", N_TEST, 1, holes=False)
    model = tmp_path / "model.sepgp"
    options = ("--target", "bought", "--inducing", 20, "--steps", 60, "--validation", 0)
    done = run("train", train, *options, "--out", model)
    assert done.returncode == 0, done.stderr
    assert any(line.strip().startswith(table.column) for line in done.stderr.splitlines())
    done = run("evaluate", model, test, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["auc"]["value"] > clean - 0.01
    done = run("predict", model, test, "--out", tmp_path / "p.csv")
    assert done.returncode == 0, done.stderr
    p = pyarrow.csv.read_csv(tmp_path / "p.csv").to_pandas()
    labels = table.frame(N_TEST, 1, holes=False)["bought"] == "yes"
    assert roc_auc_score(labels, p["probability_yes"]) > clean - 0.01
    done = run("report", model, test, "--out", tmp_path / "report.html")
    assert done.returncode == 0, done.stderr


FORMS = {"pandas": lambda rows: rows, "polars": pl.from_pandas}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("table", EVERY)
def test_frames(table, form, clean) -> None:
    fitted = fit(table, form)
    assert area(fitted, table.frame(N_TEST, 1, holes=False)) > clean - 0.01


def ambiguous(tmp_path, n: int = 60):
    """A file with dates none of which tells day from month."""
    rows = [f"{1 + i % 12:02d}/{1 + i // 12 % 12:02d}/2020,{i % 2}" for i in range(n)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["when,y", *rows]) + "\n")
    return path


@pytest.mark.slow
def test_dates_that_nothing_decides_need_a_word(tmp_path) -> None:
    path, model = ambiguous(tmp_path), tmp_path / "model.sepgp"
    options = ("--target", "y", "--inducing", 5, "--steps", 2, "--validation", 0, "--out", model)
    done = run("train", path, *options)
    assert_one_line(done, "Column 'when' has dates such as '0")
    assert "(--dayfirst or --monthfirst)" in done.stderr
    assert not model.exists()
    first = {}
    for option in ("--dayfirst", "--monthfirst"):
        done = run("train", path, *options, option)
        assert done.returncode == 0, done.stderr
        first[option] = "day first" in done.stderr
        assert run("predict", model, path, "--out", tmp_path / "p.csv").returncode == 0
    assert first == {"--dayfirst": True, "--monthfirst": False}


@pytest.mark.slow
def test_how_to_read_a_column_can_be_chosen(tmp_path) -> None:
    rows = [f"{i % 7},{20200101 + i % 28},n{i},{i / 3:.2f},{i % 2}" for i in range(90)]
    path, model = tmp_path / "rows.csv", tmp_path / "model.sepgp"
    path.write_text("\n".join(['"a, b",when,id,x,y', *rows]) + "\n")
    options = ("--target", "y", "--inducing", 5, "--steps", 2, "--validation", 0, "--out", model)
    choices = ("a, b=text", "when=date", "id=text", "x=drop")
    done = run("train", path, *options, *(part for c in choices for part in ("--read", c)))
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    table = [line.split()[-6:] for line in done.stderr.splitlines()[-5:]]
    assert table[-1][-4:] == ["left", "out", "by", "choice"]
    for line, kind in zip(done.stderr.splitlines()[-4:-1], ("text", "date", "text"), strict=True):
        assert f" {kind} " in line
    # The model knows it: numbers of a table are read as text and dates as well.
    done = run("evaluate", model, path)
    assert done.returncode == 0, done.stderr
    frame = pd.read_csv(path)
    assert frame.dtypes["when"] == np.int64
    read = {"a, b": "text", "when": "date", "id": "text", "x": "drop"}
    fitted = quick(max_iter=2).fit(frame, target="y", read=read)
    assert dict(fitted.encoding_.kinds) == {"a, b": "text", "when": "time", "id": "text"}
    assert np.isfinite(fitted.predict_proba(frame)).all()
    again = quick(max_iter=2).fit(frame.drop(columns="y"), frame["y"], read=read)
    assert again.encoding_ == fitted.encoding_
    dropped = run("train", path, *options, "--drop", '"a, b",id')
    assert "a, b" not in dropped.stderr


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("x", "--read=x names no kind; write it as COLUMN=number"),
        ("x=colour", "is no way to read a column; choose one of number, text, date, drop"),
        ("z=number", "--read names 'z', which is no column; correct it"),
        ("wird=number", "--read names 'wird', which is no column; name 'word' or another"),
        ("word=number", "Column 'word' has no number, but texts such as 'red'"),
        ("word=date", "Column 'word' has no date, but texts such as 'red'"),
    ],
)
def test_choices_that_cannot_be(choice, said, tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,word,y\n" + "".join(f"{i},red,{i % 2}\n" for i in range(30)))
    done = run("train", path, "--target", "y", "--read", choice, "--out", tmp_path / "m.sepgp")
    assert_one_line(done, said)
    assert_one_sentence(done.stderr.strip().split("\n")[-1])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("rows", "choices", "match"),
    [
        (np.zeros((4, 1)), {"read": {"a": "text"}}, "read names columns, but X is a ndarray"),
        (lambda: [(np.zeros((4, 1)), [0, 1, 0, 1])], {"read": {"a": "text"}}, "read names columns"),
        (pd.DataFrame({"a": ["x", "y"] * 2}), {"read": {"a": "word"}}, "no way to read a column"),
        (pd.DataFrame({"a": ["x", "y"] * 2}), {"dayfirst": "yes"}, "dayfirst='yes' is unknown"),
    ],
    ids=["array", "blocks", "kind", "dayfirst"],
)
def test_choices_in_python_that_cannot_be(method, rows, choices, match) -> None:
    labels = None if callable(rows) else [0, 1, 0, 1]
    with pytest.raises(InvalidParameter, match=match) as caught:
        getattr(quick(), method)(rows, labels, **choices)
    assert_one_sentence(str(caught.value))


def test_choices_hold_for_every_way_to_learn(tmp_path) -> None:
    path = ambiguous(tmp_path)
    fitted = [
        quick(max_iter=2).fit(str(path), target="y", dayfirst=True),
        quick(max_iter=2).partial_fit(str(path), target="y", dayfirst=True),
        quick(max_iter=2).fit(pd.read_csv(path), target="y", read={"when": "date"}, dayfirst=True),
    ]
    for model in fitted:
        assert model.encoding_.encoders[0].dayfirst
        assert_allclose(model.encoding_.encoders[0].fill, fitted[0].encoding_.encoders[0].fill)


@pytest.mark.slow
def test_a_run_of_columns_that_are_read_otherwise_is_another(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("sepgp.data.stream_source.MEMORY", 100)
    path, checkpoint = ambiguous(tmp_path), tmp_path / "run.ckpt"
    settings = {"checkpoint": checkpoint, "batch_size": 20, "max_iter": 3}
    quick(**settings).fit(str(path), target="y", dayfirst=True)
    with pytest.raises(ValueError, match=r"another run|other"):
        quick(**settings).fit(str(path), target="y", dayfirst=False)


def test_a_warning_has_an_example_with_its_row() -> None:
    rows = Messy().frame(300, 0, holes=False)
    rows.loc[123, INFORMATIVE] = "large"
    with pytest.warns(UserWarning, match="size") as caught:
        quick(max_iter=2).fit(rows, target="bought")
    (said,) = [str(w.message) for w in caught]
    assert said.startswith("Column 'size' is read as numbers, and 1 of its 300 values is not, ")
    assert "such as 'large' in row 124; they count as missing" in said
    assert_one_sentence(said)


def read_as(**columns: list[str]):
    """How columns of text are read, by name, and what is said about them."""
    table = pd.DataFrame(columns)
    encoding, notes = Summary.of(arrow(table), np.ones(len(table))).encoding()
    for note in notes:
        assert_one_sentence(note.sentence(1))
    found = dict(zip(encoding.columns, encoding.encoders, strict=True))
    values = encoding.values(arrow(table)).to_pandas()
    return found, values, [note.sentence(1) for note in notes]


COUNTS = [f"{n:,}".replace(",", ".") for n in range(120, 6000, 97)]


def test_thousands_with_points_follow_the_decimal_commas_of_the_table() -> None:
    prices = [f"{n / 7:.2f}".replace(".", ",") for n in range(len(COUNTS))]
    large = [count for count in COUNTS if "." in count]
    for counts in (COUNTS, (large * 2)[: len(COUNTS)]):
        _, values, said = read_as(count=counts, price=prices)
        assert values["count"].tolist() == [float(count.replace(".", "")) for count in counts]
        assert not said
    points = [price.replace(",", ".") for price in prices]
    _, values, said = read_as(count=(large * 2)[: len(COUNTS)], price=points)
    assert values["count"].max() < 6
    assert not said


def test_thousands_with_points_are_known_by_numbers_without_one() -> None:
    _, values, said = read_as(count=COUNTS)
    assert values["count"].tolist() == list(range(120, 6000, 97))
    assert not said
    _, values, _ = read_as(count=[count.replace(".", ",") for count in COUNTS])
    assert values["count"].tolist() == list(range(120, 6000, 97))


def test_a_point_that_nothing_explains_is_decimal_and_said() -> None:
    _, values, (said,) = read_as(x=[f"{n / 1000:.3f}" for n in range(1001, 3000, 41)])
    assert values["x"].max() < 3
    assert "'x' has a point before three digits in all of its fractions, such as '1.001'" in said


@pytest.mark.parametrize(
    ("form", "factor", "unit"),
    [
        ("{} kg", 1, "kg"),
        ("{}kg", 1, "kg"),
        ("{} kg/m²", 1, "kg/m²"),
        ("CHF {}", 1, "chf"),
        ("{} EUR", 1, "€"),
        ("{}-", -1, ""),
        ("{}:30", 3600, "h:mm"),
    ],
)
def test_numbers_with_one_unit_are_numbers(form, factor, unit) -> None:
    numbers = range(1, 80)
    found, values, said = read_as(x=[form.format(n) for n in numbers])
    assert found["x"].unit == unit
    assert_allclose(np.diff(values["x"]), factor)
    assert not said


def test_numbers_with_several_units_are_said() -> None:
    texts = [f"{n} {'kg' if n % 2 else 'lb'}" for n in range(90)]
    found, _, (said,) = read_as(x=texts)
    assert isinstance(found["x"], Text)
    assert "several units ('kg', 'lb'), such as" in said or "('lb', 'kg'), such as" in said
    few = [f"{n} kg" for n in range(99)] + ["12 lb"]
    found, values, (said,) = read_as(x=few)
    assert values["x"].isna().sum() == 1
    assert "1 of its 100 values is not, such as '12 lb'" in said
    millions = [f"{n}m" for n in range(30)] + [str(100 * n) for n in range(70)]
    found, _, (said,) = read_as(x=millions)
    assert isinstance(found["x"], Text)
    assert "several units ('m', none)" in said


@pytest.mark.parametrize(
    ("texts", "unit", "values"),
    [
        (["570", "1.2k", "1.5M"], "", [570, 1200, 1.5e6]),
        (["$570", "$1.2k", "570", "-$2M"], "$", [570, 1200, 570, -2e6]),
        (["6h 40m", "45m", "2h", "1:30"], "h:mm", [24_000, 2700, 7200, 5400]),
        (["6H 40M", "1H 5M"], "h:mm", [24_000, 3900]),
        (["2 d 3 h", "90 min"], "h:mm", [183_600, 5400]),
        (["PT1H33M", "PT45M"], "h:mm", [5580, 2700]),
        (["1:05 PM", "12:30 am", "11:00 a.m."], "h:mm", [47_100, 1800, 39_600]),
        (["12,34,567", "5,67,890", "4,321"], "", [1_234_567, 567_890, 4321]),
        (["15.4 ± 0.3", "8.0 +/- 1"], "", [15.4, 8]),
        (["800 g", "1.5 kg"], "g", [800, 1500]),
        (["1.5 MB", "300 KB"], "mb", [1.5, 0.3]),
        (["$5.00 CR", "$3.00 DR"], "$cr", [5, -3]),
        (["$71,636/yr", "$64,083/yr"], "$/yr", [71_636, 64_083]),
        (["5.0 mg/L", "14.5 mg/L (H)", "0.1 mg/L (L)", "7 mg/L*"], "mg/l", [5, 14.5, 0.1, 7]),
    ],
)
def test_units_that_can_be_turned_into_each_other_are_one(texts, unit, values) -> None:
    found, read, said = read_as(x=texts * 40 + texts[:1])
    assert found["x"].unit == unit
    assert_allclose(read["x"][: len(values)], values)
    assert not said


@pytest.mark.parametrize(
    ("most", "other"),
    [("$52,000", "$25/hour"), ("1200 €", "12 €/m²"), ("$25/hour", "$52,000"), ("800 €", "120 T€")],
)
def test_amounts_of_money_in_other_units_were_taken_as_one(most, other) -> None:
    _, values, (said,) = read_as(x=[most] * 98 + [other] * 2)
    assert values["x"].isna().sum() == 2
    assert f"2 of its 100 values are not, such as {other!r}" in said


@pytest.mark.parametrize(
    ("texts", "unit", "values"),
    [
        (["5k", "12.5k", "800"], "", [5000, 12_500, 800]),
        (["$5k", "$12.5k", "$800"], "$", [5000, 12_500, 800]),
        (["3M", "1.5M", "2B"], "mio", [3, 1.5, 2000]),
    ],
)
def test_numbers_of_new_rows_were_thousands_where_most_texts_were(texts, unit, values) -> None:
    found, read, said = read_as(x=[*texts[:2] * 40, *texts])
    assert found["x"].unit == unit
    assert_allclose(read["x"][-3:], values)
    assert not said
    typed = found["x"].values(pa.chunked_array([[800.0, 5000.0]]))
    assert_allclose(typed.to_numpy(), [800, 5000])


def test_texts_with_spaces_that_do_not_break_were_others() -> None:
    found, _, _ = read_as(x=["New York", "New\u00a0York", "Rome"] * 30)
    features = found["x"].encode(pa.chunked_array([["New York", "New\u00a0York", "ROME", None]]))
    assert (features[0] == features[1]).all()
    assert features[:3, : len(found["x"].levels)].sum() == 3


def test_canadian_dollars_were_approximately_dollars() -> None:
    found, values, _ = read_as(x=["CAD 5,000", "CAD 70"] * 30)
    assert found["x"].unit == "cad"
    assert values["x"][:2].tolist() == [5000, 70]
    _, values, _ = read_as(x=["$5"] * 98 + ["CA$5"] * 2)
    assert values["x"].isna().sum() == 2
    _, values, _ = read_as(x=["ca. 5", "~7", "approx 3", "ca 2"] * 20)
    assert values["x"][:4].tolist() == [5, 7, 3, 2]


def test_the_year_1_was_2001() -> None:
    _, values, _ = read_as(x=["01/13/0001 00:00:00", "01/13/1999 00:00:00", "1/14/21"] * 20)
    assert values["x"].dt.year[:3].tolist() == [1, 1999, 2021]


@pytest.mark.parametrize(
    ("texts", "unit", "values"),
    [
        (["52nd", "1st", "113th", "3rd"], "th", [52, 1, 113, 3]),
        (["1er", "2e", "13ème"], "th", [1, 2, 13]),
        (["Rs. 5,000", "Rs 70", "-Rs.3"], "rs", [5000, 70, -3]),
        (["SEK 5,000", "SEK -70"], "sek", [5000, -70]),
        (["EUR5", "7EUR", "3 Euro", "€ 2", "–"], "€", [5, 7, 3, 2, np.nan]),
        (["A$5.50", "-A$7"], "a$", [5.5, -7]),
        (["R$ 1.234,50", "R$ 7,00"], "r$", [1234.5, 7]),
        (["5'000.-", "CHF 12.50", "7.--"], "chf", [5000, 12.5, 7]),
        (["1.234,-", "12,50", "12,50-"], "", [1234, 12.5, -12.5]),
        (["$ (1,234.50)", "$ 12.00", "($3)"], "$", [-1234.5, 12, -3]),
        (["–5.5", "—2", "‒1", "3"], "", [-5.5, -2, -1, 3]),
        (['="12.5"', "'7", "3"], "", [12.5, 7, 3]),
        (["\u200e12,345\u200b", "\ufeff7"], "", [12_345, 7]),
        (["1.5×10^3", "2 x 10^-2", "3*10**2"], "", [1500, 0.02, 300]),
        (["5.6 x10^9/L", "4.1 10*9/L"], "/l", [5.6e9, 4.1e9]),
        (["45 (12.5%)", "7 (3–9)", "3.5 [1]", "2†"], "", [45, 7, 3.5, 2]),
        (["12.5 ℃", "13 °C", ".5 °C"], "°c", [12.5, 13, 0.5]),
        (["500 MHz", "1.5 GHz"], "mhz", [500, 1500]),
        (["30° N", "12.5° S"], "° n", [30, -12.5]),
        (["250 μg", "1.5 mg", "300 µg"], "µg", [250, 1500, 300]),
        (["4:03.7", "12:30.5", "1:02:03"], "h:mm", [243.7, 750.5, 3723]),
        (["9h30", "17h05"], "h:mm", [34_200, 61_500]),
    ],
)
def test_numbers_that_were_left_out_as_text(texts, unit, values) -> None:
    found, read, said = read_as(x=texts * 40 + texts[:1])
    assert found["x"].unit == unit
    assert_allclose(read["x"][: len(values)], values)
    assert not said


def test_a_remark_in_words_is_not_taken_away() -> None:
    found, _, _ = read_as(x=["1 (left)", "1 (right)", "2 (left)"] * 40)
    assert isinstance(found["x"], Text)


def test_codes_that_a_spreadsheet_marks_as_text_stay_codes() -> None:
    found, _, _ = read_as(x=[f'="{i % 40:05d}"' for i in range(120)])
    assert isinstance(found["x"], Text)


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("20210301T093015Z", "2021-03-01T09:30:15"),
        ("2021-03-01 09:30:15,250", "2021-03-01T09:30:15.25"),
        ("01/Mar/2021:09:30:15 +0100", "2021-03-01T08:30:15"),
        ("Mon Mar 01 2021 09:30:15 GMT+0100 (CET)", "2021-03-01T08:30:15"),
        ("Mon Mar  1 09:30:15 2021", "2021-03-01T09:30:15"),
        ("Mon Mar  1 09:30:15 CET 2021", "2021-03-01T09:30:15"),
        ("01-MAR-21 09.30.15.000000 PM", "2021-03-01T21:30:15"),
        ("01MAR2021:09:30:15", "2021-03-01T09:30:15"),
        ("1MAR2021", "2021-03-01"),
        ("Mar-21", "2021-03-01"),
        ("KW 7/2021", "2021-02-12"),
        ("03/01/68", "1968-03-01"),
        ("03/01/29", "2029-03-01"),
        ("Mrz-21", "NaT"),
        ("32MAR2021", "NaT"),
    ],
)
def test_times_that_programs_write(text, date) -> None:
    (found,) = dates.parsed(pa.array([text], pa.large_string()), dayfirst=False)
    assert_array_equal(found, np.datetime64(date, "us"))


@pytest.mark.parametrize("form", ["#{}", "{} of 60", "{}½", "v{}", "{}-{}"])
def test_numbers_that_cannot_be_read_and_have_many_values_are_said(form) -> None:
    found, _, (said,) = read_as(x=[form.format(n, n + 1) for n in range(40)] * 3 + ["7"])
    assert isinstance(found["x"], Text)
    assert "are not among the 32 that are told apart, such as" in said
    assert "such as '7'" not in said
    assert "write numbers as 1234.5 and dates as 2021-12-31, turn texts into" in said
    assert not read_as(x=[form.format(n, n + 1) for n in range(30)] * 3)[2]


def test_identifiers_with_digits_are_told_how_to_write_numbers() -> None:
    _, _, (said,) = read_as(x=[f"{n}|{n * n}" for n in range(90)], z=["1", "2"] * 45)
    assert "and is left out; if it matters, write numbers as 1234.5 and dates as 2021-" in said
    names = ["".join("abcdefghij"[int(digit)] for digit in f"{n:04d}") for n in range(90)]
    _, _, (said,) = read_as(x=names, z=["1", "2"] * 45)
    assert "and is left out; if it matters, read it as text" in said


def test_several_choices_in_one_text_are_said() -> None:
    chosen = [[c for k, c in enumerate("ABCDE") if n >> k & 1] for n in range(1, 32)]
    for separator in (";", ", ", "|"):
        _, _, (said,) = read_as(x=[separator.join(some) for some in chosen] * 3)
        assert "'x' is read as text, since its values hold several choices each, such as" in said
    places = [f"{town}, {land}" for town, land in zip("abcdefghi", "ABCABCABC", strict=True)]
    assert not read_as(x=places * 10)[2]


def test_the_header_below_merged_cells_is_found_by_its_names(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    rows = "".join(f"{i},{i % 7},{i % 2}\n" for i in range(60))
    path.write_text("Measured,,Result\na,b,y\n" + rows)
    for wanted in ({"target": "y"}, {"columns": ["b", "a"]}):
        with pytest.warns(UserWarning, match="has its header in line 2; the lines above it"):
            assert set(open_rows(str(path), **wanted).schema.names) == {"a", "b"}
    with pytest.raises(InvalidData, match="has no column 'z'"):
        open_rows(str(path), "z")


def parquet() -> bytes:
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": ["a", "b"]}), file := pa.BufferOutputStream())
    return file.getvalue().to_pybytes()


ROWS = [f"{i},{'pqr'[i % 3]},{'ab'[i % 2]}" for i in range(60)]


@pytest.mark.parametrize(
    ("form", "names"),
    [
        ("{},", ["x", "w", "Unnamed: 3"]),  # a comma at the end of every line but the first
        ('"9",{}', ["Unnamed: 0", "x", "w"]),  # as R writes names of rows
    ],
)
def test_rows_with_one_value_more_than_the_header(form, names, tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["x,w,y", *map(form.format, ROWS)]) + "\n")
    rows = open_rows(str(path), "y")
    assert rows.schema.names == names
    assert next(rows.blocks()).X["x"].to_pylist() == [str(i) for i in range(60)]
    assert next(open_rows(str(path), columns=["w"]).blocks()).X["w"][1].as_py() == "q"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32", "utf-16", "utf-8-sig"])
def test_encodings_with_zeros(encoding, tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("\n".join(["x,w,y", *ROWS]).encode(encoding))
    assert next(open_rows(str(path), "y").blocks()).X["x"].to_pylist()[-1] == "59"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04\x14\x00", "is a spreadsheet or an archive, whatever its name says; rename"),
        (parquet(), "is Parquet, whatever its name says; rename it, or save it as CSV"),
        (gzip.compress(b"x,y\n1,2\n"), "is packed by gzip, whatever its name says; rename it"),
        (b"x w y\n1 2 a\n2 3 b\n", "has one column only, 'x w y'; set its values apart by commas"),
    ],
    ids=["spreadsheet", "Parquet", "packed", "spaces"],
)
def test_files_that_are_no_csv_are_said_to_be_what_they_are(content, said, tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidData, match=said) as caught:
        open_rows(str(path), "y")
    assert_one_sentence(str(caught.value))


def test_a_column_of_the_model_in_other_letters_is_not_to_be_named(tmp_path) -> None:
    model, path = tmp_path / "m.sepgp", tmp_path / "new.csv"
    fit(Messy()).save(model)
    Messy().frame(50, 1, holes=False).rename(columns={"size": "SIZE"}).to_csv(path, index=False)
    done = run("evaluate", model, path)
    assert_one_line(done, "has no column 'size'; if 'SIZE' is meant, write both alike, else add it")


def test_a_column_called_par1_is_no_parquet(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("PAR1,y\n1,a\n2,b\n")
    assert open_rows(str(path), "y").schema.names == ["PAR1"]


def test_dates_as_labels_were_lost_when_the_model_was_saved(tmp_path) -> None:
    path, model = tmp_path / "rows.csv", tmp_path / "m.sepgp"
    path.write_text("x,y\n" + "".join(f"{i},2020-01-0{1 + i % 2}\n" for i in range(60)))
    options = ("--target", "y", "--inducing", 5, "--steps", 2, "--validation", 0, "--out", model)
    done = run("train", path, *options)
    assert done.returncode == 0, done.stderr
    assert "2020-01-01 (30), 2020-01-02 (30)" in done.stderr
    done = run("evaluate", model, path)
    assert done.returncode == 0, done.stderr
    days = pd.to_datetime(["2020-01-01", "2020-01-02"] * 20)
    for labels in (days, days.to_series().reset_index(drop=True), days.date):
        with pytest.raises(ValueError, match=r"y has labels of type|Unknown label type") as caught:
            quick(max_iter=2).fit(np.arange(40.0)[:, None], labels)
        assert_one_sentence(str(caught.value))
    fitted = quick(max_iter=2).fit(pd.DataFrame({"x": range(40), "y": days}), target="y")
    fitted.save(model)
    assert fitted.classes_.tolist() == ["2020-01-01 00:00:00", "2020-01-02 00:00:00"]


def test_a_number_that_is_the_label_of_one_row_brings_a_warning(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n0,7\n" + "".join(f"{i},{i % 2}\n" for i in range(120)))
    with pytest.warns(UserWarning, match=r"has the label 7 in one row only, as a class of its own"):
        quick(max_iter=2).fit(str(path), target="y")


def test_missing_values_that_training_had_not_were_not_said(tmp_path) -> None:
    model, path = tmp_path / "m.sepgp", tmp_path / "new.csv"
    fit(Messy()).save(model)
    rows = Messy().frame(50, 1, holes=False)
    rows.loc[3:, "size"] = ""
    rows.loc[9, "noise"] = None
    rows.to_csv(path, index=False)
    done = run("predict", model, path, "--out", tmp_path / "p.csv")
    assert done.returncode == 0, done.stderr
    (said,) = [line for line in done.stderr.splitlines() if "Warning" in line]
    assert "'size' has no value in row 4 (47 rows in all), as others do in 'noise', where" in said
    assert_one_sentence(said)
    with pytest.warns(UserWarning, match="'size' has no value in row 4"):
        fit(Messy()).predict_proba(rows)


def test_currencies_and_sides_of_an_account_are_not_turned_into_each_other() -> None:
    for texts in (["$5", "€5", "7"], ["12,50 H", "3,20 S"]):
        _, _, (said,) = read_as(x=texts * 40)
        assert "several units" in said


def test_a_space_that_does_not_break_is_a_space() -> None:
    found, values, said = read_as(x=["251,46\xa0€", "1\u202f280,85\xa0€", "3\u2009000,5\xa0€"] * 30)
    assert values["x"][:3].tolist() == [251.46, 1280.85, 3000.5]
    assert found["x"].unit == "€"
    assert not said


def test_a_hexadecimal_number_is_not_two_numbers() -> None:
    found, _, said = read_as(x=[f"0x{n % 16:04X}" for n in range(100)])
    assert isinstance(found["x"], Text)
    assert not said


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("1er janvier 2023", "2023-01-01"),
        ("2021-Q3", "2021-07-01"),
        ("Q4 2020", "2020-10-01"),
        ("2021-W07", "2021-02-12"),
        ("2024/01/10 9:00:00 PM MEZ", "2024-01-10T21:00"),
        ("2021-W54", "NaT"),
        ("2021-03 ABC", "NaT"),
    ],
)
def test_quarters_weeks_and_names_of_zones(text, date) -> None:
    (found,) = dates.parsed(pa.array([text], pa.large_string()), dayfirst=False)
    assert_array_equal(found, np.datetime64(date, "us"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("x,y\r1,a\r2,b\r", "ends its lines in CR alone, as old programs for the Mac do; save"),
        ("1.5,2\n1,0\n2,1\n", "has values in its first line, '1.5, 2', instead of names of"),
    ],
)
def test_files_without_lines_or_names_are_refused_as_such(content, said, tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content.encode())
    with pytest.raises(InvalidData, match=said) as caught:
        open_rows(str(path), "y")
    assert_one_sentence(str(caught.value))


def test_columns_without_a_name_are_named_as_pandas_does(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(",x,z,w,y,,\n" + "".join(f"{i},{i % 7},1,2,{i % 2},,\n" for i in range(60)))
    rows = open_rows(str(path), "y")
    assert rows.schema.names == ["Unnamed: 0", "x", "z", "w", "Unnamed: 5", "Unnamed: 6"]
    assert rows.schema.names == [name for name in pd.read_csv(path).columns if name != "y"]


def test_a_column_of_lists_can_be_dropped_and_all_are_named(tmp_path) -> None:
    path, n = tmp_path / "rows.parquet", 60
    table = pa.table({"x": range(n), "a": [[1]] * n, "b": [{"c": 1}] * n, "y": [0, 1] * (n // 2)})
    pq.write_table(table, path)
    options = ("--target", "y", "--inducing", 5, "--steps", 2, "--validation", 0)
    done = run("train", path, *options, "--out", tmp_path / "m.sepgp")
    assert_one_line(done, "Columns 'a', 'b' have values that are neither numbers, truth values,")
    assert "leave them out (--drop 'a,b')" in done.stderr
    done = run("train", path, *options, "--out", tmp_path / "m.sepgp", "--drop", "a,b")
    assert done.returncode == 0, done.stderr


def test_a_label_of_one_row_brings_a_warning(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n0,[-]\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(120)))
    with pytest.warns(UserWarning, match=r"the label '\[-\]' in one row only, as a") as caught:
        quick(max_iter=2).fit(str(path), target="y")
    assert_one_sentence(str(caught[0].message))


def test_a_new_unit_is_not_read_as_the_old() -> None:
    found, _, _ = read_as(x=[f"{n} kg" for n in range(50)])
    new = pa.chunked_array([["12 kg", "12", "12 lb"]])
    assert_array_equal(found["x"].values(new).to_numpy(), [12, 12, np.nan])


def test_two_numbers_in_one_text_are_said() -> None:
    found, _, (said,) = read_as(pressure=[f"{110 + n % 30}/{60 + n % 20}" for n in range(100)])
    assert isinstance(found["pressure"], Text)
    assert "hold two numbers each, such as '110/60' in row 1; make two columns of it" in said


def test_bounds_count_as_the_number() -> None:
    found, values, said = read_as(x=["<5", "≤ 5", ">100", "90+", *map(str, range(96))])
    assert values["x"][:4].tolist() == [5, 5, 100, 90]
    assert found["x"].bounds
    assert not said
    income = read_as(x=["<=50K", ">50K"] * 50)[0]["x"]
    assert income.levels == ("<=50K", ">50K")


def test_a_time_with_99_minutes_is_none() -> None:
    _, values, (said,) = read_as(x=[f"{n % 24}:{n % 60:02d}" for n in range(99)] + ["25:99"])
    assert np.isnan(values["x"].to_numpy()).tolist() == [False] * 99 + [True]
    assert "such as '25:99'" in said


def test_a_word_or_a_time_among_numbers_is_missing() -> None:
    _, values, _ = read_as(age=[*map(str, range(20, 97)), "no", "12:30"])
    assert values["age"].isna().sum() == 2


def test_units_in_the_plural_and_bounds_with_a_unit() -> None:
    texts = ["< 1 year", "1 year", "2 years", "10+ years", "ca. 3 years"]
    _, values, said = read_as(x=texts * 20)
    assert values["x"][:5].tolist() == [1, 1, 2, 10, 3]
    assert not said


def test_a_code_with_letters_behind_is_no_number() -> None:
    found, _, _ = read_as(zip=[f"{i:03d}xx" for i in range(40)] * 3)
    assert isinstance(found["zip"], Text)


@pytest.mark.parametrize(
    "form", ["{1:02d}.2021", "{1}/2021", "2021-{1:02d}", "{0} 2021", "3. {0} 2021"]
)
@pytest.mark.parametrize("language", range(3))
def test_months_by_number_and_name(form, language) -> None:
    names = [
        "January February March April May June July August September October November December",
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    ][language].split()
    texts = [form.format(name, month) for month, name in enumerate(names, 1)]
    found, values, said = read_as(when=texts * 4)
    assert isinstance(found["when"], Time)
    assert values["when"].dt.month.tolist() == list(range(1, 13)) * 4
    assert not said


def test_truth_in_several_words_is_one() -> None:
    texts = ["TRUE", "true", "Y", "1", "False", "n", "0", "No"]
    found, values, _ = read_as(x=texts * 5)
    assert values["x"][:8].tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    assert found["x"].unit == "truth values"
    assert read_as(x=["yes", "no"] * 20)[0]["x"].levels == ("no", "yes")


def test_levels_that_differ_in_case_or_spaces_are_one() -> None:
    found, _, (said,) = read_as(x=["Ja", "ja", " JA ", "nein", "vielleicht  morgen"] * 10)
    assert found["x"].levels == ("ja", "nein", "vielleicht morgen")
    assert "differ in case or spaces only, such as 'ja' in row 1 and 'Ja', which count as" in said
    rows = pa.chunked_array([["JA", "Nein", "neu"]])
    assert found["x"].encode(rows).argmax(1).tolist() == [0, 1, 3]


@pytest.mark.parametrize("value", ["-999", "9999", "1e30", "1e160"])
def test_a_sign_for_missing_is_noticed(value) -> None:
    rows = Messy(holes=value).frame(600, 0, holes=True)
    match = f"Column 'size' has the value {float(value):g} in .* of the rows, far from all others"
    with pytest.warns(UserWarning, match=match.replace("+", r"\+")) as caught:
        quick(max_iter=2).fit(rows, target="bought")
    assert_one_sentence(str(caught[0].message))


def test_dates_with_a_year_of_two_digits_in_front_were_misread_in_silence() -> None:
    """21-03-14 was the 21st of March 2014, and nobody was told."""
    days = pd.date_range("2019-01-15", "2021-03-30", periods=60)
    _, _, (said,) = read_as(since=days.strftime("%y-%m-%d").tolist())
    assert "'since' is read as dates with the day first" in said
    assert "such as '19-01-15' in row 1; if they do, write years with four digits" in said
    assert "dayfirst=True (--dayfirst on the command line)" in said
    for form in ("%d-%m-%y", "%m/%d/%y", "%d.%m.%Y", "%Y-%m-%d"):
        assert not read_as(since=days.strftime(form).tolist())[2]
    ends = pd.date_range("2005-01-31", "2021-12-31", freq="ME")
    for some in (ends, ends[::3], ends[::12], ends - pd.Timedelta(days=6), ends[:12]):
        assert not read_as(since=some.strftime("%d-%m-%y").tolist())[2]
    table = arrow(pd.DataFrame({"since": days.strftime("%y-%m-%d")}))
    assert not Summary.of(table, np.ones(60)).encoding(Choices(dayfirst=True))[1]


@pytest.mark.slow
def test_dates_that_the_model_has_not_seen_are_not_guessed() -> None:
    days = pd.date_range("2020-01-01", periods=60)
    for when in (days, days.strftime("%Y-%m-%d"), days.strftime("%b %d, %Y")):
        fitted = quick(max_iter=2).fit(pd.DataFrame({"when": when}), np.arange(60) % 2)
        assert fitted.encoding_.encoders[0].dayfirst is None
        expected = fitted.predict_proba(pd.DataFrame({"when": when}))
        for form in ("%Y-%m-%d", "%d %B %Y"):
            rows = pd.DataFrame({"when": days.strftime(form)})
            assert_allclose(fitted.predict_proba(rows), expected, rtol=1e-9)
        match = r"dates such as '02/01/2020' in column 'when', which may begin .*; write them as"
        with pytest.raises(InvalidData, match=match) as caught:
            fitted.predict_proba(pd.DataFrame({"when": days.strftime("%d/%m/%Y")}))
        assert_one_sentence(str(caught.value))


def test_most_texts_that_are_no_numbers_are_refused_where_some_were_missing() -> None:
    rows = Messy(holes="stray words").frame(300, 0, holes=True)
    fitted = fit(Messy(holes="stray words"))
    assert fitted.encoding_.encoders[0].missing
    with pytest.warns(UserWarning, match="'size' has values that are no numbers, such as"):
        assert np.isfinite(fitted.predict_proba(rows[:1].assign(size="unknown"))).all()
    match = r"'size' has texts such as '.*,.*' in row 1, .* with numbers with decimal points; write"
    with pytest.raises(InvalidData, match=match):
        fitted.predict_proba(rows.assign(size=rows["size"].str.replace(".", ",")))


def test_text_where_the_model_has_numbers_is_refused_not_ignored() -> None:
    fitted = fit(Messy())
    rows = Messy().frame(50, 1, holes=False).assign(size="large")
    with pytest.raises(InvalidData, match=r"'size' has texts such as 'large' in row 1, where the"):
        fitted.predict_proba(rows)


@pytest.mark.slow
def test_new_rows_that_the_model_cannot_read_bring_one_warning(tmp_path) -> None:
    model, path = tmp_path / "m.sepgp", tmp_path / "new.csv"
    fit(Messy()).save(model)
    rows = Messy().frame(400, 1, holes=False)
    rows.loc[[7, 30], "size"] = "large"
    rows.loc[[9, 40, 50], "place"] = "Mars"
    rows.to_csv(path, index=False)
    said = (
        "Warning: Column 'place' has values that are new to the model, such as 'Mars' in row 10 "
        "(3 in all), which count as other texts; there are more in 'size'."
    )
    for command in ("predict", "evaluate", "report", "update"):
        out = () if command == "evaluate" else ("--out", tmp_path / "out")
        ending = {"predict": ".csv", "report": ".html", "update": ".sepgp"}.get(command)
        out = (out[0], f"{out[1]}{ending}") if out else ()
        done = run(command, model, path, *out)
        assert done.returncode == 0, done.stderr
        assert [line for line in done.stderr.splitlines() if "Warning" in line] == [said]
        assert_one_sentence(said)
    with pytest.warns(UserWarning, match="new to the model") as caught:
        list(fit(Messy()).predict_proba(rows.drop(columns="bought")))
    assert [str(w.message) for w in caught] == [said.removeprefix("Warning: ")]


def test_new_rows_with_another_decimal_sign_are_refused_with_an_example(tmp_path) -> None:
    model, path = tmp_path / "m.sepgp", tmp_path / "new.csv"
    fit(Messy()).save(model)
    rows = Messy().frame(50, 1, holes=False)
    rows.assign(size=rows["size"].str.replace(".", ",")).to_csv(path, index=False)
    done = run("predict", model, path, "--out", tmp_path / "p.csv")
    assert_one_line(done, "where the model was trained with numbers with decimal points; write")
    assert " in row 1, " in done.stderr


@pytest.mark.parametrize("n", [80, 3000])
def test_a_quantity_as_target_brings_a_warning(n) -> None:
    random = np.random.default_rng(0)
    ages = random.integers(18, 30 if n == 80 else 61, n)
    with pytest.warns(UserWarning, match=r"y has \d\d whole numbers as classes, from 18 to"):
        checks.several_classes(np.unique(ages), n_rows=n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checks.several_classes(np.arange(10), n_rows=20)
        checks.several_classes(np.arange(26), n_rows=2000)


def test_the_row_names_of_pandas_and_r_are_left_out() -> None:
    numbers = [str(i) for i in range(60)]
    table = pa.table({"": numbers, "Unnamed: 0": numbers, "x": numbers})
    encoding, _ = Summary.of(table, np.ones(60)).encoding()
    assert encoding.columns == ("x",)
    assert [name for name, _ in encoding.left_out] == ["", "Unnamed: 0"]
