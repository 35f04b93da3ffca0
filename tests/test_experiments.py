"""The experiments: cells that survive, the paper's numbers, and a tiny run of each."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
from quick import blobs
from slow_cells import CELLS, fails, threads

from sepgp import InvalidData
from sepgp.evaluation.two_classes import calibration_error, calibration_gaps
from sepgp.experiments import (
    cells,
    classes,
    curves,
    figure2,
    figure3,
    paper,
    powers,
    splits,
    table1,
)
from sepgp.experiments.cells import Cell, CellFailed
from sepgp.experiments.pages import table_of
from sepgp.experiments.splits import Split
from sepgp.training.settings import Settings

HERE = Path(__file__).parent


# ------------------------------------------------------------------------- cells


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")
def test_kill_loses_only_the_cell_under_way(tmp_path):
    command = [sys.executable, str(HERE / "slow_cells.py"), str(tmp_path)]
    process = subprocess.Popen(command)
    wait_for(lambda: len(cells.finished(CELLS, tmp_path)) >= 2)
    children = {r["pid"] for r in cells.finished(CELLS, tmp_path).values()}
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not any(alive(pid) for pid in children))
    time.sleep(0.6)  # a worker that had not followed would now write its cell
    before = cells.finished(CELLS, tmp_path)
    assert 2 <= len(before) <= 3
    rest = [cell for cell in CELLS if cell.name not in before]
    with closing(cells.run(rest, tmp_path, None, jobs=2)) as finishing:
        assert {cell.name for cell in finishing} == {cell.name for cell in rest}
    after = cells.finished(CELLS, tmp_path)
    assert list(after) == [cell.name for cell in CELLS]
    assert all(after[name] == result for name, result in before.items())
    assert [result["number"] for result in after.values()] == list(range(6))


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")
@pytest.mark.parametrize("wanted", [0, 2])
def test_ctrl_c_keeps_the_finished_cells_and_ends_the_workers(tmp_path, wanted):
    """A terminal sends it to the workers too, some of which may have just been started."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "slow_cells.py"), str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: len(cells.finished(CELLS, tmp_path)) >= wanted and children(process.pid))
    workers = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert said.count("Traceback") <= 1
    assert said.endswith("KeyboardInterrupt\n")
    wait_for(lambda: not any(alive(pid) for pid in workers))
    assert wanted <= len(cells.finished(CELLS, tmp_path)) <= wanted + 1
    assert not list(tmp_path.glob(".*"))


def children(pid):
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.process
def test_a_worker_has_one_thread(tmp_path):
    (result,) = [list(cells.run([Cell("threads", threads, {})], tmp_path, None, jobs=1))]
    assert [cell.name for cell in result] == ["threads"]
    assert cells.finished(result, tmp_path) == {"threads": {"torch": 1, "blas": [1]}}


@pytest.mark.parametrize("content", ["", '{"made_by"', "[]", "{}"])
def test_damaged_cell_does_not_count(content, tmp_path):
    (tmp_path / "cell-0.json").write_text(content)
    assert cells.finished(CELLS, tmp_path) == {}


def test_cell_of_other_arguments_does_not_count(tmp_path):
    cell = CELLS[0]
    made_by = {"version": "0", "arguments": cell.arguments}
    (tmp_path / "cell-0.json").write_text(json.dumps({"made_by": made_by, "result": {}}))
    assert cells.finished([cell], tmp_path) == {}


@pytest.mark.process
@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("data", InvalidData, "heart.parquet cannot be read"),
        ("dies", CellFailed, "ended without a result"),
        ("other", CellFailed, "ZeroDivisionError: by nothing"),
    ],
)
def test_failure_reaches_the_caller(kind, error, message, tmp_path):
    cell = Cell("bad", fails, {"kind": kind})
    with pytest.raises(error, match=message):
        list(cells.run([cell], tmp_path, None, jobs=1))
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------ table 1


def test_the_paper_has_63_cells():
    assert len(paper.NLL) == 63
    assert tuple(paper.NLL.loc["sonar", 50, "ep"]) == (0.29, 0.09)
    assert tuple(paper.NLL.loc["pima", 25, "adf"]) == (0.58, 0.10)
    assert paper.SECONDS.loc[15, "sep"]["mean"] == 18.8


def test_grid_of_table1():
    grid = table1.cells()
    assert len(grid) == len({cell.name for cell in grid}) == 8 * 3 * 3 * 20
    assert len(table1.cells(quick=True)) == 8 * 2 * 3 * 2


def made_results(grid):
    random = np.random.default_rng(0)
    return {
        cell.name: {"nll": random.uniform(), "error": 0.1, "seconds": 2.0, "log_evidence": -1.0}
        for cell in grid
    }


def test_summary_of_table1():
    grid = table1.cells()
    results = made_results(grid)
    table = table1.summary(table_of(grid, results))
    rows = list(table.itertuples())
    assert len(rows) == 72
    nll = [results[f"heart-25-ep-{split:02d}"]["nll"] for split in range(20)]
    row = next(r for r in rows if (r.set, r.share, r.method) == ("heart", 25, "ep"))
    assert row.nll == pytest.approx(fmean(nll))
    assert row.deviation == pytest.approx(stdev(nll))
    assert row.standard_error == pytest.approx(stdev(nll) / 20**0.5)
    assert (row.paper_nll, row.paper_deviation) == (0.41, 0.12)
    assert row.near == (fmean(nll) <= 0.43)
    assert sum(np.isnan(r.paper_nll) for r in rows) == 9  # Australian with its own class
    averages = table1.averages(table).itertuples()
    average = next(a for a in averages if (a.share, a.method) == (50, "sep"))
    assert average.paper_nll == pytest.approx((0.63 + 0.11 + 0.06 + 0.40 + 0.27 + 0.49 + 0.33) / 7)
    own = [r.nll for r in rows if (r.share, r.method) == (50, "sep") and r.set != "australian"]
    assert average.nll == pytest.approx(fmean(own))
    assert average.seconds == 2.0


@pytest.mark.slow
def test_page_of_table1(tmp_path):
    grid = table1.cells(quick=True)
    paths = table1.report(grid, made_results(grid), tmp_path / "table1")
    assert_outputs_open(paths)
    with (tmp_path / "table1.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 48
    with (tmp_path / "table1_fits.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(grid)
    page = (tmp_path / "table1.md").read_text(encoding="utf-8")
    assert ".69 ± .07" in page  # Australian, EP, m = 15 %
    assert "of 42 cells" in page


def test_fit_of_table1(data_dir):
    cell = next(c for c in table1.cells() if c.name == "crabs-15-sep-03")
    result = cell.run(data=data_dir, **(cell.arguments | {"max_iter": 5}))
    assert 0 < result["nll"] < 1
    assert result == pytest.approx(
        cell.run(data=data_dir, **(cell.arguments | {"max_iter": 5})) | {"seconds": 0},
        abs=result["seconds"] + 1e-9,
    )


def assert_outputs_open(paths):
    """All files are there and are what their names say."""
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".md": b"# ", ".csv": b""}
    assert {path.suffix for path in paths} == set(starts)
    for path in paths:
        content = path.read_bytes()
        assert len(content) > 100
        assert content.startswith(starts[path.suffix])
    page = next(path for path in paths if path.suffix == ".md").read_text(encoding="utf-8")
    assert all(image.name in page for image in paths if image.suffix == ".png")
    assert not list(paths[0].parent.glob(".*.tmp"))


# ---------------------------------------------------------------- figures 2 and 3


@pytest.fixture
def small(monkeypatch):
    """Put 500 rows in two clouds in the place of the large sets."""
    X, y = blobs(500, 3)

    def large_split(name, data, rows=None):
        return Split(X[:400][:rows], y[:400][:rows].astype(np.int8), X[400:], y[400:])

    monkeypatch.setattr(splits, "large_split", large_split)
    return large_split("mnist", None)


def test_figure3(small, tmp_path):
    grid = figure3.cells(quick=True)
    assert len(grid) == len({cell.name for cell in grid}) == 12
    assert len(figure3.cells()) == 48
    changes = {"steps": 4, "batch": 50}
    results = {
        cell.name: cell.run(
            data=None,
            **(cell.arguments | changes),
        )
        for cell in grid
        if cell.arguments["inducing"] == 50
    }
    sizes = {name.split("-")[2]: result["state_size"] for name, result in results.items()}
    assert sizes["sep"] == sizes["adf"] < sizes["ep"]
    assert all(0 < result["nll"] < 1 for result in results.values())
    results |= {name.replace("-50-", "-200-"): result for name, result in results.items()}
    paths = figure3.report(grid, results, tmp_path / "figure3")
    assert_outputs_open(paths)


@pytest.mark.slow
def test_figure2(small, tmp_path):
    grid = figure2.cells(quick=True)
    assert len(grid) == len({cell.name for cell in grid}) == 11
    changes = {"seconds": 0.1, "batch": 50, "looks": 4}
    results = {}
    for cell in grid:
        arguments = cell.arguments
        if "panel" in arguments:
            small = {"settings": arguments["settings"] | {"n_inducing": 10}}
            arguments = arguments | changes | small
        results[cell.name] = cell.run(data=None, **arguments)
    for name, result in results.items():
        seconds, steps, nll = zip(*result["points"], strict=True)
        assert list(seconds) == sorted(seconds)
        assert list(steps) == sorted(steps)
        assert 0 < nll[-1] < 1, name
        assert result["peak_bytes"] is None or result["peak_bytes"] > 1e7
    m, n = 10, 400
    assert results["mnist-sep-0.02"]["site_bytes"] == 8 * (m * m + m)
    assert results["mnist-ep-0.02"]["site_bytes"] == 8 * (m * m + m + n * (m + 2))
    assert results["mnist-batch-ep-0.02"]["site_bytes"] == 8 * (m * m + m + 2 * n)
    paths = figure2.report(grid, results, tmp_path / "figure2")
    assert_outputs_open(paths)
    page = (tmp_path / "figure2.md").read_text(encoding="utf-8")
    assert "logistic regression" in page


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_the_peak_of_a_run_is_not_that_of_a_run_before_it_in_the_same_process():
    def peak_of(megabytes):
        curves.forget_peak_memory()
        np.ones(megabytes << 17)
        return curves.peak_memory()

    small = peak_of(1)
    assert peak_of(400) - small > 300e6
    assert peak_of(1) - small < 50e6


def test_curve_falls(small):
    settings = Settings(method="sep", n_inducing=10, kernel="rbf", learning_rate=0.1)
    points, state = curves.learning_curve(small, settings, 50, np.geomspace(0.01, 0.5, 5))
    assert points[-1].steps == state.iteration
    assert points[-1].nll < points[0].nll


def test_large_split_keeps_the_split_of_mnist(data_dir):
    few, more = (splits.large_split("mnist", data_dir, rows) for rows in (100, 300))
    assert few.X.shape == (100, 784)
    np.testing.assert_array_equal(few.X, more.X[:100])
    assert len(few.y_test) == 10_000
    assert few.y_test.sum() == 5_074


def test_random_test_rows_where_there_is_no_split(data_dir):
    split = splits.large_split("nycflights13", data_dir)
    assert len(split.y) == 273_853 - 10_000
    assert len(split.X_test) == 10_000


# ------------------------------------------------------------ powers and many classes


@pytest.mark.slow
def test_powers(small, data_dir, tmp_path):
    grid = powers.cells(quick=True)
    assert len(grid) == len({cell.name for cell in grid}) == 2 * (7 * 7 + 2 * 6)
    assert len(powers.cells()) == 20 * 7 * 7 + 2 * 2 * 6
    tried = {"crabs-0-01": {"max_iter": 3}, "mnist-.5-01": {}}
    results = {}
    for cell in grid:
        if cell.name in tried:
            arguments = cell.arguments | tried[cell.name]
            if "settings" in arguments:
                arguments["settings"] |= {"n_inducing": 10, "batch_size": 50, "max_iter": 3}
            results[cell.name] = cell.run(data=data_dir, **arguments)
            assert 0 < results[cell.name]["nll"] < 1
    made = {"nll": 0.3, "error": 0.1, "seconds": 1.0, "test_rows": 20, "gaps": [0.1] * 15}
    results = {cell.name: made for cell in grid} | results
    paths = powers.report(grid, results, tmp_path / "powers")
    assert_outputs_open(paths)
    table = powers.summary(table_of(grid, results)).set_index(["set", "run"])
    assert table.difference["pima", "ADF"] == 0
    expected = (results["crabs-0-01"]["nll"] - 0.3) / 2
    assert table.difference["crabs", "0"] == pytest.approx(expected)


def test_calibration_error_of_all_splits_is_that_of_their_rows_together():
    random = np.random.default_rng(0)
    p = random.uniform(size=(20, 30))
    y = (random.uniform(size=p.shape) < p).astype(float)
    gaps = np.array([calibration_gaps(*split, np.ones(30)) for split in zip(p, y, strict=True)])
    value, error = powers.pooled_calibration_error(gaps, np.full(20, 30.0))
    assert value == pytest.approx(calibration_error(p.ravel(), y.ravel(), np.ones(600)))
    assert 0 < error < value


@pytest.mark.slow
def test_classes(data_dir, tmp_path):
    grid = classes.cells(quick=True)
    assert len(grid) == len({cell.name for cell in grid}) == 2 * 2 * 4 * 3
    assert len(classes.cells()) == 20 * 3 * 4 * 3
    results = {cell.name: {"nll": 0.3, "error": 0.1, "seconds": 1.0} for cell in grid}
    cell = next(cell for cell in grid if cell.name == "satimage-5-ep-01")
    tiny = {"train": 60, "test": 50, "settings": {"max_iter": 2}}
    results[cell.name] = cell.run(data=data_dir, **(cell.arguments | tiny))
    assert 0 < results[cell.name]["nll"] < 3
    results["vehicle-10-adf-00"] = {"nll": 0.5, "error": 0.2, "seconds": 1.0}
    paths = classes.report(grid, results, tmp_path / "classes")
    assert_outputs_open(paths)
    assert "| vehicle | 0.4000 (0.1000) | 0.3000 (0.0000) |" in paths[-1].read_text("utf-8")
