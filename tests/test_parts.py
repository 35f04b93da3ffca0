"""Several tied sites: between SEP, one for all rows, and EP, one for each."""

from functools import partial

import pytest
import torch
from helpers import (
    Problem,
    assert_close,
    assert_close_to_scale,
    dense_log_Z,
    gaussian,
    kernel_matrices,
    log_g,
    many_classes,
    problem,
    pull_back,
    rbf,
    run,
)
from numpy.testing import assert_allclose, assert_array_equal
from quick import blobs, quick

from sepgp.data.batches import Batch
from sepgp.gp.direct import direct
from sepgp.gp.whitened import whitened
from sepgp.inference import method as methods
from sepgp.inference import parts
from sepgp.inference.evidence import Factors, report
from sepgp.training.settings import Settings
from sepgp.training.step import Engine

PROBLEMS = pytest.mark.parametrize("make", [problem, many_classes])


def steps(p: Problem, part: torch.Tensor, count: int, rho: float, state=None, basis=direct):
    """Some steps with all rows, the rows of a part in a chunk each; the last report as well."""
    hyper, n = rbf(p.Z), float(p.weight.sum())
    K = int(part.max()) + 1
    method = methods.chosen("sep", max(K, 2))
    xi = hyper.start.clone().requires_grad_()
    if state is None:
        state = method.init(len(p.Z), len(p.y), False, p.likelihood.latents)
    for _ in range(count):
        Kmm = hyper.Kmm(xi)
        with torch.no_grad():
            fitc = basis(Kmm.detach(), 0.0)
            chunks = []
            for k in range(K):
                own = p.take(torch.nonzero(part == k)[:, 0])
                Kmb = hyper.Kmb(xi, own.X)
                rows = fitc.rows(*(x.detach() for x in Kmb), partial(_pull, xi, Kmb))
                chunks.append((rows, Factors(own.likelihood, own.y, own.weight, None, k)))
            prepared = methods.prepare(method, state, fitc, n, chunks)
            total = methods.add_up(method, prepared, chunks)
            info = report(prepared, total, partial(_pull, xi, (Kmm,)))
            state = method.update(state, prepared, total, rho)
    return state, info


def _pull(xi: torch.Tensor, matrices, *adjoints: torch.Tensor) -> torch.Tensor:
    return pull_back(xi, matrices, adjoints)


@PROBLEMS
@pytest.mark.parametrize("basis", [direct, whitened])
def test_one_part_is_sep(make, basis) -> None:
    p = make(20, 5)
    state, info = steps(p, torch.zeros(20).long(), 6, 0.4, basis=basis)
    sep = run("sep", rbf(p.Z), p, 6, rho=0.4, basis=basis)
    assert_close(state.Lambda, sep.state.Lambda)
    assert_close(state.b, sep.state.b)
    assert_close(info.log_evidence, sep.info.log_evidence)
    assert_close(info.gradient, sep.gradient)


@pytest.mark.slow
@PROBLEMS
def test_a_part_for_every_row_is_ep(make) -> None:
    p = make(8, 4)
    state, info = steps(p, torch.arange(8), 60, 0.5)
    ep = run("ep minibatch", rbf(p.Z), p, 60, rows=torch.arange(8), damping=0.5)
    assert_close(state.Lambda, ep.state.Lambda, rtol=1e-6, atol=1e-6)
    assert_close(state.b, ep.state.b, rtol=1e-6, atol=1e-6)
    assert_close(info.log_evidence, ep.info.log_evidence, rtol=1e-6, atol=1e-6)
    assert_close(info.gradient, ep.gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_more_parts_are_nearer_to_ep() -> None:
    p = problem(12, 5)
    ep = run("ep batch", rbf(p.Z), p, 60).state
    gaps = []
    for K in (1, 3, 12):
        state, _ = steps(p, torch.arange(12) * K // 12, 60, 0.5)
        gaps.append(float((state.Lambda - ep.Lambda).norm() / ep.Lambda.norm()))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-6


def test_gradient_is_that_of_the_surrogate() -> None:
    """Equation (2): sites and the cavities of all parts stay, the prior moves with ξ."""
    p, part = problem(12, 3), torch.arange(12) % 3
    state, _ = steps(p, part, 3, 0.5)
    hyper = rbf(p.Z)
    prior = torch.linalg.inv(hyper.Kmm(hyper.start))
    n_k = 12 * state.weight / state.weight.sum()
    cavities = [
        gaussian(prior + state.Lambda - L / n, state.b - b / n)
        for L, b, n in zip(state.part_Lambda, state.part_b, n_k, strict=True)
    ]

    def surrogate(xi: torch.Tensor) -> torch.Tensor:
        inverse = torch.linalg.inv(hyper.Kmm(xi))
        total = log_g(inverse + state.Lambda, state.b) - log_g(inverse, 0 * state.b)
        for k, cavity in enumerate(cavities):
            own = p.take(torch.nonzero(part == k)[:, 0])
            count = len(own.y)
            alike = type(cavity)(*(x.expand(count, *x.shape) for x in cavity))
            total = total + dense_log_Z(kernel_matrices(hyper, xi, own.X), own.y, alike).sum()
        return total

    h = 1e-4
    expected = torch.stack(
        [
            (surrogate(hyper.start + e) - surrogate(hyper.start - e)) / (2 * h)
            for e in h * torch.eye(len(hyper.start), dtype=torch.float64)
        ]
    )
    _, info = steps(p, part, 1, 0.5, state)
    assert_close_to_scale(info.gradient, expected, 1e-6)
    g = log_g(prior + state.Lambda, state.b)
    removal = sum(
        n * (log_g(prior + state.Lambda - L / n, state.b - b / n) - g)
        for L, b, n in zip(state.part_Lambda, state.part_b, n_k, strict=True)
    )
    assert_close(info.log_evidence, surrogate(hyper.start) + removal)


def test_sums_of_one_part_in_two_chunks_add_up() -> None:
    p, part = problem(12, 3), torch.arange(12) // 4
    state, _ = steps(p, part, 2, 0.5)
    method, hyper = methods.chosen("sep", 3), rbf(p.Z)
    fitc = direct(hyper.Kmm(hyper.start), 0.0)

    def after(cuts: list[int]):
        chunks = []
        for rows in torch.tensor_split(torch.arange(12), cuts):
            own = p.take(rows)
            seen = fitc.rows(*hyper.Kmb(hyper.start, own.X), lambda *_: 0 * hyper.start)
            factors = Factors(own.likelihood, own.y, own.weight, None, int(part[rows[0]]))
            chunks.append((seen, factors))
        prepared = methods.prepare(method, state, fitc, 12.0, chunks)
        return method.update(state, prepared, methods.add_up(method, prepared, chunks), 0.3)

    for one, other in zip(after([4, 8]), after([1, 4, 6, 7, 8]), strict=True):
        assert_close(one, other)
    # Weights come from 0 to those of the rows as ρ says: two steps of a half, and one of .3.
    assert_close(after([4, 8]).weight, [4 * (1 - 0.5 * 0.5 * 0.7)] * 3)


def test_the_share_of_a_large_part_is_that_of_the_plain_formula() -> None:
    p, n_k = problem(60, 10), 1e4
    hyper = rbf(p.Z)
    own, other = (run("sep", hyper, p.take(r), 5).natural for r in torch.arange(60).split(30))
    fitc = whitened(hyper.Kmm(hyper.start), 0.0)
    site, product = fitc.to_coordinates(own), fitc.to_coordinates(own + other)
    q = fitc.posterior(product)
    cavity, removal = parts.without_share(fitc, product, q, site, n_k, 1.0)
    exact = fitc.posterior(product - 1 / n_k * site)
    assert_close(cavity.mean, exact.mean)
    assert_close(removal, n_k * (exact.log_norm - q.log_norm), rtol=1e-7, atol=0.0)
    # A part of less than one row gives all it has.
    cavity, removal = parts.without_share(fitc, product, q, site, 0.5, 1.0)
    assert_close(cavity.mean, fitc.posterior(product - site).mean)
    assert_close(removal, 0.5 * (cavity.log_norm - q.log_norm))


def test_a_part_that_was_not_seen_yet_has_q_for_a_cavity() -> None:
    """Whichever part it is, the others have the cavities that they have without it."""
    p = problem(12, 3)
    state, _ = steps(p, torch.arange(12) // 6, 2, 0.5)
    hyper = rbf(p.Z)
    fitc = direct(hyper.Kmm(hyper.start), 0.0)
    plain = parts.prepare(state, fitc, 12.0)
    for unseen in range(3):
        kept = [k for k in range(3) if k != unseen]
        Lambda, b, weight = torch.zeros(3, 3, 3), torch.zeros(3, 3), torch.zeros(3)
        more = [x.double() for x in (Lambda, b, weight)]
        for wide, part in zip(more, state[2:], strict=True):
            wide[kept] = part
        prepared = parts.prepare(parts.State(state.Lambda, state.b, *more), fitc, 12.0)
        assert prepared.sites[unseen] is prepared.q
        for k, cavity in zip(kept, plain.sites, strict=True):
            assert_close(prepared.sites[k].mean, cavity.mean)
        assert_close(prepared.log_removal, plain.log_removal)


def test_parts_that_a_batch_lacks_keep_their_site_and_only_fade() -> None:
    p, hyper = problem(30, 5), rbf(problem(30, 5).Z)
    engine = Engine.of(
        Settings(method="sep", site_step=0.1),
        p.likelihood,
        hyper,
        3,
        lambda batch: batch.rows // 10,
    )
    state = engine.init(5, 30, True)
    codes = (p.y > 0).long()
    for rows in (torch.arange(30), torch.arange(10)):
        batch = Batch(p.X[rows], codes[rows], p.weight[rows], rows)
        before, (state, info) = state, engine.step(state, batch, 30.0, 0.0)
        assert info.ok
    rho = 1 - float(state.sites.weight[1] / before.sites.weight[1])
    assert 0 < rho < 1
    assert_close(state.sites.part_b[1], (1 - rho) * before.sites.part_b[1])
    assert_close(state.sites.part_Lambda.sum(0), state.sites.Lambda)


# --- the estimator ----------------------------------------------------------------------------

X, Y = blobs(200)


@pytest.mark.parametrize("n_factors", [2, 7])
@pytest.mark.parametrize("batch_size", [None, 50])
def test_the_estimator_has_several_factors(n_factors: int, batch_size: int | None) -> None:
    options = {"n_factors": n_factors, "batch_size": batch_size, "validation_fraction": 0.2}
    model = quick(**options).fit(X, Y)
    assert model.score(X, Y) > 0.9
    assert not model.history_["rejected"].any()
    assert_allclose(model.predict_proba(X), quick().fit(X, Y).predict_proba(X), atol=0.2)


def test_it_is_saved_resumed_and_learns_on(tmp_path) -> None:
    whole = quick(n_factors=3).fit(X, Y)
    stop = [lambda record: record.iteration >= 9]
    options = {"n_factors": 3, "checkpoint": tmp_path / "run"}
    quick(**options, callbacks=stop).fit(X, Y)
    resumed = quick(**options).fit(X, Y)
    assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
    resumed.save(tmp_path / "model.sepgp")
    resumed.partial_fit(X[:50], Y[:50])
    assert resumed.score(X, Y) > 0.9


def test_factors_belong_to_sep() -> None:
    with pytest.raises(ValueError, match="n_factors=2 belongs to method='sep'; leave it at 1"):
        quick(method="ep", n_factors=2).fit(X, Y)
    with pytest.raises(ValueError, match="n_factors=0 must be"):
        quick(n_factors=0).fit(X, Y)


def test_memory_is_that_of_the_parts() -> None:
    state = parts.init(4, 6, 10**9, True)
    assert sum(part.numel() for part in state) == 5 * (36 + 6) + 4
