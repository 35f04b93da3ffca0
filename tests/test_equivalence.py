"""Different computations must agree wherever theory says they do."""

import math
from itertools import pairwise

import pytest
import torch
from helpers import (
    METHODS,
    KernelMatrices,
    Outcome,
    Problem,
    assert_close,
    assert_same,
    exact_ep,
    hyperparameters,
    kernel_matrices,
    latent,
    log_Z_quadrature,
    problem,
    rbf,
    run,
)

from sepgp.gp.kernels import RBF, White

EVERY_METHOD = pytest.mark.parametrize("method", METHODS)


# --- exact inference --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_ep_with_all_rows_as_inducing_points_is_exact_ep(seed: int) -> None:
    p = problem(12, 12, seed=seed)
    p = p._replace(X=p.Z.clone())
    hyper = rbf(p.Z, lengthscale=0.7, variance=3.0)
    outcome = run("ep batch", hyper, p, steps=150)
    mean, var = latent(outcome, hyper, p.X)

    K = kernel_matrices(hyper, hyper.start, p.X).Kmm.numpy()
    exact = exact_ep(K, p.y.numpy())
    tight = {"rtol": 1e-6, "atol": 1e-6}
    assert_close(mean, exact.mean, **tight)
    assert_close(var, exact.var, **tight)
    assert_close(outcome.info.log_evidence, exact.log_Z, **tight)


@EVERY_METHOD
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_evidence_of_one_row_is_exact(method: str, label: float) -> None:
    p = problem(1, 2)._replace(y=torch.tensor([label]).double())
    hyper = rbf(p.Z)
    steps = 1 if method == "adf" else 5  # ADF would count the row five times
    outcome = run(method, hyper, p, steps=steps)
    assert_close(outcome.info.log_evidence, math.log(0.5))
    exact = log_Z_quadrature(kernel_matrices(hyper, hyper.start, p.X), p.y)
    assert_close(outcome.info.log_evidence, exact)


@pytest.mark.parametrize(("method", "error"), [("ep batch", 1e-2), ("sep", 0.2)])
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_evidence_of_few_rows_is_near_quadrature(
    method: str, error: float, n: int, seed: int
) -> None:
    """Neither is exact beyond one row: over 20 seeds EP was off by up to .004, SEP by .11."""
    p = problem(n, 2, seed=seed)
    hyper = rbf(p.Z)
    matrices = kernel_matrices(hyper, hyper.start, p.X)
    exact = log_Z_quadrature(matrices, p.y)
    assert_close(exact, log_orthant(matrices, p.y), rtol=0.0, atol=1e-8)
    outcome = run(method, hyper, p, steps=100)
    assert_close(outcome.info.log_evidence, exact, rtol=0.0, atol=error)


def log_orthant(matrices: KernelMatrices, y: torch.Tensor) -> float:
    """log Z for two or three rows in closed form: an orthant probability (Sheppard, 1899)."""
    Q = matrices.Kmb.T @ torch.linalg.solve(matrices.Kmm, matrices.Kmb)
    root = (1 + matrices.kdiag).sqrt()
    angles = torch.asin(Q * torch.outer(y / root, y / root)).triu(1).sum().item()
    n = len(y)
    return math.log(0.5**n + angles / (2 * math.pi) * (1 if n == 2 else 0.5))


# --- one method against another ---------------------------------------------------------------


@pytest.mark.parametrize("form", ["ep batch", "ep minibatch"])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_sep_is_ep_for_one_row(form: str, steps: int) -> None:
    p = problem(1, 3)
    hyper = rbf(p.Z)
    assert_same(run("sep", hyper, p, steps), run(form, hyper, p, steps, damping=1.0))


@pytest.mark.slow
def test_sep_is_near_ep_at_convergence() -> None:
    """Over 6 seeds means differed by up to .03 of a spread of 1 to 1.6, variances by 6 %."""
    p, hyper, test = sixty_rows()
    sep_mean, sep_var = latent(run("sep", hyper, p, 300), hyper, test)
    ep_mean, ep_var = latent(run("ep batch", hyper, p, 300), hyper, test)
    correlation = torch.corrcoef(torch.stack([sep_mean, ep_mean]))[0, 1]
    assert correlation > 0.999
    assert_close(sep_mean, ep_mean, rtol=0.0, atol=0.06)
    assert_close(sep_var, ep_var, rtol=0.12, atol=0.0)


def test_adf_variance_shrinks_with_every_pass() -> None:
    p, hyper, test = sixty_rows()
    passes = [latent(run("adf", hyper, p, k), hyper, test)[1] for k in range(1, 12)]
    for before, after in pairwise(passes):
        assert (after < before).all()
    ep_var = latent(run("ep batch", hyper, p, 100), hyper, test)[1]
    assert (passes[-1] < ep_var).all()


@pytest.mark.parametrize("method", ["sep", "ep batch", "ep minibatch"])
def test_sep_and_ep_settle(method: str) -> None:
    p, hyper, _ = sixty_rows()
    once = run(method, hyper, p, 200)
    assert_same(run(method, hyper, p, 1, state=once.state), once)


def sixty_rows():
    p = problem(60, 10)
    return p, rbf(p.Z), problem(40, 1, seed=1).X


# --- batches ----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["in order", "permuted"])
def test_ep_minibatch_of_all_rows_is_ep_batch(order: str) -> None:
    p = problem(15, 4)
    hyper = rbf(p.Z)
    rows = torch.arange(15) if order == "in order" else shuffled(15)
    batch = minibatch = None
    for _ in range(4):
        batch = run("ep batch", hyper, p, state=batch and batch.state)
        minibatch = run("ep minibatch", hyper, p, state=minibatch and minibatch.state, rows=rows)
        assert_same(minibatch, batch)
        assert_close(minibatch.state.nu, batch.state.nu)
        assert_close(minibatch.state.mu, batch.state.mu)


@EVERY_METHOD
def test_order_of_rows_in_the_batch_does_not_matter(method: str) -> None:
    p = problem(15, 4)
    p = p._replace(weight=torch.arange(15) % 3 + 0.5)
    hyper = rbf(p.Z)
    expected = run(method, hyper, p, 3)
    actual = None
    for seed in range(3):
        actual = run(method, hyper, p, state=actual and actual.state, rows=shuffled(15, seed))
    assert_same(actual, expected)


def test_a_step_of_ep_batch_leaves_the_state_before_it_alone() -> None:
    p = problem(12, 5)
    before = run("ep batch", rbf(p.Z), p, 2).state
    kept = [part.clone() for part in before[:4]]
    run("ep batch", rbf(p.Z), p, state=before)
    for part, copy in zip(before, kept, strict=False):
        assert torch.equal(part, copy)


def test_ep_minibatches_reach_the_fixed_point_of_ep_batch() -> None:
    p = problem(15, 4)
    hyper = rbf(p.Z)
    expected = run("ep batch", hyper, p, 100)
    state = None
    for sweep in range(100):
        for rows in shuffled(15, sweep).split(4):
            state = run("ep minibatch", hyper, p, state=state, rows=rows).state
    assert_same(run("ep minibatch", hyper, p, state=state), expected)


def test_ep_state_is_the_product_of_its_sites_while_the_kernel_moves() -> None:
    p = problem(15, 4)
    p = p._replace(weight=torch.arange(15) % 3 + 0.5)
    hyper = rbf(p.Z)
    state = None
    for sweep in range(20):
        xi = hyper.start + 0.1 * math.sin(sweep)
        for rows in shuffled(15, sweep).split(4):
            state = run("ep minibatch", hyper, p, state=state, rows=rows, xi=xi).state
    O = state.directions
    assert_close(state.Lambda, (O.T * (p.weight * state.nu)) @ O)
    assert_close(state.b, O.T @ (p.weight * state.mu))


@pytest.mark.parametrize("method", ["sep", "adf", "ep minibatch"])
def test_evidence_and_gradient_of_all_rows_are_the_mean_over_a_partition(method: str) -> None:
    """Minibatch estimates are unbiased: scale n/s on the sums over the batch."""
    _, whole, parts = whole_and_thirds(method)
    assert_close(sum(o.info.log_evidence for o in parts) / 3, whole.info.log_evidence)
    assert_close(sum(o.gradient for o in parts) / 3, whole.gradient)


@pytest.mark.parametrize("method", ["sep", "adf", "ep minibatch"])
def test_site_changes_of_a_partition_add_up_to_that_of_all_rows(method: str) -> None:
    """For SEP this is the paper's ρ = s/n."""
    before, whole, parts = whole_and_thirds(method)
    for old, new, *thirds in zip(before, whole.natural, *(o.natural for o in parts), strict=True):
        assert_close(sum(third - old for third in thirds), new - old)


def test_sep_refinements_of_a_partition_average_to_that_of_all_rows_at_any_rho() -> None:
    _, whole, parts = whole_and_thirds("sep", rho=0.3)
    for new, *thirds in zip(whole.natural, *(o.natural for o in parts), strict=True):
        assert_close(sum(thirds) / 3, new)


def whole_and_thirds(method: str, **options: float) -> tuple[tuple, Outcome, list[Outcome]]:
    """One step from the same state with all rows and with each third of them; Λ, b before."""
    p = problem(15, 4)
    hyper = rbf(p.Z)
    start = run(method, hyper, p, 2)

    def step(rows: torch.Tensor | None) -> Outcome:
        state = type(start.state)(*(None if t is None else t.clone() for t in start.state))
        return run(method, hyper, p, state=state, rows=rows, **options)

    before = tuple(t.clone() for t in start.natural)
    return before, step(None), [step(rows) for rows in shuffled(15).split(5)]


def shuffled(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


# --- weights ----------------------------------------------------------------------------------


@EVERY_METHOD
def test_weight_two_is_a_duplicated_row(method: str) -> None:
    p = problem(10, 4)
    duplicated = p.take(torch.tensor([*range(10), 3, 7]))
    weighted = p._replace(weight=p.weight.index_fill(0, torch.tensor([3, 7]), 2.0))
    assert_same_run(method, weighted, duplicated)


@EVERY_METHOD
def test_weight_zero_is_an_absent_row(method: str) -> None:
    p = problem(10, 4)
    absent = p.take(torch.tensor([0, 1, 2, 4, 5, 6, 8, 9]))
    weightless = p._replace(weight=p.weight.index_fill(0, torch.tensor([3, 7]), 0.0))
    assert_same_run(method, weightless, absent)


def assert_same_run(method: str, one: Problem, other: Problem) -> None:
    hyper = rbf(one.Z)
    for steps in (1, 4):
        assert_same(run(method, hyper, one, steps), run(method, hyper, other, steps))


# --- models -----------------------------------------------------------------------------------


@EVERY_METHOD
def test_white_noise_is_a_smaller_amplitude(method: str) -> None:
    """Noise σ² on variance a classifies like variance a/(1 + σ²) without noise."""
    p = problem(30, 6)
    noise, variance = 0.8, 3.0
    noisy = hyperparameters(RBF(1.0, variance) + White(noise), p.Z)
    plain = rbf(p.Z, 1.0, variance / (1 + noise))
    test = problem(20, 1, seed=1).X
    for steps in (1, 5):
        z = []
        for hyper in (noisy, plain):
            mean, var = latent(run(method, hyper, p, steps), hyper, test)
            z.append(mean / (1 + var).sqrt())
        assert_close(torch.special.ndtr(z[0]), torch.special.ndtr(z[1]))
