"""A slice of the stress suite, some twenty seconds of it: see `make stress`."""

import pytest
from stress.check import tried
from stress.problems import problem

SLICES = 8
PER_SLICE = 5


@pytest.mark.parametrize("part", range(SLICES))
def test_nothing_that_is_fed_to_it_breaks_it(part) -> None:
    for seed in range(part * PER_SLICE, (part + 1) * PER_SLICE):
        assert not tried(seed).violations, f"python -m stress --seed {seed}"


def test_every_seed_is_another_problem() -> None:
    found = [problem(seed) for seed in range(300)]
    assert len({tuple(p.kinds.items()) for p in found}) > 290
    assert sum(p.learnable for p in found) > 5
    assert sum(p.tame for p in found) > 50
    for kind in ("form", "columns", "kernel", "method", "scale", "weight"):
        assert len({p.kinds[kind] for p in found}) > 2


def test_a_seed_is_always_the_same_problem() -> None:
    one, other = problem(11), problem(11)
    assert one.kinds == other.kinds
    assert one.features.tobytes() == other.features.tobytes()


def test_a_fault_is_told(monkeypatch) -> None:
    monkeypatch.setattr("sepgp.model.Model.labels", lambda self, X: self.classes[[0] * 200])
    assert any("most probable" in v for seed in range(8) for v in tried(seed).violations)
