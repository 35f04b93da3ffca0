"""What the report says first: better than a guess or not, calibrated or not, what to do next."""

from types import SimpleNamespace

import numpy as np
import pytest
from quick import blobs, quick

from sepgp import report
from sepgp.evaluation.metrics import Estimate, metrics
from sepgp.evaluation.tally import Tally
from sepgp.evaluation.two_classes import chance_of_calibration_error
from sepgp.report.verdict import verdict


def said(p, y, n_classes=2):
    """The verdict on probabilities of an event, which with two classes is the second class."""
    ones = np.ones(len(p))
    loss = -np.log(np.where(y, p, 1 - p))
    found = SimpleNamespace(
        scores=metrics(np.column_stack([1 - p, p]), loss, y.astype(int), ones),
        chance=chance_of_calibration_error(p, ones),
        tally=Tally.of(p, y, ones),
        confusion=SimpleNamespace(counts=np.zeros((n_classes, n_classes))),
        advice="better columns.",
    )
    share = y.mean()
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    return list(verdict(found, entropy))


@pytest.fixture(scope="module")
def rows():
    """True probabilities of an event, and outcomes."""
    random = np.random.default_rng(0)
    p = random.beta(0.8, 0.8, 4000).clip(0.01, 0.99)
    return p, random.random(4000) < p


def sharper(p, power):
    return p**power / (p**power + (1 - p) ** power)


def test_true_probabilities_are_better_and_calibrated(rows):
    better, calibrated, following = said(*rows)
    assert better.startswith("Better than a guess")
    assert "% less" in better.replace("\u00a0", " ")
    assert calibrated.startswith("Calibrated")
    assert "better columns" in following


@pytest.mark.parametrize(("power", "words"), [(4.0, "Overconfident"), (0.3, "Underconfident")])
def test_probabilities_that_are_too_sharp_or_too_dull(rows, power, words):
    p, y = rows
    assert said(sharper(p, power), y)[1].startswith(words)


def test_of_many_classes_the_one_said_is_too_sure(rows):
    """There the event is that it was right, and may be too sure below one half as well."""
    p, y = rows
    assert said(np.minimum(p + 0.2, 0.99), y, n_classes=3)[1].startswith("Overconfident")
    assert said(np.minimum(p + 0.2, 0.99), y)[1].startswith("Not calibrated")


def test_a_model_that_is_worse_than_a_guess(rows):
    p, y = rows
    worse, _, following = said(1 - p, y)
    assert worse.startswith("Worse than a guess")
    assert "look for columns" in following
    unclear = said(np.full(60, y[:60].mean()), y[:60])[0]
    assert unclear.startswith("Not clearly better")


def test_rows_of_one_class_have_no_verdict():
    found = SimpleNamespace(scores={"nll": Estimate(0.1, 0.05, 0.2)})
    assert list(verdict(found, 0.0)) == [
        "All rows are of one class, so they cannot tell how well classes are told apart."
    ]


def test_the_page_has_the_verdict_and_what_was_measured_on_held_out_rows(tmp_path):
    X, y = blobs(400)
    options = {"max_iter": 60, "batch_size": 100}
    for fraction in (0.0, 0.2):
        model = quick(validation_fraction=fraction, **options).fit(X, y)
        report.write(model, X, y, tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text()
        assert '<ul class="verdict"><li>Better than a guess' in text
        measured = np.isfinite(model.history_["validation_nll"]).sum()
        assert (measured > 0) == (fraction > 0)
        assert ("Dots are the log-likelihood of held-out rows" in text) == (fraction > 0)
        assert (f"kept: step {model.model_.best_iteration}<" in text) == (fraction > 0)
