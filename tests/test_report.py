"""The report: its statistics, its page, the command, and the page in a browser."""

import itertools
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from browser import CHROMIUM, Browser
from commandline import assert_one_line, run
from markupsafe import escape
from numpy.testing import assert_allclose, assert_array_equal
from quick import assert_one_sentence, blobs, quick
from scipy.special import ndtr
from scipy.stats import binomtest, norm
from sklearn import metrics

from sepgp import InvalidData, kernels, report
from sepgp.data.array_source import merge_duplicates
from sepgp.data.rows import ArrayRows
from sepgp.errors import WriteFailed
from sepgp.evaluation.relevance import relevance
from sepgp.evaluation.tally import THRESHOLDS, Tally
from sepgp.evaluation.two_classes import BINS
from sepgp.evaluation.uncertainty import uncertainty
from sepgp.report import maps
from sepgp.report.columns import Column, columns, fitting, moment, number
from sepgp.report.dependence import Map, curve, decision_map, grid
from sepgp.report.findings import SHOWN, findings
from sepgp.report.posterior import draw, probabilities, unlearned

HOSTILE = "</script><script>alert('column')</script>"
YES, NO = '<b>yes</b> & "so"', "no"


# --- statistics -------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["even", "rare", "weighted"])
def stated(request):
    """p, outcomes and weights; in the second case one row in fifty is of the class."""
    random = np.random.default_rng(0)
    z = random.normal(-2.5 if request.param == "rare" else 0, 1, 3000)
    weight = random.gamma(0.7, 2, 3000) * (random.random(3000) < 0.9)
    y = ndtr(0.7 * z) > random.random(3000)
    return ndtr(z), y, weight if request.param == "weighted" else np.ones(3000)


def test_curves_agree_with_scikit_learn(stated):
    p, y, weight = stated
    tally = Tally.of(*stated)
    false, true = tally.roc()
    expected = metrics.roc_curve(y, p, drop_intermediate=False, sample_weight=weight)
    later = false > 0  # the curve may begin with a step upwards
    assert_allclose(true[later], np.interp(false[later], *expected[:2]), atol=0.03)
    assert_allclose((false[0], true[0], false[-1], true[-1]), (0, 0, 1, 1))
    # Rows between two edges count as ties.
    area = metrics.roc_auc_score(y, p, sample_weight=weight)
    assert_allclose(np.trapezoid(true, false), area, atol=1e-4)
    average = metrics.average_precision_score(y, p, sample_weight=weight)
    assert_allclose(tally.average_precision(), average, atol=2e-3)
    recall, precision = tally.precision_recall()
    assert_allclose(precision[-1], np.average(y, weights=weight))
    sure = np.argsort(-p)
    above = np.cumsum(weight[sure])
    for r, q in zip(recall[5::200], precision[5::200], strict=True):
        # As many rows as are above the threshold.
        first = sure[: np.searchsorted(above, r * (weight @ y) / q * (1 - 1e-9)) + 1]
        found = weight[first] @ y[first]
        assert_allclose((found / (weight @ y), found / weight[first].sum()), (r, q), rtol=1e-9)
    assert_allclose(tally.totals, (weight @ ~y, weight @ y))


def test_reliability_by_brute_force(stated):
    p, y, weight = stated
    bins = Tally.of(*stated).reliability()
    inside = [(p >= k / BINS) & (p < (k + 1) / BINS) & (weight > 0) for k in range(BINS)]
    for rows, found in zip(filter(np.any, inside), zip(*bins, strict=True), strict=True):
        w = weight[rows]
        observed = np.average(y[rows], weights=w)
        assert_allclose(found[:3], (w.sum(), np.average(p[rows], weights=w), observed))
        # Rows of the same weight that would tell as much.
        count = w.sum() ** 2 / (w @ w)
        if (w == 1).all():
            expected = binomtest(y[rows].sum(), len(w)).proportion_ci(method="wilson")
            assert_allclose(found[3:], expected, atol=1e-6)
        edges = np.array(found[3:])
        spread = 1.959964 * np.sqrt(edges * (1 - edges) / count)
        assert_allclose(edges + spread * [1, -1], observed, atol=1e-7)


def test_counts_at_every_threshold(stated):
    p, y, weight = stated
    counts = Tally.of(*stated).positives()
    said = p >= THRESHOLDS[:, None]
    for k in (0, 250, 500, 998):
        _, false, _, true = metrics.confusion_matrix(y, said[k], sample_weight=weight).ravel()
        assert_allclose(counts[:, k], [false, true])
    if (weight == 1).all():
        assert_array_equal(counts, [(said & ~y).sum(1), (said & y).sum(1)])


def test_a_probability_on_a_threshold_is_at_or_above_it():
    p, yes = np.array([0.25, 0.5, 0.75]), np.array([True, True, True])
    assert Tally.of(p, yes, np.ones(3)).positives()[1, [499, 500]].tolist() == [2, 1]


def test_tallies_add_up(stated):
    begin, end = ([part[cut] for part in stated] for cut in (slice(1000), slice(1000, None)))
    parts = Tally.of(*begin).plus(Tally.of(*end))
    for part, whole in zip(parts, Tally.of(*stated), strict=True):
        assert_allclose(part, whole)
    assert_allclose(parts.histogram(50).sum(1), parts.totals)


def test_rows_of_one_class_have_no_average_precision():
    tally = Tally.of(np.array([0.5, 0.9]), np.array([False, False]), np.ones(2))
    assert np.isnan(tally.average_precision())


@pytest.mark.parametrize("deviation", [0.0, 0.3, 0.99, 1.0, 4.0, 60.0])
def test_noise_and_ignorance_by_monte_carlo(deviation):
    mean, variance = np.array([-6.0, -1.0, 0.0, 0.4, 3.0]), np.full(5, deviation**2)
    parts = uncertainty(mean, variance, ndtr(mean / np.sqrt(1 + variance)))
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
        found = uncertainty(np.array([mean]), np.array([deviation**2]), np.array([0.5])).noise
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
    known = columns(bought.model_)
    kinds = {"age": "number", HOSTILE: "text", "joined": "time", "member": "number"}
    assert {column.name: column.kind for column in known} == kinds
    shares = relevance(bought.model_)
    assert list(shares) == [column.name for column in known]
    assert_allclose(sum(shares.values()), 1)
    assert shares["age"] > shares["member"]


@pytest.mark.parametrize("kernel", [kernels.RBF(), kernels.Matern32() + kernels.Linear()])
def test_relevance_by_hand(kernel):
    X, y = blobs(d=3)
    model = quick(kernel=kernel, max_iter=20).fit(X, y)
    Z = model.inducing_points_
    f, effects = model.predict_latent(Z)[0], np.zeros(3)
    for column, k in itertools.product(range(3), range(1, min(10, len(Z) - 1) + 1)):
        exchanged = Z.copy()
        exchanged[:, column] = np.roll(Z[:, column], k)
        effects[column] += np.mean((f - model.predict_latent(exchanged)[0]) ** 2)
    assert_allclose(list(relevance(model.model_).values()), effects / effects.sum(), rtol=1e-6)


@pytest.mark.slow
def test_the_map_of_a_boolean_has_its_two_values_on_the_axis():
    """It had ticks at -0.5, 0.5 and 1.5 too."""
    x, y = (Column(name, "number", k, False) for k, name in enumerate(("amount", "abroad")))
    p = np.full((2, 30), 0.5)
    found = Map(x, y, np.linspace(0, 30, 30).tolist(), [0.0, 1.0], p, p)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", maps.amounts(found, p, (0, 1), "d").__html__())
    assert texts.count("0") == 2  # of both axes
    assert "1" in texts
    assert not [text for text in texts if "." in text]


@pytest.mark.slow
def test_a_text_of_noise_has_little_relevance():
    rng = np.random.default_rng(0)
    rows = 1500
    noise = rng.choice([f"town {i}" for i in range(30)], rows)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), unit="D")
    data = pd.DataFrame({"town": noise, "day": day, "x": rng.normal(size=rows)})
    data["y"] = data["x"] + 0.5 * rng.normal(size=rows) > 0
    shares = relevance(quick(max_iter=150, n_inducing=50).fit(data, target="y").model_)
    assert shares["x"] > 0.9


def test_relevance_of_a_constant_column_and_of_a_constant_f():
    X, y = blobs(d=3)
    assert relevance(quick(max_iter=5).fit(X * [0, 1, 1], y).model_)["feature 0"] == 0
    assert relevance(quick(kernel=kernels.Constant(), max_iter=5).fit(X, y).model_) == {}


def test_a_report_without_relevance(tmp_path):
    X, y = blobs()
    report.write(quick(kernel=kernels.Constant(), max_iter=5).fit(X, y), X, y, tmp_path / "r.html")
    assert "depends on no column" in (tmp_path / "r.html").read_text()


def test_partial_dependence_by_brute_force(bought):
    data = table(60, seed=1).drop(columns="bought")
    sample = findings(bought.model_, rows_of(bought, table(60, seed=1))).sample.X
    draws = draw(bought.model_, 50)
    for column in columns(bought.model_):
        weight = np.linspace(0.5, 2, 60)
        found = curve(bought.model_, draws, sample, weight, column, grid(sample, column))
        for value, p in list(zip(found.values, found.p, strict=True))[:3]:
            if column.kind == "time" and value is not None:
                value = pd.Timestamp(round(value), unit="us")
            changed = data.assign(**{column.name: value})
            if value is None:
                changed = changed.astype({column.name: data[column.name].dtype})
            mean = np.average(bought.predict_proba(changed)[:, 1], weights=weight)
            assert_allclose(p, mean, rtol=1e-9)
        assert (found.low <= found.high).all()
        assert (found.low < found.p + 0.02).all()
        assert (found.p - 0.02 < found.high).all()
    assert found.values == [0.0, 1.0]


def test_draws_have_the_predicted_probability_for_their_mean():
    X, y = blobs(80)
    model = quick().fit(X, y)
    p = probabilities(model.model_, draw(model.model_, 20_000), X)
    assert_allclose(p.mean(1), model.predict_proba(X)[:, 1], atol=0.01)


def test_far_from_all_rows_nothing_was_learned():
    X, y = blobs(200)
    left = unlearned(quick(standardize=False).fit(X, y).model_, np.array([X.mean(0), [1e3, 1e3]]))
    assert left[0] < 0.8
    assert_allclose(left[1], 1, atol=1e-3)


def test_the_map_by_brute_force(bought):
    sample = findings(bought.model_, rows_of(bought, table(60, seed=1))).sample.X
    age, text, *_ = columns(bought.model_)
    weight = np.linspace(0.5, 2, 60)
    found = decision_map(bought.model_, sample, weight, age, text, sample)
    assert found.p.shape == (len(found.ys), len(found.xs))
    data = table(60, seed=1).drop(columns="bought")
    changed = data.assign(**{"age": found.xs[7], HOSTILE: found.ys[1]})
    mean = np.average(bought.predict_proba(changed)[:, 1], weights=weight)
    assert_allclose(found.p[1, 7], mean, rtol=1e-9)
    assert ((found.unlearned > 0) & (found.unlearned <= 1)).all()


def rows_of(model, data):
    from sepgp.data.inputs import Given

    return Given(data, None, None, "bought", model.feature_names_in_).rows()


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
    whole = findings(model.model_, rows)
    blocks = rows.blocks
    monkeypatch.setattr(rows, "blocks", lambda: blocks(37))
    parts = findings(model.model_, rows)
    ignorance = uncertainty(*model.predict_latent(X), model.predict_proba(X)[:, 1]).ignorance
    expected = np.argsort(-ignorance)[:SHOWN]
    for found in (whole, parts):
        assert_array_equal(found.most_ignorant.numbers, expected + 1)
        assert_array_equal(found.most_ignorant.X, X[expected])
        assert_array_equal(found.most_uncertain.numbers, whole.most_uncertain.numbers)
        assert_allclose(found.ignorance, ignorance.mean())
        assert found.tally.totals == (250, 250)


def test_a_row_of_weight_two_counts_as_two_and_one_of_weight_zero_as_none():
    X, y = blobs(60)
    model = quick().fit(X, y)
    copies = np.arange(60) % 4
    weighted = findings(model.model_, ArrayRows(X, y, copies.astype(float)))
    where = np.repeat(np.arange(60), copies)
    repeated = findings(model.model_, ArrayRows(X[where], y[where]))
    for name, estimate in weighted.scores.items():
        assert_allclose(estimate.value, repeated.scores[name].value, err_msg=name)
        assert estimate.low <= estimate.value <= estimate.high
    assert weighted.n_rows == (copies > 0).sum()
    assert_allclose(weighted.tally.counts, repeated.tally.counts)
    assert_allclose(weighted.tally.stated, repeated.tally.stated)
    assert_allclose((weighted.noise, weighted.ignorance), (repeated.noise, repeated.ignorance))
    for rows in (weighted.most_uncertain, weighted.most_ignorant):
        assert_array_equal(rows.X, X[rows.numbers - 1])
        assert (copies[rows.numbers - 1] > 0).all()


def test_rows_without_any_weight_are_refused():
    X, y = blobs()
    with pytest.raises(InvalidData, match="no rows of positive weight") as error:
        findings(quick(max_iter=2).fit(X, y).model_, ArrayRows(X, y, np.zeros(len(y))))
    assert_one_sentence(str(error.value))


@pytest.mark.slow
def test_lists_of_rows_are_no_wider_than_the_page():
    kinds = {
        "amount of the transaction": "number",
        "country": "text",
        "old": "number",
        "day": "time",
    }
    columns_ = [Column(name, kind, i, False) for i, (name, kind) in enumerate(kinds.items())]
    assert fitting(columns_) == columns_[:3]
    assert fitting(columns_[2:3] * 4) == columns_[2:3] * 4


@pytest.mark.slow
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
    return merge_duplicates(X, y, np.ones(len(y)))[:2]


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
        (blobs()[0][:0], blobs()[1][:0], "no rows of positive weight"),
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


@pytest.fixture(scope="module")
def files(bought, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    bought.save(folder / "model.sepgp")
    table(seed=1).to_csv(folder / "data.csv", index=False)
    return folder


@pytest.mark.process
def test_command_says_what_evaluate_says(files):
    data, out = files / "weighted.csv", files / "weighted.html"
    rows = table(seed=1)
    rows.assign(w=np.random.default_rng(0).gamma(2, 1, len(rows))).to_csv(data, index=False)
    try:
        arguments = [files / "model.sepgp", data, "--weight", "w"]
        done = run("report", *arguments, "--out", out)
        assert done.returncode == 0, done.stderr
        scores = json.loads(run("evaluate", *arguments, "--json").stdout)
        text = out.read_text()
    finally:
        for path in (data, out):
            path.unlink(missing_ok=True)
    for name, score in scores.items():
        value, *ends = (100 * n if name == "error" else n for n in score.values())
        digits, unit = (1, "\u00a0%") if name == "error" else (3, "")
        assert f"<dd>{value:.{digits}f}{unit}</dd>" in text, name
        assert f"{ends[0]:.{digits}f}{unit} to {ends[1]:.{digits}f}{unit}" in text, name
    assert "a row of weight 2 counts as two rows" in text


@pytest.mark.process
def test_command(files):
    """Which knows the target by the model."""
    out = files / "report.html"
    done = run("report", files / "model.sepgp", files / "data.csv", "--out", out)
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
        ("model.sepgp", "model.sepgp", "bought", "r.html", "has a name that says no format"),
        ("model.sepgp", "data.csv", "sold", "r.html", "has no column 'sold'"),
        ("model.sepgp", "data.csv", "age", "r.html", "learned from"),
        ("model.sepgp", "data.csv", "bought", "no/r.html", "make it first"),
    ],
)
def test_bad_input(files, model, data, target, out, words):
    arguments = [files / model, files / data, "--target", target, "--out", files / out]
    done = run("report", *arguments)
    assert done.stdout == ""
    assert_one_line(done, words)
    assert done.stderr.startswith("Error: ")
    assert_one_sentence(done.stderr.strip())
    assert not (files / "r.html").exists()


# --- in a browser -----------------------------------------------------------------------------


@pytest.mark.process
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


@pytest.mark.process
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
