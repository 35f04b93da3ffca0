"""What must hold for every problem."""

import logging
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sepgp import GPClassifier
from sepgp.gp.cholesky import JITTER
from stress.problems import Problem, problem

WORSE = 0.05
"""How much worse than the class frequencies the NLL of other rows may be on a learnable problem."""
CLOSE = 1e-6
"""How far probabilities of runs may be apart that differ in nothing that matters."""

CONSTANT = ("linear", "product")
"""Kernels of functions that go on for ever."""

logging.getLogger("sepgp").setLevel(logging.ERROR)


class Outcome(NamedTuple):
    """What became of a problem."""

    seed: int
    kinds: dict[str, str]
    violations: list[str]
    steps: int
    rejected: int
    escalated: int
    """Steps in which the Cholesky factor needed more than the usual jitter."""
    seconds: float


def tried(seed: int) -> Outcome:
    """Fit the problem of a seed and check everything."""
    begin, found = time.process_time(), problem(seed)
    violations: list[str] = []
    history: dict[str, Any] = {"rejected": np.zeros(0), "jitter": np.zeros(0)}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = fitted(found)
            history = model.history_
            warned = any("steps were rejected" in str(w.message) for w in said)
            violations += _of_history(history, warned)
            violations += _of_answers(model, found)
            violations += _of_invariance(model, found, seed)
        except Exception as error:
            violations.append(f"{type(error).__name__}: {str(error)[:200]}")
    rejected, escalated = history["rejected"], history["jitter"] > 1.01 * JITTER
    return Outcome(
        seed,
        found.kinds,
        violations,
        len(rejected),
        int(rejected.sum()),
        int(escalated.sum()),
        time.process_time() - begin,
    )


def fitted(found: Problem, **changes: Any) -> GPClassifier:
    """The model of a problem."""
    model = GPClassifier(**found.settings | changes)
    return model.fit(found.X, found.y, sample_weight=found.weight)


def _of_history(history: dict[str, Any], warned: bool) -> list[str]:
    share = float(np.mean(history["rejected"]))
    if share > 0.05 and not warned:
        return [f"{share:.0%} of the steps were rejected without a warning"]
    return []


def _of_answers(model: GPClassifier, found: Problem) -> list[str]:
    """Probabilities are probabilities, predictions are theirs, and they are not absurd."""
    p, wrong = model.predict_proba(found.test), []
    if not np.isfinite(p).all() or (p < 0).any():
        return ["probabilities that are none"]
    if not np.allclose(p.sum(1), 1, atol=1e-9):
        wrong.append(f"probabilities add up to {p.sum(1).max()}")
    if list(model.classes_) != list(found.classes):
        wrong.append(f"classes {model.classes_}")
    labels = model.predict(found.test)
    of_label = p[np.arange(len(p)), np.searchsorted(model.classes_, labels)]
    if (of_label < p.max(1) - 1e-9).any():
        wrong.append("predict is not the most probable class")
    mean, variance = model.predict_latent(found.test)
    if not (np.isfinite(mean).all() and (variance >= 0).all()):
        wrong.append("a latent mean or variance that is none")
    if found.learnable:
        wrong += _of_quality(p, found)
    return wrong + _of_far_rows(model, found)


def _of_quality(p: NDArray[Any], found: Problem) -> list[str]:
    rows = np.arange(len(p))
    nll = -np.log(np.maximum(p[rows, found.test_codes], 1e-300)).mean()
    shares = np.bincount(found.test_codes, minlength=len(found.classes)) / len(p)
    frequencies = -(shares[shares > 0] * np.log(shares[shares > 0])).sum()
    return [f"NLL {nll:.3f}, frequencies {frequencies:.3f}"] if nll > frequencies + WORSE else []


def _of_far_rows(model: GPClassifier, found: Problem) -> list[str]:
    """Far away, the variance is the prior's."""
    if not found.tame or not found.settings["standardize"] or found.kinds["kernel"] in CONSTANT:
        return []
    n = len(found.y)
    rows = np.asarray(found.features[:n], np.float64)
    centre, reach = rows.mean(0), np.abs(rows - rows.mean(0)).max(0)
    varying = reach > 0
    if found.kinds["form"] == "categories" or not varying.any():
        return []
    far = centre + np.where(varying, 1e4 * reach, 0)
    _, variance = model.predict_latent(found.wrapped(np.stack([far, far])))
    prior = _prior(model)
    if not np.allclose(variance, prior, rtol=0.01):
        return [f"far away the variance is {np.ravel(variance)[0]:.4g}, the prior's {prior:.4g}"]
    return []


def _prior(model: GPClassifier) -> float:
    import torch

    with torch.no_grad():
        return float(model.kernel_.diag(torch.zeros(1, model.model_.Z.shape[1]).double())[0])


def _of_invariance(model: GPClassifier, found: Problem, seed: int) -> list[str]:
    """One change by turns that must not matter, of rows, columns, labels or units, or none."""
    which = ("same bits", "rows", "labels", "units", "columns")[seed % 5]
    expected = model.predict_proba(found.test)
    n, rng = len(found.y), np.random.default_rng(seed)
    if which == "same bits":
        again = fitted(found).predict_proba(found.test)
        return [] if np.array_equal(again, expected) else ["the same seed gave other bits"]
    small = n <= min(found.settings["batch_size"] or 2000, 2000)
    if which == "labels":
        y = np.array([f"label {i:03}" for i in np.searchsorted(found.classes, found.y)], object)
        other = GPClassifier(**found.settings).fit(found.X, y, sample_weight=found.weight)
        again = other.predict_proba(found.test)
        return [] if np.array_equal(again, expected) else ["other names of labels, other bits"]
    if not small or not found.tame or found.kinds["form"] == "categories":
        return []
    held: dict[str, Any] = {"learn_kernel": False, "learn_inducing": False}
    if which == "rows":
        order = rng.permutation(n)
        weight = None if found.weight is None else found.weight[order]
        again = _answers(found, held, found.features[order], found.y[order], weight)
        return _apart(which, again, fitted(found, **held).predict_proba(found.test))
    if not found.settings["standardize"] or found.kinds["form"] in ("float16", "float32"):
        return []
    d = found.features.shape[1]
    unit, order = np.ones(d), np.arange(d)
    if which == "units":
        unit = 2.0 ** rng.integers(-20, 21, d)
    else:
        order = rng.permutation(d)
    # Where points start depends on the order of the columns.
    points = found.features[: min(n, found.settings["n_inducing"])]
    one = _answers(found, held | {"inducing": points}, found.features)
    changed = (points * unit)[:, order], (found.features * unit)[:, order]
    other = _answers(found, held | {"inducing": changed[0]}, changed[1])
    return _apart(which, other, one)


def _answers(
    found: Problem,
    changes: dict[str, Any],
    features: NDArray[Any],
    y: Any = None,
    weight: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Probabilities of the rows at the end, of a model of the first n rows of features.

    With labels of its own, `features` has those n rows alone.
    """
    model, n = GPClassifier(**found.settings | changes), len(found.y)
    if y is not None:
        model.fit(found.wrapped(features), y, sample_weight=weight)
        return np.asarray(model.predict_proba(found.test))
    model.fit(found.wrapped(features[:n]), found.y, sample_weight=found.weight)
    return np.asarray(model.predict_proba(found.wrapped(features[n:])))


def _apart(which: str, one: NDArray[Any], other: NDArray[Any]) -> list[str]:
    apart = float(np.abs(one - other).max())
    return [f"{which} changed probabilities by {apart:.2g}"] if apart > CLOSE else []
