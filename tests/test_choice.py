"""The default kernel of large tables: trials on held-out rows, learned maps and components."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import sepgp
from sepgp import GPClassifier, kernels, means
from sepgp.data.components import projected
from sepgp.data.moments import standardization
from sepgp.gp.hyperparameters import Hyperparameters
from sepgp.likelihoods import Probit, for_classes
from sepgp.training import choice

QUICK = {"n_inducing": 20, "batch_size": 500, "random_state": 0}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials of few steps, so that a training of 80 is long beside them."""
    for name, value in {
        "STEPS": 20,
        "LONGER": 30,
        "WORTH": 80,
        "POINTS": 20,
        "BATCH": 300,
        "MINIBATCH": 500,
        "ROWS_PER_WEIGHT": 5,
    }.items():
        monkeypatch.setattr(choice, name, value)


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what trials have chosen."""
    found: list[str] = []
    real = choice.best

    def best(*arguments):
        candidate = real(*arguments)
        found.append(candidate.name)
        return candidate

    monkeypatch.setattr("sepgp.training.start.best", best)
    return found


def rows(n: int = 1500, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, X[:, 0] * X[:, 1] > 0


def of_rank(n: int = 1500, d: int = 120, rank: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Many features that are noisy copies of few."""
    rng = np.random.default_rng(0)
    few = rng.normal(size=(n, rank))
    y = few[:, 0] * few[:, 1] > 0
    return few @ rng.normal(size=(rank, d)) + rng.normal(size=(n, d)), y


def test_the_best_of_the_candidates_is_trained(short, chosen, monkeypatch) -> None:
    scores = {name: 1.0 for name in (choice.SMOOTH, choice.ROUGH)}
    scores |= {f"warped {name}": 1.0 for name in scores} | {f"warped {choice.ROUGH}": 0.5}
    monkeypatch.setattr(choice, "score", lambda candidate, **_: scores[candidate.name])
    model = GPClassifier(max_iter=80, **QUICK).fit(*rows())
    assert chosen == [f"warped {choice.ROUGH}"]
    assert isinstance(model.kernel_, kernels.Warped)
    assert [type(term).__name__ for term in model.kernel_.kernel.terms()] == ["Matern12"] * 2


@pytest.mark.parametrize(
    ("n_rows", "plain", "warped"), [(2239, 2, 0), (2240, 2, 2), (67_199, 2, 2), (67_200, 0, 2)]
)
def test_rows_for_each_weight_decide_whether_a_learned_map_is_tried(n_rows, plain, warped) -> None:
    """10 rows for each of 224 weights, and 300."""
    X = rows(100)[0]
    scaling = standardization(X, np.ones(100))
    tried = [
        isinstance(kernel, kernels.Warped)
        for kernel, *_ in choice.candidates(scaling, X, n_rows, 2)
    ]
    assert tried == [False] * plain + [True] * warped


@pytest.mark.parametrize(("gain", "expected"), [(0.07, choice.SMOOTH), (0.08, "warped")])
def test_a_learned_map_must_gain_what_its_weights_cost(
    gain, expected, short, chosen, monkeypatch
) -> None:
    """224 weights and 1,500 rows: .0747 nats."""

    def score(candidate, **_) -> float:
        return 1.0 - gain if candidate.name == f"warped {choice.SMOOTH}" else 1.0

    monkeypatch.setattr(choice, "score", score)
    GPClassifier(max_iter=80, **QUICK).fit(*rows())
    assert chosen[0].startswith(expected)


@pytest.mark.parametrize(
    ("gain", "later", "expected", "longer"),
    [
        (0.03, 0.9, choice.SMOOTH, []),
        (0.05, 0.07, choice.SMOOTH, [choice.SMOOTH, f"warped {choice.ROUGH}"]),
        (0.05, 0.08, f"warped {choice.ROUGH}", [choice.SMOOTH, f"warped {choice.ROUGH}"]),
        (0.08, 0.0, f"warped {choice.ROUGH}", []),
    ],
)
def test_a_map_that_gains_more_than_half_its_cost_is_tried_for_longer(
    gain, later, expected, longer, short, chosen, monkeypatch
) -> None:
    """The map costs .0747 nats, and gains the more the longer it is trained."""
    tried = []

    def score(candidate, steps, **_) -> float:
        if steps == choice.LONGER:
            tried.append(candidate.name)
        gained = gain if steps == choice.STEPS else later
        return {choice.SMOOTH: 1.0, f"warped {choice.ROUGH}": 1.0 - gained}.get(candidate.name, 1.1)

    monkeypatch.setattr(choice, "score", score)
    GPClassifier(max_iter=80, **QUICK).fit(*rows())
    assert chosen == [expected]
    assert sorted(tried) == sorted(longer)


def test_a_candidate_without_a_likelihood_is_not_chosen(short, chosen, monkeypatch) -> None:
    nan = float("nan")
    monkeypatch.setattr(
        choice, "score", lambda candidate, **_: 1.0 if candidate.name == choice.ROUGH else nan
    )
    GPClassifier(max_iter=80, **QUICK).fit(*rows())
    assert chosen == [choice.ROUGH]


@pytest.mark.parametrize(
    "setting",
    [
        {"max_iter": 79},
        {"time_budget": 19.9},
        {"max_iter": 80, "learn_kernel": False},
        {"max_iter": 80, "kernel": "rbf"},
        {"max_iter": 80, "batch_size": 1500},
    ],
    ids=str,
)
def test_there_are_no_trials_before_a_short_training_or_if_told(setting, short, chosen) -> None:
    settings = QUICK | setting
    if "time_budget" in settings:
        settings |= {"callbacks": [lambda _: True]}
    GPClassifier(**settings).fit(*rows())
    assert chosen == []


@pytest.mark.parametrize(("plenty", "tried"), [(7, 0), (6, 1)])
def test_many_classes_try_learned_maps_where_rows_are_plenty(
    plenty, tried, short, chosen, monkeypatch
) -> None:
    """1,500 rows are 6.7 for each of 224 weights."""
    monkeypatch.setattr(choice, "PLENTY", plenty)
    monkeypatch.setattr(choice, "score", lambda *_, **how: 1.0)
    X = rows()[0]
    model = GPClassifier(max_iter=80, callbacks=[lambda _: True], **QUICK)
    model.fit(X, np.digitize(X[:, 0], [-1, 1]))
    assert len(chosen) == tried
    assert isinstance(model.kernel_, kernels.Warped) == bool(tried)


def test_a_run_that_goes_on_finds_the_same_kernel(short, chosen, tmp_path) -> None:
    X, y = rows()
    run = {**QUICK, "max_iter": 80, "checkpoint": tmp_path / "run"}
    whole = GPClassifier(**QUICK, max_iter=80).fit(X, y)

    def stop(record) -> None:
        if record.iteration == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GPClassifier(**run, checkpoint_every=0, callbacks=[stop]).fit(X, y)
    resumed = GPClassifier(**run).fit(X, y)
    assert len(set(chosen)) == 1
    assert len(chosen) == 3
    assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize(("first", "then"), [(60, 100), (100, 60)])
def test_a_run_that_went_on_with_more_steps_had_another_kernel(
    first, then, short, chosen, tmp_path
) -> None:
    """Only the longer one chooses its kernel by trials; its file was said to be damaged."""
    X, y = rows()
    run = {**QUICK, "checkpoint": tmp_path / "run", "callbacks": [lambda r: r.iteration == 10]}
    before = GPClassifier(**run, max_iter=first).fit(X, y)
    found = list(chosen)
    after = GPClassifier(**run, max_iter=then).fit(X, y)
    assert chosen == 2 * found
    assert type(after.kernel_) is type(before.kernel_)
    assert after.n_iter_ == then


def test_a_warped_kernel_starts_as_the_kernel_it_warps() -> None:
    X, y = rows(300)
    plain = GPClassifier(kernel=kernels.RBF(), max_iter=1, **QUICK).fit(X, y)
    warped = GPClassifier(kernel=kernels.Warped(kernels.RBF()), max_iter=1, **QUICK).fit(X, y)
    assert_allclose(warped.predict_proba(X), plain.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize(("d", "n_classes"), [(101, 2), (784, 2), (784, 10)])
def test_a_trial_of_components_was_as_short_as_one_of_pixels_in_steps(
    d, n_classes, monkeypatch
) -> None:
    """MNIST: an RBF of the pixels won trials of as many steps, and lost in as much time."""
    taken = []
    real = choice.islice

    def counted(batches, steps):
        taken.append(steps)
        return real(batches, steps)

    monkeypatch.setattr(choice, "islice", counted)
    monkeypatch.setattr(choice, "spread", lambda work, pieces: [work(piece) for piece in pieces])
    random = np.random.default_rng(0)
    X, y = random.normal(size=(600, d)), random.integers(0, n_classes, 600)
    some = choice.Some(X, y, np.ones(600))
    choice.best(some, standardization(X, np.ones(600)), for_classes(n_classes), 600)
    assert taken[0] == choice.STEPS
    seconds = choice.step_cost(d, n_classes) * taken[0]
    most = choice.FASTEST * choice.STEPS
    assert taken[1] == taken[2] <= most
    if taken[1] < most:
        assert choice.step_cost(100, n_classes) * taken[1] == pytest.approx(seconds, rel=0.02)


def test_components_keep_what_lies_in_their_plane() -> None:
    X, _ = of_rank()
    scaling = projected(standardization(X, np.ones(len(X))), X)
    assert scaling.width == 50
    z = scaling.apply(X)
    assert z[:, 0].std() == pytest.approx(1, rel=0.01)
    assert_allclose(scaling.apply(scaling.undo(z)), z, atol=0.3)  # far values are compressed
    assert_allclose(scaling.project(scaling.lift(z)), z, atol=1e-10)


def test_many_noisy_features_are_seen_by_their_components(short, chosen, tmp_path) -> None:
    X, y = of_rank()
    model = GPClassifier(max_iter=80, **QUICK).fit(X, y)
    assert chosen[0].startswith("components")
    assert model.inducing_points_.shape == (20, 120)
    assert model.feature_importances_.shape == (120,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    model.save(tmp_path / "model.sepgp")
    assert_array_equal(
        sepgp.load(tmp_path / "model.sepgp").predict_proba(X), model.predict_proba(X)
    )


@pytest.mark.slow
def test_many_features_of_which_few_count_are_seen_as_they_are(chosen) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 110))
    y = X[:, 3] + 0.3 * rng.normal(size=2500) > 0
    model = GPClassifier(max_iter=600, n_inducing=10, random_state=0, callbacks=[lambda _: True])
    model.fit(X, y)
    assert chosen == ["features"]


def test_importances_of_components_are_those_of_columns(short, chosen) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(1500, 3)), 40, axis=1) + 0.1 * rng.normal(size=(1500, 120))
    y = X[:, :40].mean(1) > 0
    model = GPClassifier(max_iter=80, **QUICK).fit(X, y)
    assert chosen[0].startswith("components")
    assert model.feature_importances_[:40].sum() > 0.8


def test_trials_did_not_know_the_prior_mean(short, monkeypatch) -> None:
    """Stripes that a tree has found: the kernel is chosen for what is left of them."""
    X = np.random.default_rng(0).uniform(0, 6, size=(1500, 4))
    y = np.floor(X[:, 0]) % 2 == 1
    monkeypatch.setattr(means, "PLENTY", 100)  # the factor starts at 1
    found, real = [], choice.score

    def score(candidate, **how) -> float:
        found.append(real(candidate, **how))
        return found[-1]

    monkeypatch.setattr(choice, "score", score)
    GPClassifier(max_iter=80, mean=DecisionTreeClassifier(min_samples_leaf=10), **QUICK).fit(X, y)
    assert max(found) < 0.2  # without the mean, more than .6


@pytest.mark.parametrize("y", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("better", ["process", "mean"])
def test_trials_choose_whether_the_process_or_its_mean_comes_first(
    y, better, short, monkeypatch
) -> None:
    X = rows()[0]
    labels = np.digitize(X[:, 0] + X[:, 1], [0.0] if y == 2 else [-0.7, 0.7])
    monkeypatch.setattr(choice, "WORTH_FACTOR", 80)
    tried: list[float] = []

    def score(candidate, factor, **_) -> float:
        tried.append(factor)
        return float((factor > 0) == (better == "process"))

    monkeypatch.setattr(choice, "score", score)
    started, real = [], Hyperparameters.__init__

    def init(self, *arguments, **more) -> None:
        started.append(arguments[4])
        real(self, *arguments, **more)

    monkeypatch.setattr(Hyperparameters, "__init__", init)
    GPClassifier(mean=LogisticRegression(), max_iter=80, **QUICK).fit(X, labels)
    assert min(tried[-2:]) == 0.0 < max(tried[-2:])
    assert started == [0.0 if better == "process" else max(tried)]


@pytest.mark.parametrize(("factor", "variance"), [(None, 2.0), (0.0, 2.0), (1.0, 0.1)])
def test_a_trial_with_a_prior_mean_was_as_dull_as_one_without(
    factor, variance, short, monkeypatch
) -> None:
    """It begins as the training does: the process has a small amplitude beside the whole mean."""
    X, y = rows()
    whole = choice.Some(X, y.astype(int), np.ones(len(X)), None if factor is None else X[:, 0])
    scaling = standardization(X, np.ones(len(X)))
    candidate = choice.candidates(scaling, X, 100, 2)[0]
    found = []

    def spied(kernel, Z, **more) -> Hyperparameters:
        found.append(float(kernel.diag(Z[:1]).detach()))
        return Hyperparameters(kernel, Z, **more)

    monkeypatch.setattr(choice, "Hyperparameters", spied)
    given = choice.rows_of_trials(whole, scaling)
    for _ in range(2):  # a trial leaves its candidate as it was
        choice.score(candidate, likelihood=Probit(), factor=factor, steps=2, **given)
    assert found == pytest.approx([variance, variance])
