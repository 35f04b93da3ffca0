"""More than two classes on the command line and in the report."""

import json

import numpy as np
import pandas as pd
import pytest
from browser import CHROMIUM, Browser
from commandline import run
from markupsafe import escape
from numpy.testing import assert_allclose
from quick import assert_one_sentence, quick
from sklearn import metrics as reference
from test_report import SECTIONS, Page

from sepgp import InvalidData, report
from sepgp.data.rows import ArrayRows
from sepgp.evaluation.metrics import metrics
from sepgp.evaluation.relevance import relevance
from sepgp.evaluation.uncertainty import uncertainty
from sepgp.report.classes import LISTED, listed, tags
from sepgp.report.columns import columns
from sepgp.report.dependence import curve, decision_map
from sepgp.report.findings import SHOWN, findings

HOSTILE = "</script><b>fish</b>&co"
NAMES = np.array(["apple", HOSTILE, "cake", "duck"])


def table(n=240, seed=0):
    """Numbers, a text, a time, a truth value, some of them missing, and four kinds of food."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 2))
    food = (x[:, 0] > 0) + 2 * (x[:, 1] + 0.4 * random.normal(size=n) > 0)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 700, n), unit="D")
    data = pd.DataFrame({"long": x[:, 0], "wide": x[:, 1], "day": day})
    data["shop"] = random.choice(["here & there", "nowhere"], n)
    data["open"] = random.random(n) < 0.5
    data.loc[::9, "wide"] = np.nan
    return data.assign(food=NAMES[food])


@pytest.fixture(scope="module")
def eaten():
    return quick(max_iter=40, n_inducing=20).fit(table(), target="food")


@pytest.fixture(scope="module")
def files(eaten, tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    eaten.save(folder / "model.sepgp")
    table(seed=1).to_csv(folder / "data.csv", index=False)
    return folder


def blobs(n=90, n_classes=3, seed=0):
    random = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return random.normal(size=(n, 2)) + 2.5 * np.stack([np.cos(2 * y), np.sin(2 * y)], 1), y


# --- commands ---------------------------------------------------------------------------------


def test_predictions_have_a_column_per_class(files, eaten):
    out = files / "predictions.csv"
    done = run("predict", files / "model.sepgp", files / "data.csv", "--keep", "day", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "probability is that of the label" in done.stderr
    found = pd.read_csv(out)
    out.unlink()
    X = table(seed=1).drop(columns="food")
    p = eaten.predict_proba(X)
    names = [f"probability_{name}" for name in eaten.classes_]
    assert list(found) == ["day", *names, "label", "probability", "mean", "sd"]
    assert_allclose(found[names], p)
    assert (found["label"] == eaten.predict(X)).all()
    assert_allclose(found["probability"], p.max(1))
    mean, variance = (x[np.arange(len(p)), p.argmax(1)] for x in eaten.predict_latent(X))
    assert_allclose(found["mean"], mean)
    assert_allclose(found["sd"], np.sqrt(variance))


def test_a_kept_column_may_not_be_one_of_the_predictions(files):
    done = run("predict", files / "model.sepgp", files / "data.csv", "--keep", "probability_cake")
    assert done.returncode == 1
    assert "would be a second column of this name" in done.stderr


def test_evaluate_has_the_metrics_of_many_classes(files, eaten):
    done = run("evaluate", files / "model.sepgp", files / "data.csv", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    data = table(seed=1)
    p, y = eaten.predict_proba(data.drop(columns="food")), data["food"]
    assert_allclose(found["nll"]["value"], reference.log_loss(y, p))
    area = reference.roc_auc_score(y, p, multi_class="ovr")
    assert_allclose(found["macro_auc"]["value"], area)
    codes = np.searchsorted(eaten.classes_, y.to_numpy(str))
    loss = -np.log(p[np.arange(len(p)), codes])
    expected = metrics(p, loss, codes, np.ones(len(p)))
    for name, estimate in expected.items():
        assert_allclose(list(found[name].values()), estimate, rtol=1e-6, err_msg=name)
    text = run("evaluate", files / "model.sepgp", files / "data.csv").stdout
    for words in ("class-wise calibration error", "macro AUC", "weighted AUC"):
        assert words in text
    assert "classes that the rows have" not in text


def test_evaluate_says_which_classes_the_areas_are_of(files):
    data = table(seed=1)
    path = files / "few.csv"
    try:
        data[data["food"] != "duck"].to_csv(path, index=False)
        text = run("evaluate", files / "model.sepgp", path).stdout
        assert "AUC is over the 3 of 4 classes that the rows have." in text
        data[data["food"] == "duck"].to_csv(path, index=False)
        text = run("evaluate", files / "model.sepgp", path).stdout
        assert "needs rows of several classes" in text
    finally:
        path.unlink()


def test_a_label_that_none_of_many_classes_has_gets_one_short_sentence():
    X, y = blobs(80, 40)
    with pytest.warns(UserWarning, match="40 whole numbers as classes"):
        model = quick(max_iter=1).fit(X, y)
    with pytest.raises(InvalidData, match=r"the label 77, but .* \[0, 1, .*, …\];") as error:
        findings(model.model_, ArrayRows(X, np.where(y == 3, 77, y)))
    assert_one_sentence(str(error.value))


def test_info_names_the_classes(files):
    text = run("info", files / "model.sepgp").stdout
    assert "4: " in text
    assert "apple" in text


# --- what the report finds --------------------------------------------------------------------


def test_relevance_of_many_classes_by_hand():
    """What moves the functions of all classes together does not count."""
    X, y = blobs()
    model = quick(max_iter=20).fit(np.column_stack([X, X[:, 0]]), y)
    Z = model.inducing_points_
    f = model.predict_latent(Z)[0]
    effects = np.zeros(3)
    for column in range(3):
        for k in range(1, min(10, len(Z) - 1) + 1):
            exchanged = Z.copy()
            exchanged[:, column] = np.roll(Z[:, column], k)
            moved = f - model.predict_latent(exchanged)[0]
            effects[column] += np.square(moved - moved.mean(1, keepdims=True)).mean()
    assert_allclose(list(relevance(model.model_).values()), effects / effects.sum(), rtol=1e-6)


@pytest.mark.slow
def test_findings_do_not_depend_on_blocks(monkeypatch):
    X, y = blobs(200)
    model = quick().fit(X, y)
    rows = ArrayRows(X, y)
    whole = findings(model.model_, rows)
    blocks = rows.blocks
    monkeypatch.setattr(rows, "blocks", lambda: blocks(37))
    parts = findings(model.model_, rows)
    p = model.predict_proba(X)
    bits = uncertainty(*model.predict_latent(X), p)
    for found in (whole, parts):
        for rows_, amount in (
            (found.most_uncertain, bits.noise),
            (found.most_ignorant, bits.ignorance),
        ):
            expected = np.argsort(-amount)[:SHOWN]
            assert_allclose(amount[rows_.numbers - 1], amount[expected], rtol=1e-5)
            assert_allclose(rows_.X, X[rows_.numbers - 1])
            assert_allclose(rows_.p, p.max(1)[rows_.numbers - 1])
            assert (rows_.said == p.argmax(1)[rows_.numbers - 1]).all()
        assert_allclose(found.noise + found.ignorance, bits.total.mean())
        assert_allclose(found.confusion.counts, reference.confusion_matrix(y, p.argmax(1)))
        assert_allclose(found.scores["error"].value, 1 - model.score(X, y))


@pytest.mark.slow
def test_stacks_and_map_by_brute_force(eaten):
    data = table(60, seed=1).drop(columns="food")
    sample = report_sample(eaten)
    weight = np.linspace(0.5, 2, 60)
    long, wide, *_ = columns(eaten.model_)
    found = curve(eaten.model_, None, sample, weight, wide, [-1.0, 1.0])
    assert found.values == [-1.0, 1.0, None]
    p = eaten.predict_proba(data.assign(wide=-1.0))
    assert_allclose(found.p[0], np.average(p, axis=0, weights=weight), rtol=1e-9)
    drawn = decision_map(eaten.model_, sample, weight, long, wide, sample)
    p = eaten.predict_proba(data.assign(long=drawn.xs[3], wide=drawn.ys[5]))
    assert_allclose(drawn.p[5, 3], np.average(p, axis=0, weights=weight), rtol=1e-9)
    assert ((drawn.unlearned > 0) & (drawn.unlearned <= 1)).all()


def report_sample(model):
    from sepgp.data.inputs import Given

    data = table(60, seed=1)
    rows = Given(data, None, None, "food", model.feature_names_in_).rows()
    return findings(model.model_, rows).sample.X


def test_tags_are_short_and_different():
    assert tags(["0", "1", "10"]) == ["0", "1", "10"]
    assert tags(["bus", "opel", "saab", "van"]) == ["bus", "opel", "saab", "van"]
    assert tags(["setosa", "b"]) == ["A", "B"]
    assert tags([str(i) for i in range(200)])[199] == "199"
    many = tags([f"class {i}" for i in range(1000)])
    assert len(set(many)) == 1000
    assert max(map(len, many)) == 3


# --- the page ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(eaten, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    report.write(eaten, table(seed=1), target="food", path=path)
    return path


def test_the_page_has_all_sections_and_is_well_formed(page):
    text = page.read_text(encoding="utf-8")
    parsed = Page(text)
    assert not parsed.open
    wanted = [name for name in SECTIONS if name != "threshold-section"]
    wanted.insert(2, "classes")
    assert [i for i in parsed.ids if i in wanted] == wanted
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert parsed.scripts == 0
    assert HOSTILE not in text
    assert escape(HOSTILE) in text


def test_the_page_names_the_most_frequent_mistake(page, eaten):
    data = table(seed=1)
    said = eaten.predict(data.drop(columns="food"))
    counts = pd.crosstab(data["food"], said)
    counts = counts.where(counts.index.to_numpy()[:, None] != counts.columns.to_numpy(), 0)
    true, wrong = counts.stack().idxmax()
    assert f"<b>{escape(true)}</b> predicted as <b>{escape(wrong)}</b>" in page.read_text()


@pytest.mark.slow
def test_a_class_without_rows_and_rows_of_one_class(eaten, tmp_path):
    data = table(seed=1)
    for kept, words in (
        (data["food"] != "duck", "over the 3 classes that have rows"),
        (data["food"] == "duck", "needs rows of several classes"),
    ):
        report.write(eaten, data[kept], target="food", path=tmp_path / "r.html")
        assert words in (tmp_path / "r.html").read_text()


@pytest.mark.slow
def test_a_page_on_hundreds_of_classes_shows_those_with_most_mistakes(tmp_path):
    X, y = blobs(120, 40)
    with pytest.warns(UserWarning, match="40 whole numbers as classes"):
        model = quick(max_iter=2).fit(X, y)
    report.write(model, X, y, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert f"the {LISTED} classes with most mistakes, of 40" in text
    legend = text[text.index('<p class="legend">') :].split("</p>")[0]
    on_map = findings(model.model_, ArrayRows(X, y)).map.p.argmax(2)
    assert legend.count("swatch") == len(np.unique(on_map)) < 40
    found = findings(model.model_, ArrayRows(X, y)).confusion
    wrong = found.counts - np.diag(np.diag(found.counts))
    mistakes = wrong.sum(0) + wrong.sum(1)
    others = np.setdiff1d(np.arange(40), listed(found))
    assert mistakes[others].max() <= mistakes[listed(found)].min()


@pytest.mark.process
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install the package chromium")
def test_in_a_browser_nothing_sticks_out(page, tmp_path):
    with Browser(tmp_path) as browser:
        for width in (1280, 390):
            for dark in (False, True):
                browser.screen(width, dark)
                browser.open(page)
                assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert browser.complaints == []
