"""A prior mean from a classifier: in the engine one number per row, and out of sample."""

import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas
import pytest
import sklearn
import torch
from helpers import assert_close, kernel_matrices, log_Z_quadrature, many_classes, problem
from scipy.special import ndtr, ndtri
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import sepgp
from sepgp import GPClassifier, means
from sepgp.classifier import OF_A_RUN
from sepgp.cli.main import app
from sepgp.data import split, stream_source
from sepgp.data.batches import Batch
from sepgp.data.prepared import ArrayData
from sepgp.data.rows import ArrayRows
from sepgp.errors import InvalidData, InvalidParameter
from sepgp.evaluation.about import about
from sepgp.files import classifiers
from sepgp.files import model as files
from sepgp.gp.fitc import Rows
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.gp.kernels import RBF
from sepgp.inference.evidence import Factors, tilt
from sepgp.inference.method import chosen
from sepgp.likelihoods import Multinomial, PowerProbit, Probit
from sepgp.report.posterior import draw, probabilities
from sepgp.training import prior
from sepgp.training.optimizers import Adam
from sepgp.training.settings import Settings
from sepgp.training.step import Engine

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3))
Y = (np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * RNG.normal(size=600) > 0).astype(int)
QUICK = {"n_inducing": 15, "max_iter": 20, "random_state": 0}


class Always(ClassifierMixin, BaseEstimator):
    """A classifier that gives the probability p to the second of two classes, whatever it sees."""

    def __init__(self, p=0.5) -> None:
        self.p = p

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        rest = (1 - self.p) / (len(self.classes_) - 1)
        return np.where(self.classes_ == 1, self.p, rest) * np.ones((len(X), 1))


class Spy(Always):
    """The same, and it remembers what it is fitted on and asked for."""

    seen: ClassVar[list] = []
    asked: ClassVar[list] = []
    weights: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        self.rows_ = set(map(bytes, np.asarray(X, float)))
        Spy.seen.append(np.asarray(X, float))
        Spy.weights.append(sample_weight)
        return super().fit(X, y)

    def predict_proba(self, X):
        Spy.asked.append(self.rows_ & set(map(bytes, np.asarray(X, float))))
        return super().predict_proba(X)


@pytest.fixture
def spy():
    Spy.seen, Spy.asked, Spy.weights = [], [], []
    return Spy()


# --- the engine -------------------------------------------------------------------------------


def one_per_row(s, offset):
    """Rows of which nothing but the conditional variance and the offset matters."""
    return Rows(s, s, s, lambda *adjoints: torch.empty(0), offset)


def cavities():
    y = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    mean, var, s, offset = torch.tensor(
        [[0.3, -1.0, -2.0, 0.5], [0.4, 2.0, 0.1, 1.5], [0.1, 0.0, 0.6, 0.2], [-1.0, 2.0, 0.7, 0.0]],
        dtype=torch.float64,
    )
    return y, mean, var, s, offset


def test_moments_with_an_offset_are_those_of_quadrature() -> None:
    y, mean, var, s, offset = cavities()
    factors = Factors(Probit(), y, torch.ones(4), None)
    tilted = tilt(factors, one_per_row(s, offset), mean, var)
    x, w = np.polynomial.hermite_e.hermegauss(100)
    w /= w.sum()
    numbers = zip(*(part.tolist() for part in (y, mean, var, s, offset)), strict=True)
    for i, (label, m, v, s_i, o) in enumerate(numbers):
        g = m + v**0.5 * x  # υᵀu under its cavity, and φ_i as a function of it
        factor = ndtr(label * (g + o) / (1 + s_i) ** 0.5) * w
        Z, first, second = (float(factor @ g**k) for k in (0, 1, 2))
        variance = second / Z - (first / Z) ** 2
        assert_close(tilted.log_Z[i], np.log(Z), rtol=1e-8, atol=1e-8)
        assert_close(tilted.nu[i], 1 / variance - 1 / v, rtol=1e-6, atol=1e-6)
        assert_close(tilted.mu[i], first / Z / variance - m / v, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_with_a_power_and_an_offset_a_share_of_the_site_moves_the_mean_as_alpha_says(power) -> None:
    y, mean, var, s, offset = cavities()
    factors = Factors(PowerProbit(power), y, torch.ones(4), None)
    tilted = tilt(factors, one_per_row(s, offset), mean, var)
    moved = (mean / var + power * tilted.mu) / (1 / var + power * tilted.nu)
    assert_close(moved, mean + power * var * tilted.alpha)
    plain = factors.likelihood.moments(y, mean + offset, var, s)
    assert_close(tilted.mu, plain.mu - offset * plain.nu)


def engine(p, name="sep", power=1.0, factor=0.7, n_factors=1):
    """An engine with a kernel that is started, for two classes or many."""
    kernel = RBF(1.0, 2.0)
    kernel.start(p.Z)
    hyper = Hyperparameters(kernel, p.Z, factor=factor)
    likelihood = p.likelihood if power == 1 else PowerProbit(power)
    part_of = None if n_factors == 1 else lambda batch: (batch.X[:, 0] > 0).long()
    return Engine(chosen(name, n_factors, power), likelihood, hyper, Adam, 0.01, part_of)


def batch_of(p, score):
    codes = p.y.long() if isinstance(p.likelihood, Multinomial) else (p.y > 0).long()
    return Batch(p.X, codes, p.weight, None, score)


def scores(p, seed=1):
    shape = (*p.likelihood.latents, len(p.y))
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("make", "name", "power", "n_factors"),
    [
        *((make, name, 1, 1) for make in (problem, many_classes) for name in ("sep", "ep", "adf")),
        (problem, "sep", 0.5, 1),
        (problem, "ep", 0.0, 1),
        (problem, "sep", 1, 2),
        (many_classes, "sep", 1, 2),
    ],
)
def test_the_gradient_by_the_factor_is_that_of_finite_differences(
    make, name, power, n_factors
) -> None:
    p = make(25, 5)
    p = p._replace(weight=0.5 + torch.arange(25) % 3)
    e = engine(p, name, power, n_factors=n_factors)
    batch, n = batch_of(p, scores(p)), 2 * float(p.weight.sum())
    state = e.init(5, 25, False)
    for _ in range(3):
        state, _ = e.step(state, batch, n, 0.0)
    where = e.hyper.start.tolist().index(0.7)

    def evidence(change):
        xi = state.xi.clone()
        xi[where] += change
        return e._evaluate(state._replace(xi=xi), e._cut(state, batch), n, True)[2]

    up, down = (evidence(h).log_evidence for h in (1e-5, -1e-5))
    assert_close(evidence(0).gradient[where], (up - down) / 2e-5, rtol=1e-6, atol=1e-6)


def test_evidence_of_one_row_with_an_offset_is_exact() -> None:
    p = problem(1, 1)
    p = p._replace(Z=p.X.clone())
    e = engine(p)
    score = torch.tensor([1.3], dtype=torch.float64)
    state = e.init(1, 1, False)
    for _ in range(60):
        state, info = e.step(state, batch_of(p, score), 1.0, 0.0)
    z = float(p.y) * 0.7 * 1.3 / np.sqrt(1 + 2.0)
    assert_close(info.log_evidence, norm.logcdf(z), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", [problem, many_classes])
def test_sep_is_ep_for_one_row_with_an_offset(make) -> None:
    p = make(1, 3)
    score = scores(p)
    after = []
    for name in ("sep", "ep"):
        e = engine(p, name)
        state = e.init(3, 1, False)
        for _ in range(50):
            state, info = e.step(state, batch_of(p, score), 1.0, 0.0)
        after.append((state.sites.Lambda, state.sites.b, info.log_evidence))
    for one, other in zip(*after, strict=True):
        assert_close(one, other, rtol=1e-7, atol=1e-7)


def test_evidence_with_offsets_is_that_of_quadrature_over_the_inducing_points() -> None:
    p = problem(8, 2)
    e, score = engine(p, "ep"), scores(p)
    state = e.init(2, 8, False)
    for _ in range(60):
        state, info = e.step(state, batch_of(p, score), 8.0, 0.0)
    matrices = kernel_matrices(e.hyper, state.xi, p.X)
    expected = log_Z_quadrature(matrices, p.y, offset=0.7 * score.numpy())
    assert_close(info.log_evidence, expected, rtol=0.0, atol=0.01)
    without = log_Z_quadrature(matrices, p.y)
    assert abs(without - expected) > 0.1


@pytest.mark.parametrize("method", ["sep", "ep", "adf"])
@pytest.mark.parametrize("y", [Y, np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])], ids=["2", "3"])
def test_a_classifier_that_knows_nothing_changes_nothing(method, y) -> None:
    nothing = DummyClassifier(strategy="uniform")
    plain, with_mean = (
        GPClassifier(method, batch_size=200, mean=mean, **QUICK).fit(X, y)
        for mean in (None, nothing)
    )
    assert with_mean.model_.mean.factor == 0.0
    for one, other in zip(plain.predict_latent(X), with_mean.predict_latent(X), strict=True):
        assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert with_mean.log_evidence_ == pytest.approx(plain.log_evidence_, rel=1e-12)


@pytest.mark.parametrize(
    ("plenty", "learn_kernel", "steps", "from_0"),
    [
        (10_000, True, 20, True),
        (100, True, 20, False),
        (10_000, False, 20, False),
        (10_000, True, 1, False),
    ],
)
def test_the_factor_starts_at_0_where_few_rows_have_time_to_teach_it(
    plenty, learn_kernel, steps, from_0, monkeypatch
) -> None:
    monkeypatch.setattr(means, "PLENTY", plenty)
    settings = Settings(mean=LogisticRegression(), learn_kernel=learn_kernel, max_iter=steps)
    mean, data = prior.of_rows(settings, rows_in_memory(), 0)
    assert mean.factor == prior.calibration(data) > 0.5
    assert prior.first_factor(settings, mean) == (0.0 if from_0 else mean.factor)


def rows_in_memory(y=Y):
    return ArrayData(X, y, np.ones(len(y)), np.unique(y))


@pytest.mark.parametrize("plenty", [10_000, 100], ids=["five folds", "halves"])
@pytest.mark.parametrize("y", [Y, np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])], ids=["2", "3"])
def test_a_process_of_few_steps_made_the_probabilities_of_its_mean_dull(
    plenty, y, monkeypatch
) -> None:
    """Trees had used up the time, and the prior variance of the process drew all to a half."""
    monkeypatch.setattr(means, "PLENTY", plenty)
    how = {"batch_size": 50, "max_iter": 1, "n_inducing": 15, "random_state": 0}
    model = GPClassifier(mean=LogisticRegression(), **how).fit(X, y)
    offset = model.model_.mean.offset(X)
    alone = model.model_.likelihood.probabilities(offset, np.zeros_like(offset))
    assert model.predict_latent(X)[1].max() < 0.11  # with the usual amplitude, about 2
    assert np.abs(model.predict_proba(X) - alone).mean() < 0.06


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("sharper", [0.5, 1.0, 2.0])
def test_scores_are_calibrated(n_classes, sharper) -> None:
    """Labels are drawn by `sharper` times the scores."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=20_000 if n_classes == 2 else (20_000, n_classes))
    f = sharper * score.reshape(20_000, -1)
    f = np.column_stack([np.zeros(20_000), f]) if n_classes == 2 else f
    y = (f + np.sqrt(0.5) * rng.normal(size=f.shape)).argmax(1)
    data = ArrayData(np.zeros((20_000, 1)), y, np.ones(20_000), np.arange(n_classes), score=score)
    assert prior.calibration(data) == pytest.approx(sharper, rel=0.05)


def noisy(n):
    """Rows with 40 columns of which one counts, so that trees of one half differ."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, 40))
    return rows, (rows[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


@pytest.mark.slow
def test_the_mean_of_two_scores_was_trusted_no_more_than_one(monkeypatch) -> None:
    monkeypatch.setattr(means, "PLENTY", 1000)
    monkeypatch.setattr(split, "PLENTY", 1000)
    monkeypatch.setattr(prior, "CALIBRATED", 300)
    rows, y = noisy(6000)
    tree = DecisionTreeClassifier(min_samples_leaf=10)
    how = {"n_inducing": 10, "max_iter": 12, "random_state": 0}
    model = GPClassifier(mean=tree, **how).fit(rows[:4000], y[:4000]).model_
    assert model.mean.ratio > 1.1
    score = model.mean.score(rows[4000:])
    new = ArrayData(rows[4000:], y[4000:], np.ones(2000), model.classes, score=score)
    before, settings = model.mean.ratio, Settings(mean=tree)
    of_training = prior.of_rows(settings, rows_of(rows, y), model.seed)[0].factor
    assert prior.calibration(new) == pytest.approx(of_training, rel=0.2)
    assert prior.calibration(new) * before > 1.1 * of_training


def rows_of(rows, y):
    return ArrayData(rows[:4000], y[:4000], np.ones(4000), np.unique(y))


@pytest.mark.parametrize("plenty", [10_000, 100], ids=["five folds", "halves"])
def test_a_process_with_a_mean_is_measured_on_held_out_rows(spy, plenty, monkeypatch) -> None:
    """In halves the classifiers do without them too, and in folds none scores what it has seen."""
    monkeypatch.setattr(means, "PLENTY", plenty)
    monkeypatch.setattr(split, "PLENTY", 600)
    model = GPClassifier(mean=spy, batch_size=64, **QUICK).fit(X, Y)
    assert np.isfinite(model.history_["validation_nll"]).sum() == 2
    assert model.model_.n_seen == pytest.approx(540, abs=3)
    assert not any(Spy.asked)
    union = set(map(bytes, np.concatenate(Spy.seen)))
    assert len(union) == (600 if plenty > 600 else model.model_.n_seen)


# --- out of sample ----------------------------------------------------------------------------


@pytest.mark.parametrize("plenty", [False, True], ids=["five folds", "halves"])
def test_no_row_is_scored_by_a_classifier_that_has_seen_it(spy, plenty, monkeypatch) -> None:
    monkeypatch.setattr(means, "PLENTY", 100 if plenty else 10_000)
    GPClassifier(mean=spy, validation_fraction=0.2, **QUICK).fit(X, Y)
    # The scores of training rows by fold, and those of held-out rows.
    assert not any(Spy.asked)
    assert len(Spy.asked) == (4 if plenty else 10)
    union = set(map(bytes, np.concatenate(Spy.seen)))
    assert len(union) == pytest.approx(0.8 * len(X), abs=3)  # and no row that is held out


@pytest.mark.parametrize("y", [Y, np.digitize(X[:, 0], [-0.7, 0.7])], ids=["2", "3"])
def test_new_rows_had_the_noisy_score_of_one_classifier(y) -> None:
    """They have the mean over the folds."""
    tree = DecisionTreeClassifier(min_samples_leaf=5)
    found, _ = means.cross_fitted(tree, (X, y, np.ones(600)), len(np.unique(y)), 0)
    scores = [means.score(one, X, found.n_classes) for one in found.classifiers]
    assert len(scores) == 5
    np.testing.assert_allclose(found.score(X), np.mean(scores, axis=0))


def test_random_labels_are_not_learned_by_heart() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 500)
    forest = RandomForestClassifier(20)
    model = GPClassifier(n_inducing=10, max_iter=40, random_state=0, mean=forest)
    model.fit(X[:400], y[:400])
    assert 0 <= model.model_.mean.factor < 0.3
    p = model.predict_proba(X)
    nll = -np.log(p[np.arange(500), y])
    assert nll[400:500].mean() > 0.68
    # In sample the forest would have had NLL of about 0.2.
    inside = forest.fit(X[:400], y[:400]).predict_proba(X[:400])[np.arange(400), y[:400]]
    assert -np.log(np.maximum(inside, 1e-3)).mean() < 0.3
    assert np.abs(p[:, 1] - 0.5).max() < 0.45


def test_scores_are_probits_and_finite() -> None:
    p = np.array([0.5, 0.9, 1.0, 0.0])
    fitted = Table(p).fit(X[:4], [0, 1, 0, 1])
    assert_close(means.score(fitted, X[:4], 2), ndtri([0.5, 0.9, 1 - 1e-6, 1e-6]))


class Table(ClassifierMixin, BaseEstimator):
    """A classifier that gives these probabilities, row by row."""

    def __init__(self, p) -> None:
        self.p = p

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.column_stack([1 - self.p, self.p])[: len(X)]


def test_a_prior_mean_helps_where_the_process_alone_cannot() -> None:
    """Stripes in one of many columns, and few inducing points."""
    rng = np.random.default_rng(0)
    Z = rng.uniform(0, 6, size=(1500, 6))
    y = (np.floor(Z[:, 0]) % 2 == 1).astype(int)
    alone, with_mean = (
        GPClassifier(mean=mean, **QUICK).fit(Z[:1000], y[:1000])
        for mean in (None, DecisionTreeClassifier(min_samples_leaf=10))
    )
    assert with_mean.score(Z[1000:], y[1000:]) > 0.97 > alone.score(Z[1000:], y[1000:])
    p = with_mean.predict_proba(Z[1000:])
    assert (with_mean.predict(Z[1000:]) == p.argmax(1)).all()


def test_trees_of_few_rows_are_those_of_scikit_learn() -> None:
    for in_halves in (False, True):
        (trees,) = means.candidates("trees", 10_000, in_halves)
        assert trees.get_params() == HistGradientBoostingClassifier().get_params()


@pytest.mark.parametrize(
    ("n_rows", "leaves"), [(10_001, 50), (100_000, 500), (10_000_000, 1023)], ids=str
)
def test_trees_of_many_rows_may_be_larger(n_rows, leaves) -> None:
    plain, larger = means.candidates("trees", n_rows, True)
    assert plain.get_params() == HistGradientBoostingClassifier().get_params()
    assert larger.max_leaf_nodes == leaves


@pytest.mark.parametrize("stream", [False, True], ids=["array", "stream"])
@pytest.mark.parametrize("p", [0.2, 0.8])
def test_the_classifier_is_chosen_on_rows_that_it_has_not_seen(p, stream, spy, monkeypatch) -> None:
    """Three quarters of the labels are 1. Whoever has seen a row would know it by heart."""
    y = (np.arange(600) % 4 > 0).astype(int)
    monkeypatch.setattr(means, "candidates", lambda *_: [Spy(0.5), Spy(p)])
    if stream:
        monkeypatch.setattr(stream_source, "MEMORY", 4000)
    model = GPClassifier(mean="trees", **QUICK, batch_size=200)
    model.fit(*((ArrayRows(X, y),) if stream else (X, y)))
    assert {one.p for one in model.model_.mean.classifiers} == {0.5 if p == 0.2 else 0.8}
    assert not any(Spy.asked)


# --- the estimator ----------------------------------------------------------------------------


def test_the_classifier_is_a_parameter_that_is_never_fitted_itself() -> None:
    mean = HistGradientBoostingClassifier(max_iter=3)
    model = GPClassifier(mean=mean, **QUICK)
    assert model.get_params()["mean__max_iter"] == 3
    model.set_params(mean__max_iter=4)
    copied = clone(model)
    copied.fit(X, Y)
    assert mean.max_iter == 4
    assert not hasattr(mean, "classes_")
    assert not hasattr(copied.mean, "classes_")
    assert copied.model_.mean.classifiers[0].n_iter_ == 4


def test_weights_are_passed_on_to_a_classifier_that_takes_them(spy) -> None:
    weight = 1.0 + np.arange(len(X)) % 2
    GPClassifier(mean=spy, **QUICK).fit(X, Y, weight)
    assert all(set(given) == {1.0, 2.0} for given in Spy.weights)
    for other in (KNeighborsClassifier(), make_pipeline(StandardScaler(), LogisticRegression())):
        GPClassifier(mean=other, **QUICK).fit(X, Y, weight)


def test_weighted_rows_are_copies_with_a_prior_mean() -> None:
    copies = 1 + np.arange(200) % 2
    rows = np.repeat(np.arange(200), copies)
    logistic = LogisticRegression()
    one = GPClassifier(mean=logistic, **QUICK).fit(X[:200], Y[:200], copies)
    other = GPClassifier(mean=logistic, **QUICK).fit(X[rows], Y[rows])
    assert_close(one.predict_proba(X), other.predict_proba(X))


def test_a_seed_repeats_a_classifier_that_draws_random_numbers() -> None:
    one, other = (
        GPClassifier(mean=RandomForestClassifier(5), **QUICK).fit(X, Y).predict_proba(X)
        for _ in range(2)
    )
    assert (one == other).all()


@pytest.mark.parametrize("mean", ["forest", LogisticRegression, 3, StandardScaler()])
def test_what_is_no_classifier_is_refused(mean) -> None:
    with pytest.raises(InvalidParameter, match="mean="):
        GPClassifier(mean=mean).fit(X, Y)


class Broken(Always):
    def fit(self, X, y):
        raise ValueError("it has no wheels")


def test_a_classifier_that_fails_is_named() -> None:
    with pytest.raises(InvalidParameter, match=r"it has no wheels.*choose another classifier"):
        GPClassifier(mean=Broken(), **QUICK).fit(X, Y)


def test_probabilities_that_are_nan_are_refused() -> None:
    with pytest.raises(InvalidData, match="mean gives probabilities that are NaN"):
        GPClassifier(mean=Always(np.nan), **QUICK).fit(X, Y)


def test_a_class_of_one_row_cannot_be_cross_fitted() -> None:
    y = np.zeros(50, int)
    y[7] = 1
    with pytest.raises(InvalidData, match="two rows of each of two classes"):
        GPClassifier(mean=LogisticRegression(), **QUICK).fit(X[:50], y)


def test_a_rare_class_of_three_is_one_that_some_folds_have_not_seen() -> None:
    y = np.digitize(X[:, 0], [0.0, 9.0])
    y[:2] = 2
    model = GPClassifier(mean=LogisticRegression(), **QUICK).fit(X, y)
    assert np.isfinite(model.predict_log_proba(X)).all()


def test_trees_that_stop_early_failed_on_a_class_of_one_row(monkeypatch) -> None:
    monkeypatch.setattr(means, "STOPPED", 50)
    y = np.digitize(X[:, 0], [0.0, 9.0])
    y[3] = 2
    trees = HistGradientBoostingClassifier(max_iter=2, early_stopping=True)
    model = GPClassifier(mean=trees, **QUICK).fit(X, y)
    assert np.isfinite(model.predict_log_proba(X)).all()


def test_a_prior_mean_turns_with_the_label_that_is_asked_about() -> None:
    model = GPClassifier(mean=LogisticRegression(), **QUICK).fit(X, Y).model_
    turned = model.about("0")
    assert_close(turned.probabilities(X)[:, 0], model.probabilities(X)[:, 1])


def test_a_warm_start_keeps_the_factor_and_scores_out_of_sample(spy) -> None:
    model = GPClassifier(mean=LogisticRegression(), warm_start=True, **QUICK).fit(X, Y)
    before = model.model_.mean.factor
    model.set_params(max_iter=1).fit(X, Y)  # the last step holds all hyper-parameters
    assert model.model_.mean.factor == before > 0.0
    model.set_params(mean=spy).fit(X, Y)
    assert not any(Spy.asked)


def test_online_learning_scores_new_rows_by_the_first_classifier() -> None:
    model = GPClassifier(mean=LogisticRegression(), n_inducing=15, random_state=0)
    model.partial_fit(X[:200], Y[:200])
    first = model.model_.mean.classifiers
    model.partial_fit(X[200:400], Y[200:400])
    assert model.model_.mean.classifiers is first
    assert len(model.model_.replay.score) == 400
    assert model.score(X[400:], Y[400:]) > 0.8


# --- streams and checkpoints ------------------------------------------------------------------


def test_a_stream_has_the_scores_of_the_half_that_has_not_seen_the_row(spy, monkeypatch) -> None:
    monkeypatch.setattr(stream_source, "MEMORY", 5_000)
    model = GPClassifier(mean=spy, batch_size=64, validation_fraction=0.2, **QUICK)
    model.fit(ArrayRows(X, Y))
    assert len(Spy.seen) == 2
    assert sum(map(len, Spy.asked)) == 0
    assert not set(map(bytes, Spy.seen[0])) & set(map(bytes, Spy.seen[1]))


def test_a_stream_and_an_array_lead_to_the_same_quality(monkeypatch) -> None:
    how = {"n_inducing": 15, "max_iter": 80, "random_state": 0, "batch_size": 64}
    array = GPClassifier(mean=LogisticRegression(), **how).fit(X, Y)
    monkeypatch.setattr(stream_source, "MEMORY", 20_000)
    stream = GPClassifier(mean=LogisticRegression(), **how).fit(ArrayRows(X, Y))
    nll = [-m.predict_log_proba(X)[np.arange(len(Y)), Y].mean() for m in (array, stream)]
    assert nll[0] == pytest.approx(nll[1], abs=0.03)
    blocks = np.concatenate(list(stream.predict_proba(ArrayRows(X, Y))))
    assert_close(blocks, stream.predict_proba(X))


@pytest.mark.parametrize("stream", [False, True], ids=["array", "stream"])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path, stream, monkeypatch) -> None:
    if stream:
        monkeypatch.setattr(stream_source, "MEMORY", 5_000)
    given = (ArrayRows(X, Y),) if stream else (X, Y)
    how = {"mean": RandomForestClassifier(5), "batch_size": 100, **QUICK}
    whole = GPClassifier(validation_fraction=0.1, **how).fit(*given)
    path = tmp_path / "run.ckpt"
    stop = [lambda record: record.iteration == 7]
    how |= {"checkpoint": path, "checkpoint_every": 0.0, "validation_fraction": 0.1}
    GPClassifier(callbacks=stop, **how).fit(*given)
    resumed = GPClassifier(**how).fit(*given)
    assert resumed.n_iter_ == 20
    assert resumed.model_.mean.factor == whole.model_.mean.factor
    assert (resumed.predict_proba(X) == whole.predict_proba(X)).all()
    how["mean"] = RandomForestClassifier(6)
    with pytest.raises(InvalidParameter, match="belongs to a run with mean="):
        GPClassifier(**how).fit(*given)


@pytest.fixture
def affords(monkeypatch) -> Callable[..., None]:
    """Sets how many rows of so many columns classifiers are fitted on in one second."""

    def set_to(n_rows: int, n_columns: int, n_classes: int = 2) -> None:
        n_trees = 1 if n_classes == 2 else n_classes
        affordable = min(n_rows + len(Y) / means.SCORED, n_rows / means.LEAST_SHARE)
        values = affordable * n_columns * n_trees
        monkeypatch.setattr(means, "VALUES_PER_SECOND", values)
        monkeypatch.setattr(means, "allowed", lambda: 2)

    return set_to


def test_a_short_time_budget_is_for_few_rows_of_the_classifier(spy, affords) -> None:
    affords(200, means.FEWEST_COLUMNS)
    GPClassifier(mean=spy, n_inducing=10, time_budget=1.0, random_state=0).fit(X, Y)
    assert [len(seen) for seen in Spy.seen] == [100, 100]


def test_many_columns_took_the_time_of_the_process(spy, affords) -> None:
    """MNIST with a budget of 60 s took 136."""
    wide = np.tile(X, 10)
    affords(200, wide.shape[1])
    GPClassifier(mean=spy, n_inducing=10, time_budget=1.0, random_state=0).fit(wide, Y)
    assert [len(seen) for seen in Spy.seen] == [100, 100]


@pytest.mark.parametrize(
    ("seen", "fitted"), [(10_000, 50), (300, 62)], ids=["all rows", "half of the rows"]
)
def test_mnist_in_ten_seconds_had_next_to_no_trees_and_nobody_was_told(
    spy, affords, seen, fitted, monkeypatch
) -> None:
    affords(50, means.FEWEST_COLUMNS)
    monkeypatch.setattr(prior, "ROWS_PER_SECOND", seen)
    model = GPClassifier(mean=spy, n_inducing=10, time_budget=1.0, random_state=0)
    with pytest.warns(
        UserWarning, match=f"on {fitted} of {len(Y)} rows.*give more time, or no mean"
    ):
        model.fit(X, Y)


@pytest.mark.parametrize("plenty", [10_000, 100], ids=["five folds", "halves"])
@pytest.mark.parametrize("y", [Y, np.digitize(X[:, 0], [-0.7, 0.7])], ids=["2", "3"])
def test_scores_of_rows_that_training_never_sees_took_most_of_a_short_time(
    spy, plenty, y, monkeypatch
) -> None:
    """Airline delays with a budget of 10 s took 11.8: six went into scores of two million rows."""
    monkeypatch.setattr(means, "PLENTY", plenty)
    monkeypatch.setattr(split, "PLENTY", 600)
    monkeypatch.setattr(prior, "ROWS_PER_SECOND", 300)
    how = {"n_inducing": 10, "batch_size": 64, "time_budget": 1.0, "random_state": 0}
    weight = 1.0 + y
    model = GPClassifier(mean=spy, **how).fit(X, y, weight).model_
    trained = model.n_seen  # they stand for all rows but those that are held out
    assert trained == pytest.approx(0.9 * weight.sum(), rel=0.01)
    held_out = 60 if plenty > 600 else 0  # in folds, the classifier learns from these too
    assert len(set(map(bytes, np.concatenate(Spy.seen)))) == pytest.approx(300 + held_out, abs=3)
    assert not any(Spy.asked)


@pytest.mark.parametrize("plenty", [570, 600, 601], ids=["halves", "with held-out rows", "folds"])
def test_held_out_rows_were_scored_by_a_classifier_that_had_seen_them(
    spy, plenty, monkeypatch
) -> None:
    """From 50,000 rows on they are in halves; of 50,000 rows, 3,000 are held out."""
    monkeypatch.setattr(means, "PLENTY", plenty)
    monkeypatch.setattr(split, "PLENTY", 600)
    monkeypatch.setattr(split, "SHARE", 0.06)
    monkeypatch.setattr(prior, "CALIBRATED", 10)
    given = {"n_inducing": 10, "batch_size": 64, "max_iter": 20, "random_state": 0}
    GPClassifier(mean=spy, **given).fit(X, Y)
    assert not any(Spy.asked)


@pytest.mark.parametrize("seconds", [0, 1e-6])
def test_a_time_budget_of_nothing_left_no_row_for_the_classifier(seconds) -> None:
    model = GPClassifier(mean="trees", time_budget=seconds, n_inducing=10, random_state=0)
    with pytest.warns(UserWarning, match="The classifier of mean= is fitted on"):
        model.fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_rare_class_was_not_among_the_few_rows_of_a_short_time(affords) -> None:
    affords(50, means.FEWEST_COLUMNS)
    rare = (np.arange(600) < 12).astype(int)
    model = GPClassifier(mean=LogisticRegression(), time_budget=1.0, n_inducing=10, random_state=0)
    for seed in range(3):
        with pytest.warns(UserWarning, match="The classifier of mean= is fitted on"):
            model.set_params(random_state=seed).fit(X, rare)


def test_rows_that_training_sees_are_of_all_classes() -> None:
    y = (X[:, 0] > 0.5).astype(int)
    y[:2] = 2  # a class of two rows
    data = ArrayData(X, y, np.ones(600), np.arange(3))
    settings = Settings(mean=LogisticRegression(), time_budget=200 / prior.ROWS_PER_SECOND)
    some = prior.seen_in_time(settings, data, 0)
    assert some.n_rows == pytest.approx(200, abs=3)
    np.testing.assert_allclose(np.bincount(some.y), np.bincount(y) / 3, atol=1)
    everything = replace(settings, time_budget=600 / prior.ROWS_PER_SECOND)
    assert prior.seen_in_time(everything, data, 0) is data
    assert prior.seen_in_time(replace(settings, time_budget=None), data, 0) is data


def test_weights_of_1_made_boosted_trees_ten_times_as_slow(spy) -> None:
    """They bin a column by a weighted percentile for each threshold."""
    GPClassifier(mean=spy, **QUICK).fit(X, Y)
    GPClassifier(mean=spy, **QUICK).fit(X, Y, np.ones(600))
    assert Spy.weights == [None] * 10
    GPClassifier(mean=spy, **QUICK).fit(X, Y, np.full(600, 2.0))
    assert all((weight == 2).all() for weight in Spy.weights[10:])


def test_trees_of_few_columns_took_all_of_a_short_time(monkeypatch) -> None:
    """20,000 rows of three columns with a budget of 2 s left time for one step."""
    monkeypatch.setattr(means, "allowed", lambda: 2)
    most = means.affordable(20_000, 3, 2, 2.0)
    assert means.n_folds(20_000, 10_000, most) == 2
    assert means.affordable(0, 1, 2, 2.0) < 2 * means.affordable(0, 10, 2, 2.0)


def test_on_one_core_trees_took_twice_a_budget_of_ten_seconds(monkeypatch) -> None:
    """Airline delays took 18 s; scoring all rows takes as long as fits on an eighth of them."""
    affordable = []
    for cores in (1, 2, 64):
        monkeypatch.setattr(means, "allowed", lambda cores=cores: cores)
        affordable.append(means.affordable(1_000, 8, 2, 10.0) + 1_000 / means.SCORED)
    assert affordable == pytest.approx([means.ONE_CORE * affordable[1], *affordable[1:]])
    assert affordable[1] == affordable[2]
    many = means.affordable(2_000_000, 8, 2, 10.0)
    assert many == means.LEAST_SHARE * affordable[1] < means.affordable(500_000, 8, 2, 10.0)


def test_more_rounds_of_larger_trees_took_all_of_ten_seconds() -> None:
    """EEG eye state took 14 s on one core: larger trees for each of five folds."""
    assert means.n_folds(14_000, 5_000, most=50_000) == 2
    assert means.n_folds(14_000, 5_000, most=90_000) == means.FEWER_FOLDS
    assert means.n_folds(14_000, 5_000, most=180_000) == means.FOLDS
    assert means.n_folds(12_000, 5_000, most=50_000) == means.FOLDS  # none are larger


def test_many_classes_took_the_time_of_the_process(spy, affords) -> None:
    """Eight classes with a budget of 1 s took 2.7."""
    affords(200, means.FEWEST_COLUMNS, n_classes=3)
    y = np.digitize(X[:, 0], [-0.7, 0.7])
    GPClassifier(mean=spy, n_inducing=10, time_budget=1.0, random_state=0).fit(X, y)
    assert [len(seen) for seen in Spy.seen] == [100, 100]


def test_trees_of_many_columns_have_fewer_rounds_in_a_short_time() -> None:
    for most, rounds in ((20_000, 100), (5_000, 50), (10, 10)):
        (trees,) = means.candidates("trees", 5_000, True, most)
        assert trees.max_iter == rounds


# --- files, report and commands ---------------------------------------------------------------

BOOSTED = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5)


@pytest.mark.parametrize("mean", [BOOSTED, LogisticRegression(), "trees"], ids=str)
@pytest.mark.parametrize("y", [Y, np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])], ids=["2", "3"])
def test_a_saved_model_has_its_classifier(tmp_path, mean, y, monkeypatch) -> None:
    monkeypatch.setattr(
        means, "candidates", lambda mean, *_: [BOOSTED if mean == "trees" else mean]
    )
    model = GPClassifier(mean=mean, **QUICK).fit(X[:100], y[:100])
    model.model_ = replace(model.model_, mean=replace(model.model_.mean, ratio=1.5))
    model.save(tmp_path / "a.sepgp")
    loaded = sepgp.load(tmp_path / "a.sepgp")
    assert (loaded.predict_proba(X) == model.predict_proba(X)).all()
    assert loaded.model_.mean.factor == model.model_.mean.factor
    assert repr(loaded.mean) == repr(model.mean)
    assert loaded.model_.mean.ratio == 1.5
    loaded.save(tmp_path / "b.sepgp")
    assert (sepgp.load(tmp_path / "b.sepgp").predict_proba(X) == model.predict_proba(X)).all()
    loaded.partial_fit(X[100:200], y[100:200])


def test_a_classifier_that_skops_does_not_trust_is_not_saved(tmp_path) -> None:
    model = GPClassifier(mean=Always(0.6), **QUICK).fit(X, Y)
    with pytest.raises(InvalidParameter, match=r"mean has a test_mean\.Always.*pickle the model"):
        model.save(tmp_path / "a.sepgp")
    assert not list(tmp_path.iterdir())
    assert (pickle.loads(pickle.dumps(model)).predict(X) == model.predict(X)).all()


def test_without_skops_there_is_a_sentence(tmp_path, monkeypatch) -> None:
    model = GPClassifier(mean=LogisticRegression(), **QUICK).fit(X, Y)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(InvalidParameter, match=r"pip install 'sepgp\[skops\]'"):
        model.save(tmp_path / "a.sepgp")


@pytest.mark.parametrize(
    ("name", "value"), [("left", 0), ("right", 10**6), ("feature_idx", 3), ("feature_idx", -1)]
)
def test_a_tree_that_leads_nowhere_is_refused(tmp_path, name, value) -> None:
    model = GPClassifier(mean=BOOSTED, **QUICK).fit(X[:100], Y[:100])
    model.model_.mean.classifiers[0]._predictors[0][0].nodes[name][0] = value
    files.save(model.model_, saved_parameters(model), tmp_path / "a.sepgp")
    with pytest.raises(InvalidData, match="a tree of the classifier has no end"):
        sepgp.load(tmp_path / "a.sepgp")


def saved_parameters(model):
    given = model.get_params(deep=False)
    return {name: value for name, value in given.items() if name not in OF_A_RUN}


def test_a_classifier_of_another_version_of_scikit_learn_is_named(tmp_path, monkeypatch) -> None:
    model = GPClassifier(mean=LogisticRegression(), **QUICK).fit(X, Y)
    monkeypatch.setattr(sklearn, "__version__", "0.1")
    model.save(tmp_path / "a.sepgp")
    monkeypatch.undo()
    monkeypatch.setattr(classifiers, "decoded", lambda data: 1 / 0)
    with pytest.raises(InvalidData, match=r"classifier of scikit-learn 0\.1, which version"):
        sepgp.load(tmp_path / "a.sepgp")


def test_onnx_has_no_classifier(tmp_path) -> None:
    model = GPClassifier(mean=LogisticRegression(), **QUICK).fit(X, Y)
    with pytest.raises(InvalidParameter, match=r"mean is a classifier.*train without it"):
        model.to_onnx(tmp_path / "a.onnx")


def test_a_cluster_refuses_a_prior_mean() -> None:
    dask = pytest.importorskip("sepgp.dask")
    with pytest.raises(InvalidParameter, match="mean='trees' is not for rows on a cluster"):
        dask.DaskGPClassifier(mean="trees").fit(X, Y)


def test_relevance_and_report_know_of_the_prior_mean(tmp_path) -> None:
    stripes = (np.floor(2 * X[:, 2]) % 2 == 1).astype(int)
    tree = DecisionTreeClassifier(min_samples_leaf=5)
    model = GPClassifier(mean=tree, learn_kernel=False, **QUICK).fit(X, stripes)
    alone = GPClassifier(learn_kernel=False, **QUICK).fit(X, stripes)
    assert model.feature_importances_.argmax() == 2
    assert model.feature_importances_[2] > alone.feature_importances_[2]
    draws = probabilities(model.model_, draw(model.model_, 200), X)
    assert np.abs(draws.mean(1) - model.predict_proba(X)[:, 1]).max() < 0.1
    assert "DecisionTreeClassifier" in about(model.model_)["facts"]["prior mean"]


def test_the_command_trains_with_boosted_trees(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(means, "candidates", lambda *_: [BOOSTED])
    pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y}).to_csv(tmp_path / "t.csv", index=False)
    out = str(tmp_path / "m.sepgp")
    command = ["train", str(tmp_path / "t.csv"), "--target", "y", "--out", out, "--steps", "20"]
    done = CliRunner().invoke(app, [*command, "--inducing", "10", "--mean", "trees"])
    assert done.exit_code == 0, done.output
    assert sepgp.load(out).mean == "trees"
    told = CliRunner().invoke(app, ["info", out])
    assert "prior mean" in told.output
    refused = CliRunner().invoke(app, [*command, "--mean", "forest", "--out", f"{out}2"])
    assert "Invalid value for '--mean'" in refused.output
    assert "'forest' is not one of 'trees'" in refused.output


@pytest.mark.slow
def test_a_classifier_does_not_hold_back_a_process_that_knows_better() -> None:
    """With a factor that starts at 1 the evidence ends some 100 lower, and the NLL is 0.397."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-3, 3, size=(4000, 4))
    stripes = np.where(np.floor(rows[:, 0]) % 2 == 0, 1.0, -1.0)
    f = stripes + 2 * np.sin(rows[:, 1] + rows[:, 2])
    y = (f + rng.normal(size=4000) > 0).astype(int)
    nll = []
    for mean in (None, "trees"):
        model = GPClassifier(n_inducing=50, max_iter=100, random_state=0, mean=mean)
        log_p = model.fit(rows[:2000], y[:2000]).predict_log_proba(rows[2000:])
        nll.append(-log_p[np.arange(2000), y[2000:]].mean())
    assert nll[1] < nll[0] + 0.005
