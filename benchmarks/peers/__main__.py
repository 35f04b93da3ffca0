"""sepgp beside GPflow, GPyTorch and scikit-learn: same data, same m, same machine, in turns.

Sets up the peers' environments on first use, measures, prints tables, and writes them with plots
into a folder. Stopped in whatever way, the same command goes on where it was.

    python benchmarks/peers [--parts steps predict curves classes] [--sets airline ...]
        [--seconds 60] [--processor]
"""

import argparse
import os
import platform
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import curves
import environments
import plots
import report
import sets
import speed
from run import Run
from store import Store

import sepgp
from sepgp.errors import InvalidData

RESULTS = Path(__file__).parent / "results"
PARTS = ("steps", "predict", "curves", "classes")


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python benchmarks/peers", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    known = [*sets.SHARES, *sets.MANY]
    parser.add_argument("--sets", nargs="+", choices=known, default=known)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of training on airline; other sets get a share"
    )
    parser.add_argument(
        "--processor",
        action="store_true",
        help="take seconds of the processor, on a machine with other work; with --threads 1",
    )
    parser.add_argument("--repeats", type=int, default=1, help="of the learning curves")
    parser.add_argument("--rounds", type=int, default=3, help="of steps and predictions")
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--data", type=Path, help="folder with the sets; else that of SEPGP_DATA")
    parser.add_argument("--out", type=Path, help=f"{RESULTS} by default, or quick in it")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        choices=("sepgp", "gpflow", "gpytorch", "sklearn"),
        help="measure these anew, and take the others from the folder",
    )
    parser.add_argument("--quick", action="store_true", help="6 seconds, and one round")
    given = parser.parse_args()
    if given.quick:
        given.seconds, given.rounds, given.repeats = 6.0, 1, 1
    given.out = given.out or (RESULTS / "quick" if given.quick else RESULTS)
    return given


def about(run: Run, begun: str) -> str:
    """The machine, the versions and the settings of a run, in a sentence or two."""
    pinned = [
        line
        for name in speed.PEERS
        for line in environments.requirements(name).read_text().splitlines()
        if line.split("==")[0] in ("gpflow", "tensorflow", "gpytorch", "torch")
    ]
    return (
        f"Run begun at {begun} on {_processor()}, {run.threads} threads, Python "
        f"{platform.python_version()}; sepgp {sepgp.__version__}, {', '.join(pinned)}. "
        f"m = {sets.INDUCING}; {run.rounds} rounds of steps and predictions, "
        f"{run.repeats} of the learning curves"
        f"{', in seconds of the processor' if run.processor else ''}.\n"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    """Measure, and write after every part, so that a long run can be looked at on its way."""
    given = arguments()
    begin, begun = time.monotonic(), datetime.now().isoformat(timespec="seconds")
    given.out.mkdir(parents=True, exist_ok=True)
    run = Run(
        Store(given.out / "measurements", begun, set(given.only)),
        given.data,
        given.threads,
        given.out / "contestants.log",
        given.seconds,
        given.repeats,
        given.rounds,
        given.processor,
    )
    results: dict[str, Any] = {}
    for part, measure in (("steps", speed.steps), ("predict", speed.predict)):
        if part in given.parts:
            print(f"{part}, after {time.monotonic() - begin:.0f} s", flush=True)
            results[part] = measure(run)
            print(f"\n{getattr(report, part)(results[part])}", flush=True)
    parts = {"curves": ("sets", sets.SHARES), "classes": ("many", sets.MANY)}
    for part, name in (
        (key, name)
        for asked, (key, among) in parts.items()
        for name in given.sets
        if asked in given.parts and name in among
    ):
        print(f"{name}, after {time.monotonic() - begin:.0f} s", flush=True)
        try:
            result = curves.measure(run, name)
        except InvalidData as error:
            print(error, flush=True)
            continue
        results.setdefault(part, {})[name] = result
        print(f"\n{report.curve_section(name, result)}", flush=True)
        _write(results, about(run, begun), given.out)
    for path in _write(results, about(run, begun), given.out):
        print(path)
    print(f"{(time.monotonic() - begin) / 60:.1f} minutes")


def _write(results: dict[str, Any], text: str, out: Path) -> list[Path]:
    paths = report.write(results, text, out)
    if results.get("steps") or results.get("predict"):
        paths += plots.draw_speed(results, out / "speed")
    for part, name in (("sets", "curves"), ("many", "classes")):
        if results.get(part):
            paths += plots.draw_curves(results[part], out / name)
    return paths


if __name__ == "__main__":
    main()
