"""Sums over rows add up, wherever the rows are cut; and they hold for any number of rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import (
    METHODS,
    Problem,
    assert_close,
    assert_close_to_scale,
    chunk,
    hyperparameters,
    kernel_matrices,
    many_classes,
    problem,
    rbf,
    run,
)

from sepgp import GPClassifier
from sepgp.gp.cholesky import JITTER
from sepgp.gp.direct import WORST_CONDITION, direct
from sepgp.gp.kernels import RBF
from sepgp.gp.whitened import whitened
from sepgp.inference import method as methods
from sepgp.inference import sep

BASES = pytest.mark.parametrize("basis", [direct, whitened])


@pytest.mark.parametrize("method", METHODS)
@BASES
@pytest.mark.parametrize("cuts", [[1], [7, 12], [3, 4, 5, 20]])
@pytest.mark.parametrize("make", [problem, many_classes])
def test_sums_over_any_split_of_a_batch_add_up_to_those_of_the_whole(
    method, basis, cuts, make
) -> None:
    p = make(30, 5)
    p = p._replace(weight=0.5 + torch.arange(30) % 3)
    hyper = rbf(p.Z)
    chosen = methods.METHODS[METHODS[method].name]
    state = run(method, hyper, p, 2, rows=torch.arange(30)).state
    xi = hyper.start.clone().requires_grad_()
    fitc = basis(hyper.Kmm(hyper.start), 0.0)

    def sums(parts: list[torch.Tensor]):
        chunks = [
            chunk(fitc, kernel_matrices(hyper, xi, p.X[rows]), p.take(rows), rows, xi)
            for rows in parts
        ]
        prepared = methods.prepare(chosen, state, fitc, float(p.weight.sum()), chunks)
        return prepared, methods.add_up(chosen, prepared, chunks)

    with torch.no_grad():
        rows = torch.randperm(30, generator=torch.Generator().manual_seed(0))
        prepared, whole = sums([rows])
        in_parts, total = sums(list(torch.tensor_split(rows, cuts)))
        tight = {"rtol": 1e-12, "atol": 1e-12}
        for one, other in ((prepared.q.mean, in_parts.q.mean), (prepared.q.cov, in_parts.q.cov)):
            assert_close(one, other, **tight)
        assert total.weight == pytest.approx(whole.weight, rel=1e-14)
        assert total.skipped == whole.skipped
        for name in ("log_Z", "cross", "gradient"):
            assert_close(getattr(total, name), getattr(whole, name), **tight)
        after = [
            chosen.update(_copy(state), p_, s, 0.3)
            for p_, s in ((prepared, whole), (in_parts, total))
        ]
    for one, other in zip(*after, strict=True):
        assert one is None or assert_close(one, other, **tight) is None


def test_skipped_rows_of_two_sums_add_up() -> None:
    p = problem(5, 2)
    hyper = rbf(p.Z)
    fitc = direct(hyper.Kmm(hyper.start), 0.0)
    method = methods.METHODS["sep"]
    seen = chunk(fitc, kernel_matrices(hyper, hyper.start, p.X), p, None, hyper.start)
    prepared = methods.prepare(method, method.init(2, 5, True, ()), fitc, 5.0, [seen])
    found = methods.add_up(method, prepared, [seen])
    assert (replace(found, skipped=2) + replace(found, skipped=3)).skipped == 5


def test_a_method_is_what_its_name_says_unless_more_is_asked_for() -> None:
    for name, method in methods.METHODS.items():
        assert methods.chosen(name) is method
    assert methods.chosen("sep", 2).init(3, 9, True, ()).part_b.shape == (2, 3)


def _copy(state):
    return type(state)(*(None if part is None else part.clone() for part in state))


# --- many rows --------------------------------------------------------------------------------


def weighted(n: float, d: int) -> tuple[Problem, object]:
    """2,000 rows that stand for n, and 100 inducing points that are close in few dimensions."""
    random = torch.Generator().manual_seed(0)
    X = torch.randn(2000, d, generator=random, dtype=torch.float64)
    noise = torch.randn(2000, generator=random, dtype=torch.float64)
    y = torch.where(torch.sin(3 * X[:, 0]) + 0.7 * noise > 0, 1.0, -1.0).double()
    Z = torch.randn(100, d, generator=random, dtype=torch.float64)
    if d == 1:
        Z = torch.linspace(-3, 3, 100, dtype=torch.float64)[:, None]
    p = Problem(X, y, torch.full_like(y, n / 2000), Z)
    return p, hyperparameters(RBF(d**0.5, 2.0), Z)


@pytest.mark.parametrize(
    "d", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)]
)
def test_log_evidence_of_millions_of_rows_was_garbage(d) -> None:
    """n(g(cavity) − g(q)) multiplied rounding by n: +9.8 per row where −.45 is right."""
    evidence, accepted = [], []
    for n in 10.0 ** np.arange(4, 10):
        p, hyper = weighted(n, d)
        state = run("sep", hyper, p, 20, jitter=JITTER, basis=whitened, rho=0.5).state
        sure = run("sep", hyper, p, state=state, jitter=JITTER, basis=whitened, rho=0.5)
        evidence.append(float(sure.info.log_evidence) / n)
        fitc = direct(hyper.Kmm(hyper.start))
        if sep.prepare(state, fitc, n).ok:  # else the loop takes the whitened form
            plain = run("sep", hyper, p, state=state, jitter=JITTER, basis=direct, rho=0.5)
            accepted.append(n)
            rounding = 2 * WORST_CONDITION * torch.finfo(torch.float64).eps  # about 2e-6
            assert float(plain.info.log_evidence) / n == pytest.approx(evidence[-1], rel=rounding)
            gap = (plain.gradient - sure.gradient).abs().max() / sure.gradient.abs().max()
            assert gap < 0.01
    assert accepted == [1e4, 1e5, 1e6, 1e7, 1e8, 1e9][: {1: 2, 2: 1, 8: 6}[d]]
    assert all(-0.7 < value < -0.4 for value in evidence)
    changes = np.abs(np.diff(evidence))
    assert (changes[1:] < changes[:-1]).all()  # what is left of it is the prior's part
    assert changes[-1] < 0.003


@pytest.mark.parametrize("copies", [2.5e3, 2.5e5])
def test_float32_rejected_steps_on_many_rows_and_ended_without_evidence(copies: float) -> None:
    """Sums over rows in float32 had, times n, errors above the prior's precision."""
    random = np.random.default_rng(0)
    X = random.normal(size=(4000, 1))
    y = np.sin(3 * X[:, 0]) + 0.7 * random.normal(size=4000) > 0
    options = {"kernel": "rbf", "n_inducing": 100, "batch_size": 2000, "max_iter": 15}
    model = GPClassifier(**options, dtype="float32", random_state=0)
    model.fit(X, y, sample_weight=np.full(4000, copies))
    assert not model.history_["rejected"].any()
    assert -0.5 < model.log_evidence_ / (4000 * copies) < -0.4


@BASES
@pytest.mark.parametrize("n", [1e4, 3e4, 1e6])
def test_q_and_removal_of_many_rows_are_those_of_the_plain_formulas(basis, n) -> None:
    p = problem(60, 10)
    p = p._replace(weight=torch.full((60,), n / 60).double())
    hyper = rbf(p.Z)
    state = run("sep", hyper, p, 20, rho=0.5).state
    fitc = basis(hyper.Kmm(hyper.start), 0.0)
    near = sep.prepare(state, fitc, n)
    site = fitc.to_coordinates(state)
    q, cavity = fitc.posterior(site), fitc.posterior(site, 1 - 1 / n)
    assert torch.equal(near.cavity.mean, cavity.mean)
    assert torch.equal(near.cavity.cov, cavity.cov)
    assert_close_to_scale(near.q.mean, q.mean, 1e-8)
    assert_close_to_scale(near.q.cov, q.cov, 2 / n)
    assert_close(near.q.log_norm, q.log_norm, rtol=1e-10, atol=0.0)
    # The largest n at which rounding times n is still below what is tested.
    plain = n * (cavity.log_norm - q.log_norm)
    assert_close(near.log_removal, plain, rtol=1e-6 if n < 1e5 else 1e-5, atol=0.0)
