"""Metrics, confusions and uncertainty of more than two classes, against other ways to them."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from quick import blobs, quick
from scipy.special import ndtr
from scipy.stats import norm
from sklearn import metrics as reference

from sepgp.evaluation import many_classes
from sepgp.evaluation.confusion import Confusion
from sepgp.evaluation.metrics import metrics
from sepgp.evaluation.relevance import relevance
from sepgp.evaluation.tally import Tally
from sepgp.evaluation.two_classes import (
    BINS,
    calibration_error,
    chance_of_calibration_error,
)
from sepgp.evaluation.uncertainty import class_probabilities, uncertainty
from sepgp.likelihoods import Multinomial


@pytest.fixture(scope="module", params=[(3, False), (10, True), (26, False)], ids=str)
def stated(request):
    """Probabilities of C classes, true classes and weights of 2,000 rows, some of them alike."""
    n_classes, weighted = request.param
    random = np.random.default_rng(0)
    p = random.dirichlet(np.full(n_classes, 0.3), 2000)
    p = 0.9 * p + 0.1 / n_classes
    p[::10] = p[1::10]
    codes = np.array([random.choice(n_classes, p=row) for row in p**0.8 / (p**0.8).sum(1)[:, None]])
    weight = random.gamma(0.7, 2, 2000) * (random.random(2000) < 0.9)
    return p, codes, weight if weighted else np.ones(2000)


def measured(p, codes, weight):
    return metrics(p, -np.log(p[np.arange(len(p)), codes]), codes, weight)


def test_metrics_of_many_classes_agree_with_scikit_learn(stated):
    p, codes, weight = stated
    found = measured(p, codes, weight)
    y = np.eye(p.shape[1])[codes]
    said = p.argmax(1)
    expected = {
        "nll": reference.log_loss(codes, p, sample_weight=weight, labels=range(p.shape[1])),
        "error": 1 - reference.accuracy_score(codes, said, sample_weight=weight),
        "brier": np.average(np.square(p - y).sum(1), weights=weight),
        "ece": gap(p.max(1), said == codes, weight),
        "classwise_ece": np.mean([gap(p[:, c], y[:, c], weight) for c in range(p.shape[1])]),
    }
    for average in ("macro", "weighted"):
        options = {"multi_class": "ovr", "average": average, "sample_weight": weight}
        expected[f"{average}_auc"] = reference.roc_auc_score(codes, p, **options)
    assert list(found) == list(expected)
    for name, estimate in found.items():
        assert_allclose(estimate.value, expected[name], rtol=1e-9, err_msg=name)
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.high - estimate.low > 1e-3


def gap(p, y, weight):
    """The expected calibration error by a loop over bins."""
    bins = [(p >= k / BINS) & (p < (k + 1) / BINS + (k == BINS - 1)) for k in range(BINS)]
    return sum(abs(weight[b] @ (y[b] - p[b])) for b in bins) / weight.sum()


def test_intervals_of_the_areas_are_those_of_rows_drawn_again(stated):
    """The first order in the weights is enough: the areas are not computed again."""
    p, codes, weight = stated
    found = measured(p, codes, weight)
    random = np.random.default_rng(1)
    drawn = []
    for _ in range(40):
        w = weight * random.poisson(1.0, len(weight))
        drawn.append(many_classes.measures(p, np.zeros(len(w)), codes, w)[0](w))
    for name in ("macro_auc", "weighted_auc"):
        areas, estimate = [values[name] for values in drawn], found[name]
        assert_allclose(np.mean(areas), estimate.value, atol=4 * np.std(areas) / np.sqrt(40))
        assert_allclose((estimate.high - estimate.low) / 3.92, np.std(areas), rtol=0.4)


def test_areas_are_over_the_classes_that_have_rows(stated):
    p, codes, weight = stated
    kept = codes > 0
    found = measured(p[kept], codes[kept], weight[kept])
    one_class = codes == 1
    areas = [
        reference.roc_auc_score(codes[kept] == c, p[kept, c], sample_weight=weight[kept])
        for c in range(1, p.shape[1])
    ]
    assert_allclose(found["macro_auc"].value, np.mean(areas))
    found = measured(p[one_class], codes[one_class], weight[one_class])
    assert np.isnan([found["macro_auc"].value, found["weighted_auc"].low]).all()
    assert np.isfinite(found["nll"].value)


def test_names_of_classes_do_not_matter(stated):
    p, codes, weight = stated
    order = np.random.default_rng(0).permutation(p.shape[1])
    found = measured(p[:, order], np.argsort(order)[codes], weight)
    for name, estimate in measured(p, codes, weight).items():
        assert_allclose(found[name], estimate, rtol=1e-9, err_msg=name)


def test_two_rows_and_one():
    p = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    for n in (1, 2):
        found = measured(p[:n], np.array([2, 0])[:n], np.ones(n))
        assert found["error"] == (0, 0, 0)
        assert_allclose(found["ece"].value, 1 - p[:n].max(1).mean())


@pytest.mark.parametrize("n", [60, 600])
def test_the_calibration_error_that_chance_makes(n):
    """It was hidden: the interval was stretched until it held the value."""
    random = np.random.default_rng(0)
    p = random.beta(2, 2, n)
    weight = random.gamma(2, 1, n)
    right = [calibration_error(p, random.random(n) < p, weight) for _ in range(2000)]
    assert_allclose(chance_of_calibration_error(p, weight), np.mean(right), rtol=0.05)


def test_the_interval_of_the_calibration_error_is_not_above_it():
    random = np.random.default_rng(0)
    inside = []
    for _ in range(20):
        p = random.beta(2, 2, 100)
        y = (random.random(100) < p).astype(int)
        error = measured(np.column_stack([1 - p, p]), y, np.ones(100))["ece"]
        assert error.low <= error.value <= error.high
        inside.append(error.high - error.value)
    assert min(inside) > 0.01


# --- confusions -------------------------------------------------------------------------------


def test_confusions_agree_with_scikit_learn(stated):
    p, codes, weight = stated
    found = Confusion.of(*stated)
    said = p.argmax(1)
    labels = np.arange(p.shape[1])
    counts = reference.confusion_matrix(codes, said, labels=labels, sample_weight=weight)
    assert_allclose(found.counts, counts)
    scores = reference.precision_recall_fscore_support(
        codes, said, labels=labels, sample_weight=weight, zero_division=np.nan
    )
    for mine, expected in zip(
        (found.precision(), found.recall(), found.f1()), scores, strict=False
    ):
        assert_allclose(mine, expected)
    first, *_, last = found.mistakes()
    off = counts - np.diag(np.diag(counts))
    assert (first.rows, off[first.true, first.said]) == (off.max(), off.max())
    assert_allclose(first.share, off.max() / counts[first.true].sum())
    assert last.rows == off[off > 0].min()


def test_reliability_of_a_class_is_that_of_the_class_against_the_rest(stated):
    p, codes, weight = stated
    found = Confusion.of(*stated)
    for c in (0, p.shape[1] - 1):
        expected = Tally.of(p[:, c], codes == c, weight).reliability()
        for mine, other in zip(found.reliability(c), expected, strict=True):
            assert_allclose(mine, other)
        error = gap(p[:, c], codes == c, weight)
        assert_allclose(found.calibration_error()[c], error)


def test_confusions_add_up(stated):
    begin, end = ([part[cut] for part in stated] for cut in (slice(700), slice(700, None)))
    parts = Confusion.of(*begin).plus(Confusion.of(*end))
    for part, whole in zip(parts, Confusion.of(*stated), strict=True):
        assert_allclose(part, whole)


def test_a_class_without_rows_has_no_recall():
    found = Confusion.of(np.array([[0.6, 0.3, 0.1]]), np.array([0]), np.ones(1))
    assert_array_equal(found.recall(), [1, np.nan, np.nan])
    assert_array_equal(found.precision(), [1, np.nan, np.nan])
    assert found.mistakes() == []


# --- uncertainty ------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_classes", "spread"), [(3, 1.0), (3, 6.0), (10, 2.0), (26, 0.0)])
def test_class_probabilities_by_a_fine_rule(n_classes, spread):
    """By the engine too, and by hand for two classes: the difference of noises is N(0, 1)."""
    f = spread * np.random.default_rng(0).normal(size=(20, n_classes))
    g = np.linspace(-30, 40, 4001)[:, None, None]
    z = np.sqrt(2) * (g - f)
    with np.errstate(divide="ignore"):
        log_below = norm.logcdf(z)
    density = np.exp(norm.logpdf(z) + log_below.sum(-1, keepdims=True) - log_below)
    expected = density.sum(0) * np.sqrt(2) * (g[1, 0, 0] - g[0, 0, 0])
    assert_allclose(expected.sum(1), 1)
    assert_allclose(class_probabilities(torch.as_tensor(f)), expected, atol=1e-5)
    engine = Multinomial(n_classes).probabilities(f, np.zeros_like(f))
    assert_allclose(engine, expected, atol=1e-6)
    two = class_probabilities(torch.as_tensor(f[:, :2])).numpy()
    assert_allclose(two[:, 1], ndtr(f[:, 1] - f[:, 0]), atol=1e-5)


@pytest.mark.parametrize("n_classes", [3, 10, 26])
@pytest.mark.parametrize("deviation", [0.0, 0.3, 1.0, 3.0])
def test_noise_and_ignorance_of_many_classes_by_monte_carlo(n_classes, deviation):
    random = np.random.default_rng(0)
    mean = 2 * random.normal(size=(30, n_classes))
    variance = deviation**2 * random.uniform(0.5, 1.5, mean.shape)
    drawn = random.standard_normal((500, 1, n_classes))
    p = class_probabilities(torch.as_tensor(mean + np.sqrt(variance) * drawn)).numpy()
    noise = entropy(p).mean(0)
    parts = uncertainty(mean, variance, p.mean(0))
    assert_allclose(parts.total, entropy(p.mean(0)))
    assert (parts.ignorance >= 0).all()
    assert (parts.noise >= 0).all()
    assert_allclose(parts.noise, noise, atol=max(0.02, 0.25 * min(deviation, 1)))
    assert_allclose(parts.noise.mean(), noise.mean(), atol=0.01 + 0.03 * deviation)
    if deviation == 0:
        assert_allclose(parts.ignorance, 0, atol=2e-3)


def entropy(p):
    return -(p * np.log2(np.maximum(p, 1e-300))).sum(-1)


def test_uncertainty_does_not_depend_on_what_other_rows_there_are():
    random = np.random.default_rng(0)
    mean, variance = 3 * random.normal(size=(40, 6)), random.uniform(0, 2, (40, 6))
    p = class_probabilities(torch.as_tensor(mean / np.sqrt(1 + 2 * variance))).numpy()
    whole, half = uncertainty(mean, variance, p), uncertainty(mean[20:], variance[20:], p[20:])
    assert_allclose(whole.ignorance[20:], half.ignorance, rtol=1e-6, atol=1e-9)


def test_relevance_of_a_function_of_any_size_is_a_share() -> None:
    model = quick().fit(*blobs()).model_
    shares = relevance(model)
    for factor in (1e300, 1e-200):
        folded = model.predictor._replace(beta=factor * model.predictor.beta)
        scaled = relevance(dataclasses.replace(model, predictor=folded))
        assert scaled == pytest.approx(shares, rel=1e-6)
