"""How rounds scale with the workers, by a cost model and by a simulation with a fake clock.

Numbers of the model are measured (`benchmarks/cluster.py`, `--measure` here) or stated: those of a
network with 1 Gbit/s and 1 ms, and the client on the machine of the scheduler. The simulation goes
through the events of many rounds: the state is sent to a few workers one by one, or through a tree
of many, each part takes its steps, in times that vary, and answers are added by the client, or in a
tree. Efficiency is the rows per second of all workers beside what they would do alone.

    python benchmarks/cluster_model.py [--measure]
"""

import argparse
import heapq
import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

ROW = 1.25e-5
"""Seconds for a row of a step at m = 200, d = 8, two classes, one thread, float64."""
CUBE = 6e-3
"""Seconds for the m × m work of a step at m = 200, one thread."""
FAN_IN = 8
FEW = 4
"""Up to so many workers get the state and answer one by one."""


@dataclass(frozen=True)
class Cost:
    """What a round costs."""

    m: int = 200
    d: int = 8
    n_classes: int = 2
    batch: int = 2000
    local_steps: int = 10
    n_workers: int = 64
    bandwidth: float = 125e6
    """Bytes per second between two machines."""
    latency: float = 1e-3
    """Seconds until the first byte of a message is there."""
    per_task: float = 2e-4
    """Seconds of the scheduler for each task, one after the other."""
    client: float = 1.2e-2
    """Seconds in a round between the steps of a worker, of client and scheduler without a network:
    the new state, a message to the scheduler, and the answer."""
    spread: float = 0.1
    """Standard deviation of the time of a step, as a share of it."""
    straggler: float = 1.0
    """One worker of all takes so many times as long."""

    @property
    def latents(self) -> int:
        """How many latent functions there are."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def step(self) -> float:
        """Seconds of a step: O(m³) and O(m² + md) per row, C-fold but for the kernel."""
        share = self.m / 200
        kernel, rest = 0.3 * share * self.d / 8, 0.7 * share**2 * self.latents
        return CUBE * share**3 * self.latents + ROW * self.batch * (kernel + rest)

    @property
    def sent(self) -> float:
        """Bytes of the state, Λ, b, ξ and the moments of Adam; an answer has as many."""
        return 8 * (self.latents * self.m * (self.m + 1) + 4 * self.m * (self.d + 1))

    @property
    def message(self) -> float:
        """Seconds to send the state or an answer from one machine to another."""
        return self.latency + self.sent / self.bandwidth

    @property
    def depth(self) -> int:
        """Levels of the tree of sums."""
        return max(1, math.ceil(math.log(self.n_workers, FAN_IN) - 1e-9))

    @property
    def overhead(self) -> float:
        """Seconds of a round in which no rows are worked on.

        The state goes to a few workers one by one, and is passed on between many, which doubles
        those who have it in each step; in the tree of sums, or for a few in one place, a machine
        takes in up to eight answers. The scheduler has a task for each part and for each sum.
        """
        down = math.ceil(math.log2(self.n_workers + 1)) * self.message
        if self.n_workers <= FEW:
            down = self.several(self.n_workers)
        up = self.depth * self.several(min(FAN_IN, self.n_workers))
        tasks = self.n_workers * (1 + 1 / (FAN_IN - 1)) * self.per_task
        return down + up + tasks + self.client

    def several(self, count: int) -> float:
        """Seconds until one machine has sent or taken in so many states or answers."""
        return self.latency + count * self.sent / self.bandwidth

    @property
    def slowest(self) -> float:
        """Seconds of the slowest part, whose steps vary: about √(2 ln W) standard deviations."""
        spread = self.spread * math.sqrt(2 * math.log(max(self.n_workers, 2)))
        return self.step * (self.local_steps + spread * math.sqrt(self.local_steps))

    @property
    def efficiency(self) -> float:
        """Rows per second beside those of as many workers that never wait."""
        return self.local_steps * self.step / (self.slowest + self.overhead)

    @property
    def rows_per_second(self) -> float:
        """Of the whole cluster."""
        return self.n_workers * self.batch / self.step * self.efficiency


def simulated(cost: Cost, rounds: int = 200, quorum: float = 1.0, seed: int = 0) -> float:
    """Efficiency by a fake clock: an event for every message and every part's steps.

    With a quorum below 1 a round ends when this share of the parts has answered; the others go on,
    and their answer counts in the round in which it comes.
    """
    random = np.random.default_rng(seed)
    now, work, needed = 0.0, 0.0, max(1, math.ceil(quorum * cost.n_workers - 1e-9))
    busy: list[tuple[float, int]] = []
    for _ in range(rounds):
        here = arrivals(cost, now)
        working = {part for _, part in busy}
        for part in range(cost.n_workers):
            if part not in working:
                steps = cost.step * np.maximum(0.5, random.normal(1, cost.spread, cost.local_steps))
                seconds = float(steps.sum()) * (cost.straggler if part == 0 else 1)
                heapq.heappush(busy, (here[part] + seconds, part))
        answered = [heapq.heappop(busy)[0] for _ in range(needed)]
        while busy and busy[0][0] <= answered[-1]:
            answered.append(heapq.heappop(busy)[0])
        work += len(answered) * cost.local_steps * cost.step
        now = added(cost, answered) + cost.client
    return work / (now * cost.n_workers)


def arrivals(cost: Cost, now: float) -> list[float]:
    """When the state is at each worker: one after the other, or from one to the next.

    The scheduler gives out one task after the other.
    """
    if cost.n_workers <= FEW:
        return [now + cost.several(i + 1) for i in range(cost.n_workers)]
    holders = [now + cost.message]
    arrived = list(holders)
    while len(arrived) < cost.n_workers:
        ready = heapq.heappop(holders)
        for again in (ready + cost.message, ready + cost.message):
            heapq.heappush(holders, again)
        arrived.append(ready + cost.message)
    return [max(t, now + (i + 1) * cost.per_task) for i, t in enumerate(sorted(arrived))]


def added(cost: Cost, answered: list[float]) -> float:
    """When the sum of all answers is at the client; a machine takes in one after the other."""
    times = sorted(answered)
    if cost.n_workers <= FEW:
        return _taken_in(cost, times)
    while len(times) > 1:
        groups = [times[i : i + FAN_IN] for i in range(0, len(times), FAN_IN)]
        times = sorted(_taken_in(cost, group) for group in groups)
    return times[0] + cost.message


def _taken_in(cost: Cost, group: list[float]) -> float:
    now = 0.0
    for ready in group:
        now = max(now, ready + cost.latency) + cost.sent / cost.bandwidth
    return now + cost.per_task


def measure() -> tuple[float, float]:
    """Seconds of a row and of the m × m work of a step, by steps on batches of two sizes."""
    import time

    import torch

    from sepgp.data.batches import Batch
    from sepgp.gp.hyperparameters import Hyperparameters
    from sepgp.gp.kernels import named
    from sepgp.likelihoods import for_classes
    from sepgp.training.memory import keep_freed_memory
    from sepgp.training.settings import Settings
    from sepgp.training.step import Engine

    keep_freed_memory()
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(0)
    normal = partial(torch.randn, generator=random, dtype=torch.float64)
    Z, kernel = normal(200, 8), named("auto", 8, 2)
    kernel.start(Z)
    engine = Engine.of(Settings(), for_classes(2), Hyperparameters(kernel, Z))
    seconds = {}
    for size in (500, 4000):
        X = normal(size, 8)
        batch = Batch(X, (X[:, 0] > 0).long(), torch.ones(size, dtype=torch.float64), None)
        state, times = engine.init(200, 10**6, minibatch=True), []
        for _ in range(25):
            begin = time.perf_counter()
            state, _ = engine.step(state, batch, 1e6, 0.1)
            times.append(time.perf_counter() - begin)
        seconds[size] = float(np.median(times))
    row = (seconds[4000] - seconds[500]) / 3500
    return row, seconds[500] - 500 * row


def main() -> None:
    """Print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    if parser.parse_args().measure:
        row, cube = measure()
        print(f"a row {row * 1e6:.1f} µs, m × m work {cube * 1e3:.1f} ms")
        return
    print("workers  steps   model  simulated   rows/s")
    for n_workers in (2, 8, 64, 512):
        for steps in (1, 5, 10, 20, 50):
            cost = Cost(n_workers=n_workers, local_steps=steps)
            print(
                f"{n_workers:7d} {steps:6d} {cost.efficiency:7.2f} {simulated(cost):10.2f} "
                f"{cost.rows_per_second:10,.0f}"
            )
    print("\n64 workers, 10 steps, with less:")
    for name, change in (
        ("as above", {}),
        ("100 Mbit/s", {"bandwidth": 12.5e6}),
        ("20 ms", {"latency": 0.02}),
        ("steps that vary by a half", {"spread": 0.5}),
        ("m = 400", {"m": 400}),
        ("m = 1000", {"m": 1000}),
        ("10 classes", {"n_classes": 10}),
    ):
        cost = replace(Cost(), **change)
        print(f"{name:28s} {cost.efficiency:.2f} {simulated(cost):.2f}, {cost.sent / 1e6:.1f} MB")
    slow = replace(Cost(), straggler=3.0)
    print(
        f"one worker three times as slow: {simulated(slow):.2f}, and with a quorum of .95 "
        f"{simulated(slow, quorum=0.95):.2f}"
    )
    cost, n = Cost(), 1e9
    seconds, rounds = n / cost.rows_per_second, n / (cost.n_workers * cost.batch * cost.local_steps)
    print(
        f"\n10⁹ rows on 64 workers: {seconds / 60:.1f} min and {rounds:,.0f} rounds a pass, "
        f"{rounds * cost.sent * 2 * cost.n_workers / 1e9:.0f} GB on the wire, "
        f"{rounds * cost.sent * 2 / 1e9:.1f} GB of them through the client"
    )


if __name__ == "__main__":
    main()
