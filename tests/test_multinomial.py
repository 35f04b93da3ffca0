"""More than two classes: the multinomial probit, and the engine with a latent function for each."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from helpers import (
    METHODS,
    Problem,
    assert_close,
    assert_close_to_scale,
    assert_same,
    gaussian,
    hyperparameters,
    kernel_matrices,
    latent,
    log_g,
    many_classes,
    rbf,
    run,
)
from numpy.testing import assert_allclose, assert_array_equal
from quick import assert_one_sentence, quick
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris

import sepgp
from sepgp import GPClassifier
from sepgp.data.batches import Batch
from sepgp.errors import InvalidData, InvalidParameter
from sepgp.gp.cholesky import JITTER
from sepgp.gp.direct import direct
from sepgp.gp.kernels import RBF, Matern32, PerClass
from sepgp.gp.whitened import whitened
from sepgp.inference.evidence import adjoint_common
from sepgp.likelihoods import Multinomial, Probit, multinomial
from sepgp.likelihoods.multinomial import NOISE, _probabilities
from sepgp.likelihoods.quadrature import MANY_NODES
from sepgp.report.posterior import unlearned
from sepgp.training.settings import Settings
from sepgp.training.step import Engine

EVERY_METHOD = pytest.mark.parametrize("method", METHODS)


def cavities(n: int, n_classes: int, widest: float = 30.0, seed: int = 0):
    """Labels, means and variances of random cavities, from near to hopelessly wrong."""
    random = torch.Generator().manual_seed(seed)
    size = torch.exp(2 * torch.randn(n, generator=random, dtype=torch.float64))
    mean = size * torch.randn(n_classes, n, generator=random, dtype=torch.float64)
    var = widest ** torch.rand(n_classes, n, generator=random, dtype=torch.float64) - 1
    s = 0.3 * torch.rand(n, generator=random, dtype=torch.float64)
    return torch.randint(0, n_classes, (n,), generator=random), mean, var, s


# --- the likelihood ---------------------------------------------------------------------------


def test_two_classes_are_the_closed_probit() -> None:
    """log Z = log Φ((m_y − m_o)/√(1 + s_y + s_o + v_y + v_o)), to 1e-6 in the far tail too."""
    y, mean, var, s = cavities(4000, 2, 300.0)
    tilted = Multinomial(2).moments(y, mean, var, s)
    sign, total = 2.0 * y - 1, 1 + 2 * s + var.sum(0)
    z = sign * (mean[1] - mean[0]) / total.sqrt()
    assert z.min() < -40
    assert_close(tilted.log_Z, torch.special.log_ndtr(z), rtol=1e-9, atol=1e-6)
    ratio = torch.exp(-0.5 * z * z - 0.5 * math.log(2 * math.pi) - torch.special.log_ndtr(z))
    alpha = sign * ratio / total.sqrt()
    near = z > -30
    assert_close(tilted.alpha[1][near], alpha[near], rtol=1e-4, atol=1e-5)
    assert_close(tilted.alpha[0], -tilted.alpha[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_three_classes_are_brute_force(seed: int) -> None:
    """That class y is ahead of both others is an orthant of two Gaussian differences."""
    y, mean, var, s = cavities(20, 3, 30.0, seed)
    mean = mean.clamp(-4, 4)
    log_Z = Multinomial(3).moments(y, mean, var, s).log_Z
    w = NOISE + s + var
    for i in range(20):
        others = [c for c in range(3) if c != y[i]]
        lead = mean[y[i], i] - mean[others, i]
        cov = w[y[i], i] + torch.diag(w[others, i])
        orthant = multivariate_normal(-lead.numpy(), cov.numpy(), abseps=1e-10).cdf([0, 0])
        assert_close(log_Z[i].exp(), orthant, rtol=0, atol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("widest", [2.0, 1000.0])
def test_probabilities_sum_to_one_by_themselves(n_classes: int, widest: float) -> None:
    n = max(3, 2000 // n_classes)
    _, mean, var, _ = cavities(n, n_classes, widest)
    p = _probabilities(mean.T.numpy(), var.T.numpy())
    assert_allclose(p.sum(1), 1, atol=1e-6)
    assert (p >= 0).all()


def test_what_the_quadrature_lacks_of_one_is_taken_out() -> None:
    _, mean, var, _ = (x.numpy().T for x in cavities(2000, 3, 1000.0))
    raw, p = _probabilities(mean, var), Multinomial(3).probabilities(mean, var)
    assert np.abs(raw.sum(1) - 1).max() > 1e-12
    assert_allclose(p.sum(1), 1, rtol=1e-15)
    assert_allclose(p, raw / raw.sum(1, keepdims=True), rtol=1e-15)


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_predictions_do_not_depend_on_the_size_of_a_block(rows: int, monkeypatch) -> None:
    y, mean, var, _ = (x.numpy().T for x in cavities(50, 3))
    likelihood = Multinomial(3)
    whole = likelihood.probabilities(mean, var), likelihood.log_probability(y, mean, var)
    monkeypatch.setattr(multinomial, "BLOCK", rows * MANY_NODES * 3)
    blocks = likelihood.probabilities(mean, var), likelihood.log_probability(y, mean, var)
    for one, other in zip(whole, blocks, strict=True):
        assert_allclose(one, other, rtol=1e-9)


def test_the_mean_alone_decides_between_two_classes_only() -> None:
    _, mean, var, _ = (x.numpy().T for x in cavities(50, 3))
    likelihood = Multinomial(3)
    assert_array_equal(
        likelihood.most_probable(mean, var), likelihood.decision(mean, var).argmax(1)
    )
    with pytest.raises(TypeError, match="the mean alone does not decide between many classes"):
        likelihood.most_probable(mean, None)


@pytest.mark.parametrize("n_classes", [3, 10])
def test_shared_nodes_and_those_of_one_class_agree(n_classes: int) -> None:
    y, mean, var, _ = (x.numpy() for x in cavities(500, n_classes))
    likelihood = Multinomial(n_classes)
    p = likelihood.probabilities(mean.T, var.T)[np.arange(500), y]
    log_p = likelihood.log_probability(y, mean.T, var.T)
    assert_allclose(np.exp(log_p), p, rtol=1e-5, atol=1e-8)
    assert_allclose(
        likelihood.log_probabilities(mean.T, var.T)[np.arange(500), y], log_p, atol=1e-5
    )
    assert log_p.min() < -100


def test_probabilities_of_hundreds_of_like_classes_were_off_by_5e_6() -> None:
    """The largest of many like values has a narrow density, which needs more nodes."""
    mean = 0.3 * np.random.default_rng(0).normal(size=(5, 500))
    g = np.linspace(-10, 12, 801)
    z = (g - mean[:, :, None]) / np.sqrt(NOISE + 1.0)
    share = np.exp(log_ndtr(z).sum(1, keepdims=True) - log_ndtr(z) - 0.5 * z * z).sum(2)
    expected = share / share.sum(1, keepdims=True)
    found = Multinomial(500).probabilities(mean, np.ones_like(mean))
    assert_allclose(found, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("n_classes", [3, 10])
def test_alpha_and_gamma_are_derivatives_of_log_Z(n_classes: int) -> None:
    y, mean, var, s = cavities(200, n_classes)
    mean, h = mean.clamp(-20, 20), 1e-4
    likelihood = Multinomial(n_classes)
    tilted = likelihood.moments(y, mean, var, s)
    for c in range(n_classes):
        e = torch.zeros_like(mean)
        e[c] = h

        def log_Z(sign: int, mean_=mean, e=e) -> torch.Tensor:
            return likelihood.moments(y, mean_ + sign * e, var, s).log_Z

        assert_close(tilted.alpha[c], (log_Z(1) - log_Z(-1)) / (2 * h), rtol=1e-4, atol=1e-5)
        up, down = (likelihood.moments(y, mean, var + k * e, s).log_Z for k in (1, -1))
        assert_close(tilted.gamma[c], (up - down) / (2 * h), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_sites_have_the_moments_that_alpha_and_gamma_say(n_classes: int) -> None:
    """The tilted mean is m + vα and the tilted variance v − v²λ, with λ = α² − 2γ."""
    y, mean, var, s = cavities(200, n_classes)
    mean, var = mean.clamp(-5, 5), var + 0.1
    _, alpha, gamma, nu, mu = Multinomial(n_classes).moments(y, mean, var, s)
    tilted_var = var - var**2 * (alpha**2 - 2 * gamma)
    assert_close(1 / (1 / var + nu), tilted_var, rtol=1e-9, atol=1e-9)
    assert_close((mean / var + mu) * tilted_var, mean + var * alpha, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
def test_sites_are_never_negative(n_classes: int) -> None:
    assert_proper(n_classes, 40_000 // n_classes)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
def test_a_million_sites_are_never_negative(n_classes: int) -> None:
    for seed in range(1, 51):
        assert_proper(n_classes, 20_000 // n_classes, seed)


def assert_proper(n_classes: int, n: int, seed: int = 0) -> None:
    tilted = Multinomial(n_classes).moments(*cavities(n, n_classes, 300.0, seed))
    assert all(bool(torch.isfinite(part).all()) for part in tilted)
    assert (tilted.nu >= 0).all()


@pytest.mark.parametrize("distance", [40.0, 1e3, 1e5])
def test_a_row_that_is_wrong_by_many_deviations_has_finite_moments(distance: float) -> None:
    mean = torch.tensor([[0.0], [-1.0], [-distance]], dtype=torch.float64)
    var = torch.full_like(mean, 0.1)
    y = torch.tensor([2])
    tilted = Multinomial(3).moments(y, mean, var, torch.zeros(1, dtype=torch.float64))
    assert all(bool(torch.isfinite(part).all()) for part in tilted)
    # Class 2 has to rise and both others to fall: ½ D²/(w + w/2) with w = 0.6.
    assert_close(tilted.log_Z[0] / distance**2, -0.5 / 0.9, rtol=0.05, atol=0.0)
    assert (tilted.nu >= 0).all()
    assert tilted.alpha[2] > 0 > tilted.alpha[0]


# --- the engine -------------------------------------------------------------------------------


@EVERY_METHOD
def test_evidence_of_one_row_is_exact(method: str) -> None:
    """Before anything is known, a row has each of C classes with probability 1/C."""
    for n_classes in (3, 5):
        p = many_classes(1, 2, n_classes)
        outcome = run(method, rbf(p.Z), p, steps=1 if method == "adf" else 5)
        assert_close(outcome.info.log_evidence, -math.log(n_classes), rtol=0, atol=1e-7)


@pytest.mark.parametrize("form", ["ep batch", "ep minibatch"])
@pytest.mark.parametrize("steps", [1, 3])
def test_sep_is_ep_for_one_row(form: str, steps: int) -> None:
    p = many_classes(1, 3)
    hyper = rbf(p.Z)
    assert_same(run("sep", hyper, p, steps), run(form, hyper, p, steps, damping=1.0))


def test_ep_minibatch_of_all_rows_is_ep_batch() -> None:
    p = many_classes(12, 4)
    hyper = rbf(p.Z)
    rows = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    batch = run("ep batch", hyper, p, 6)
    minibatch = run("ep minibatch", hyper, p, 6, rows=rows)
    assert_same(minibatch, batch)


@EVERY_METHOD
def test_weight_two_is_a_duplicated_row(method: str) -> None:
    p = many_classes(10, 4)
    duplicated = p.take(torch.tensor([*range(10), 3, 7]))
    weighted = p._replace(weight=p.weight.index_fill(0, torch.tensor([3, 7]), 2.0))
    hyper = rbf(p.Z)
    assert_same(run(method, hyper, weighted, 3), run(method, hyper, duplicated, 3))


@EVERY_METHOD
def test_permuted_class_names_permute_the_answer_and_nothing_else(method: str) -> None:
    p = many_classes(20, 5)
    hyper = rbf(p.Z)
    expected = run(method, hyper, p, 3)
    for order in permutations(range(3)):
        renamed = torch.tensor(order)
        actual = run(method, hyper, p._replace(y=renamed[p.y]), 3)
        assert_close(actual.info.log_evidence, expected.info.log_evidence)
        assert_close(actual.gradient, expected.gradient)
        assert_close(actual.state.b[renamed], expected.state.b)
        assert_close(actual.state.Lambda[renamed], expected.state.Lambda)


@EVERY_METHOD
def test_direct_and_whitened_coordinates_give_the_same_step(method: str) -> None:
    p = many_classes(20, 5)
    hyper = rbf(p.Z)
    steps = [run(method, hyper, p, 3, basis=basis) for basis in (direct, whitened)]
    assert_same(*steps)


def own_kernels(Z: torch.Tensor):
    """A kernel for each of three classes, all different."""
    return hyperparameters(PerClass(RBF(1.5, 2.0), RBF(1.1, 0.7), Matern32(2.0, 3.0)), Z)


@pytest.mark.parametrize("method", ["sep", "adf"])
def test_direct_and_whitened_coordinates_give_the_same_step_with_a_kernel_each(method: str) -> None:
    p = many_classes(20, 5)
    steps = [run(method, own_kernels(p.Z), p, 3, basis=basis) for basis in (direct, whitened)]
    assert_same(*steps)


@pytest.mark.parametrize("basis", [direct, whitened])
def test_equal_kernels_of_all_classes_are_one_kernel(basis) -> None:
    """The gradients of the copies add up to that of the one."""
    p = many_classes(20, 5)
    one = run("sep", rbf(p.Z, 1.5), p, 3, basis=basis)
    many = run("sep", hyperparameters(PerClass(*[RBF(1.5, 2.0)] * 3), p.Z), p, 3, basis=basis)
    assert_close(many.state.Lambda, one.state.Lambda, rtol=1e-9, atol=1e-12)
    assert_close(many.info.log_evidence, one.info.log_evidence, rtol=1e-12, atol=0)
    n_points = p.Z.numel()
    assert_close_to_scale(many.gradient[-n_points:], one.gradient[-n_points:], 1e-9)
    kernels = many.gradient[:-n_points].reshape(3, -1).sum(0)
    assert_close_to_scale(kernels, one.gradient[:-n_points], 1e-9)


def dense_rows(p: Problem, matrices, mean: torch.Tensor, cov: torch.Tensor) -> torch.Tensor:
    """log Z_i of every row under a cavity over u for each class, mean (C, m), cov (C, m, m)."""
    A = torch.linalg.inv(matrices.Kmm) @ matrices.Kmb
    s = matrices.kdiag - (matrices.Kmb * A).sum(-2)
    A = A.expand(len(mean), *A.shape[-2:])
    var = torch.einsum("cmi,cmk,cki->ci", A, cov, A)
    return p.likelihood.moments(p.y, torch.einsum("cm,cmi->ci", mean, A), var, s).log_Z


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("method", ["sep", "adf"])
def test_gradient_and_evidence_are_those_of_the_dense_formula(method: str, shared: bool) -> None:
    """Equation (2), C = 3: sites and cavities over u stay, the prior, υ_i and s_i move with ξ."""
    p = many_classes(12, 3, d=4)
    p = p._replace(weight=0.5 * (1 + torch.arange(12) % 4).double())
    hyper, n = rbf(p.Z, 1.5) if shared else own_kernels(p.Z), float(p.weight.sum())
    state = run(method, hyper, p, 3).state
    share = 1 / n if method == "sep" else 0.0
    prior = torch.linalg.inv(kernel_matrices(hyper, hyper.start, p.X).Kmm)
    cavity = gaussian(prior + (1 - share) * state.Lambda, (1 - share) * state.b)

    def surrogate(xi: torch.Tensor) -> torch.Tensor:
        matrices = kernel_matrices(hyper, xi, p.X)
        prior_ = torch.linalg.inv(matrices.Kmm)
        empty = torch.zeros_like(state.b)
        norm = log_g(prior_ + state.Lambda, state.b) - log_g(prior_ + 0 * state.Lambda, empty)
        return norm.sum() + (p.weight * dense_rows(p, matrices, *cavity)).sum()

    h = 1e-3
    expected = torch.stack(
        [
            (
                8 * (surrogate(hyper.start + e) - surrogate(hyper.start - e))
                - (surrogate(hyper.start + 2 * e) - surrogate(hyper.start - 2 * e))
            )
            / (12 * h)
            for e in h * torch.eye(len(hyper.start), dtype=torch.float64)
        ]
    )
    outcome = run(method, hyper, p, state=state)
    assert_close_to_scale(outcome.gradient, expected, 1e-6)
    removal = log_g(prior + (1 - share) * state.Lambda, (1 - share) * state.b)
    removal = n * (removal - log_g(prior + state.Lambda, state.b)).sum()
    assert_close(outcome.info.log_evidence, surrogate(hyper.start) + removal, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_kernel_for_each_class_is_learned_and_kept_in_files(dtype: str, tmp_path) -> None:
    """Each class depends on features of its own; minibatches, predictions, files and the report."""
    X = np.random.default_rng(0).normal(size=(600, 3))
    y = np.where(X[:, 0] > 0.8, 2, (X[:, 1] * X[:, 2] > 0).astype(int))
    model = quick(shared_kernel=False, kernel="rbf", batch_size=200, max_iter=40, dtype=dtype)
    model.fit(X, y)
    kernels = [part.lengthscale for part in model.kernel_.parts]
    assert len(kernels) == 3
    assert not torch.equal(kernels[0], kernels[2])
    p = model.predict_proba(X)
    assert p.shape == (600, 3)
    assert (p.argmax(1) == y).mean() > 0.8
    model.save(tmp_path / "m.sepgp")
    assert_array_equal(sepgp.load(tmp_path / "m.sepgp").predict_proba(X), p)
    assert_allclose(sum(model.feature_importances_), 1)
    assert unlearned(model.model_, X[:5]).shape == (5,)


def test_a_kernel_for_each_class_is_nothing_new_for_two_classes_and_refused_for_ep() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    one, other = (quick(shared_kernel=shared).fit(X, y) for shared in (True, False))
    assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    with pytest.raises(InvalidParameter) as caught:
        quick(shared_kernel=False, method="ep").fit(X, y)
    assert_one_sentence(str(caught.value))


@pytest.mark.parametrize("basis", [direct, whitened])
def test_determinants_are_those_of_the_differences_of_classes(basis) -> None:
    """½ log|cov of f_c − f_C| of q beside the prior: the matrix of all differences, written out."""
    p = many_classes(20, 4)
    Lambda = run("sep", rbf(p.Z, 1.5), p, 3).state.Lambda
    Kmm = kernel_matrices(rbf(p.Z, 1.5), rbf(p.Z, 1.5).start, p.X).Kmm.detach().requires_grad_()
    pairs = torch.tensor([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]]).double()
    differences = torch.kron(pairs, torch.eye(4, dtype=torch.float64))

    def half_log_det(covs: list[torch.Tensor]) -> torch.Tensor:
        return 0.5 * torch.logdet(differences @ torch.block_diag(*covs) @ differences.T)

    covs = [torch.linalg.inv(torch.linalg.inv(Kmm) + own) for own in Lambda]
    of_differences = half_log_det(covs) - half_log_det([Kmm] * 3)
    of_each = sum(0.5 * (torch.logdet(cov) - torch.logdet(Kmm)) for cov in covs)
    (expected,) = torch.autograd.grad(of_each - of_differences, Kmm)
    assert_close_to_scale(adjoint_common(basis(Kmm.detach(), 0.0), Lambda), expected, 1e-9)


@pytest.mark.parametrize(("shared", "n_classes"), [(True, 3), (False, 3), (True, 2)])
def test_a_step_does_not_pay_for_what_classes_have_in_common(shared: bool, n_classes: int) -> None:
    """Unless there are two, which have one function, or each class has a kernel of its own."""
    p = many_classes(20, 4, n_classes)
    if n_classes == 2:
        p = p._replace(y=2.0 * p.y.double() - 1, likelihood=Probit())
    hyper = rbf(p.Z, 1.5) if shared else own_kernels(p.Z)
    found = run("sep", hyper, p, 3, jitter=JITTER)
    engine = Engine.of(Settings(method="sep"), p.likelihood, hyper)
    state = engine.init(4, 20, minibatch=False)._replace(sites=found.state)
    codes = p.y.long() if n_classes > 2 else (p.y > 0).long()
    batch = Batch(p.X, codes, p.weight, None)
    _, info = engine.step(state, batch, 20.0, rate=0.1)
    evidence = run("sep", hyper, p, state=found.state, jitter=JITTER).gradient
    paid = torch.zeros_like(evidence)
    if shared and n_classes > 2:
        xi = hyper.start.clone().requires_grad_()
        Kmm = kernel_matrices(hyper, xi, p.X).Kmm
        common = adjoint_common(direct(Kmm.detach()), found.state.Lambda)
        (paid,) = torch.autograd.grad(Kmm, xi, common)
        assert paid.abs().max() > 0.1 * evidence.abs().max()
    assert_close_to_scale(info.gradient, evidence - paid, 1e-9)


@pytest.mark.slow
def test_ep_gradient_is_total_at_the_fixed_point() -> None:
    p = many_classes(8, 3)
    hyper = rbf(p.Z, 1.5)

    def converged(xi: torch.Tensor):
        return run("ep batch", hyper, p, 60, xi=xi)

    steps = 1e-4 * torch.eye(len(hyper.start), dtype=torch.float64)[[0, 1, 2, 4]]
    expected = torch.stack(
        [
            (
                converged(hyper.start + e).info.log_evidence
                - converged(hyper.start - e).info.log_evidence
            )
            / 2e-4
            for e in steps
        ]
    )
    assert_close_to_scale(converged(hyper.start).gradient[[0, 1, 2, 4]], expected, 1e-5)


@pytest.mark.slow
def test_sep_is_near_ep_at_convergence() -> None:
    p = many_classes(60, 10)
    hyper, test = rbf(p.Z), many_classes(40, 1, seed=1).X
    sep_mean, sep_var = latent(run("sep", hyper, p, 200), hyper, test)
    ep_mean, ep_var = latent(run("ep batch", hyper, p, 200), hyper, test)
    assert torch.corrcoef(torch.stack([sep_mean.ravel(), ep_mean.ravel()]))[0, 1] > 0.99
    assert_close(sep_mean, ep_mean, rtol=0.0, atol=0.3)
    assert_close(sep_var, ep_var, rtol=0.25, atol=0.0)


@pytest.mark.parametrize("method", ["sep", "ep batch"])
def test_the_variance_of_a_difference_is_that_of_the_probit(method: str) -> None:
    """Two classes with a function each, and the probit with one that has twice the covariance.

    Sites of each function by itself would leave the difference nearly twice the variance.
    """
    p = many_classes(200, 10, 2)
    one = p._replace(y=2.0 * p.y.double() - 1, likelihood=Probit())
    test = many_classes(40, 1, seed=1).X
    mean, var = latent(run(method, rbf(p.Z, 1.5), p, 60, rho=0.3), rbf(p.Z, 1.5), test)
    twice = hyperparameters(RBF(1.5, 4.0), p.Z)
    expected_mean, expected_var = latent(run(method, twice, one, 60, rho=0.3), twice, test)
    assert_close(mean[1] - mean[0], expected_mean, rtol=0.1, atol=0.1)
    assert_close(var.sum(0), expected_var, rtol=0.15, atol=0.0)


# --- the estimator ----------------------------------------------------------------------------

FEATURES, SPECIES = load_iris(return_X_y=True)


def test_iris() -> None:
    model = quick(max_iter=60).fit(FEATURES, SPECIES)
    p = model.predict_proba(FEATURES)
    assert p.shape == (150, 3)
    assert_allclose(p.sum(1), 1)
    assert model.score(FEATURES, SPECIES) > 0.94
    mean, variance = model.predict_latent(FEATURES)
    assert mean.shape == variance.shape == (150, 3)
    assert (variance > 0).all()
    assert_array_equal(model.decision_function(FEATURES).argmax(1), model.predict(FEATURES))
    assert_allclose(model.predict_log_proba(FEATURES), np.log(p), atol=1e-4)


@pytest.mark.parametrize("method", ["sep", "adf", "ep"])
def test_a_minibatch_of_all_rows_is_batch(method: str) -> None:
    models = [
        quick(method=method, batch_size=size, max_iter=5).fit(FEATURES, SPECIES)
        for size in (150, 1000)
    ]
    assert_allclose(*(m.predict_proba(FEATURES) for m in models), rtol=1e-9)


def test_stream_is_array() -> None:
    def blocks():
        for begin in range(0, 150, 40):
            yield FEATURES[begin : begin + 40], SPECIES[begin : begin + 40]

    options = {"standardize": False, "inducing": FEATURES[::15], "batch_size": 150}
    array = quick(**options).fit(FEATURES, SPECIES).predict_proba(FEATURES)
    assert_allclose(quick(**options).fit(blocks).predict_proba(FEATURES), array, rtol=1e-6)


@pytest.mark.parametrize("method", ["sep", "ep"])
def test_save_and_load_bit_for_bit(method: str, tmp_path) -> None:
    names = np.array(["setosa", "versicolor", "virginica"])
    model = quick(method=method).fit(FEATURES, names[SPECIES])
    model.save(tmp_path / "iris.sepgp")
    loaded = sepgp.load(tmp_path / "iris.sepgp")
    assert_array_equal(loaded.predict_proba(FEATURES), model.predict_proba(FEATURES))
    assert_array_equal(loaded.classes_, names)
    loaded.partial_fit(FEATURES[:20], names[SPECIES[:20]])


@pytest.mark.parametrize("method", ["sep", "ep"])
def test_a_fit_that_was_stopped_goes_on_bit_for_bit(method: str, tmp_path) -> None:
    whole = quick(method=method, batch_size=50).fit(FEATURES, SPECIES)
    options = {"method": method, "batch_size": 50, "checkpoint": tmp_path / "run"}

    class Stop(Exception):
        pass

    def stop(record) -> None:
        if record.iteration == 9:
            raise Stop

    with pytest.raises(Stop):
        quick(**options, checkpoint_every=0.0, callbacks=[stop]).fit(FEATURES, SPECIES)
    resumed = quick(**options).fit(FEATURES, SPECIES)
    assert resumed.n_iter_ == 20
    assert_array_equal(resumed.predict_proba(FEATURES), whole.predict_proba(FEATURES))


def test_validation_rows_and_weights() -> None:
    model = quick(max_iter=60, validation_fraction=0.2, class_weight="balanced")
    model.fit(FEATURES, SPECIES, sample_weight=np.linspace(0.5, 2, 150))
    assert np.nanmin(model.history_["validation_nll"]) < 0.4


def test_partial_fit_with_classes_that_come_later() -> None:
    model = GPClassifier(n_inducing=20, random_state=0)
    for begin in range(0, 150, 50):  # sorted by species
        part = slice(begin, begin + 50)
        model.partial_fit(FEATURES[part], SPECIES[part], classes=[0, 1, 2])
    assert model.score(FEATURES, SPECIES) > 0.75


def test_every_class_has_inducing_points() -> None:
    random = np.random.default_rng(0)
    y = np.r_[np.zeros(5000, int), np.repeat(np.arange(1, 10), 3)]
    X = random.normal(size=(len(y), 2)) + 10 * y[:, None]
    model = GPClassifier(n_inducing=12, max_iter=1, learn_inducing=False, random_state=0).fit(X, y)
    near = np.unique(np.rint(model.inducing_points_.mean(1) / 10))
    assert_array_equal(near, np.arange(10))


LABELS = {
    "strings": np.array(["a", "b", "c"])[SPECIES],
    "negative integers": SPECIES - 2,
    "floats that are whole": SPECIES * 1.0,
    "integers as objects": SPECIES.astype(object),
    "strings as objects": np.array(["x", "yy", "zzz"], dtype=object)[SPECIES],
    "large integers": SPECIES + 2**60,
}


@pytest.mark.parametrize("name", LABELS)
def test_labels(name: str) -> None:
    y = LABELS[name]
    model = quick().fit(FEATURES, y)
    assert_array_equal(model.predict(FEATURES)[:50], y[:50])
    assert_allclose(
        model.predict_proba(FEATURES), quick().fit(FEATURES, SPECIES).predict_proba(FEATURES)
    )


def test_two_hundred_classes_with_two_rows_each() -> None:
    y = np.repeat(np.arange(200), 2)
    X = np.random.default_rng(0).normal(size=(400, 3)) + y[:, None]
    with pytest.warns(UserWarning, match="200 whole numbers as classes"):
        p = quick(max_iter=3).fit(X, y).predict_proba(X)
    assert p.shape == (400, 200)
    assert_allclose(p.sum(1), 1)


def test_a_class_with_one_row_and_one_that_only_test_rows_have() -> None:
    y = SPECIES.copy()
    y[149] = 7
    model = quick().fit(FEATURES, y)
    assert model.classes_.tolist() == [0, 1, 2, 7]
    y[0] = 9
    assert 0 < model.score(FEATURES, y) < 1
    assert np.isfinite(model.predict_proba(FEATURES)).all()


def test_labels_of_several_types_are_refused_in_one_sentence() -> None:
    y = np.array([False, True, 2], dtype=object)[SPECIES]
    with pytest.raises(InvalidData, match="labels of several types, bool and int; give") as caught:
        quick().fit(FEATURES, y)
    assert_one_sentence(str(caught.value))


def test_labels_that_differ_in_case_or_spaces_were_silently_classes_of_their_own() -> None:
    y = np.array(["Yes", "no", "yes "])[SPECIES]
    with pytest.warns(
        UserWarning, match="'Yes' and 'yes ', which differ in nothing but case or"
    ) as w:
        quick(max_iter=1).fit(FEATURES, y)
    assert_one_sentence(str(w[0].message))
