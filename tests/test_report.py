"""The report: its statistics, its page, the command, and the page in a browser."""

import re
import subprocess
import sys
from html import escape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from browser import CHROMIUM, Browser
from numpy.testing import assert_allclose, assert_array_equal
from quick import assert_one_sentence, blobs, quick
from scipy.special import log_ndtr, ndtr
from scipy.stats import binomtest, norm
from sklearn import metrics

from sepgp import InvalidData, kernels, report
from sepgp.data.arrays import merged
from sepgp.data.rows import ArrayRows
from sepgp.errors import WriteFailed
from sepgp.metrics import BINS
from sepgp.metrics import metrics as evaluated
from sepgp.relevance import relevance
from sepgp.report.columns import columns, moment, number
from sepgp.report.dependence import curve, decision_map, grid
from sepgp.report.findings import SHOWN, findings
from sepgp.report.posterior import draw, probabilities, unlearned
from sepgp.report.tally import THRESHOLDS, Tally
from sepgp.report.uncertainty import uncertainty

HOSTILE = "</script><script>alert('column')</script>"
YES, NO = '<b>yes</b> & "so"', "no"


# --- statistics -------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["even", "rare"])
def stated(request):
    """z = Φ⁻¹(p) and outcomes; in the second case one row in fifty is of the second class."""
    random = np.random.default_rng(0)
    z = random.normal(0 if request.param == "even" else -2.5, 1, 3000)
    return z, ndtr(0.7 * z) > random.random(3000)


def test_tally_agrees_with_scikit_learn(stated):
    z, y = stated
    p, tally = ndtr(z), Tally.of(*stated)
    scores = tally.scores()
    assert_allclose(scores.nll, metrics.log_loss(y, p))
    assert_allclose(scores.brier, metrics.brier_score_loss(y, p))
    assert_allclose(scores.error, 1 - metrics.accuracy_score(y, p > 0.5))
    # Rows between two edges count as ties.
    assert_allclose(scores.auc, metrics.roc_auc_score(y, p), atol=5e-5)
    assert_allclose(tally.average_precision(), metrics.average_precision_score(y, p), atol=2e-3)
    assert tally.n_rows == len(y)
    assert tally.totals == (len(y) - y.sum(), y.sum())


def test_the_report_and_evaluate_say_the_same(stated):
    z, y = stated
    found = evaluated(ndtr(z), log_ndtr(np.column_stack([-z, z])), y)
    for name, value in Tally.of(z, y).scores()._asdict().items():
        assert_allclose(value, found[name].value, atol=5e-5, err_msg=name)


def test_curves_agree_with_scikit_learn(stated):
    z, y = stated
    false, true = Tally.of(z, y).roc()
    expected = metrics.roc_curve(y, ndtr(z), drop_intermediate=False)
    assert_allclose(true, np.interp(false, *expected[:2]), atol=0.03)
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    recall, precision = Tally.of(z, y).precision_recall()
    assert_allclose(precision[-1], y.mean())
    sure = np.argsort(-z)
    for r, q in zip(recall[5::200], precision[5::200], strict=True):
        first = sure[: round(r * y.sum() / q)]  # as many rows as are above the threshold
        assert_allclose((y[first].sum() / y.sum(), y[first].mean()), (r, q), rtol=1e-12)


def test_expected_calibration_error_by_brute_force(stated):
    z, y = stated
    p = ndtr(z)
    gaps = []
    for k in range(BINS):
        inside = (p >= k / BINS) & (p < (k + 1) / BINS)
        if inside.any():
            gaps.append(inside.mean() * abs(p[inside].mean() - y[inside].mean()))
    assert_allclose(Tally.of(z, y).ece(), sum(gaps))


def test_intervals_of_the_reliability_diagram(stated):
    bins = Tally.of(*stated).reliability()
    assert bins.rows.sum() == len(stated[0])
    for count, _, observed, low, high in zip(*bins, strict=True):
        expected = binomtest(round(observed * count), count).proportion_ci(method="wilson")
        assert_allclose((low, high), expected, atol=1e-6)


def test_counts_at_every_threshold(stated):
    z, y = stated
    p, counts = ndtr(z), Tally.of(z, y).positives()
    said = p >= THRESHOLDS[:, None]
    assert_array_equal(counts, [(said & ~y).sum(1), (said & y).sum(1)])
    for k in (0, 250, 500, 998):
        _, false, _, true = metrics.confusion_matrix(y, said[k]).ravel()
        assert counts[:, k].tolist() == [false, true]


def test_a_probability_on_a_threshold_is_at_or_above_it():
    counts = Tally.of(norm.ppf([0.25, 0.5, 0.75]), np.array([True, True, True])).positives()
    assert counts[1, [499, 500]].tolist() == [2, 1]


def test_tallies_add_up(stated):
    z, y = stated
    parts = Tally.of(z[:1000], y[:1000]).plus(Tally.of(z[1000:], y[1000:]))
    for part, whole in zip(parts, Tally.of(z, y), strict=True):
        assert_allclose(part, whole)
    assert_array_equal(parts.histogram(50).sum(1), parts.totals)


def test_one_class_only():
    tally = Tally.of(np.array([0.1, 2.0]), np.array([False, False]))
    assert np.isnan(tally.auc())
    assert np.isnan(tally.average_precision())
    assert tally.scores().error == 1.0


@pytest.mark.parametrize("deviation", [0.0, 0.3, 0.99, 1.0, 4.0, 60.0])
def test_noise_and_ignorance_by_monte_carlo(deviation):
    mean = np.array([-6.0, -1.0, 0.0, 0.4, 3.0])
    parts = uncertainty(mean, np.full(5, deviation**2))
    random = np.random.default_rng(0)
    f = mean[:, None] + deviation * random.standard_normal((5, 400_000))
    p = ndtr(f)
    noise = metrics_entropy(p).mean(1)
    assert_allclose(parts.noise, noise, atol=4e-3)
    assert_allclose(parts.ignorance, metrics_entropy(p.mean(1)) - noise, atol=4e-3)
    assert (parts.ignorance >= 0).all()
    assert_allclose(parts.total, metrics_entropy(ndtr(mean / np.sqrt(1 + deviation**2))))
    if deviation == 0:
        assert_allclose(parts.ignorance, 0, atol=1e-12)


def test_the_quadrature_is_exact():
    """Against a rule with forty times as many nodes."""
    t = np.linspace(-12, 12, 4001)
    weights = norm.pdf(t) * (t[1] - t[0])
    for mean, deviation in [(0.0, 0.5), (2.0, 0.999), (-1.0, 1.001), (3.0, 2.0)]:
        expected = metrics_entropy(ndtr(mean + deviation * t)) @ weights
        found = uncertainty(np.array([mean]), np.array([deviation**2])).noise
        assert_allclose(found, expected, rtol=1e-9)


def metrics_entropy(p):
    p = np.clip(p, 1e-300, 1 - 1e-16)
    return -(p * np.log2(p) + (1 - p) * np.log2(1 - p))


# --- columns ----------------------------------------------------------------------------------


def table(n=400, seed=0):
    """Numbers, text, times and truth values, some of them missing, with hostile names."""
    random = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "age": random.integers(18, 90, n).astype(float),
            HOSTILE: random.choice(["<i>", "a & b", "plain"], n),
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n), "D"),
            "member": random.random(n) < 0.5,
        }
    )
    score = (data["age"] - 50) / 20 + (data[HOSTILE] == "plain") + random.normal(0, 0.5, n)
    data["bought"] = np.where(score > 0, YES, NO)
    data.loc[::9, "age"] = np.nan
    data.loc[::11, HOSTILE] = None
    return data


@pytest.fixture(scope="module")
def bought():
    return quick(max_iter=40, n_inducing=20).fit(table(), target="bought")


def test_columns_and_their_relevance(bought):
    known = columns(bought)
    kinds = {"age": "number", HOSTILE: "text", "joined": "time", "member": "number"}
    assert {column.name: column.kind for column in known} == kinds
    shares = relevance(bought)
    assert list(shares) == [column.name for column in known]
    # By hand: the sum of 1/ℓ² over the features of each column, but for those that never change.
    speed = 1 / bought.kernel_.lengthscale.detach().numpy() ** 2
    features = bought.encoding_.encode(pa.table(table().drop(columns="bought")))
    same = features.std(0) < 1e-9
    assert same.sum() == 3  # the place in the day of midnights, and no other text
    speed[same] = 0
    sizes = np.cumsum([len(encoder.features) for encoder in bought.encoding_.encoders])
    by_hand = [part.sum() for part in np.split(speed, sizes[:-1])]
    assert_allclose(list(shares.values()), by_hand / np.sum(by_hand))
    assert shares["age"] > shares["member"]


def test_relevance_of_composed_kernels():
    X, y = blobs(d=3)
    short, flat = kernels.RBF([0.5, 5.0, 50.0]), kernels.Constant()
    for kernel in (short + flat, flat * short, short + kernels.White()):
        model = quick(kernel=kernel, learn_kernel=False).fit(X, y)
        speed = np.array([0.5, 5.0, 50.0]) ** -2
        assert_allclose(list(relevance(model).values()), speed / speed.sum())
    model = quick(kernel=kernels.RBF() + kernels.Linear(), max_iter=2).fit(X, y)
    assert_allclose(sum(relevance(model).values()), 1)
    constant = quick(kernel=short, learn_kernel=False).fit(X * [0, 1, 1], y)
    assert relevance(constant)["feature 0"] == 0


def test_a_kernel_without_length_scales(tmp_path):
    import torch

    X, y = blobs()
    map_ = kernels.FeatureMap(torch.nn.Linear(2, 2), kernels.RBF())
    model = quick(kernel=map_, max_iter=2).fit(X, y)
    assert relevance(model) == {}
    report.write(model, X, y, tmp_path / "r.html")
    assert "no length-scales" in (tmp_path / "r.html").read_text()


def test_partial_dependence_by_brute_force(bought):
    data = table(60, seed=1).drop(columns="bought")
    sample = findings(bought, rows_of(bought, table(60, seed=1))).sample.X
    draws = draw(bought, 50)
    for column in columns(bought):
        found = curve(bought, draws, sample, column, grid(sample, column))
        for value, p in list(zip(found.values, found.p, strict=True))[:3]:
            if column.kind == "time" and value is not None:
                value = pd.Timestamp(round(value), unit="us")
            changed = data.assign(**{column.name: value})
            if value is None:
                changed = changed.astype({column.name: data[column.name].dtype})
            assert_allclose(p, bought.predict_proba(changed)[:, 1].mean(), rtol=1e-9)
        assert (found.low <= found.high).all()
        assert (found.low < found.p + 0.02).all()
        assert (found.p - 0.02 < found.high).all()
    assert found.values == [0.0, 1.0]


def test_draws_have_the_predicted_probability_for_their_mean():
    X, y = blobs(80)
    model = quick().fit(X, y)
    p = probabilities(model, draw(model, 20_000), X)
    assert_allclose(p.mean(1), model.predict_proba(X)[:, 1], atol=0.01)


def test_far_from_all_rows_nothing_was_learned():
    X, y = blobs(200)
    left = unlearned(quick(standardize=False).fit(X, y), np.array([X.mean(0), [1e3, 1e3]]))
    assert left[0] < 0.8
    assert_allclose(left[1], 1, atol=1e-3)


def test_the_map_by_brute_force(bought):
    sample = findings(bought, rows_of(bought, table(60, seed=1))).sample.X
    age, text, *_ = columns(bought)
    found = decision_map(bought, sample, age, text, sample)
    assert found.p.shape == (len(found.ys), len(found.xs))
    data = table(60, seed=1).drop(columns="bought")
    changed = data.assign(**{"age": found.xs[7], HOSTILE: found.ys[1]})
    assert_allclose(found.p[1, 7], bought.predict_proba(changed)[:, 1].mean(), rtol=1e-9)
    assert ((found.unlearned > 0) & (found.unlearned <= 1)).all()


def rows_of(model, data):
    from sepgp.inputs import training_rows

    return training_rows(data, None, None, "bought", model.feature_names_in_)


def test_values_as_people_read_them():
    numbers = [3.0, -12.0, 0.123456, 1234567.8, 40000.0, 3e-9, float("nan")]
    shown = ["3", "-12", "0.1235", "1,234,568", "40,000", "3e-09", "missing"]
    assert [number(value) for value in numbers] == shown
    assert moment(0.0) == "1970-01-01"
    assert moment(1.6e15) == "2020-09-13 12:26"


# --- the rows ---------------------------------------------------------------------------------


def test_uncertain_rows_do_not_depend_on_blocks(monkeypatch):
    X, y = blobs(500)
    model = quick().fit(X, y)
    rows = ArrayRows(X, y)
    whole = findings(model, rows)
    blocks = rows.blocks
    monkeypatch.setattr(rows, "blocks", lambda: blocks(37))
    parts = findings(model, rows)
    ignorance = uncertainty(*model.predict_latent(X)).ignorance
    expected = np.argsort(-ignorance)[:SHOWN]
    for found in (whole, parts):
        assert_array_equal(found.most_ignorant.numbers, expected + 1)
        assert_array_equal(found.most_ignorant.X, X[expected])
        assert_array_equal(found.most_uncertain.numbers, whole.most_uncertain.numbers)
        assert_allclose(found.ignorance, ignorance.mean())
        assert found.tally.totals == (250, 250)


def test_a_page_on_many_rows_is_small(tmp_path):
    """Also with many columns; the sample does not grow with the rows."""
    random = np.random.default_rng(0)
    X = random.normal(size=(30_000, 40))
    y = X[:, 0] + random.normal(size=len(X)) > 0
    model = quick(max_iter=3).fit(*merged_rows(X[:500], y[:500]))
    seen = []
    report.write(model, X, y, tmp_path / "r.html", progress=seen.append)
    assert seen == [30_000]
    assert (tmp_path / "r.html").stat().st_size < 500_000
    assert "a random sample of 20,000 rows" in (tmp_path / "r.html").read_text()


def merged_rows(X, y):
    return merged(X, y, np.ones(len(y)))[:2]


# --- the page ---------------------------------------------------------------------------------

SECTIONS = [
    "summary",
    "learning",
    "reliability",
    "threshold-section",
    "relevance",
    "uncertain",
    "map",
]


class Page(HTMLParser):
    """Which elements a page has, and whether they are closed in order."""

    VOID = ("meta", "input", "br")

    def __init__(self, text):
        super().__init__()
        self.ids, self.scripts, self.tags, self.open = [], 0, set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.ids += [value for name, value in attributes if name == "id"]
        self.scripts += tag == "script"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)
        self.ids += [value for name, value in attributes if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(bought, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    report.write(bought, table(seed=1), target="bought", path=path, title="A & <b>B</b>")
    return path


def test_the_page_has_all_sections_and_is_well_formed(page):
    parsed = Page(page.read_text(encoding="utf-8"))
    assert not parsed.open
    assert [i for i in parsed.ids if i in SECTIONS] == SECTIONS
    assert len(set(parsed.ids)) == len(parsed.ids)


def test_strings_of_the_data_are_escaped(page):
    text = page.read_text(encoding="utf-8")
    assert "alert('column')" not in text
    assert escape(HOSTILE) in text
    assert escape(YES) in text
    assert "<i>" not in text.replace("<i><b style", "")
    parsed = Page(text)
    assert parsed.scripts == 2


def test_the_page_needs_no_network(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)
    assert not Page(text).tags & {"link", "img", "iframe", "object", "embed"}
    assert " src=" not in text


def test_arrays_without_names(tmp_path):
    X, y = blobs(d=1)
    report.write(quick().fit(X, y), X, y, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "feature 0" in text
    assert "A map needs two columns" in text


def test_rows_of_one_class(tmp_path):
    X, y = blobs()
    report.write(quick().fit(X, y), X[y == 0], y[y == 0], tmp_path / "r.html")
    assert "–" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (blobs(d=3)[0], blobs()[1], "3 columns besides the target"),
        (blobs()[0], blobs()[1] + 1, "has the label 2"),
        (blobs()[0][:0], blobs()[1][:0], "no rows"),
    ],
)
def test_rows_that_do_not_fit(X, y, words, tmp_path):
    model = quick(max_iter=2).fit(*blobs())
    with pytest.raises(InvalidData, match=words) as error:
        report.write(model, X, y, tmp_path / "r.html")
    assert_one_sentence(str(error.value))
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_told_before_the_work(tmp_path):
    model = quick(max_iter=2).fit(*blobs())
    for path in (tmp_path, tmp_path / "no" / "r.html"):
        with pytest.raises(WriteFailed, match="cannot be written") as error:
            report.write(model, *blobs(), path, progress=lambda n: pytest.fail("rows were read"))
        assert_one_sentence(str(error.value))


# --- the command ------------------------------------------------------------------------------


def command(*arguments):
    line = [sys.executable, "-m", "sepgp", "report", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def files(bought, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    bought.save(folder / "model.sepgp")
    table(seed=1).to_csv(folder / "data.csv", index=False)
    return folder


def test_command(files):
    out = files / "report.html"
    done = command(files / "model.sepgp", files / "data.csv", "--out", out)  # the target is known
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out}\n"
    assert "Report on model.sepgp" in out.read_text()
    assert sorted(p.name for p in files.iterdir()) == ["data.csv", "model.sepgp", "report.html"]


@pytest.mark.parametrize(
    ("model", "data", "target", "out", "words"),
    [
        ("none.sepgp", "data.csv", "bought", "r.html", "none.sepgp cannot be read"),
        ("data.csv", "data.csv", "bought", "r.html", "damaged or was not written by sepgp"),
        ("model.sepgp", "none.csv", "bought", "r.html", "none.csv"),
        ("model.sepgp", "model.sepgp", "bought", "r.html", "model.sepgp cannot be read"),
        ("model.sepgp", "data.csv", "sold", "r.html", "has no column 'sold'"),
        ("model.sepgp", "data.csv", "age", "r.html", "learned from"),
        ("model.sepgp", "data.csv", "bought", "no/r.html", "cannot be written"),
    ],
)
def test_bad_input(files, model, data, target, out, words, capsys):
    from sepgp.cli.main import main

    arguments = [files / model, files / data, "--target", target, "--out", files / out]
    with pytest.raises(SystemExit) as ended:
        main(["report", *map(str, arguments)])
    assert ended.value.code == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    sentence = captured.err.splitlines()[-1]
    assert sentence.startswith("Error: ")
    assert words in sentence
    assert_one_sentence(sentence)
    assert not (files / "r.html").exists()


# --- in a browser -----------------------------------------------------------------------------


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install the package chromium")
def test_in_a_browser(page, tmp_path):
    """The page loads without complaint, the slider changes the numbers, and nothing sticks out."""
    cells = "['tn', 'fp', 'fn', 'tp'].map(i => document.getElementById(i).textContent)"
    ring = "document.getElementById('at-roc').getAttribute('cx')"
    with Browser(tmp_path) as browser:
        for width in (1100, 390):
            for dark in (False, True):
                browser.screen(width, dark)
                browser.open(page)
                assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        paper = "getComputedStyle(document.body).backgroundColor"
        dark_paper = browser.evaluate(paper)
        browser.screen(1100)
        assert browser.evaluate(paper) != dark_paper

        before, place = browser.evaluate(cells), browser.evaluate(ring)
        assert sum(int(n.replace(",", "")) for n in before) == 400
        browser.evaluate("document.getElementById('threshold').focus()")
        browser.press("Home")
        assert browser.evaluate("document.getElementById('threshold-value').value") == "0.001"
        after = browser.evaluate(cells)
        assert after != before
        assert browser.evaluate(ring) != place
        browser.press("End")
        assert browser.evaluate("location.hash") == "#threshold=0.999"
        assert browser.evaluate(cells) not in (before, after)

        browser.evaluate("location.hash = 'threshold=0.5'")
        browser.evaluate("new Promise(done => setTimeout(done, 50))")
        assert browser.evaluate(cells) == before
        assert browser.complaints == []


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install the package chromium")
def test_numbers_in_the_browser_are_those_of_the_rows(page, bought, tmp_path):
    data = table(seed=1)
    p = bought.predict_proba(data.drop(columns="bought"))[:, 1]
    expected = metrics.confusion_matrix(data["bought"] == bought.classes_[1], p >= 0.3).ravel()
    with Browser(tmp_path) as browser:
        browser.open(page, "#threshold=0.3")
        for cell, count in zip(("tn", "fp", "fn", "tp"), expected, strict=True):
            text = browser.evaluate(f"document.getElementById('{cell}').textContent")
            assert text == f"{count:,}"
