"""Powers between variational inference, 0, and expectation propagation, 1."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from helpers import (
    Problem,
    assert_close,
    assert_close_to_scale,
    kernel_matrices,
    log_Z_quadrature,
    problem,
    pull_back,
    rbf,
)
from numpy.testing import assert_allclose, assert_array_equal
from quick import assert_one_sentence, blobs, quick
from scipy.special import log_ndtr

from sepgp.errors import InvalidParameter
from sepgp.gp.direct import direct
from sepgp.gp.kernels import RBF
from sepgp.gp.whitened import whitened
from sepgp.inference import method as methods
from sepgp.inference.evidence import Factors, report
from sepgp.likelihoods import PowerProbit, Probit

POWERS = pytest.mark.parametrize("power", [0.0, 0.25, 0.75])
METHODS = pytest.mark.parametrize("name", ["sep", "ep"])


def steps(
    name: str,
    power: float,
    p: Problem,
    count: int,
    *,
    state=None,
    xi=None,
    basis=direct,
    n=None,
    rows_of_batch=None,
):
    """Some steps with all rows; the last report as well. EP is damped by half by itself.

    Numbers of the rows make a minibatch of them.
    """
    hyper, n = rbf(p.Z), float(p.weight.sum()) if n is None else n
    method = methods.chosen(name, 1, power)
    likelihood = Probit() if power == 1 else PowerProbit(power)
    xi = (hyper.start if xi is None else xi).clone().requires_grad_()
    minibatch = rows_of_batch is not None
    state = method.init(len(p.Z), len(p.y), minibatch, ()) if state is None else state
    for _ in range(count):
        Kmm, rows = hyper.Kmm(xi), hyper.Kmb(xi, p.X)
        with torch.no_grad():
            fitc = basis(Kmm.detach(), 0.0)
            seen = fitc.rows(*(x.detach() for x in rows), partial(_pull, xi, rows))
            chunks = [(seen, Factors(likelihood, p.y, p.weight, rows_of_batch))]
            prepared = methods.prepare(method, state, fitc, n, chunks)
            total = methods.add_up(method, prepared, chunks)
            info = report(prepared, total, partial(_pull, xi, (Kmm,)))
            state = method.update(state, prepared, total, 0.5)
    return state, info


def _pull(xi: torch.Tensor, matrices, *adjoints: torch.Tensor) -> torch.Tensor:
    return pull_back(xi, matrices, adjoints)


# --- the row factor ---------------------------------------------------------------------------


def cavities(n: int = 2000, widest: float = 100.0):
    random = torch.Generator().manual_seed(0)
    uniform = partial(torch.rand, generator=random, dtype=torch.float64)
    y = torch.where(uniform(n) < 0.5, -1.0, 1.0).double()
    return y, 12 * uniform(n) - 6, widest ** uniform(n) - 0.9, 0.5 * uniform(n)


@POWERS
def test_moments_are_those_of_a_dense_rule(power: float) -> None:
    y, mean, var, s = cavities(200)
    tilted = PowerProbit(power).moments(y, mean, var, s)
    x = torch.linspace(-12, 12, 40_001, dtype=torch.float64)
    for i in range(0, 200, 5):
        f = mean[i] + (var[i] + s[i]).sqrt() * x
        log_phi = torch.special.log_ndtr(y[i] * f)
        weight = torch.exp(-0.5 * x * x)
        weight /= weight.sum()
        if power == 0:
            expected = (weight * log_phi).sum()
        else:
            expected = (weight * torch.exp(power * log_phi)).sum().log() / power
        assert_close(tilted.log_Z[i], expected, rtol=1e-5, atol=1e-6)


@POWERS
def test_alpha_and_gamma_are_derivatives_of_log_Z(power: float) -> None:
    y, mean, var, s = cavities()
    likelihood, h = PowerProbit(power), 1e-4
    tilted = likelihood.moments(y, mean, var, s)
    up, down = (likelihood.moments(y, mean + e, var, s).log_Z for e in (h, -h))
    assert_close(tilted.alpha, (up - down) / (2 * h), rtol=1e-4, atol=1e-5)
    up, down = (likelihood.moments(y, mean, var + e, s).log_Z for e in (h, -h))
    assert_close(tilted.gamma, (up - down) / (2 * h), rtol=1e-3, atol=1e-4)


@POWERS
def test_sites_have_the_moments_that_alpha_and_gamma_say(power: float) -> None:
    """With a of the site, the mean is m + avα and the variance v − av²λ, with λ = aα² − 2γ."""
    y, mean, var, s = cavities(200, 30.0)
    _, alpha, gamma, nu, mu = PowerProbit(power).moments(y, mean, var, s)
    precision = power * alpha**2 - 2 * gamma
    assert_close(nu, precision / (1 - power * precision * var), rtol=1e-9, atol=1e-9)
    assert_close(mu, alpha + nu * (mean + power * var * alpha), rtol=1e-9, atol=1e-9)


def test_power_near_one_is_the_closed_form() -> None:
    y, mean, var, s = cavities()
    closed, near = Probit().moments(y, mean, var, s), PowerProbit(1 - 1e-9).moments(y, mean, var, s)
    for one, other in zip(near, closed, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("power", [0.0, 0.01, 0.5])
def test_sites_are_never_negative_and_finite_far_away(power: float) -> None:
    y, mean, var, s = cavities(20_000, 1e4)
    tilted = PowerProbit(power).moments(y, 50 * mean, var, s)
    assert all(bool(torch.isfinite(part).all()) for part in tilted)
    assert (tilted.nu >= 0).all()


@POWERS
def test_a_row_of_ep_gives_the_share_of_its_site_that_the_power_says(power: float) -> None:
    p = problem(5, 2)
    fitc = direct(rbf(p.Z).Kmm(rbf(p.Z).start), 0.0)
    method = methods.chosen("ep", 1, power)
    assert method.prepare(method.init(2, 5, True, ()), fitc, 5.0).power == power


@METHODS
def test_a_kernel_of_large_variance_ended_in_an_error_of_torch(name: str) -> None:
    """A batch in which every row takes many nodes of the quadrature."""
    X, y = blobs()
    model = quick(method=name, power=0.5, kernel=RBF(variance=50.0), max_iter=3).fit(X, y)
    assert model.score(X, y) > 0.8


def test_a_small_power_differs_from_zero_in_proportion_to_it() -> None:
    y, mean, var, s = cavities(500, 10.0)
    limit = PowerProbit(0.0).moments(y, mean, var, s)
    gaps = [
        float((PowerProbit(a).moments(y, mean, var, s).log_Z - limit.log_Z).abs().max())
        for a in (0.02, 0.01, 0.005)
    ]
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.1)
    assert gaps[1] / gaps[2] == pytest.approx(2, rel=0.1)


# --- the engine -------------------------------------------------------------------------------


@METHODS
def test_power_one_is_the_method_bit_for_bit(name: str) -> None:
    assert methods.chosen(name, 1, 1.0) is methods.METHODS[name]


@pytest.mark.parametrize("power", [0.0, 0.25, 0.75, 1.0])
def test_of_one_row_sep_has_the_log_evidence_of_ep(power: float) -> None:
    p = problem(1, 3)
    sep, ep = (steps(name, power, p, 6)[1].log_evidence for name in ("sep", "ep"))
    assert_close(sep, ep)


@POWERS
def test_coordinates_do_not_matter_where_rows_stand_for_more(power: float) -> None:
    p = problem(30, 6)
    n = 3.0 * float(p.weight.sum())
    one, other = (steps("sep", power, p, 3, n=n, basis=b)[1] for b in (direct, whitened))
    assert_close(one.gradient, other.gradient)
    assert_close(one.log_evidence, other.log_evidence)


@pytest.mark.slow
@METHODS
@pytest.mark.parametrize("basis", [direct, whitened])
def test_power_near_zero_is_near_zero(name: str, basis) -> None:
    p = problem(20, 5)
    limit, at_zero = steps(name, 0.0, p, 60, basis=basis)
    gaps = []
    for power in (0.02, 0.01):
        state, info = steps(name, power, p, 60, basis=basis)
        gaps.append(float((state.b - limit.b).norm() / limit.b.norm()))
    assert gaps[1] < 1e-2
    assert float((info.log_evidence - at_zero.log_evidence).abs()) < 1e-2 * 20
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.2)


def elbo(p: Problem, mean: torch.Tensor, L: torch.Tensor) -> torch.Tensor:
    """E_q[log Φ(y f)] − KL(q ‖ prior) for q(u) = N(mean, L Lᵀ), by a dense rule."""
    hyper = rbf(p.Z)
    matrices = kernel_matrices(hyper, hyper.start, p.X)
    inverse = torch.linalg.inv(matrices.Kmm)
    A = inverse @ matrices.Kmb
    cov = L @ L.T
    s = matrices.kdiag - (matrices.Kmb * A).sum(0)
    deviation = (s + ((A.T @ L) ** 2).sum(1)).sqrt()
    x, w = (torch.as_tensor(v) for v in np.polynomial.hermite_e.hermegauss(80))
    f = (A.T @ mean)[:, None] + deviation[:, None] * x
    rows = torch.special.log_ndtr(p.y[:, None] * f) @ w / math.sqrt(2 * math.pi)
    m = len(mean)
    divergence = 0.5 * (
        (inverse @ cov).trace()
        + mean @ inverse @ mean
        - m
        + torch.logdet(matrices.Kmm)
        - torch.logdet(cov)
    )
    return (p.weight * rows).sum() - divergence


@pytest.mark.slow
@METHODS
def test_the_fixed_point_at_power_zero_is_the_maximum_of_the_elbo(name: str) -> None:
    p = problem(15, 4)
    state, info = steps(name, 0.0, p, 300)
    precision = torch.linalg.inv(rbf(p.Z).Kmm(rbf(p.Z).start)) + state.Lambda
    cov = torch.linalg.inv(precision)
    mean, L = (cov @ state.b).requires_grad_(), torch.linalg.cholesky(cov).requires_grad_()
    value = elbo(p, mean, L)
    assert_close(info.log_evidence, value, rtol=0, atol=1e-6)
    for slope in torch.autograd.grad(value, (mean, L)):
        assert float(torch.tril(slope.reshape(len(slope), -1)).abs().max()) < 1e-5

    start = torch.zeros(4, dtype=torch.float64), torch.linalg.cholesky(rbf(p.Z).Kmm(rbf(p.Z).start))
    free = [part.detach().clone(memory_format=torch.contiguous_format) for part in start]
    free = [part.requires_grad_() for part in free]
    search = torch.optim.LBFGS(
        free,
        max_iter=500,
        tolerance_grad=1e-10,
        tolerance_change=1e-14,
        line_search_fn="strong_wolfe",
    )

    def loss() -> torch.Tensor:
        search.zero_grad()
        negative = -elbo(p, free[0], torch.tril(free[1]))
        negative.backward()
        return negative

    search.step(loss)
    assert_close(-loss(), value, rtol=0, atol=1e-6)
    assert_close(free[0], mean, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@METHODS
@pytest.mark.parametrize("n", [1, 3])
def test_the_elbo_is_below_the_exact_evidence(name: str, n: int) -> None:
    p = problem(n, 2)
    exact = log_Z_quadrature(kernel_matrices(rbf(p.Z), rbf(p.Z).start, p.X), p.y)
    _, info = steps(name, 0.0, p, 200)
    assert info.log_evidence < exact
    evidences = [float(steps("ep", a, p, 200)[1].log_evidence) for a in (0.0, 0.5, 1.0)]
    assert abs(evidences[2] - exact) < abs(evidences[1] - exact) < abs(evidences[0] - exact)


@pytest.mark.slow
@METHODS
def test_the_gradient_at_power_zero_is_that_of_the_elbo(name: str) -> None:
    """At the maximum the sites do not matter, so the total derivative is the partial one."""
    p = problem(10, 3)
    hyper, h = rbf(p.Z), 1e-4
    _, info = steps(name, 0.0, p, 150)
    expected = torch.stack(
        [
            (
                steps(name, 0.0, p, 150, xi=hyper.start + e)[1].log_evidence
                - steps(name, 0.0, p, 150, xi=hyper.start - e)[1].log_evidence
            )
            / (2 * h)
            for e in h * torch.eye(len(hyper.start), dtype=torch.float64)[[0, 1, 2, 5]]
        ]
    )
    assert_close_to_scale(info.gradient[[0, 1, 2, 5]], expected, 1e-4)


@pytest.mark.slow
@POWERS
def test_ep_gradient_is_total_at_the_fixed_point(power: float) -> None:
    p = problem(8, 3)
    hyper, h = rbf(p.Z), 1e-4
    _, info = steps("ep", power, p, 120)
    ends = [
        steps("ep", power, p, 120, xi=hyper.start + sign * h * torch.eye(len(hyper.start))[0])[1]
        for sign in (1, -1)
    ]
    slope = (ends[0].log_evidence - ends[1].log_evidence) / (2 * h)
    assert_close(info.gradient[0], slope, rtol=1e-4, atol=1e-6)


@METHODS
@POWERS
def test_weight_two_is_a_duplicated_row(name: str, power: float) -> None:
    p = problem(10, 4)
    duplicated = p.take(torch.tensor([*range(10), 3, 7]))
    weighted = p._replace(weight=p.weight.index_fill(0, torch.tensor([3, 7]), 2.0))
    one, other = (steps(name, power, q, 4) for q in (weighted, duplicated))
    assert_close(one[0].Lambda, other[0].Lambda)
    assert_close(one[1].log_evidence, other[1].log_evidence)


@METHODS
@POWERS
def test_a_minibatch_of_all_rows_is_a_batch(name: str, power: float) -> None:
    p = problem(12, 4)
    batch, minibatch = (steps(name, power, p, 4, rows_of_batch=r) for r in (None, torch.arange(12)))
    assert_close(minibatch[0].Lambda, batch[0].Lambda)
    assert_close(minibatch[1].log_evidence, batch[1].log_evidence)


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_many_rows_lose_no_digits(power: float) -> None:
    """The plain difference of norms and the form without it, at the number of rows between."""
    p = problem(40, 6)
    state, _ = steps("sep", power, p, 20, n=9.9e3)
    ends = [steps("sep", power, p, 1, state=state, n=n)[1] for n in (9.9e3, 1e4)]
    values = [float(end.log_evidence) for end in ends]
    assert values[0] / 9.9e3 == pytest.approx(values[1] / 1e4, rel=1e-3)


# --- the estimator ----------------------------------------------------------------------------

X, Y = blobs(200)


@METHODS
@POWERS
@pytest.mark.parametrize("batch_size", [None, 50])
def test_the_estimator_takes_a_power(name: str, power: float, batch_size: int | None) -> None:
    model = quick(method=name, power=power, batch_size=batch_size).fit(X, Y)
    assert not model.history_["rejected"].any()
    assert_allclose(model.predict_proba(X), quick().fit(X, Y).predict_proba(X), atol=0.15)


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_a_stream_is_an_array(power: float) -> None:
    def blocks():
        yield from ((X[begin : begin + 60], Y[begin : begin + 60]) for begin in range(0, 200, 60))

    options = {"power": power, "standardize": False, "inducing": X[::20], "batch_size": 200}
    array = quick(**options).fit(X, Y).predict_proba(X)
    assert_allclose(quick(**options).fit(blocks).predict_proba(X), array, rtol=1e-6)


def test_a_model_with_a_power_is_saved_resumed_and_learns_on(tmp_path) -> None:
    whole = quick(power=0.0, batch_size=50).fit(X, Y)
    options = {"power": 0.0, "batch_size": 50, "checkpoint": tmp_path / "run"}
    quick(**options, callbacks=[lambda record: record.iteration >= 9]).fit(X, Y)
    resumed = quick(**options).fit(X, Y)
    assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
    resumed.save(tmp_path / "model.sepgp")
    resumed.partial_fit(X[:50], Y[:50])
    assert resumed.score(X, Y) > 0.9


@pytest.mark.parametrize(
    ("options", "y", "match"),
    [
        ({"power": 1.5}, Y, "power=1.5 must be 1 or, for 'sep' and 'ep', a number"),
        ({"power": -0.1}, Y, "power=-0.1 must be"),
        ({"power": 0.5, "method": "adf"}, Y, "power=0.5 must be 1"),
        ({"power": 0.5}, np.arange(200) % 3, "power=0.5 is for two classes, and there are 3"),
    ],
)
def test_a_power_that_cannot_be_is_one_sentence(options, y, match) -> None:
    with pytest.raises(InvalidParameter, match=match) as caught:
        quick(**options).fit(X, y)
    assert_one_sentence(str(caught.value))


def test_the_variational_bound_of_one_row_by_hand() -> None:
    tilted = PowerProbit(0.0).moments(*(torch.tensor([v]).double() for v in (1.0, 0.3, 0.0, 0.0)))
    assert_close(tilted.log_Z[0], float(log_ndtr(0.3)), rtol=1e-6, atol=1e-6)
