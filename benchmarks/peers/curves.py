"""Test NLL against seconds of training: settings chosen for each peer, then all contestants."""

from typing import Any

import sets
from run import Run
from store import Entry
from worker import Failed, Worker

PEERS = ("gpflow", "gpytorch")
OURS = {"sepgp": "float64", "sepgp float32": "float32"}
"""Our contestants, and the type of numbers that each works with."""
OTHERS = ("logistic regression", "boosted trees", "exact process")
"""scikit-learn's."""
LOOKS = 20
"""How often a run looks at the test rows, at times with equal ratios."""
TRIAL = 0.2
"""Share of the training time that a trial of settings gets."""
BUDGETS = (0.05, 0.07, 0.1, 0.2)
"""Shares of the training time for which whole runs are made too, each with a cosine to its end."""
BEGINNING = {"batch": 1000, "gamma": 0.1, "schedule": "cosine", "kernels": 1}
FIRST = {
    "gpflow": {"dtype": "float64", **BEGINNING},
    "gpytorch": {"dtype": "float32", **BEGINNING},
}
"""Where the choice of settings starts: natural gradients, and the library's own type."""
STAGES: tuple[tuple[dict[str, Any], ...], ...] = (
    ({"rate": 0.03}, {"rate": 0.01}, {"rate": 0.1}),
    ({"kernels": 2},),
    ({"gamma": 0.02}, {"gamma": 0.0}),
    ({"batch": 200}, {"batch": 2000}),
    ({"schedule": "constant"},),
    ({"dtype": "float64"}, {"dtype": "float32"}),
)
"""Changes to try, stage by stage: each starts from the best so far. No γ means Adam alone."""


def ours(contestant: str) -> dict[str, Any]:
    """The settings of one of our contestants: the library's own for minibatches."""
    return {"dtype": OURS[contestant], "batch": 2000, "schedule": "cosine"}


def measure(run: Run, name: str) -> dict[str, Any]:
    """All that is measured on one set."""
    folder = str(sets.prepare(name, run.data))
    seconds = run.seconds * sets.SHARES[name]
    tuning = {peer: _tuned(run, name, folder, peer, seconds * TRIAL) for peer in PEERS}
    chosen = {peer: entry.result["best"] for peer, entry in tuning.items() if not entry.error}
    chosen |= {contestant: ours(contestant) for contestant in OURS}
    curves: dict[str, list[Entry]] = {contestant: [] for contestant in chosen}
    for repeat in range(run.repeats):
        for contestant, settings in chosen.items():
            curves[contestant].append(_curve(run, name, folder, contestant, settings, repeat))
    others = {model: _other(run, name, folder, model) for model in OTHERS}
    return {"seconds": seconds, "tuning": tuning, "curves": curves, "others": others}


def _tuned(run: Run, name: str, folder: str, peer: str, seconds: float) -> Entry:
    arguments = {"threads": run.threads, "seconds": seconds, "first": FIRST[peer], "stages": STAGES}

    def choose() -> dict[str, Any]:
        with run.worker(peer) as worker:
            return _chosen(worker, folder, FIRST[peer], seconds)

    return run.store.get(f"tune-{name}-{peer}", peer, arguments, choose)


def _chosen(worker: Worker, folder: str, first: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The best settings and all trials, by the NLL of training rows that are held out."""
    best, lowest = first, float("inf")
    trials: list[dict[str, Any]] = []
    for stage in STAGES:
        start = best
        for change in stage:
            settings = start | change
            if settings == start:
                continue
            given = {"folder": folder, "settings": settings, "validation": True}
            result = worker.ask("curve", seconds=seconds, looks=1, **given)
            nll = result["points"][-1][-1] if result["points"] else None
            trials.append({"settings": settings, "nll": nll, "error": result["error"]})
            print(f"    {settings}: {nll if nll is not None else result['error']}", flush=True)
            if nll is not None and nll < lowest:
                best, lowest = settings, nll
    if not lowest < float("inf"):
        raise Failed(f"no trial went well; the last: {trials[-1]['error']}")
    return {"best": best, "trials": trials}


def _curve(
    run: Run, name: str, folder: str, contestant: str, settings: dict[str, Any], repeat: int
) -> Entry:
    seconds = run.seconds * sets.SHARES[name]
    script = contestant.split()[0]
    arguments = {"threads": run.threads, "seconds": seconds, "settings": settings}
    arguments |= {"looks": LOOKS, "budgets": BUDGETS}

    def train() -> dict[str, Any]:
        given = {"folder": folder, "settings": settings, "seed": repeat}
        with run.worker(script) as worker:
            result = worker.ask("curve", seconds=seconds, looks=LOOKS, **given)
            result["memory"] = worker.ask("memory")
            result["budgets"] = []
            # A constant rate may win short trials and lose at full length, so both run there.
            shares = BUDGETS if settings["schedule"] == "cosine" else (*BUDGETS, 1.0)
            given["settings"] = settings | {"schedule": "cosine"}
            for share in shares:
                if script == "sepgp":
                    whole = worker.ask("fit", seconds=share * seconds, **given)
                else:
                    whole = worker.ask("curve", seconds=share * seconds, looks=1, **given)
                result["budgets"] += whole["points"]
        return result

    key = contestant.replace(" ", "-")
    return run.store.get(f"curve-{name}-{key}-{repeat}", script, arguments, train)


def _other(run: Run, name: str, folder: str, model: str) -> Entry:
    def fit() -> dict[str, Any]:
        with run.worker("sklearn") as worker:
            result = worker.ask("fit", folder=folder, model=model)
            return result | {"memory": worker.ask("memory")}

    key = model.replace(" ", "-")
    return run.store.get(f"other-{name}-{key}", "sklearn", {"threads": run.threads}, fit)
