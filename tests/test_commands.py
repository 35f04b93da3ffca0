"""Every command as a user runs it: its output, its exit code, its files."""

import io
import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from commandline import ENVIRONMENT, assert_one_line, process, run
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr, ndtr
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

import sepgp
from sepgp.cli.options import TABLES
from sepgp.cli.reproduce import EXPERIMENTS
from sepgp.data.rows import open_rows
from sepgp.data.rows.files import COMPRESSED, FORMATS
from sepgp.data.split import SplitRows
from sepgp.evaluation import metrics, two_classes


def loans(n: int, seed: int) -> pd.DataFrame:
    """A table with numbers, text, dates, truth values and holes."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": random.integers(18, 80, n),
            "income": random.lognormal(10, 1, n).round(2),
            "city": random.choice(["Paris", "Rome", "Oslo, east"], n),
            "since": pd.Timestamp("2015-01-01") + pd.to_timedelta(random.integers(0, 3000, n), "D"),
            "member": random.random(n) < 0.5,
        }
    )
    f = (table["age"] - 50) / 15 + 1.5 * (table["city"] == "Rome") + random.normal(size=n)
    table["defaulted"] = np.where(f > 0, "yes", "no")
    table.loc[random.random(n) < 0.1, "income"] = np.nan
    table.loc[random.random(n) < 0.1, "city"] = None
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with tables and a trained model, by the command."""
    path = tmp_path_factory.mktemp("loans")
    loans(400, 0).to_csv(path / "loans.csv", index=False)
    loans(100, 1).to_csv(path / "new.csv", index=False)
    loans(100, 1).to_parquet(path / "new.parquet")
    done = run("train", path / "loans.csv", "--target", "defaulted", "--out", path / "m.sepgp",
               "--inducing", 10, "--steps", 50)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "SEP with 10 inducing points" in done.stderr
    assert "negative log-likelihood" in done.stdout
    return path


def test_a_model_is_described(folder) -> None:
    done = run("info", folder / "m.sepgp")
    assert done.returncode == 0
    assert "no and yes" in done.stdout
    assert "defaulted" in done.stdout
    assert set(["age", "income", "city", "since", "member"]) <= set(done.stdout.split())


def test_a_model_is_described_as_json(folder) -> None:
    told = json.loads(run("info", folder / "m.sepgp", "--json").stdout)
    model = sepgp.load(folder / "m.sepgp")
    assert told["classes"] == ["no", "yes"]
    assert told["method"] == "sep"
    assert (told["n_inducing"], told["steps"]) == (10, model.n_iter_)
    assert told["seconds"] == model.history_["seconds"][-1]
    shares = {column["name"]: column["relevance"] for column in told["columns"]}
    assert_allclose([shares[name] for name in model.feature_names_in_], model.feature_importances_)


def test_predictions_are_those_of_the_library(folder) -> None:
    for name in ("p.parquet", "p.csv"):
        done = run("predict", folder / "m.sepgp", folder / "new.csv", "--out", folder / name)
        assert done.returncode == 0, done.stderr
    model = sepgp.load(folder / "m.sepgp")
    (expected,) = model.predict_proba(folder / "new.csv")
    for name, digits in (("p.parquet", 1e-12), ("p.csv", 1e-8)):
        read = pd.read_csv if name == "p.csv" else pd.read_parquet
        table = read(folder / name)
        assert list(table) == ["probability_yes", "label", "mean", "sd"]
        assert_allclose(table["probability_yes"], expected[:, 1], rtol=digits)
        assert_array_equal(table["label"], model.classes_[expected.argmax(1)])
    text = (folder / "p.csv").read_text()
    assert max(map(len, re.findall(r"[\d.]+", text))) <= len("0.0123456789")
    assert not list(folder.glob(".*.tmp"))


@pytest.mark.slow
def test_the_probability_of_the_positive_label_is_told(folder, tmp_path) -> None:
    done = run(*train(folder, tmp_path, "--positive", "no", "--steps", 5))
    assert done.returncode == 0, done.stderr
    model, out = sepgp.load(tmp_path / "m.sepgp"), tmp_path / "p.csv"
    assert model.classes_.tolist() == ["no", "yes"]
    (expected,) = model.predict_proba(folder / "new.csv")
    ((mean, _),) = model.predict_latent(folder / "new.csv")
    assert run("predict", tmp_path / "m.sepgp", folder / "new.csv", "--out", out).returncode == 0
    table = pd.read_csv(out)
    assert list(table) == ["probability_no", "label", "mean", "sd"]
    assert_allclose(table["probability_no"], expected[:, 0], rtol=1e-8)
    assert_allclose(table["mean"], -mean, rtol=1e-8)
    assert_array_equal(table["label"], model.classes_[expected.argmax(1)])
    page = tmp_path / "report.html"
    assert run("report", tmp_path / "m.sepgp", folder / "loans.csv", "--out", page).returncode == 0
    assert model.model_.about("no").classes.tolist() == ["yes", "no"]
    refused = run(*train(folder, tmp_path, "--positive", "maybe", "--steps", 5))
    assert_one_line(refused, "--positive='maybe' is not among the classes ['no', 'yes']")


@pytest.mark.slow
def test_a_class_of_numbers_is_chosen_by_its_text(folder, tmp_path) -> None:
    loans(200, 0).assign(y=np.arange(200) % 2).to_csv(tmp_path / "t.csv", index=False)
    done = run("train", tmp_path / "t.csv", "--target", "y", "--positive", "0", "--steps", 3,
               "--inducing", 5, "--out", tmp_path / "m.sepgp")  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = tmp_path / "p.csv"
    assert run("predict", tmp_path / "m.sepgp", tmp_path / "t.csv", "--out", out).returncode == 0
    assert "probability_0" in pd.read_csv(out)
    # The classes are then in descending order, and rows were said to have labels of none of them.
    page = tmp_path / "r.html"
    done = run("report", tmp_path / "m.sepgp", tmp_path / "t.csv", "--out", page)
    assert done.returncode == 0, done.stderr
    assert page.exists()


def test_labels_of_a_file_were_numbers_where_those_of_the_model_are_text(tmp_path) -> None:
    labels = np.array(["0", "1", "unknown"])[np.arange(200) % 3]
    table = loans(200, 0).drop(columns="defaulted").assign(y=labels)
    known = table[table.y != "unknown"]
    known.to_csv(tmp_path / "known.csv", index=False)
    model = sepgp.GPClassifier(n_inducing=5, max_iter=3, random_state=0).fit(table, target="y")
    model.save(tmp_path / "m.sepgp")
    found = model.score(tmp_path / "known.csv")
    assert found == model.score(known.drop(columns="y"), known.y) > 0.2  # it was 0.0
    done = run("evaluate", tmp_path / "m.sepgp", tmp_path / "known.csv")
    assert done.returncode == 0, done.stderr
    model.partial_fit(tmp_path / "known.csv", target="y")
    assert model.model_.n_seen == len(table) + len(known)


def test_an_update_made_a_model_stop_forgetting(folder, tmp_path) -> None:
    model = sepgp.load(folder / "m.sepgp").set_params(forgetting=0.5)
    model.save(tmp_path / "m.sepgp")
    before = model.model_.n_seen
    done = run("update", tmp_path / "m.sepgp", folder / "loans.csv")
    assert done.returncode == 0, done.stderr
    updated = sepgp.load(tmp_path / "m.sepgp")
    assert updated.forgetting == 0.5
    new = len(pd.read_csv(folder / "loans.csv"))
    assert updated.model_.n_seen == pytest.approx(before / 2 + new)
    run("update", tmp_path / "m.sepgp", folder / "loans.csv", "--forgetting", 1)
    assert sepgp.load(tmp_path / "m.sepgp").forgetting == 1


def test_a_file_has_a_score(folder) -> None:
    model, new = sepgp.load(folder / "m.sepgp"), folder / "loans.csv"
    table = pd.read_csv(new, parse_dates=["since"])
    (labels,) = model.predict(new)
    right = labels == table["defaulted"]
    assert model.score(new) == right.mean()
    assert model.score(new, target="defaulted") == right.mean()
    assert model.score(table) == right.mean()
    assert model.score(new, sample_weight="age") == pytest.approx(
        np.average(right, weights=table["age"])
    )
    columns = list(model.feature_names_in_)
    assert model.score(table[columns], table["defaulted"]) == right.mean()


def test_predictions_carry_columns_of_the_table(folder) -> None:
    table = loans(100, 1)
    table.insert(0, "loan_id", [f"L{i}" for i in range(100)])
    table.to_csv(folder / "ids.csv", index=False)
    done = run("predict", folder / "m.sepgp", folder / "ids.csv", "--out", folder / "ids.parquet",
               "--keep", "loan_id", "--keep", "age")  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = pq.read_table(folder / "ids.parquet").to_pandas()
    assert list(said) == ["loan_id", "age", "probability_yes", "label", "mean", "sd"]
    assert_array_equal(said["loan_id"], table["loan_id"])
    assert_array_equal(said["age"], table["age"].astype(str))
    (expected,) = sepgp.load(folder / "m.sepgp").predict_proba(folder / "new.csv")
    assert_allclose(said["probability_yes"], expected[:, 1], rtol=1e-12)


def test_columns_that_predictions_carry_were_changed(folder) -> None:
    odd = {
        "card": [f"890141032111185{i:05d}" for i in range(100)],
        "price": ["1.10", "2.50"] * 50,
        "code": ["7"] * 99 + ["0x1F"],
    }
    loans(100, 1).assign(**odd).to_csv(folder / "odd.csv", index=False)
    kept = [word for name in odd for word in ("--keep", name)]
    done = run("predict", folder / "m.sepgp", folder / "odd.csv", "--out", "-", *kept)
    assert done.returncode == 0, done.stderr
    said = pd.read_csv(io.StringIO(done.stdout), dtype=str)
    for name, values in odd.items():
        assert_array_equal(said[name], values)


def test_predictions_go_through_a_pipe(folder) -> None:
    content = (folder / "new.csv").read_text()
    done = run("predict", folder / "m.sepgp", "-", "--out", "-", input=content)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 101
    assert done.stdout.startswith('"probability_yes"')


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        "predict m.sepgp new.csv --out -",
        "predict m.sepgp many.csv --out -",
        "evaluate m.sepgp new.csv",
        "info m.sepgp",
        "data",
        "--help",
    ],
)
def test_a_reader_that_has_had_enough_is_no_error(folder, command) -> None:
    if not (folder / "many.csv").exists():
        loans(20_000, 3).to_csv(folder / "many.csv", index=False)
    line = f"{sys.executable} -m sepgp {command} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout in ("1\n", "141\n")


def evaluated(folder, table, *options):
    """What `sepgp evaluate --json` says of a table."""
    table.to_parquet(folder / "evaluated.parquet")
    done = run("evaluate", folder / "m.sepgp", folder / "evaluated.parquet", "--json", *options)
    (folder / "evaluated.parquet").unlink()
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert list(found) == ["nll", "error", "brier", "ece", "auc"]
    assert all(list(score) == ["value", "low", "high"] for score in found.values())
    return found


@pytest.mark.parametrize("weighted", [False, True])
def test_metrics_are_those_of_scikit_learn(folder, weighted) -> None:
    table = loans(100, 1)
    weight = np.random.default_rng(0).gamma(1, 1, 100) if weighted else np.ones(100)
    found = evaluated(folder, table.assign(w=weight), *(["--weight", "w"] if weighted else []))
    p = sepgp.load(folder / "m.sepgp").predict_proba(table)[:, 1]
    y = (table["defaulted"] == "yes").to_numpy()
    bins = np.minimum((15 * p).astype(int), 14)
    gaps = [weight[bins == k] @ (p - y)[bins == k] for k in range(15)]
    expected = {
        "nll": log_loss(y, p, sample_weight=weight),
        "error": np.average((p > 0.5) != y, weights=weight),
        "brier": brier_score_loss(y, p, sample_weight=weight),
        "ece": np.abs(gaps).sum() / weight.sum(),
        "auc": roc_auc_score(y, p, sample_weight=weight),
    }
    for name, value in expected.items():
        assert_allclose(found[name]["value"], value, rtol=1e-9)
        assert found[name]["low"] < found[name]["high"]
        assert found[name]["low"] <= value <= found[name]["high"]


@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_are_as_wide_as_theory_says(weighted) -> None:
    random = np.random.default_rng(0)
    z = random.normal(size=4000)
    y = random.random(4000) < ndtr(z)
    weight = random.gamma(0.5, 2, 4000) if weighted else np.ones(4000)
    loss = -log_ndtr(np.where(y, z, -z))
    found = metrics.metrics(ndtr(np.column_stack([-z, z])), loss, y, weight)
    for name, values in {"nll": loss, "brier": (ndtr(z) - y) ** 2}.items():
        mean = np.average(values, weights=weight)
        error = np.sqrt(weight**2 @ (values - mean) ** 2) / weight.sum()
        assert_allclose(found[name].value, mean)
        assert_allclose(found[name].low, mean - 1.96 * error, atol=0.25 * error)
        assert_allclose(found[name].high, mean + 1.96 * error, atol=0.25 * error)


def test_rows_of_one_class_have_no_area_under_the_curve(folder) -> None:
    table = loans(100, 1).query("defaulted == 'no'")
    found = evaluated(folder, table)
    assert found.pop("auc") == {"value": None, "low": None, "high": None}
    assert all(math.isfinite(n) for score in found.values() for n in score.values())
    table.to_csv(folder / "no.csv", index=False)
    done = run("evaluate", folder / "m.sepgp", folder / "no.csv")
    (folder / "no.csv").unlink()
    assert done.returncode == 0
    assert done.stderr == ""
    (line,) = (line for line in done.stdout.split("\n") if "ROC" in line)
    assert line.split("curve")[1].strip() == "–       needs rows of both classes"
    assert "nan" not in done.stdout


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows(folder, n) -> None:
    found = evaluated(folder, loans(n, 1))
    auc = found.pop("auc")
    assert all(value is None or 0 <= value <= 1 for value in auc.values())
    for score in found.values():
        assert score["low"] <= score["high"]
        assert all(math.isfinite(value) for value in score.values())
    if n == 1:
        assert_allclose(found["nll"]["low"], found["nll"]["high"])


@pytest.mark.slow
def test_a_dropped_column_is_not_learned_from(folder, tmp_path) -> None:
    done = run(*train(folder, tmp_path, "--drop", "age, since", "--steps", 5))
    assert done.returncode == 0, done.stderr
    described = run("info", tmp_path / "m.sepgp").stdout.split()
    assert "income" in described
    assert not {"age", "since"} & set(described)


@pytest.mark.process
def test_the_version_is_printed() -> None:
    assert process("--version").stdout == f"sepgp {sepgp.__version__}\n"


def test_the_data_sets_are_listed(tmp_path) -> None:
    done = run("data", "--data", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nycflights13" in done.stdout


def test_a_model_is_updated_in_its_place(folder, tmp_path) -> None:
    path = tmp_path / "m.sepgp"
    path.write_bytes((folder / "m.sepgp").read_bytes())
    done = run("update", path, folder / "new.csv")
    assert done.returncode == 0, done.stderr
    assert sepgp.load(path).model_.n_seen == sepgp.load(folder / "m.sepgp").model_.n_seen + 100


def train(folder, out, *more):
    """Arguments of a short training."""
    return ["train", folder / "loans.csv", "--target", "defaulted", "--out", out / "m.sepgp",
            "--inducing", 10, *more]  # fmt: skip


@pytest.mark.slow
def test_progress_lines_have_the_validation_nll(folder, tmp_path) -> None:
    done = run(*train(folder, tmp_path, "--steps", 60))
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("step ")]
    assert line.startswith("step 60  done after ")
    assert "rows/s" in line
    assert "\r" not in done.stderr
    history = sepgp.load(tmp_path / "m.sepgp").history_["validation_nll"]
    assert list(np.flatnonzero(~np.isnan(history))) == [9, 19, 29, 39, 49, 59]
    assert "evidence -0." in line
    assert line.endswith(f"validation NLL {history[-1]:.4f}")


@pytest.mark.slow
def test_the_held_out_rows_are_those_evaluated(folder, tmp_path) -> None:
    done = run(*train(folder, tmp_path, "--steps", 60, "--validation", 0.3))
    assert done.returncode == 0, done.stderr
    best = np.nanmin(sepgp.load(tmp_path / "m.sepgp").history_["validation_nll"])
    (row,) = [line for line in done.stdout.splitlines() if "log-likelihood" in line]
    assert f" {best:.4f} " in row
    assert re.match(r"1\d\d held-out rows of \S*loans.csv", done.stdout)


@pytest.mark.slow
def test_without_validation_nothing_is_held_out(folder, tmp_path) -> None:
    done = run(*train(folder, tmp_path, "--steps", 5, "--validation", 0))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "NLL" not in done.stderr
    assert "400 training rows of 5 columns" in done.stderr


@pytest.mark.slow
def test_quiet_says_nothing_but_the_results(folder, tmp_path) -> None:
    done = run("train", folder / "loans.csv", "--target", "defaulted", "--out",
               tmp_path / "m.sepgp", "--inducing", 5, "--steps", 5, "--quiet")  # fmt: skip
    assert done.returncode == 0
    assert done.stderr == ""


MISTAKES = {
    "missing data": (["train", "nowhere.csv", "--target", "y"], "There is no file 'nowhere.csv'"),
    "missing target": (["train", "loans.csv", "--target", "late"], "no column 'late'"),
    "missing column": (
        ["train", "loans.csv", "--target", "defaulted", "--columns", "age,shoe"],
        "no column 'shoe'",
    ),
    "three labels": (["train", "loans.csv", "--target", "city"], "in column 'city' has no label"),
    "unknown method": (
        ["train", "loans.csv", "--target", "defaulted", "--method", "vb"],
        "--method='vb' is unknown",
    ),
    "no such folder": (
        ["train", "loans.csv", "--target", "defaulted", "--out", "no/m.sepgp"], "make it first"
    ),
    "empty file": (["train", "empty.csv", "--target", "y"], "empty.csv"),
    "no model": (["predict", "nothing.sepgp", "new.csv"], "nothing.sepgp cannot be read"),
    "a table for a model": (["info", "loans.csv"], "loans.csv is damaged or was not written"),
    "to keep what is not there": (
        ["predict", "m.sepgp", "new.csv", "--keep", "id"], "no column 'id'"
    ),
    "to keep what is said": (
        ["predict", "m.sepgp", "new.csv", "--keep", "label"], "--keep=label would be a second"
    ),
    "a table without a column": (["predict", "m.sepgp", "short.csv"], "no column 'income'"),
    "unknown labels": (["evaluate", "m.sepgp", "odd.csv"], "label 'maybe'"),
    "a model for a table": (["train", "m.sepgp", "--target", "y"], "m.sepgp"),
    "too few rows to hold some out": (
        ["train", "few.csv", "--target", "defaulted", "--validation", "0.01"],
        "--validation=0.01 holds out no row of few.csv",
    ),
    "nothing to go on from": (
        ["train", "loans.csv", "--target", "defaulted", "--resume"],
        "There is no checkpoint model.sepgp.ckpt to go on from",
    ),
    "a table for a checkpoint": (
        ["train", "loans.csv", "--target", "defaulted", "--checkpoint", "new.csv"],
        "new.csv is damaged or was not written by sepgp",
    ),
    "a table to resume from": (
        ["train", "loans.csv", "--target", "defaulted", "--checkpoint", "new.csv", "--resume"],
        "new.csv is damaged or was not written by sepgp",
    ),
    "a folder for a model": (
        ["train", "loans.csv", "--target", "defaulted", "--out", "."], "is a folder"
    ),
    "predictions from nothing": (["predict", "m.sepgp", "empty.csv"], "empty.csv"),
    "predictions from a header": (["predict", "m.sepgp", "header.csv"], "header.csv has no rows"),
    "scores of a header": (["evaluate", "m.sepgp", "header.csv"], "header.csv has no rows"),
    "scores of another file": (["evaluate", "m.sepgp", "m.sepgp"], "m.sepgp"),
    "scores by no model": (["evaluate", "loans.csv", "new.csv"], "loans.csv is damaged"),
    "an update from nowhere": (["update", "m.sepgp", "nowhere.csv"], "no file 'nowhere.csv'"),
    "a column to drop that is not there": (
        ["train", "loans.csv", "--target", "defaulted", "--drop", "agee"],
        "--drop names 'agee', which is not among 'age'",
    ),
    "a misspelt column": (
        ["train", "loans.csv", "--target", "Defauted"], "name 'defaulted' or another that it has"
    ),
    "one class": (
        ["train", "same.csv", "--target", "defaulted"],
        "same.csv contains one class only ('no')",
    ),
    "an ending of another kind of file": (
        ["predict", "m.sepgp", "new.csv", "--out", "p.xlsx"],
        "--out=p.xlsx is neither .csv nor .parquet",
    ),
    "an unwritable output": (
        ["predict", "m.sepgp", "new.csv", "--out", "nowhere/p.csv"],
        "--out=nowhere/p.csv is in a folder that is not there",
    ),
    "an update without a column": (["update", "m.sepgp", "short.csv"], "short.csv has no column"),
    "an update with other labels": (["update", "m.sepgp", "odd.csv"], "the label 'maybe'"),
    "an update of nothing": (["update", "nothing.sepgp", "new.csv"], "nothing.sepgp cannot be"),
    "an update to nowhere": (
        ["update", "m.sepgp", "new.csv", "--out", "no/m.sepgp"], "make it first"
    ),
    "an update by a header": (["update", "m.sepgp", "header.csv"], "header.csv has no rows"),
    "a set that nobody knows": (["data", "fetch", "titanic"], "There is no data set 'titanic'"),
    "flights from nowhere": (
        ["data", "airline", "a.bz2", "b.csv", "--data", "."],
        "b.csv cannot be read",
    ),
    "a report on nothing": (["report", "nothing.sepgp", "new.csv"], "nothing.sepgp cannot be read"),
    "a report to nowhere": (["report", "m.sepgp", "new.csv", "--out", "no/r.html"], "no/r.html"),
    "a report without labels": (["report", "m.sepgp", "bare.csv"], "no column 'defaulted'"),
    "a report on a header": (["report", "m.sepgp", "header.csv"], "header.csv has no rows"),
    "no labels": (["evaluate", "m.sepgp", "bare.csv"], "no column 'defaulted'"),
    "no inducing points": (
        ["train", "loans.csv", "--target", "defaulted", "--inducing", "0"],
        "--inducing=0 must be",
    ),
    "labels among the columns": (
        ["train", "loans.csv", "--target", "defaulted", "--columns", "age,defaulted"],
        "--columns contains the target",
    ),
    "no such weights": (["evaluate", "m.sepgp", "new.csv", "--weight", "w"], "no column 'w'"),
    "weights of zero": (
        ["evaluate", "m.sepgp", "zero.csv", "--weight", "w"], "no rows of positive weight"
    ),
    "a negative weight": (
        ["report", "m.sepgp", "odd.csv", "--weight", "w"], "give a weight of at least 0"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "match"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gets_one_line(folder, arguments, match) -> None:
    before = sorted(os.listdir(with_bad_tables(folder)))
    assert_one_line(run(*arguments, cwd=folder), match)
    assert sorted(os.listdir(folder)) == before


def with_bad_tables(folder):
    """The folder, now with tables that commands refuse."""
    (folder / "empty.csv").write_text("")
    new = loans(20, 2)
    new[:0].to_csv(folder / "header.csv", index=False)
    new[:8].to_csv(folder / "few.csv", index=False)
    new[["age"]].to_csv(folder / "short.csv", index=False)
    new.assign(defaulted="maybe", w=-1).to_csv(folder / "odd.csv", index=False)
    new.assign(defaulted="no").to_csv(folder / "same.csv", index=False)
    new.assign(w=0).to_csv(folder / "zero.csv", index=False)
    new.drop(columns="defaulted").to_csv(folder / "bare.csv", index=False)
    return folder


# One of every command.
PROCESSES = [
    "missing target", "a table without a column", "weights of zero", "a table for a model",
    "a report on a header", "an update with other labels", "a set that nobody knows",
]  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("mistake", PROCESSES)
def test_a_mistake_of_a_process_gets_one_line(folder, mistake) -> None:
    arguments, match = MISTAKES[mistake]
    before = sorted(os.listdir(with_bad_tables(folder)))
    assert_one_line(process(*arguments, cwd=folder), match)
    assert sorted(os.listdir(folder)) == before


TRAIN = ["train", "loans.csv", "--target", "defaulted"]
OVERWRITTEN = [
    ([*TRAIN, "--out", "OUT"], "loans.csv"),
    ([*TRAIN, "--checkpoint", "OUT"], "loans.csv"),
    ([*TRAIN, "--checkpoint", "OUT", "--resume"], "loans.csv"),
    ([*TRAIN, "--checkpoint", "OUT", "--out", "m.sepgp"], "m.sepgp"),
    (["train", "lines", "--target", "defaulted", "--out", "OUT"], "lines/a.ndjson"),
    (["train", "packed", "--target", "defaulted", "--out", "OUT"], "packed/a.csv.bz2"),
    (["train", "linked", "--target", "defaulted", "--out", "OUT"], "parts/deep/a.csv"),
    (["train", "parts", "--target", "defaulted", "--out", "OUT"], "parts/deep/a.csv"),
    (["train", "parts/*/?.csv", "--target", "defaulted", "--out", "OUT"], "parts/deep/a.csv"),
    (["train", "part*", "--target", "defaulted", "--out", "OUT"], "parts/deep/a.csv"),
    (["predict", "m.sepgp", "new.csv", "--out", "OUT"], "new.csv"),
    (["predict", "m.sepgp", "new.csv", "--out", "OUT"], "m.sepgp"),
    (["predict", "m.sepgp", "parts", "--out", "OUT"], "parts/deep/a.csv"),
    (["report", "m.sepgp", "new.csv", "--out", "OUT"], "new.csv"),
    (["report", "m.sepgp", "new.csv", "--out", "OUT"], "m.sepgp"),
    (["update", "m.sepgp", "new.csv", "--out", "OUT"], "new.csv"),
    (["update", "OUT", "new.csv"], "new.csv"),
]
DEFAULTS = [
    (TRAIN, "model.sepgp", "loans.csv"),
    (TRAIN, "model.sepgp.ckpt", "loans.csv"),
    (["predict", "m.sepgp", "new.csv"], "predictions.parquet", "m.sepgp"),
    (["predict", "m.sepgp", "new.csv"], "predictions.parquet", "new.csv"),
    (["report", "m.sepgp", "new.csv"], "report.html", "m.sepgp"),
    (["report", "m.sepgp", "new.csv"], "report.html", "new.csv"),
    (["data", "airline", "loans.csv", "new.csv", "--data", "."],
     "airline_2008_jan_apr.parquet", "loans.csv"),
    (["data", "airline", "loans.csv", "new.csv", "--data", "."],
     "airline_2008_jan_apr.parquet.sha256", "new.csv"),
]  # fmt: skip
LINKS = {
    "equal": lambda file, link: file,
    "spelled otherwise": lambda file, link: file.parent / ".." / file.parent.name / file.name,
    "relative": lambda file, link: Path(os.path.relpath(file, link.parent)),
    "in a linked folder": lambda file, link: link.symlink_to(file.parent) or link / file.name,
    "symbolic link": lambda file, link: link.symlink_to(file) or link,
    "link to a link": lambda file, link: (
        (link.parent / "between").symlink_to(file) or link.symlink_to("between") or link
    ),
    "hard link": lambda file, link: link.hardlink_to(file) or link,
}


def assert_nothing_is_overwritten(folder, *arguments) -> None:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    before = [(path, path.is_symlink(), path.read_bytes()) for path in files]
    assert_one_line(run(*arguments, cwd=folder), "; name another file.")
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    assert [(path, path.is_symlink(), path.read_bytes()) for path in files] == before


@pytest.fixture
def inputs(folder, tmp_path):
    """A folder with a model and data, also in folders."""
    (tmp_path / "parts" / "deep").mkdir(parents=True)
    for name in ("m.sepgp", "loans.csv", "new.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "parts" / "deep" / "a.csv").write_bytes((folder / "new.csv").read_bytes())
    for name in ("lines/a.ndjson", "packed/a.csv.bz2"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "parts").symlink_to(tmp_path / "parts")
    return tmp_path


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize(("arguments", "file"), OVERWRITTEN)
def test_an_output_that_was_an_input_overwrote_it(inputs, arguments, file, link) -> None:
    out = link(inputs / file, inputs / "link")
    arguments = [str(out) if argument == "OUT" else argument for argument in arguments]
    assert_nothing_is_overwritten(inputs, *arguments)


@pytest.mark.parametrize("link", ["symbolic link", "link to a link", "hard link"])
@pytest.mark.parametrize(("arguments", "name", "file"), DEFAULTS)
def test_a_default_output_that_led_to_an_input_overwrote_it(
    inputs, arguments, name, file, link
) -> None:
    LINKS[link](inputs / file, inputs / name)
    assert_nothing_is_overwritten(inputs, *arguments)


@pytest.mark.process
@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_standard_input_was_overwritten(inputs, link) -> None:
    out, before = link(inputs / "new.csv", inputs / "link.csv"), (inputs / "new.csv").read_bytes()
    for arguments in (["predict", "m.sepgp", "-"], ["update", "m.sepgp", "-"]):
        with open(inputs / "new.csv") as file:
            done = process(*arguments, "--out", out, stdin=file, cwd=inputs)
        assert_one_line(done, "would overwrite /dev/stdin; name another file.")
        assert (inputs / "new.csv").read_bytes() == before


def test_endings_of_models_are_none_of_tables() -> None:
    known = {ending for endings in FORMATS.values() for ending in endings} | set(COMPRESSED)
    assert known <= set(TABLES)


def test_a_checkpoint_in_the_place_of_the_model_is_refused(inputs) -> None:
    assert_nothing_is_overwritten(inputs, *TRAIN, "--out", "new.sepgp", "--checkpoint", "new.sepgp")


def test_predictions_of_an_earlier_run_are_not_read_and_overwritten(inputs) -> None:
    (inputs / "parts" / "predictions.parquet").write_bytes(b"")
    assert_nothing_is_overwritten(inputs / "parts", "predict", "../m.sepgp", ".")


@pytest.mark.slow
def test_a_model_beside_its_data_is_replaced(inputs) -> None:
    for _ in range(2):
        done = run("train", ".", "--target", "defaulted", "--steps", 2, "--inducing", 5,
                   cwd=inputs / "parts")  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_results_among_the_data_are_refused(name, tmp_path, monkeypatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for out in (tmp_path, tmp_path / "link"):
        done = run("reproduce", name, "--data", tmp_path, "--out", out)
        assert_one_line(done, "is the folder with the data; name another folder")
        monkeypatch.setenv("SEPGP_DATA", str(tmp_path))
        assert_one_line(run("reproduce", name, "--out", out), "is the folder with the data")


@pytest.mark.parametrize(
    ("command", "endings"),
    [
        (TRAIN, ["csv", "parquet", "html", "pdf", "XLSX"]),
        (["update", "m.sepgp", "new.csv"], ["csv", "html", "pdf"]),
        (["predict", "m.sepgp", "new.csv"], ["xlsx", "pdf", "html", "sepgp", "json"]),
        (["report", "m.sepgp", "new.csv"], ["pdf", "csv", "sepgp", "md"]),
    ],
    ids=["train", "update", "predict", "report"],
)
def test_an_ending_of_another_kind_of_file_is_refused(folder, command, endings) -> None:
    for ending in endings:
        done = run(*command, "--out", f"result.{ending}", cwd=folder)
        assert_one_line(done, f"Error: --out=result.{ending} is n")
    assert not list(folder.glob("result*"))


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("table1", "australian"),
        ("figure2", "mnist"),
        ("figure3", "mnist"),
        ("powers", "australian"),
        ("classes", "vehicle"),
    ],
)
def test_an_experiment_without_its_data_gets_a_sentence(name, missing, tmp_path) -> None:
    done = run("reproduce", name, "--data", tmp_path, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert re.search(rf"^Error: .*{missing}\.\w+ cannot be read", done.stderr, re.MULTILINE)
    assert not (tmp_path / "out").exists()


def test_a_column_like_an_identifier_brings_one_line(tmp_path) -> None:
    loans(250, 0).assign(number=range(250)).to_csv(tmp_path / "loans.csv", index=False)
    done = run("train", "loans.csv", "--target", "defaulted", "--steps", 1, "--quiet", cwd=tmp_path)
    assert_one_line(done, "Warning: Column 'number' has a different whole number in", code=0)
    assert done.stderr.endswith("leave it out (--drop 'number').\n")


def test_an_unknown_option_is_a_usage_error() -> None:
    assert run("train", "--colour", "red").returncode == 2


def started(arguments, until, **options):
    """Start a command and wait until it has come so far."""
    command = [sys.executable, "-m", "sepgp", *map(str, arguments)]
    given = {"env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, **(given | options))
    while not until():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process


def on_a_terminal(arguments, until, number):
    """Send a command a signal when it says something; its code, and all it said in the end."""
    master, slave = pty.openpty()
    process = started(arguments, lambda: True, stderr=slave)
    os.close(slave)
    said = b""
    try:
        while part := os.read(master, 4096):
            if until.encode() in part and until.encode() not in said:
                process.send_signal(number)
            said += part
    except OSError:  # the other end is closed
        os.close(master)
    out, _ = process.communicate()
    return process.returncode, out, said.decode()


SIGNALS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)


@pytest.mark.process
@SIGNALS
def test_a_signal_keeps_the_best_model_and_the_run_goes_on(folder, tmp_path, number, code) -> None:
    arguments = train(folder, tmp_path, "--steps", 3000, "--no-early-stopping")
    ended, out, said = on_a_terminal(arguments, "step ", number)
    assert ended == code, said
    assert "Traceback" not in said
    assert "to go on, add --resume to the same command" in said
    *_, last, _ = re.findall(r"step [^\r]*", said)
    assert " stopped after " in last
    assert " left" not in last
    assert out == ""  # what takes time is left out
    early = sepgp.load(tmp_path / "m.sepgp")
    assert 0 < early.n_iter_ < 3000
    assert np.isfinite(early.history_["validation_nll"][-1])
    assert f"Stopped at step {early.n_iter_};" in said

    refused = run(*arguments)
    assert_one_line(refused, "m.sepgp.ckpt holds a run that was not finished; add --resume")
    done = run(*arguments, "--resume")
    assert done.returncode == 0, done.stderr
    late = sepgp.load(tmp_path / "m.sepgp")
    assert late.n_iter_ == 3000
    before = early.n_iter_ - 1  # the last step of a stopped run is not taken over
    for name in ("log_evidence", "validation_nll"):
        assert_array_equal(late.history_[name][:before], early.history_[name][:before])
    assert sorted(os.listdir(tmp_path)) == ["m.sepgp", "m.sepgp.ckpt"]


@pytest.mark.process
def test_a_signal_before_the_first_step_ends_at_once(folder, tmp_path) -> None:
    """Here while the rows still come through a pipe."""
    environment = {**ENVIRONMENT, "TMPDIR": str(tmp_path)}
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        arguments = ["train", "-", "--target", "y", "--out", tmp_path / "m.sepgp"]
        process = started(
            arguments, lambda: [*tmp_path.glob("*/*.csv")], env=environment, stdin=subprocess.PIPE
        )
        process.send_signal(number)
        assert process.communicate() == ("", "Stopped.\n")
        assert process.returncode == code
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("going_on", [False, True])
def test_a_signal_right_before_the_first_step_says_so(folder, tmp_path, monkeypatch, going_on):
    arguments = train(folder, tmp_path, "--steps", 5)
    if going_on:
        unfinished(arguments, monkeypatch)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    interrupt = lambda *_: signal.raise_signal(signal.SIGINT)  # noqa: E731
    monkeypatch.setattr("sepgp.training.loop.EarlyStop", interrupt)
    done = run(*arguments, *(["--resume"] if going_on else []))
    assert done.returncode == 130
    assert done.stderr.endswith("No step was made, and no model was written.\nStopped.\n")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@SIGNALS
def test_a_signal_while_the_model_is_saved_lost_it(
    folder, tmp_path, monkeypatch, number, code
) -> None:
    def save(self, path, save=sepgp.GPClassifier.save):
        signal.raise_signal(number)
        save(self, path)

    monkeypatch.setattr("sepgp.GPClassifier.save", save)
    done = run(*train(folder, tmp_path, "--steps", 5, "--method", "ep"))
    assert done.returncode == code
    assert "Stopped at step 5; with --checkpoint another run could go on." in done.stderr
    assert sepgp.load(tmp_path / "m.sepgp").n_iter_ == 5


def unfinished(arguments, monkeypatch) -> None:
    """Stop a training after its third step."""
    with monkeypatch.context() as patch:
        stop = lambda self, number, record: number == 3 and signal.raise_signal(signal.SIGINT)  # noqa: E731
        patch.setattr("sepgp.training.early_stop.EarlyStop.see", stop)
        assert run(*arguments).returncode == 130


def test_resume_goes_on_with_more_steps(folder, tmp_path, monkeypatch) -> None:
    arguments = train(folder, tmp_path, "--steps", 5)
    unfinished(arguments, monkeypatch)
    assert sepgp.load(tmp_path / "m.sepgp").n_iter_ == 4
    assert run(*arguments, "--steps", 12, "--resume").returncode == 0
    assert sepgp.load(tmp_path / "m.sepgp").n_iter_ == 12


@pytest.mark.slow
def test_a_finished_run_goes_on_with_more_steps_or_says_that_it_is_finished(folder, tmp_path):
    arguments = train(folder, tmp_path, "--steps", 5)
    assert run(*arguments).returncode == 0
    done = run(*arguments, "--resume")
    assert done.returncode == 0, done.stderr
    assert "The run was finished already; more --steps or --time-budget go on" in done.stderr
    assert run(*arguments, "--steps", 12, "--resume").returncode == 0
    assert sepgp.load(tmp_path / "m.sepgp").n_iter_ == 12
    assert run(*arguments).returncode == 0  # anew
    assert sepgp.load(tmp_path / "m.sepgp").n_iter_ == 5


@pytest.mark.slow
def test_train_says_its_classes_and_whose_probability_is_told(folder, tmp_path) -> None:
    counts = loans(400, 0)["defaulted"].value_counts()
    for positive in ("yes", "no"):
        done = run(*train(folder, tmp_path, "--steps", 2, "--positive", positive))
        said = f"Classes (rows): no ({counts['no']}), yes ({counts['yes']}); probabilities are"
        assert f"{said} those of {positive}." in done.stderr


@pytest.mark.slow
def test_rows_without_a_label_can_be_left_out(folder, tmp_path) -> None:
    table = loans(200, 0)
    table.loc[:20, "defaulted"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "m.sepgp"
    arguments = ("train", tmp_path / "t.csv", "--target", "defaulted", "--steps", 2,
                 "--inducing", 5, "--out", model)  # fmt: skip
    refused = run(*arguments)
    assert_one_line(refused, "in 21 rows, such as that with")
    assert refused.stderr.endswith("or drop these rows (--drop-unlabelled).\n")
    done = run(*arguments, "--drop-unlabelled")
    assert done.returncode == 0, done.stderr
    for command in ("evaluate", "report", "update"):
        out = ("--out", tmp_path / "r.html") if command == "report" else ()
        assert_one_line(run(command, model, tmp_path / "t.csv", *out), "--drop-unlabelled")
        done = run(command, model, tmp_path / "t.csv", "--drop-unlabelled", *out)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_column_whose_name_has_a_comma_is_dropped(folder, tmp_path) -> None:
    loans(60, 0).rename(columns={"age": "age, in years"}).to_csv(tmp_path / "t.csv", index=False)
    done = run("train", tmp_path / "t.csv", "--target", "defaulted", "--steps", 2, "--inducing", 5,
               "--drop", "age, in years", "--out", tmp_path / "m.sepgp")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "age, in years" not in sepgp.load(tmp_path / "m.sepgp").feature_names_in_


@pytest.mark.process
@SIGNALS
@pytest.mark.parametrize("command", ["predict", "evaluate", "update"])
def test_a_signal_leaves_no_half_written_files(folder, tmp_path, command, number, code) -> None:
    environment = {**ENVIRONMENT, "TMPDIR": str(tmp_path)}
    arguments = [command, folder / "m.sepgp", "-"]
    process = started(
        arguments, lambda: [*tmp_path.glob("*/*.csv")], env=environment, cwd=tmp_path,
        stdin=subprocess.PIPE,
    )  # fmt: skip
    process.send_signal(number)
    assert process.communicate() == ("", "Stopped.\n")
    assert process.returncode == code
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_ep_keeps_a_checkpoint_only_if_asked(folder, tmp_path) -> None:
    arguments = train(folder, tmp_path, "--method", "ep", "--steps", 5)
    done = run(*arguments, "--resume")
    assert_one_line(done, "There is no checkpoint")
    (tmp_path / "m.sepgp.ckpt").write_text("something else")
    assert run(*arguments).returncode == 0
    assert (tmp_path / "m.sepgp.ckpt").read_text() == "something else"


def test_parts_are_disjoint_and_the_same_at_every_reading(folder) -> None:
    rows = open_rows(folder / "loans.csv", target="defaulted")
    parts = [SplitRows(rows, 0.3, 0, held_out) for held_out in (False, True)]

    def ages(part, size, skip=0):
        return np.concatenate([block.X["income"].to_numpy() for block in part.read(0, skip, size)])

    whole = [ages(part, 1000) for part in parts]
    assert sum(map(len, whole)) == 400
    assert 0.2 < len(whole[1]) / 400 < 0.4
    for part, expected in zip(parts, whole, strict=True):
        assert_array_equal(ages(part, 7), expected)
        assert_array_equal(ages(part, 64, skip=50), expected[50:])


def test_area_under_roc_counts_ties_half() -> None:
    random = np.random.default_rng(0)
    p = np.sort(random.integers(0, 5, 200) / 5)
    y = (random.random(200) < p).astype(float)
    weight = random.integers(0, 3, 200).astype(float)
    area = roc_auc_score(y, p, sample_weight=weight)
    assert_allclose(two_classes.area_under_roc(p, y, weight), area)
    assert np.isnan(two_classes.area_under_roc(p, np.ones(200), weight))


def test_calibration_error_is_zero_for_shares_and_one_for_the_worst() -> None:
    y = np.array([0.0, 1.0])
    assert two_classes.calibration_error(np.array([0.5, 0.5]), y, np.ones(2)) == 0
    assert two_classes.calibration_error(np.array([1.0, 0.0]), y, np.ones(2)) == 1


def test_info_names_columns_as_train_does_and_takes_no_name_for_markup(tmp_path) -> None:
    table = pd.DataFrame({"[red]age[/red]": range(40), "since": pd.date_range("2020", periods=40)})
    sepgp.GPClassifier(n_inducing=5, max_iter=2).fit(table, [0, 1] * 20).save(tmp_path / "m.sepgp")
    done = run("info", "m.sepgp", cwd=tmp_path)
    assert done.returncode == 0
    assert "[red]age[/red]" in done.stdout
    assert re.search(r"since +date", done.stdout)
