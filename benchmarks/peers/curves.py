"""Test NLL against seconds of training: settings chosen for each peer, then all contestants."""

from typing import Any, NamedTuple

import sets
from run import Run
from store import Entry
from worker import Failed, Worker

OURS = {"sepgp": "float64", "sepgp float32": "float32"}
"""Our contestants, and the type of numbers that each works with."""
OTHERS = ("logistic regression", "boosted trees", "exact process")
MANY_OTHERS = ("logistic regression", "boosted trees", "one against the rest")
"""scikit-learn's."""
LOOKS = 20
"""How often a run looks at the test rows, at times with equal ratios."""
TRIAL = 0.2
"""Share of the training time that a trial of settings gets."""
BUDGETS = (0.05, 0.07, 0.1, 0.2)
MANY_BUDGETS = (0.1, 0.2)
"""Shares of the training time for which whole runs are made too, each with a cosine to its end."""
BEGINNING = {"batch": 1000, "gamma": 0.1, "schedule": "cosine", "kernels": 1}
FIRST = {
    "gpflow": {"dtype": "float64", **BEGINNING},
    "gpytorch": {"dtype": "float32", **BEGINNING},
}
"""Where the choice of settings starts: natural gradients, and the library's own type."""
MANY_FIRST = {
    "gpflow robust-max": FIRST["gpflow"] | {"likelihood": "robust-max", "kernel": "matern32"},
    "gpflow softmax": FIRST["gpflow"] | {"likelihood": "softmax", "kernel": "matern32"},
    "gpytorch softmax": FIRST["gpytorch"] | {"likelihood": "softmax", "kernel": "matern32"},
}
"""The same with many classes."""
STAGES: tuple[tuple[dict[str, Any], ...], ...] = (
    ({"rate": 0.03}, {"rate": 0.01}, {"rate": 0.1}),
    ({"kernels": 2},),
    ({"gamma": 0.02}, {"gamma": 0.0}),
    ({"batch": 200}, {"batch": 2000}),
    ({"schedule": "constant"},),
    ({"dtype": "float64"}, {"dtype": "float32"}),
)
"""Changes to try, stage by stage: each starts from the best so far. No γ means Adam alone."""
MANY_STAGES: tuple[tuple[dict[str, Any], ...], ...] = (
    STAGES[0],
    ({"kernel": "rbf"},),
    ({"gamma": 0.0},),
    ({"batch": 200},),
)
"""With many classes, where steps are dear: fewer, but the RBF kernel too, our default there."""


def ours(contestant: str) -> dict[str, Any]:
    """The settings of one of our contestants: the library's own for minibatches."""
    return {"dtype": OURS[contestant], "batch": 2000, "schedule": "cosine"}


def measure(run: Run, name: str) -> dict[str, Any]:
    """All that is measured on one set."""
    folder = str(sets.prepare(name, run.data))
    many = name in sets.MANY
    first, stages = (MANY_FIRST, MANY_STAGES) if many else (FIRST, STAGES)
    budgets = MANY_BUDGETS if many else BUDGETS
    task = Task(run, name, folder, run.seconds * (sets.SHARES | sets.MANY)[name], stages, budgets)
    tuning = {peer: task.tuned(peer, settings) for peer, settings in first.items()}
    chosen = {peer: entry.result["best"] for peer, entry in tuning.items() if not entry.error}
    chosen |= {contestant: ours(contestant) for contestant in OURS}
    curves: dict[str, list[Entry]] = {contestant: [] for contestant in chosen}
    for repeat in range(run.repeats):
        for contestant, settings in chosen.items():
            curves[contestant].append(task.curve(contestant, settings, repeat))
    others = {model: task.other(model) for model in (MANY_OTHERS if many else OTHERS)}
    shown = {"seconds": task.seconds, "shares": budgets}
    return shown | {"tuning": tuning, "curves": curves, "others": others}


class Task(NamedTuple):
    """One set, on which all contestants are measured."""

    run: Run
    name: str
    folder: str
    seconds: float
    stages: tuple[tuple[dict[str, Any], ...], ...]
    budgets: tuple[float, ...]

    @property
    def clock(self) -> dict[str, bool]:
        """What a request says about its seconds, and with it the arguments of a measurement."""
        return {"processor": True} if self.run.processor else {}

    def tuned(self, peer: str, first: dict[str, Any]) -> Entry:
        """The settings of a peer."""
        run, seconds, script = self.run, self.seconds * TRIAL, peer.split()[0]
        arguments = {"threads": run.threads, "seconds": seconds, "first": first} | self.clock
        arguments["stages"] = self.stages

        def choose() -> dict[str, Any]:
            with run.worker(script) as worker:
                return self._chosen(worker, first, seconds)

        key = peer.replace(" ", "-")
        return run.store.get(f"tune-{self.name}-{key}", script, arguments, choose)

    def _chosen(self, worker: Worker, first: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The best settings and all trials, by the NLL of training rows that are held out."""
        best, lowest = first, float("inf")
        trials: list[dict[str, Any]] = []
        for stage in self.stages:
            # Where natural gradients end in errors, whatever the rate, Adam is tried alone.
            for start in (best, best | {"gamma": 0.0}):
                for change in stage:
                    settings = start | change
                    if settings == start:
                        continue
                    given = {"folder": self.folder, "settings": settings, "validation": True}
                    result = worker.ask("curve", seconds=seconds, looks=1, **given, **self.clock)
                    nll = result["points"][-1][-1] if result["points"] else None
                    trials.append({"settings": settings, "nll": nll, "error": result["error"]})
                    shown = nll if nll is not None else result["error"]
                    print(f"    {settings}: {shown}", flush=True)
                    if nll is not None and nll < lowest:
                        best, lowest = settings, nll
                if lowest < float("inf"):
                    break
        if not lowest < float("inf"):
            raise Failed(f"no trial went well; the last: {trials[-1]['error']}")
        return {"best": best, "trials": trials}

    def curve(self, contestant: str, settings: dict[str, Any], repeat: int) -> Entry:
        """A run of the whole time, and some shorter ones."""
        run, seconds, script = self.run, self.seconds, contestant.split()[0]
        arguments = {"threads": run.threads, "seconds": seconds, "settings": settings} | self.clock
        arguments |= {"looks": LOOKS, "budgets": self.budgets}

        def train() -> dict[str, Any]:
            given = {"folder": self.folder, "settings": settings, "seed": repeat}
            with run.worker(script) as worker:
                result = worker.ask("curve", seconds=seconds, looks=LOOKS, **given, **self.clock)
                result["memory"] = worker.ask("memory")
                result["budgets"] = []
                # A constant rate may win short trials and lose at full length, so both run there.
                more = () if settings["schedule"] == "cosine" else (1.0,)
                given["settings"] = settings | {"schedule": "cosine"}
                for share in (*self.budgets, *more):
                    if script == "sepgp" and not run.processor:  # its own budget is wall-clock
                        whole = worker.ask("fit", seconds=share * seconds, **given)
                    else:
                        shorter = {"seconds": share * seconds, "looks": 1} | self.clock
                        whole = worker.ask("curve", **shorter, **given)
                    result["budgets"] += whole["points"]
            return result

        key = contestant.replace(" ", "-")
        return run.store.get(f"curve-{self.name}-{key}-{repeat}", script, arguments, train)

    def other(self, model: str) -> Entry:
        """One of scikit-learn's, or one against the rest."""
        run, arguments = self.run, {"threads": self.run.threads} | self.clock
        if model == "one against the rest":
            arguments["budget"] = self.seconds

        def fit() -> dict[str, Any]:
            with run.worker("sklearn") as worker:
                given = {k: v for k, v in arguments.items() if k != "threads"}
                result = worker.ask("fit", 3600.0, folder=self.folder, model=model, **given)
                return result | {"memory": worker.ask("memory")}

        key = model.replace(" ", "-")
        return run.store.get(f"other-{self.name}-{key}", "sklearn", arguments, fit)
