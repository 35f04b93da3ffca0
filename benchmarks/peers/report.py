"""Tables, from what was measured."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import curves
import pandas as pd
import speed
from store import Entry

from sepgp.experiments.pages import markdown_table, write_csv, write_text

NAMES = {"gpflow": "GPflow", "gpytorch": "GPyTorch", "sepgp": "sepgp"}
NAMES |= {"sepgp float32": "sepgp, float32", "exact process": "exact process, 500 rows"}
NAMES |= {"gpflow robust-max": "GPflow, robust-max", "gpflow softmax": "GPflow, softmax"}
NAMES |= {"gpytorch softmax": "GPyTorch, softmax"}


class Point(NamedTuple):
    """A look at the test rows, or the end of a run; means over the repeats."""

    planned: float
    """Seconds at which the look was due, or the budget."""
    seconds: float
    nll: float


def named(contestant: str) -> str:
    """How a contestant is written."""
    return NAMES.get(contestant, contestant)


def mixed(entries: Iterable[Entry]) -> str:
    """A sentence where a table's measurements come from more runs than one."""
    runs = sorted({entry.run for entry in entries if entry.error is None})
    if len(runs) < 2:
        return ""
    return f"These measurements come from {len(runs)} runs, begun at {', '.join(runs)}.\n"


def numbered(entries: dict[str, list[Entry]], word: str) -> dict[str, Entry]:
    """Measurements by contestant and number."""
    return {
        f"{named(contestant)}, {word} {i + 1}": entry
        for contestant, several in entries.items()
        for i, entry in enumerate(several)
    }


def failures(entries: dict[str, Entry]) -> str:
    """A line for each measurement that failed."""
    return "".join(f"- {k}: {e.error}\n" for k, e in entries.items() if e.error is not None)


# ------------------------------------------------------------------------------------ speed


class StepRow(NamedTuple):
    """A way to take a training step: medians over the rounds."""

    contestant: str
    label: str
    batch: int
    seconds: float
    ratio: float | None
    """To sepgp's in the same round and type of numbers; above 1, sepgp is faster."""


def step_rows(rounds: dict[str, list[Entry]]) -> list[StepRow]:
    """All ways, the batch sizes apart."""
    rows = []
    for batch in speed.BATCHES:
        for contestant, entries in rounds.items():
            good = {i: e.result for i, e in enumerate(entries) if e.error is None}
            ours = {i: e.result for i, e in enumerate(rounds["sepgp"]) if e.error is None}
            for label in next(iter(good.values()), {}):
                size, dtype, way = label.split(" ", 2)
                taken = {i: r[label] for i, r in good.items() if r[label] is not None}
                if int(size) != batch or not taken:
                    continue
                base = f"{batch} {dtype} SEP"
                ratios = [s / ours[i][base] for i, s in taken.items() if i in ours]
                ratio = median(ratios) if ratios and contestant != "sepgp" else None
                seconds = median(taken.values())
                rows.append(StepRow(contestant, f"{way}, {dtype}", batch, seconds, ratio))
    return rows


def steps(rounds: dict[str, list[Entry]]) -> str:
    """The section on training steps."""
    table = markdown_table(
        ["batch", "library", "step", "ms per step", "rows per second", "time, sepgp = 1"],
        [
            [
                f"{row.batch:,}",
                named(row.contestant),
                row.label,
                f"{1e3 * row.seconds:.2f}",
                f"{row.batch / row.seconds:,.0f}",
                "" if row.ratio is None else f"{row.ratio:.2f}",
            ]
            for row in step_rows(rounds)
        ],
    )
    entries = numbered(rounds, "round")
    return (
        "## Training steps\n\n"
        "m = 200, 8 features; a step takes a minibatch and moves q, kernel and inducing points. "
        "Medians over the rounds; the last column compares within a round, with sepgp in the same "
        f"type of numbers.\n\n{table}\n{mixed(entries.values())}{failures(entries)}"
    )


class PredictRow(NamedTuple):
    """A contestant's predictions at its best."""

    contestant: str
    dtype: str
    chunk: int | None
    rate: float
    ratio: float | None
    """To sepgp's in the same round."""
    memory: dict[str, int] | None


def predict_rows(results: dict[str, dict[str, Any]]) -> list[PredictRow]:
    """Medians over the rounds."""
    rows = []
    ours = [e.result for e in results["sepgp"]["rounds"]]
    for contestant, result in results.items():
        rates = [e.result for e in result["rounds"]]
        if not any(rates):
            continue
        best = result["scan"].result["best"]
        ratios = [rate / our for rate, our in zip(rates, ours, strict=False) if rate and our]
        rows.append(
            PredictRow(
                contestant,
                best["settings"]["dtype"],
                None if contestant == "sepgp" else best["chunk"],
                median(filter(None, rates)),
                median(ratios) if ratios and contestant != "sepgp" else None,
                result["memory"].result,
            )
        )
    return rows


def labels(results: dict[str, dict[str, Any]]) -> str:
    """A sentence on labels alone, by medians over the rounds."""
    rates = [e.result for e in results["sepgp"]["labels"] if e.result]
    peers = [row.rate for row in predict_rows(results) if row.contestant != "sepgp"]
    if not rates or not peers:
        return ""
    rate = median(rates)
    return (
        f"Labels alone, by `predict` of sepgp: {rate:,.0f} rows per second, "
        f"{rate / max(peers):.2f} times the probabilities of the fastest peer.\n"
    )


def predict(results: dict[str, dict[str, Any]]) -> str:
    """The section on predictions."""
    table = markdown_table(
        ["library", "numbers", "rows at a time", "rows per second", "sepgp = 1", "peak memory, MB"],
        [
            [
                named(row.contestant),
                row.dtype,
                "its own" if row.chunk is None else f"{row.chunk:,}",
                f"{row.rate:,.0f}",
                "" if row.ratio is None else f"{row.ratio:.2f}",
                megabytes(row.memory),
            ]
            for row in predict_rows(results)
        ],
    )
    entries = {f"{named(c)}, choice": r["scan"] for c, r in results.items()}
    entries |= numbered({c: r["rounds"] for c, r in results.items()}, "round")
    entries |= numbered({"sepgp": results["sepgp"]["labels"]}, "labels, round")
    return (
        "## Predictions\n\n"
        f"{speed.ROWS:,} rows of 8 features to probabilities, m = 200, each library with its "
        "faster type of numbers and the best number of rows at a time.\n\n"
        f"{table}\n{labels(results)}{mixed(entries.values())}{failures(entries)}"
    )


def megabytes(memory: dict[str, int] | None) -> str:
    """Peak of a process, and in brackets what it is without its libraries."""
    if memory is None:
        return "—"
    peak, libraries = memory["peak"] / 1e6, memory["libraries"] / 1e6
    return f"{peak:,.0f} ({peak - libraries:,.0f})"


# ----------------------------------------------------------------------------------- curves


def averaged(entries: list[Entry], key: str) -> list[Point]:
    """Looks or budgets that all repeats have, as means over them, in the order of time."""
    good = [e.result[key] for e in entries if e.error is None]
    by_time = [{round(t, 6): (clock, nll) for t, clock, _, nll in points} for points in good]
    times = sorted(set.intersection(*map(set, by_time))) if by_time else []
    return [
        Point(t, fmean(p[t][0] for p in by_time), fmean(p[t][1] for p in by_time)) for t in times
    ]


def target(result: dict[str, Any]) -> float | None:
    """The best test NLL that any peer reaches at any look or budget."""
    found = [
        point.nll
        for peer in result["tuning"]
        for key in ("points", "budgets")
        for point in averaged(result["curves"].get(peer, []), key)
    ]
    return min(found, default=None)


def reached(points: list[Point], nll: float | None) -> float | None:
    """The seconds of the first point that is as good."""
    return next((p.seconds for p in points if nll is not None and p.nll <= nll), None)


def described(settings: dict[str, Any]) -> str:
    """Settings in words."""
    words = [settings["dtype"], f"batch {settings['batch']:,}"]
    if "kernels" in settings:
        kernel = {"rbf": " (RBF)"}.get(settings.get("kernel", ""), "")
        words.append({1: "one kernel", 2: "two kernels"}[settings["kernels"]] + kernel)
    if "rate" in settings:
        gamma = settings["gamma"]
        words.append(f"natural gradients γ {gamma:g}" if gamma else "no natural gradients")
        words.append(f"Adam {settings['rate']:g}")
    return ", ".join([*words, settings["schedule"]])


def curve_table(result: dict[str, Any]) -> str:
    """All contestants on one set."""
    seconds, goal = result["seconds"], target(result)
    header = ["model", *(f"{share * seconds:g} s" for share in result["shares"]), f"{seconds:g} s"]
    header += ["range", "lowest", "target, longest run, s", "target, budget, s"]
    header += ["rows per second", "peak memory, MB"]
    lines = []
    for contestant, entries in result["curves"].items():
        looks, budgets = averaged(entries, "points"), averaged(entries, "budgets")
        if not looks:
            continue
        good = [e.result for e in entries if e.error is None]
        ends = [kept["points"][-1] for kept in good]
        batch = _settings(result, contestant)["batch"]
        columns = [share * seconds for share in (*result["shares"], 1.0)]
        lines.append(
            [
                named(contestant),
                *(_by(looks + budgets, column) for column in columns),
                _range([nll for *_, nll in ends]),
                f"{min(p.nll for p in looks + budgets):.4f}",
                _seconds(reached(looks, goal)),
                _seconds(reached(budgets, goal)),
                f"{fmean(batch * steps / clock for _, clock, steps, _ in ends):,.0f}",
                megabytes(good[0]["memory"]),
            ]
        )
    return markdown_table(header, lines)


def _settings(result: dict[str, Any], contestant: str) -> dict[str, Any]:
    if contestant in result["tuning"]:
        return result["tuning"][contestant].result["best"]
    return curves.ours(contestant)


def _by(points: list[Point], seconds: float) -> str:
    """The lowest NLL of those due at a time: the end of a longest run, or that of a budget."""
    there = [p.nll for p in points if abs(p.planned - seconds) < 1e-3 * seconds]
    return f"{min(there):.4f}" if there else "—"


def _range(values: list[float]) -> str:
    """How far the ends of the longest runs are apart."""
    return f"{max(values) - min(values):.4f}" if len(values) > 1 else "—"


def _seconds(value: float | None) -> str:
    return "—" if value is None else f"{value:.1f}"


def advantage(result: dict[str, Any]) -> str:
    """Sentences: how soon the best of the peers is reached."""
    goal = target(result)
    if goal is None:
        return "No peer finished.\n"
    times = {}
    for contestant, entries in result["curves"].items():
        found = [reached(averaged(entries, key), goal) for key in ("points", "budgets")]
        times[contestant] = min((t for t in found if t is not None), default=None)
    peers = [t for c, t in times.items() if c in result["tuning"] and t is not None]
    text = f"The lowest NLL of a peer is {goal:.4f}, after {min(peers):.1f} s."
    for contestant in curves.OURS:
        ours = times.get(contestant)
        text += f" {named(contestant)} reaches it "
        text += (
            "never." if ours is None else f"after {ours:.1f} s, {min(peers) / ours:.1f}× as fast."
        )
    return text + "\n"


def other_table(result: dict[str, Any]) -> str:
    """What a user might pick instead."""
    return markdown_table(
        ["model", "NLL", "seconds", "predict, rows per second", "peak memory, MB"],
        [
            [
                named(model),
                f"{entry.result['nll']:.4f}",
                f"{entry.result['seconds']:.1f}",
                f"{entry.result['predict']:,.0f}",
                megabytes(entry.result["memory"]),
            ]
            for model, entry in result["others"].items()
            if entry.error is None
        ],
    )


def trial_table(result: dict[str, Any]) -> str:
    """All settings that were tried, the chosen ones in bold."""
    lines = []
    for peer, entry in result["tuning"].items():
        if entry.error is not None:
            continue
        for trial in entry.result["trials"]:
            words = described(trial["settings"])
            chosen = trial["settings"] == entry.result["best"]
            nll = trial["error"] if trial["nll"] is None else f"{trial['nll']:.4f}"
            lines.append([named(peer), f"**{words}**" if chosen else words, nll])
    return markdown_table(["library", "settings", "validation NLL"], lines)


def curve_section(name: str, result: dict[str, Any]) -> str:
    """The section on one set."""
    entries = {f"{named(peer)}, choice": entry for peer, entry in result["tuning"].items()}
    entries |= {named(model): entry for model, entry in result["others"].items()}
    entries |= numbered(result["curves"], "repeat")
    broken = "".join(
        f"- {key}: stopped early, {entry.result['error']}\n"
        for key, entry in entries.items()
        if entry.error is None and isinstance(entry.result, dict) and entry.result.get("error")
    )
    return (
        f"## {name}\n\n{curve_table(result)}\n{advantage(result)}\n{other_table(result)}\n"
        f"Settings that were tried, {curves.TRIAL * result['seconds']:g} s each:\n\n"
        f"{trial_table(result)}\n{mixed(entries.values())}{failures(entries)}{broken}"
    )


READING = """\
Test NLL by seconds of training. Each column of seconds is a run with that budget; the last is
the longest run, which the plot shows. A peer whose best trial had a constant rate also has runs
with a cosine schedule, and the better one counts. All are means over the repeats, and "range" is
how far these differ at the end of the longest run. The clock runs in training steps alone: not
while the test rows are evaluated, nor in a first step that learns nothing, in which some libraries
compile, nor while the inducing points are prepared, which are the same for all. The target is the
lowest test NLL of any peer at any time: "target, longest run" is when the longest run has it, and
"target, budget" the shortest budget whose run ends with it. The settings of the peers are the best
of the trials below on held-out training rows; sepgp has its defaults. Memory is the peak of the
process, and in brackets without what its libraries took before there was any data.
"""


MANY_READING = """Softmax probabilities are means over 200 samples of f, robust-max's are
GPflow's own. One against the rest is a `GPClassifier` for each class, which share the seconds out.
"""


def page(results: dict[str, Any], about: str) -> str:
    """Everything, in Markdown."""
    parts = [f"# sepgp beside its peers\n\n{about}\n"]
    if results.get("steps"):
        parts.append(steps(results["steps"]))
    if results.get("predict"):
        parts.append(predict(results["predict"]))
    if results.get("sets"):
        parts.append("## Learning curves\n\n" + READING.replace("\n", " ").strip() + "\n")
        parts.append("![Test NLL against seconds of training](curves.png)\n")
        parts += [curve_section(name, result) for name, result in results["sets"].items()]
    return "\n".join(parts)


def many_page(results: dict[str, Any], about: str) -> str:
    """The sets with many classes, in Markdown."""
    parts = [f"# Many classes, beside its peers\n\n{about}\n"]
    parts.append(READING.replace("\n", " ").strip() + " " + MANY_READING.replace("\n", " "))
    parts.append("\n![Test NLL against seconds of training](classes.png)\n")
    parts += [curve_section(name, result) for name, result in results.items()]
    return "\n".join(parts)


def write(results: dict[str, Any], about: str, folder: Path) -> list[Path]:
    """The pages and the tables behind them; their paths."""
    paths = []
    if results.keys() - {"many"}:
        paths.append(write_text(folder / "peers.md", page(results, about)))
    if results.get("steps"):
        paths.append(write_csv(folder / "steps.csv", pd.DataFrame(step_rows(results["steps"]))))
    if results.get("predict"):
        rows = predict_rows(results["predict"])
        flat = [row._replace(memory=row.memory and row.memory["peak"]) for row in rows]
        paths.append(write_csv(folder / "predict.csv", pd.DataFrame(flat)))
    for part, name in (("sets", "curves"), ("many", "classes")):
        if results.get(part):
            points = pd.DataFrame(_points(results[part]), columns=POINT)
            paths.append(write_csv(folder / f"{name}.csv", points))
    if results.get("many"):
        paths.append(write_text(folder / "classes.md", many_page(results["many"], about)))
    return paths


POINT = ["set", "model", "kind", "seconds", "nll"]


def _points(results: dict[str, Any]) -> Iterable[Sequence[Any]]:
    for name, result in results.items():
        for contestant, entries in result["curves"].items():
            for key in ("points", "budgets"):
                for point in averaged(entries, key):
                    yield name, contestant, key, point.seconds, point.nll
        for model, entry in result["others"].items():
            if entry.error is None:
                yield name, model, "fit", entry.result["seconds"], entry.result["nll"]
