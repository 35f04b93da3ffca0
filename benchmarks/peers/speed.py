"""Seconds of a training step and rows per second of a prediction, contestant after contestant."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import sets
from run import Run
from store import Entry
from worker import Failed, Worker

PEERS = ("gpflow", "gpytorch")
CONTESTANTS = ("sepgp", *PEERS)
DTYPES = ("float64", "float32")
BATCHES = (200, 2000)
CHUNKS = (1_000, 4_000, 16_000, 64_000)
"""Rows predicted at a time; sepgp chooses its own."""
STEP_SECONDS = 2.0
SCAN_ROWS, ROWS = 64_000, 200_000
"""Rows predicted to choose type and chunk, and to measure."""
ADAM, NATURAL = {"rate": 0.01, "gamma": 0.0}, {"rate": 0.01, "gamma": 0.1}


class Crew:
    """Workers that start when they are first needed; a context, which ends them."""

    def __init__(self, run: Run) -> None:
        self._run, self._stack = run, ExitStack()
        self._workers: dict[str, Worker] = {}

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *details: Any) -> None:
        self._stack.close()

    def __getitem__(self, script: str) -> Worker:
        if script not in self._workers:
            self._workers[script] = self._stack.enter_context(self._run.worker(script))
        return self._workers[script]


def settings(contestant: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The settings whose steps are timed, each with a label."""
    for batch in BATCHES:
        for dtype in DTYPES:
            given = {"dtype": dtype, "batch": batch, "schedule": "cosine", "kernels": 1}
            if contestant == "sepgp":
                yield f"{batch} {dtype} SEP", given
            else:
                yield f"{batch} {dtype} Adam", given | ADAM
                yield f"{batch} {dtype} natural gradients", given | NATURAL


def steps(run: Run) -> dict[str, list[Entry]]:
    """For each contestant a round after the other: median seconds of a step by label."""
    folder = str(sets.prepare(sets.SPEED, run.data))
    rounds: dict[str, list[Entry]] = {contestant: [] for contestant in CONTESTANTS}
    with Crew(run) as crew:

        def measure(contestant: str) -> dict[str, float | None]:
            return {
                label: _try(
                    crew[contestant], "steps", folder=folder, settings=given, seconds=STEP_SECONDS
                )
                for label, given in settings(contestant)
            }

        for number in range(run.rounds):
            for contestant in CONTESTANTS:
                rounds[contestant].append(
                    run.store.get(
                        f"steps-{contestant}-{number}",
                        contestant,
                        {"threads": run.threads, "seconds": STEP_SECONDS},
                        lambda contestant=contestant: measure(contestant),
                    )
                )
    return rounds


def predict(run: Run) -> dict[str, dict[str, Any]]:
    """For each contestant: its best type and chunk, rows per second by round, and memory.

    Of sepgp also the rows per second to labels alone.
    """
    folder = str(sets.prepare(sets.SPEED, run.data))
    results: dict[str, dict[str, Any]] = {}
    with Crew(run) as crew:
        for contestant in CONTESTANTS:
            scan = run.store.get(
                f"predict-scan-{contestant}",
                contestant,
                {"threads": run.threads, "rows": SCAN_ROWS},
                lambda contestant=contestant: _scan(crew[contestant], contestant, folder),
            )
            results[contestant] = {"scan": scan, "rounds": [], "labels": []}
        for number in range(run.rounds):
            for contestant, result in results.items():
                if result["scan"].error is not None:
                    continue
                best = result["scan"].result["best"]
                result["rounds"].append(
                    run.store.get(
                        f"predict-{contestant}-{number}",
                        contestant,
                        {"threads": run.threads, "rows": ROWS, "best": best},
                        lambda best=best, contestant=contestant: crew[contestant].ask(
                            "predict", folder=folder, rows=ROWS, **best
                        ),
                    )
                )
            if results["sepgp"]["scan"].error is None:
                best = results["sepgp"]["scan"].result["best"]
                results["sepgp"]["labels"].append(
                    run.store.get(
                        f"labels-sepgp-{number}",
                        "sepgp",
                        {"threads": run.threads, "rows": ROWS, "best": best},
                        lambda best=best: crew["sepgp"].ask(
                            "labels", folder=folder, rows=ROWS, **best
                        ),
                    )
                )
    for contestant, result in results.items():
        if result["scan"].error is None:
            best = result["scan"].result["best"]
            result["memory"] = run.store.get(
                f"predict-memory-{contestant}",
                contestant,
                {"threads": run.threads, "rows": ROWS, "best": best},
                lambda best=best, contestant=contestant: _memory(run, contestant, folder, best),
            )
    return results


def _scan(worker: Worker, contestant: str, folder: str) -> dict[str, Any]:
    """Rows per second for every type and chunk, and the fastest of them as a request."""
    tried = []
    for dtype in DTYPES:
        given = {"dtype": dtype, "batch": 2000, "schedule": "cosine", "kernels": 1, **ADAM}
        for chunk in CHUNKS if contestant != "sepgp" else CHUNKS[:1]:
            request = {"settings": given, "chunk": chunk}
            rate = _try(worker, "predict", folder=folder, rows=SCAN_ROWS, **request)
            tried.append((rate or 0.0, request))
    best = max(tried, key=lambda pair: pair[0])
    if not best[0]:
        raise Failed("no type and chunk gave predictions")
    return {"best": best[1], "tried": tried}


def _memory(run: Run, contestant: str, folder: str, best: dict[str, Any]) -> dict[str, int]:
    """Memory of a process that does nothing but these predictions."""
    with run.worker(contestant) as worker:
        worker.ask("predict", folder=folder, rows=ROWS, **best)
        return worker.ask("memory")


def _try(worker: Worker, task: str, **request: Any) -> float | None:
    """A number, or None with a line on the screen if a contestant fails at it."""
    try:
        return worker.ask(task, **request)
    except Failed as error:
        print(f"    {request['settings']}: {error}", flush=True)
        return None
