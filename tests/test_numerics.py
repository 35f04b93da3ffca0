"""What happens where floating point ends: extremes, failures, precision and memory."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
import torch
from helpers import (
    METHODS,
    Problem,
    assert_close,
    assert_close_to_scale,
    assert_same,
    chunk,
    detach,
    kernel_matrices,
    latent,
    problem,
    rbf,
    run,
    step,
    tolerance,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from quick import blobs, quick
from torch import Tensor

import sepgp.training.step as training_step
from sepgp import GPClassifier
from sepgp.data.batches import Batch
from sepgp.gp.cholesky import JITTER, MAX_JITTER, safe_cholesky
from sepgp.gp.direct import direct
from sepgp.gp.fitc import FITC, gaussian, gram
from sepgp.gp.kernels import RBF
from sepgp.gp.natural import Natural
from sepgp.gp.predictor import posterior, predict, predictor, squared_norms, triangular
from sepgp.gp.whitened import congruent_lower, lower_times, upper_times, whitened
from sepgp.likelihoods import Multinomial, PowerProbit, Probit, for_classes
from sepgp.training.loop import train
from sepgp.training.optimizers import Adam, Sign
from sepgp.training.schedule import Schedule
from sepgp.training.settings import Settings
from sepgp.training.step import Engine

EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
EVERY_DTYPE = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)


# --- Cholesky ---------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    m=st.integers(1, 8),
    rank=st.integers(1, 8),
    log_scale=st.floats(-8, 8),
    jitter=st.sampled_from([0.0, 1e-10, JITTER, 1e-3]),
    seed=st.integers(0, 100),
)
def test_cholesky_factorises_any_semidefinite_matrix(m, rank, log_scale, jitter, seed) -> None:
    random = torch.Generator().manual_seed(seed)
    root = torch.randn(m, rank, generator=random, dtype=torch.float64)
    K = 10**log_scale * root @ root.T
    L, _, used, ok = safe_cholesky(K, jitter)
    assert ok
    assert jitter <= used <= JITTER or used == jitter
    scale = K.diagonal().mean()
    assert_close_to_scale(L @ L.T, K + used * scale * torch.eye(m).double(), 1e-12)
    assert (L.triu(1) == 0).all()


def test_cholesky_reports_the_jitter_that_a_singular_matrix_needed() -> None:
    assert safe_cholesky(torch.ones(3, 3).double(), jitter=0.0).jitter == JITTER
    dented = torch.ones(3, 3).double() - 1e-4 * torch.eye(3)  # least eigenvalue −1e-4
    found = safe_cholesky(dented)
    assert found.ok
    assert found.jitter == pytest.approx(1e-3)


def test_cholesky_takes_no_jitter_that_it_does_not_need() -> None:
    assert safe_cholesky(torch.eye(3).double(), jitter=0.0).jitter == 0


@pytest.mark.parametrize(
    "K",
    [
        torch.full((3, 3), torch.nan),
        torch.eye(3).fill_diagonal_(torch.inf),
        torch.eye(3).index_put((torch.tensor(2), torch.tensor(0)), torch.tensor(torch.nan)),
        -torch.eye(3),
        torch.zeros(3, 3),
        torch.tensor([[1.0, 2.0], [2.0, 1.0]]),
    ],
    ids=["nan", "inf", "one nan", "negative", "zero", "indefinite"],
)
def test_cholesky_of_a_hopeless_matrix_is_not_ok(K: Tensor) -> None:
    found = safe_cholesky(K.double())
    assert not found.ok
    assert found.jitter == pytest.approx(MAX_JITTER)


# --- moment matching --------------------------------------------------------------------------

MEANS = st.floats(-1e4, 1e4) | st.floats(-10, 10)
VARIANCES = st.floats(-12, 8).map(lambda x: 10.0**x)
CONDITIONALS = st.just(0.0) | st.floats(-12, 4).map(lambda x: 10.0**x)


@EVERY_DTYPE
@settings(deadline=None)
@given(y=st.sampled_from([-1.0, 1.0]), mean=MEANS, var=VARIANCES, s=CONDITIONALS)
def test_match_gives_a_proper_site_for_any_cavity(dtype, y, mean, var, s) -> None:
    """0 < λ·var < var/w for a probit, hence 0 < ν̃ < 1/(1 + s); 0 only by underflow."""
    tilted = Probit().moments(*(torch.tensor([value], dtype=dtype) for value in (y, mean, var, s)))
    assert all(torch.isfinite(value).all() for value in tilted)
    z = y * mean / (1 + s + var) ** 0.5
    nu = tilted.nu.item()
    assert nu > 0 or (nu == 0 and z > (37 if dtype == torch.float64 else 12))
    assert nu <= (1 + tolerance(dtype)["rtol"]) / (1 + s)
    curvature_var = nu * var / (1 + nu * var)
    assert 0 <= curvature_var <= 1
    assert tilted.log_Z.item() <= 0
    assert y * tilted.alpha.item() >= 0


@EVERY_DTYPE
@pytest.mark.parametrize("z", [-1e4, -1e3, -100, -30, -10, -6, -3, -1, 0, 1, 5, 10])
def test_match_is_the_textbook_in_fifty_digits(dtype: torch.dtype, z: float) -> None:
    y = torch.tensor([1, -1, 1, -1], dtype=dtype)
    var = torch.tensor([1e-8, 1.0, 1e2, 1e4], dtype=dtype)
    s = torch.tensor([0.0, 0.1, 1.0, 10.0], dtype=dtype)
    mean = y * z * (1 + s + var).sqrt()
    arguments = y, mean, var, s
    expected = [exact_match(*row) for row in zip(*(a.tolist() for a in arguments), strict=True)]
    size = {torch.float64: 1e-7, torch.float32: 1e-4}[dtype]
    for actual, wanted in zip(
        Probit().moments(*arguments), zip(*expected, strict=True), strict=True
    ):
        assert_close(actual, wanted, rtol=size, atol=0.0)


def exact_match(*arguments: float) -> tuple[float, ...]:
    """The moments of one row in 50 digits."""
    with mpmath.workdps(50):
        y, mean, var, s = map(mpmath.mpf, arguments)
        w = 1 + s + var
        z = y * mean / mpmath.sqrt(w)
        Phi = mpmath.erfc(-z / mpmath.sqrt(2)) / 2
        ratio = mpmath.npdf(z) / Phi
        alpha = y * ratio / mpmath.sqrt(w)
        curvature = alpha * (alpha + mean / w)
        shrink = 1 - curvature * var
        values = (
            mpmath.log(Phi),
            alpha,
            -ratio * z / w / 2,
            curvature / shrink,
            (alpha + mean * curvature) / shrink,
        )
        return tuple(float(value) for value in values)


# --- precision of the rows --------------------------------------------------------------------


@EVERY_METHOD
def test_float32_rows_agree_with_float64(method: str) -> None:
    """Measured: 2e-6 of the largest entry for all but the evidence, which is at 1e-7."""
    p = problem(100, 10)
    hyper = rbf(p.Z)
    double, single = (run(method, hyper, q, 5) for q in (p, p.to(torch.float32)))
    fitc = whitened(hyper.Kmm(hyper.start), jitter=0.0)
    posteriors = [fitc.posterior(fitc.to_coordinates(o.natural)) for o in (single, double)]
    size = tolerance(torch.float32)["rtol"]
    assert_close_to_scale(posteriors[0].mean, posteriors[1].mean, size)
    assert_close_to_scale(posteriors[0].cov, posteriors[1].cov, size)
    assert_close_to_scale(single.gradient, double.gradient, size)
    assert_close(single.info.log_evidence, double.info.log_evidence, rtol=size, atol=0.0)


@EVERY_METHOD
def test_float32_predictions_hold_when_inducing_points_crowd(method: str) -> None:
    """A condition number of 4e7; measured: up to 2e-5 of the largest entry, ADF worst."""
    p = problem(200, 50)
    hyper = rbf(p.Z, lengthscale=4.0, variance=4.0)
    double, single = (
        latent(run(method, hyper, q, 5, jitter=JITTER), hyper, p.X, JITTER)
        for q in (p, p.to(torch.float32))
    )
    for actual, expected in zip(single, double, strict=True):
        assert_close_to_scale(actual, expected, 2e-4)


@EVERY_METHOD
def test_direct_and_whitened_coordinates_give_the_same_step(method: str) -> None:
    p = problem(40, 8)
    hyper = rbf(p.Z)
    state = run(method, hyper, p, 3).state
    outcomes = [
        run(
            method,
            hyper,
            p,
            state=type(state)(*(t if t is None else t.clone() for t in state)),
            rows=torch.arange(40),
            basis=basis,
        )
        for basis in (direct, whitened)
    ]
    assert_same(*outcomes)


def test_cholesky_of_several_matrices_is_that_of_each() -> None:
    K = torch.eye(3).double() + 0.3
    both = safe_cholesky(torch.stack([K, 100 * K]), 1e-3)
    for L, one in zip(both.L, (K, 100 * K), strict=True):
        assert_close(L, safe_cholesky(one, 1e-3).L)


def test_a_posterior_that_cannot_be_trusted_is_nan() -> None:
    b = torch.ones(2, dtype=torch.float64)
    for diagonal, worst, fine in (
        ([1.0, -1.0], math.inf, False),
        ([1.0, 1e-12], math.inf, True),
        ([1.0, 1e-12], 1e9, False),
        ([1e6, 1e6], 1e9, True),
    ):
        q = gaussian(torch.diag(torch.tensor(diagonal, dtype=torch.float64)), b, 0.0, worst)
        assert all(bool(part.isfinite().all()) == fine for part in q)
        assert fine or all(bool(part.isnan().all()) for part in q)


def test_a_predictor_is_the_dense_formula() -> None:
    """With Σ and μ of u under q: kᵀK⁻¹μ, and k(x, x) − kᵀK⁻¹k + kᵀK⁻¹ΣK⁻¹k."""
    p, kernel = problem(8, 3), RBF(1.0, variance=2.0)
    kernel.start(p.Z)
    sites = Natural(torch.diag(torch.tensor([0.5, 2.0, 0.0]).double()), torch.arange(3).double())
    with torch.no_grad():
        K, k, kdiag = kernel(p.Z, p.Z), kernel(p.Z, p.X), kernel.diag(p.X)
        mean, variance = predict(predictor(kernel, p.Z, sites, 0.0), k, kdiag)
        A = torch.linalg.solve(K, k)
        Sigma = torch.linalg.inv(torch.linalg.inv(K) + sites.Lambda)
        assert_close(mean, A.T @ Sigma @ sites.b)
        assert_close(variance, kdiag - (k * A).sum(0) + (A * (Sigma @ A)).sum(0))


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (10, 10), (2, 5, 5)])
def test_a_triangular_matrix_has_the_norms_of_the_full_one(shape) -> None:
    random = torch.Generator().manual_seed(0)
    F, k = (torch.randn(*s, generator=random).double() for s in (shape, (shape[-1], 6)))
    R = triangular(F)
    assert_close(R, R.triu())
    assert_close(R.mT @ R, F.mT @ F)
    assert_close(squared_norms(R, k), (F @ k).square().sum(-2))


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (9, 9), (4, 9, 9)])
def test_products_with_triangular_and_symmetric_matrices_are_those_with_full_ones(shape) -> None:
    random = torch.Generator().manual_seed(0)
    A, V = (torch.randn(shape, generator=random, dtype=torch.float64) for _ in range(2))
    L, Lambda, weight = A.tril(), A + A.mT, V[..., 0, :]
    assert_close(lower_times(L, V), L @ V)
    assert_close(upper_times(L.mT, V), L.mT @ V)
    assert_close(congruent_lower(L, Lambda), L.mT @ Lambda @ L)
    assert_close(gram(V, weight), (V * weight.unsqueeze(-2)) @ V.mT)
    if len(shape) == 3:  # one matrix for all
        assert_close(congruent_lower(L[0], Lambda), L[0].mT @ Lambda @ L[0])
        assert_close(gram(V[0], weight), (V[0] * weight.unsqueeze(-2)) @ V[0].mT)


def test_a_predictor_has_the_jitter_of_its_training() -> None:
    p = problem(5, 3)
    kernel, sites = RBF(1.0), Natural(torch.eye(3).double(), torch.ones(3).double())
    kernel.start(p.Z)
    for jitter in (1e-6, 0.01):
        with torch.no_grad():
            fitc, _ = posterior(kernel, p.Z, sites, jitter)
        assert fitc.jitter == jitter
        assert_close(fitc.L @ fitc.L.T, kernel(p.Z, p.Z) + jitter * torch.eye(3))


@pytest.mark.parametrize("likelihood", [Probit(), PowerProbit(0.0), PowerProbit(0.5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_moments_are_in_the_dtype_of_the_rows(likelihood, dtype) -> None:
    rows = torch.ones(4, dtype=dtype)
    assert {part.dtype for part in likelihood.moments(rows, rows, rows, rows)} == {dtype}
    classes = rows.expand(3, 4)
    tilted = Multinomial(3).moments(torch.zeros(4).long(), classes, classes, rows)
    assert {part.dtype for part in tilted} == {dtype}


def test_predictions_of_two_classes_agree_with_each_other() -> None:
    mean, variance = np.array([-40.0, -1.0, 0.0, 0.5, 3.0]), np.array([0.5, 0.0, 1.0, 3.0, 0.2])
    probit = Probit()
    p, log_p = probit.probabilities(mean, variance), probit.log_probabilities(mean, variance)
    z = mean / np.sqrt(1 + variance)
    assert_close(probit.decision(mean, variance), z)
    assert_close(p[:, 1], [float(mpmath.ncdf(x)) for x in z], rtol=1e-12, atol=0)
    assert_close(p.sum(1), np.ones(5))
    assert_close(log_p, [[float(mpmath.log(mpmath.ncdf(s * x))) for s in (-1, 1)] for x in z])
    for code in (0, 1):
        codes = np.full(5, code)
        assert_close(probit.log_probability(codes, mean, variance), log_p[:, code])
    assert probit.most_probable(mean).tolist() == [0, 0, 0, 1, 1]


def test_the_likelihood_fits_the_number_of_classes_and_the_power() -> None:
    assert for_classes(2) == for_classes(2, 1.0) == Probit()
    assert for_classes(2, 0.5) == PowerProbit(0.5)
    assert for_classes(3) == Multinomial(3)


@pytest.mark.parametrize("method", ["sep", "ep", "adf"])
def test_weights_of_twelve_orders_give_the_same_numbers_in_both_coordinates(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = blobs(80)
    random = np.random.default_rng(0)
    weight, order = 10 ** random.uniform(-6, 6, 80), random.permutation(80)
    held = quick(method=method, n_inducing=30, learn_kernel=False, learn_inducing=False)
    expected = held.fit(X, y, sample_weight=weight).predict_proba(X)
    held.fit(X[order], y[order], sample_weight=weight[order])
    np.testing.assert_array_equal(held.predict_proba(X), expected)
    monkeypatch.setattr("sepgp.training.step.direct", whitened)
    held.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(held.predict_proba(X), expected, atol=1e-6)


# --- failed steps -----------------------------------------------------------------------------


@EVERY_METHOD
@pytest.mark.parametrize("which", ["Kmm", "Kmb", "kdiag"])
@pytest.mark.parametrize("basis", [direct, whitened])
def test_step_with_nan_leaves_the_state_alone(
    method: str, which: str, basis: Callable[..., FITC]
) -> None:
    p = problem(8, 3)
    hyper = rbf(p.Z)
    state = run(method, hyper, p, 2).state
    before = [None if t is None else t.clone() for t in state]
    matrices = detach(kernel_matrices(hyper, hyper.start, p.X))
    poisoned = getattr(matrices, which).clone()
    poisoned[-1] = torch.nan
    matrices = matrices._replace(**{which: poisoned})
    fitc = basis(matrices.Kmm)
    chunks = [chunk(fitc, matrices, p, torch.arange(8), hyper.start)]
    after, info = step(method, state, fitc, 8.0, chunks, lambda _: torch.zeros_like(hyper.start))
    assert not info.ok
    assert after is state
    for now, then in zip(state, before, strict=True):
        assert then is None or torch.equal(now, then)


class ListSource:
    """The batches handed in, over and over."""

    def __init__(self, p: Problem, batches: list[Batch]) -> None:
        self.n_rows = len(p.y)
        self.total_weight = float(p.weight.sum())
        self.batches_per_epoch = len(batches)
        self._batches = batches

    def batches(self, start: int = 0) -> Iterator[Batch]:
        while True:
            yield self._batches[start % len(self._batches)]
            start += 1


class Training(NamedTuple):
    """Training whose third batch of five has a NaN among its features."""

    engine: Engine
    source: ListSource
    good: Batch
    bad: Batch


def poisoned_training(method: str) -> Training:
    p = problem(40, 4)
    batches = [
        Batch(p.X[rows], (p.y[rows] > 0).long(), p.weight[rows], rows)
        for rows in torch.arange(40).split(8)
    ]
    X = batches[2].X.clone()
    X[0, 0] = torch.nan
    batches[2] = batches[2]._replace(X=X)
    settings = Settings(method=method.split()[0])
    engine = Engine.of(settings, Probit(), rbf(p.Z))
    return Training(engine, ListSource(p, batches), batches[0], batches[2])


@pytest.mark.parametrize("method", ["sep", "adf", "ep minibatch"])
def test_failed_training_step_returns_to_the_hyperparameters_before(method: str) -> None:
    t = poisoned_training(method)
    step = partial(t.engine.step, n=40.0, rate=0.1)
    start = t.engine.init(4, 40, minibatch=True)
    before_that, _ = step(state=start, batch=t.good)
    moved, _ = step(state=before_that, batch=t.good)
    assert not torch.equal(moved.xi, before_that.xi)
    before = [None if part is None else part.clone() for part in moved.sites]

    after, info = step(state=moved, batch=t.bad)
    assert not info.ok
    assert torch.equal(after.xi, before_that.xi)
    assert torch.equal(after.last_xi, before_that.xi)
    assert after.rate == 0.5
    assert after.iteration == 3
    for now, then in zip(after.sites, before, strict=True):
        assert then is None or torch.equal(now, then)


@pytest.mark.parametrize("method", ["sep", "adf", "ep minibatch"])
def test_training_says_rejected_and_goes_on(method: str) -> None:
    t = poisoned_training(method)
    start = t.engine.init(4, 40, minibatch=True)
    schedule = Schedule(5, None, 0.02, decay=False, tol=None, early_stopping=False)
    state, history = train(t.engine, schedule, start, t.source)
    assert [record.rejected for record in history] == [False, False, True, False, False]
    assert history[3].learning_rate == history[0].learning_rate / 2
    assert torch.isfinite(torch.tensor(history[-1].log_evidence))
    assert torch.isfinite(state.xi).all()
    assert not torch.equal(state.xi, t.engine.hyper.start)


# --- memory and improper cavities -------------------------------------------------------------


@EVERY_METHOD
def test_only_ep_keeps_something_for_every_row(method: str) -> None:
    p = problem(37, 4)
    state = run(method, rbf(p.Z), p, 2).state
    per_row = [tuple(t.shape) for t in state if t is not None and 37 in t.shape]
    expected = {
        "sep": [],
        "adf": [],
        "ep batch": [(37,), (37,)],
        "ep minibatch": [(37,), (37,), (37, 4)],
    }
    assert per_row == expected[method]


@pytest.mark.parametrize("method", ["ep batch", "ep minibatch"])
def test_ep_skips_and_counts_rows_with_an_improper_cavity(method: str) -> None:
    """Rows 0 and 1 are one point with ν̃ = 8 and −7: without the first, q has no variance."""
    p = problem(6, 3)
    p = p._replace(X=p.X.index_copy(0, torch.tensor([1]), p.X[:1]))
    hyper = rbf(p.Z)
    state = run(method, hyper, p).state  # for the directions
    nu = torch.tensor([8.0, -7.0, 0.1, 0.1, 0.1, 0.1]).double()
    mu = torch.full((6,), 0.2).double()
    upsilon = torch.linalg.solve(*kernel_matrices(hyper, hyper.start, p.X)[:2])
    state = state._replace(
        Lambda=(upsilon * nu) @ upsilon.T, b=upsilon @ mu, nu=nu.clone(), mu=mu.clone()
    )
    outcome = run(method, hyper, p, state=state)
    assert outcome.info.skipped == 1
    assert outcome.state.nu[0] == nu[0]
    assert outcome.state.mu[0] == mu[0]
    assert (outcome.state.nu[1:] != nu[1:]).all()


# --- optimisers -------------------------------------------------------------------------------


def test_adam_is_torch_adam() -> None:
    random = torch.Generator().manual_seed(0)
    xi = torch.randn(5, generator=random, dtype=torch.float64)
    reference = xi.clone().requires_grad_()
    theirs = torch.optim.Adam([reference], lr=0.1, maximize=True)
    state = Adam.init(xi)
    for _ in range(10):
        gradient = torch.randn(5, generator=random, dtype=torch.float64)
        change, state = Adam.step(state, gradient, 0.1)
        xi = xi + change
        reference.grad = gradient.clone()
        theirs.step()
        assert_close(xi, reference)


def test_sign_rule_grows_by_two_percent_and_halves_on_a_change_of_sign() -> None:
    state = Sign.init(torch.zeros(3).double())
    sizes = []
    for gradient in ([2.0, -3.0, 1.0], [1.0, -1.0, -1.0], [5.0, 1.0, -2.0]):
        gradient = torch.tensor(gradient, dtype=torch.float64)
        change, state = Sign.step(state, gradient, 0.01)
        assert_close(change, state.size * gradient)
        sizes.append(state.size / 0.01)
    expected = [[1, 1, 1], [1.02, 1.02, 0.5], [1.02**2, 0.51, 0.51]]
    assert_close(torch.stack(sizes), expected)


def test_sign_rule_never_steps_further_than_the_gradient() -> None:
    state = Sign.init(torch.zeros(1).double())
    gradient = torch.ones(1).double()
    for _ in range(20):
        change, state = Sign.step(state, gradient, 0.9)
    assert change == 1


def test_few_rows_are_taken_in_float64_whatever_their_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    p = problem(21, 10)
    engine = Engine.of(Settings(method="sep"), Probit(), rbf(p.Z))
    start = engine.init(10, 100, minibatch=True)
    rows = Batch(p.X.float(), (p.y > 0).long(), p.weight.float(), None)
    for n_rows, most, same in ((20, 500, True), (21, 500, False), (20, 20, True), (20, 19, False)):
        monkeypatch.setattr(training_step, "FEW", most)
        batch = rows.take(slice(n_rows))
        single, double = (engine.step(start, b, 100.0, 0.1)[0] for b in (batch, batch.double()))
        assert torch.equal(single.sites.b, double.sites.b) == same


def test_a_batch_in_float64_has_its_scores_in_float64() -> None:
    ones = torch.ones(2, 1)
    batch = Batch(ones, torch.zeros(2).long(), ones[:, 0], None, ones[:, 0])
    assert {part.dtype for part in batch.double() if part is not None} == {
        torch.float64,
        torch.int64,
    }


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_product_of_ep_drifted_away_from_its_sites_in_float32(n_classes) -> None:
    """With weights from 1e-6 to 1e6 it was no longer positive, and the model all NaN."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 2))
    weight = 10.0 ** rng.uniform(-6, 6, 300)
    how = {"method": "ep", "dtype": "float32", "batch_size": 50, "max_iter": 30}
    model = GPClassifier(**how, n_inducing=10, random_state=0)
    labels = np.digitize(rows[:, 0], [0.0, 0.7][: n_classes - 1])
    sites = model.fit(rows, labels, sample_weight=weight).model_.sites
    o, nu = sites.directions.numpy(), sites.nu.numpy()
    product = np.einsum("nm,...n,nk->...mk", o, weight.astype("f4") * nu.astype("f4"), o)
    assert_allclose(sites.Lambda, product, atol=1e-12 * np.abs(product).max())


def test_squared_norms_of_more_rows_than_are_taken_at_a_time() -> None:
    F, K = torch.randn(130, 130).double().triu(), torch.randn(130, 7).double()
    assert_close(squared_norms(F, K), (F @ K).square().sum(0))
