"""Training in rounds over parts of the rows, in one process."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import assert_close, many_classes, problem, rbf
from numpy.testing import assert_allclose, assert_array_equal
from quick import assert_one_sentence, quick
from rounds import CASES, fit_in_rounds, options, partitions, sines

from sepgp import GPClassifier, InvalidData, InvalidParameter
from sepgp.backends.backend import FAN_IN, Here, tree_sum
from sepgp.backends.partitions import PartRows, file_partitions, groups
from sepgp.backends.rounds import Leader, Task, work
from sepgp.backends.views import view_of
from sepgp.data.batches import Batch, Batching
from sepgp.data.rows.base import Wanted
from sepgp.data.scaling import identity
from sepgp.gp.natural import Natural
from sepgp.training.fit import Run
from sepgp.training.settings import Settings
from sepgp.training.step import Engine, TrainingState

X, Y = sines(300)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("case", ["sep", "a site per part", "a site per class", "adf", "ep"])
def test_one_part_is_the_training_of_one_process(case, n_classes) -> None:
    X, y = sines(300, n_classes)
    settings = options(X, **CASES[case])
    model = fit_in_rounds(partitions(X, y, 4), 1, **settings)
    if case == "a site per part":
        settings["n_factors"] = 1
    alone = GPClassifier(random_state=0, **settings).fit(X, y)
    assert_allclose(model.probabilities(X), alone.predict_proba(X), atol=1e-8)
    assert model.history["iteration"].tolist()[-1] == alone.history_["iteration"][-1]


@pytest.mark.parametrize("make", [problem, many_classes])
@pytest.mark.parametrize("name", ["sep", "adf", "ep"])
def test_a_round_of_one_step_is_a_step_on_the_rows_of_all_parts(name, make) -> None:
    p = make(30, 5)
    codes = p.y if p.y.dtype == torch.int64 else (p.y > 0).long()
    settings = Settings(method=name)
    engine = Engine.of(settings, p.likelihood, rbf(p.Z))
    view = view_of(settings, engine.method, [10, 12, 8], [10.0, 12.0, 8.0])
    leader = Leader(engine, view, Batching(identity(2), 100))
    state = replace(engine, method=view.whole).init(5, 30, minibatch=True)
    alone = engine.init(5, 30, minibatch=True)
    rows = PartRows(p.X.numpy(), codes.numpy(), p.weight.numpy())
    parts = [PartRows(*(a[i:j] for a in rows)) for i, j in ((0, 10), (10, 22), (22, 30))]
    for _ in range(3):
        task = leader.task(state, [(0.0, 1.0)])
        answers = [
            work(leader, task, view.private(state.sites, k), k, part)
            for k, part in enumerate(parts)
        ]
        state = leader.combine(state, answers[0] + answers[1] + answers[2], 1)
        whole = Batch(p.X, codes, p.weight, torch.arange(30))
        alone, _ = engine.step(alone, whole, 30.0, 0.0)
    assert_close(state.sites.Lambda, alone.sites.Lambda, rtol=1e-10, atol=1e-10)
    assert_close(state.sites.b, alone.sites.b, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_sites_per_part_come_to_the_fixed_point_of_those_in_one_process() -> None:
    """Local steps with the other sites held, and steps of all sites at once, settle alike."""
    fixed = {"learn_kernel": False, "learn_inducing": False, "max_iter": 161, "batch_size": 100}
    parts = fit_in_rounds(partitions(X, Y, 3), **options(X, n_factors="part", **fixed))
    local = fit_in_rounds(partitions(X, Y, 3), 3, 1, **options(X, n_factors="part", **fixed))
    tied = fit_in_rounds(partitions(X, Y, 3), **options(X, **fixed))
    assert_allclose(parts.probabilities(X), local.probabilities(X), atol=1e-6)
    assert np.abs(parts.probabilities(X) - tied.probabilities(X)).max() > 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_rounds_learn_as_much_as_one_process(case) -> None:
    X, y = sines(900)
    test, labels = sines(500, seed=1)
    settings = options(X, **(CASES[case] | {"max_iter": 61}))
    if case == "adf":
        settings["max_iter"] = 7
    model = fit_in_rounds(partitions(X, y, 6), **settings)
    log_p = model.log_probabilities(test)[np.arange(500), labels]
    assert -log_p.mean() < 0.35
    assert not model.history["rejected"].any()


def test_rounds_with_every_row_a_point_are_those_of_sep() -> None:
    few, labels = X[:40], Y[:40]
    settings = options(few, inducing=few, max_iter=5)
    auto, sep = (
        fit_in_rounds(partitions(few, labels, 3), method=name, **settings)
        for name in ("auto", "sep")
    )
    assert auto.method == "sep"
    assert_array_equal(auto.probabilities(few), sep.probabilities(few))
    assert_array_equal(auto.history["log_evidence"], sep.history["log_evidence"])


def test_partitions_may_be_empty_or_lack_classes() -> None:
    order = np.argsort(Y, kind="stable")
    given = partitions(X[order], Y[order], 5)
    empty = given[0]._replace(X=X[:0], y=Y[:0])
    settings = options(X)
    model = fit_in_rounds([empty, *given, empty], **settings)
    assert model.classes.tolist() == [0, 1]
    assert model.n_seen == 300
    assert (model.labels(X) == Y).mean() > 0.8


def test_inducing_points_stay_where_every_row_is_one() -> None:
    held = fit_in_rounds(partitions(X, Y, 3), **options(X, n_inducing=300, inducing="kmeans"))
    assert_array_equal(held.Z, np.unique(held.scaling.apply(X), axis=0))
    free = fit_in_rounds(partitions(X, Y, 3), **options(X, inducing=X[:299]))
    assert np.abs(free.Z.numpy() - free.scaling.apply(X[:299])).max() > 1e-3


def test_parts_are_neighbours_of_about_the_same_size() -> None:
    assert groups(np.array([5, 5, 0, 10, 20]), 2) == [[0, 1, 3], [4]]
    assert groups(np.array([5, 5]), 4) == [[0], [1]]
    assert groups(np.array([100, 1, 1, 1]), 2) == [[0], [1, 2, 3]]
    assert groups(np.ones(20, int), 3) == [[*range(7)], [*range(7, 13)], [*range(13, 20)]]


@pytest.mark.parametrize("count", [1, 2, FAN_IN, FAN_IN + 1, 100])
def test_a_tree_adds_everything_once_and_in_order(count) -> None:
    assert tree_sum(Here(), "add", [[i] for i in range(count)]) == [*range(count)]


class Slow(Here):
    """A backend on which one part answers a round too late every time."""

    def __init__(self, late: int) -> None:
        self._late, self.counted = late, list[Any]()
        self._rounds = 0

    def first(self, handles: Any, count: int) -> dict[int, Any]:
        self._rounds += 1
        here = dict(enumerate(handles))
        if count < len(handles) and self._rounds % 2:
            del here[self._late]
        assert len(here) >= count
        self.counted += [id(handle) for handle in here.values()]
        self._kept = [*getattr(self, "_kept", []), *handles]  # so that no id is used again
        return here


def test_a_late_answer_counts_once_in_the_next_round() -> None:
    slow = Slow(late=1)
    model = fit_in_rounds(partitions(X, Y, 3), backend=slow, quorum=0.6, **options(X))
    assert len(slow.counted) == len(set(slow.counted))
    assert slow.counted
    # Every second round lacks a part, and the next one has it: five rounds of 4 steps, and the end.
    assert len(slow.counted) == 6 * 3 - 3
    assert (model.labels(X) == Y).mean() > 0.8


class Named(Here):
    """A backend that notes what is kept for others to wait for."""

    def __init__(self) -> None:
        self.calls = list[str]()

    def call(self, name: str, *arguments: Any, part: int | None = None) -> Any:
        self.calls.append(name)
        return super().call(name, *arguments, part=part)


@pytest.mark.parametrize(("quorum", "kept"), [(1.0, 1), (0.6, 0)])
def test_parts_waited_for_the_plan_of_one_that_stood_still(quorum, kept) -> None:
    backend = Named()
    fit_in_rounds(partitions(X, Y, 3), backend=backend, quorum=quorum, **options(X))
    assert backend.calls.count("plan") == kept
    assert backend.calls.count("local-steps") == 6 * 3


def test_held_out_rows_are_measured_and_never_trained_on() -> None:
    settings = options(X, validation_fraction=0.2, max_iter=41)
    model = fit_in_rounds(partitions(X, Y, 4), **settings)
    assert abs(model.n_seen - 240) < 5
    assert np.isfinite(model.history["validation_nll"]).sum() >= 2


def test_a_run_that_was_stopped_goes_on_with_the_same_numbers(tmp_path) -> None:
    settings = options(X, validation_fraction=0.2, n_factors="part")
    whole = fit_in_rounds(partitions(X, Y, 4), **settings)
    stop = [lambda record: record.iteration >= 8]
    run = Run(random_state=0, checkpoint=tmp_path / "run")
    fit_in_rounds(partitions(X, Y, 4), run=replace(run, callbacks=stop), **settings)
    # Without a number of parts it is that of the run.
    resumed = fit_in_rounds(partitions(X, Y, 4), None, run=run, **settings)
    assert_array_equal(resumed.probabilities(X), whole.probabilities(X))
    assert len(resumed.history["seconds"]) == len(whole.history["seconds"])
    with pytest.raises(InvalidParameter, match="with n_parts=3, not 2; use the same setting"):
        fit_in_rounds(partitions(X, Y, 4), 2, run=run, **settings)
    with pytest.raises(InvalidParameter, match="on other rows"):
        fit_in_rounds(partitions(X + 1, Y, 4), run=run, **settings)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"n_parts": 0}, "n_parts=0 must be a whole number"),
        ({"local_steps": 0.5}, "local_steps=0.5 must be a whole number"),
        ({"quorum": 0}, "quorum=0 must be a number above 0"),
        ({"quorum": 1.5}, "quorum=1.5 must be a number above 0"),
    ],
)
def test_plans_that_cannot_be(plan, message) -> None:
    with pytest.raises(InvalidParameter, match=message):
        fit_in_rounds(partitions(X, Y, 4), **(plan | options(X)))


def test_a_partition_that_cannot_be_used_is_named() -> None:
    given = partitions(X, Y, 4)
    wrong = given[2].X.copy()
    wrong[3, 1] = np.nan
    for X_, message in (
        (wrong, r"partition 2 of X contains NaN in column 1 \(1 of 75 rows\)"),
        (wrong[:, :2], "partition 2 of X has 2 columns, where partition 0 of X has 3; give all"),
        (given[2].X[:5], "y of partition 2 of X has 75 values but X has 5 rows"),
    ):
        broken = [*given[:2], given[2]._replace(X=np.nan_to_num(X_) if "2 col" in message else X_)]
        with pytest.raises(InvalidData, match=message):
            fit_in_rounds([*broken, given[3]], **options(X))


class Replacing(Here):
    """A backend that replaces a file when all partitions have been looked at."""

    def __init__(self, path: Path, table: pd.DataFrame) -> None:
        self._path, self._table = path, table

    def place(self, n_parts: int) -> None:
        self._table.to_parquet(self._path)


@pytest.mark.parametrize("held_out", [0.0, 0.2])
def test_a_file_that_was_replaced_before_the_rounds_went_unnoticed(tmp_path, held_out) -> None:
    """A part that is made again, after a worker was lost, must have the rows that were seen."""
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(y=Y)
    for number, rows in enumerate(np.array_split(np.arange(300), 3)):
        frame.loc[rows].to_parquet(tmp_path / f"{number}.parquet")
    middle = frame.loc[100:199]
    settings = options(X, validation_fraction=held_out)
    for table, message in (
        (middle.assign(x1=np.where(middle.index == 150, 0.0, middle.x1)), "has other rows than"),
        (middle[:-7], r"no longer has the \d+ rows that it had at first"),
    ):
        middle.to_parquet(tmp_path / "1.parquet")
        backend = Replacing(tmp_path / "1.parquet", table)
        given = file_partitions(str(tmp_path), Wanted("y"))
        with pytest.raises(InvalidData, match=rf"1\.parquet {message}") as caught:
            fit_in_rounds(given, backend=backend, **settings)
        assert_one_sentence(str(caught.value))
    again = Replacing(tmp_path / "1.parquet", middle[::-1] if not held_out else middle)
    middle.to_parquet(tmp_path / "1.parquet")
    fit_in_rounds(file_partitions(str(tmp_path), Wanted("y")), backend=again, **settings)


@pytest.mark.parametrize("protocol", [4, 5])
def test_a_parcel_arrives_as_it_was(protocol) -> None:
    values = torch.arange(6.0, dtype=torch.float64)
    sites = Natural(torch.eye(3, dtype=torch.float64).T, values[::2])
    state = TrainingState(3, values, values, sites, (values.float(), 2), 0.5)
    buffers = list[pickle.PickleBuffer]()
    how = {"buffer_callback": buffers.append} if protocol == 5 else {}
    sent = pickle.dumps(Task(state, ((0.1, 1.0),)), protocol, **how)
    # As it comes off the wire, where it cannot be written to.
    come = pickle.loads(sent, buffers=[bytes(buffer) for buffer in buffers])
    assert come.rates == ((0.1, 1.0),)
    assert (come.state.iteration, come.state.rate, come.state.best) == (3, 0.5, None)
    assert_array_equal(come.state.sites.Lambda, sites.Lambda)
    assert_array_equal(come.state.sites.b, sites.b)
    assert come.state.optimizer[0].dtype == torch.float32
    assert come.state.last_xi is come.state.xi
    come.state.xi.add_(1)  # no warning, and no other's numbers
    assert values[0] == 0
    assert bool(buffers) == (protocol == 5)


# --- which site a row belongs to ----------------------------------------------------------------


@pytest.mark.parametrize("n_factors", ["class", {"x1": [-0.5, 0.5]}])
def test_factors_by_class_and_by_column(n_factors) -> None:
    table = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    model = quick(n_factors=n_factors, max_iter=30).fit(table, Y)
    assert len(model.model_.sites.weight) == (2 if n_factors == "class" else 3)
    if n_factors != "class":
        share = model.model_.sites.weight / model.model_.sites.weight.sum()
        counts = np.bincount(np.digitize(X[:, 1], [-0.5, 0.5])) / 300
        assert_allclose(share, counts, atol=1e-6)
    assert model.score(table, Y) > 0.8


@pytest.mark.parametrize(
    ("n_factors", "message"),
    [
        ("part", "n_factors='part' is for the parts of a cluster; use sepgp.dask"),
        ("month", "n_factors='month' is unknown; choose one of 'class', 'part'"),
        ({"month": [1.5]}, "n_factors names 'month', which is no column of numbers; name one of"),
        ({"x1": [2, 1]}, "must be one column with increasing numbers"),
        ({"x1": []}, "must be one column with increasing numbers"),
        ({"x1": ["a"]}, "must be one column with increasing numbers"),
        ({}, "must be one column with increasing numbers"),
    ],
)
def test_factors_that_cannot_be(n_factors, message) -> None:
    with pytest.raises(InvalidParameter, match=message):
        quick(n_factors=n_factors).fit(X, Y)
