"""`python -m stress` tries many problems; `python -m stress --seed N` repeats one."""

import argparse
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OMP_NUM_THREADS", "1")

from stress.check import Outcome, tried
from stress.problems import problem


def main() -> None:
    """Try problems and print what was tried; exit code 1 if anything does not hold."""
    options = argparse.ArgumentParser(prog="python -m stress", description=__doc__)
    options.add_argument("--seed", type=int, help="the one problem to repeat")
    options.add_argument("--first", type=int, default=0, help="the seed of the first problem")
    options.add_argument("--problems", type=int, default=10_000)
    options.add_argument("--processes", type=int, default=os.cpu_count())
    given = options.parse_args()
    if given.seed is not None:
        raise SystemExit(repeat(given.seed))
    begin = time.perf_counter()
    seeds = range(given.first, given.first + given.problems)
    failed = summarize(run(seeds, given.processes))
    print(f"{time.perf_counter() - begin:.0f} s")
    raise SystemExit(failed)


def run(seeds: Iterable[int], processes: int) -> Iterator[Outcome]:
    """What became of the problems of some seeds; faults are printed as they come."""
    if processes > 1:
        with ProcessPoolExecutor(processes) as pool:
            outcomes: Iterator[Outcome] = pool.map(tried, seeds, chunksize=16)
            yield from _told(outcomes)
    else:
        yield from _told(map(tried, seeds))


def _told(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    for outcome in outcomes:
        for violation in outcome.violations:
            print(f"--seed {outcome.seed}: {violation}", flush=True)
        yield outcome


def repeat(seed: int) -> int:
    """Try one problem and say all that is known about it."""
    found = problem(seed)
    for name, value in (found.kinds | found.settings).items():
        print(f"{name:15} {value}")
    outcome = tried(seed)
    print(f"{outcome.steps} steps, {outcome.rejected} rejected; {outcome.seconds:.2f} s")
    print("\n".join(outcome.violations) or "Everything holds.")
    return len(outcome.violations)


def summarize(outcomes: Iterable[Outcome]) -> int:
    """Print what was tried as a table; the number of problems with violations."""
    table: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    total: Counter[str] = Counter()
    seconds = 0.0
    for outcome in outcomes:
        seen = {
            "problems": 1,
            "violations": int(bool(outcome.violations)),
            "steps": outcome.steps,
            "rejected": outcome.rejected,
            "jitter": outcome.escalated,
        }
        total.update(seen)
        seconds += outcome.seconds
        for key in outcome.kinds.items():
            table[key].update(seen)
    print(f"{'':15} {'':12} problems violations    steps rejected   jitter")
    for (about, kind), counts in sorted(table.items()):
        print(_line(about, kind, counts))
    print(_line("all", "", total))
    print(f"{seconds / max(1, total['problems']):.3f} s of processor time for a problem")
    return int(total["violations"] > 0)


def _line(about: str, kind: str, counts: Counter[str]) -> str:
    numbers = (counts[name] for name in ("problems", "violations", "steps", "rejected", "jitter"))
    widths = zip(numbers, (8, 10, 8, 8, 8), strict=True)
    return f"{about:15} {kind:12} " + " ".join(f"{number:{width},}" for number, width in widths)


if __name__ == "__main__":
    main()
