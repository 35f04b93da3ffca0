"""Training on a Dask cluster: the numbers of one process, and what users of Dask expect."""

import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from quick import assert_one_sentence
from rounds import CASES, fit_in_rounds, options, partitions, sines
from sklearn.base import clone

import sepgp
from sepgp import GPClassifier, InvalidData, InvalidParameter
from sepgp.backends.backend import FAN_IN
from sepgp.backends.cluster import Cluster, assigned, same_version
from sepgp.backends.loop import FEW
from sepgp.dask import DaskGPClassifier

X, Y = sines(300)
FRAME = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(
    color=np.where(X[:, 2] > 0, "red", "blue"), y=np.where(Y > 0, "yes", "no")
)


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    """A cluster in this process, for tests of what is asked of it and not of its processes."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(processes=False, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def processes() -> Iterator[distributed.Client]:
    """Two processes of one thread each."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def arrays(X: Any, y: Any, size: int = 50) -> tuple[da.Array, da.Array]:
    """Dask arrays in chunks of so many rows."""
    return da.from_array(X, chunks=(size, X.shape[1])), da.from_array(y, chunks=size)


def frame(n_partitions: int = 4) -> dd.DataFrame:
    """The table in partitions."""
    return dd.from_pandas(FRAME, npartitions=n_partitions)


def quick(**changes: Any) -> DaskGPClassifier:
    """A classifier that trains in a moment."""
    settings = {"n_inducing": 10, "max_iter": 9, "random_state": 0, "local_steps": 4}
    return DaskGPClassifier(**(settings | changes))


# --- the numbers --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_a_cluster_has_the_numbers_of_one_process(processes, case, n_classes) -> None:
    X, y = sines(300, n_classes)
    settings = options(X, **CASES[case])
    plan = {"client": processes, "n_parts": 3, "local_steps": 4, "random_state": 0}
    model = DaskGPClassifier(**settings, **plan).fit(*arrays(X, y)).model_
    alone = fit_in_rounds(partitions(X, y, 6), **settings)
    for name in ("Lambda", "b"):
        mine, other = (np.asarray(getattr(m.sites, name)) for m in (model, alone))
        assert_allclose(mine, other, rtol=1e-10, atol=1e-10 * np.abs(other).max())
    assert_allclose(model.probabilities(X), alone.probabilities(X), rtol=1e-10)
    assert_allclose(model.history["log_evidence"], alone.history["log_evidence"], rtol=1e-10)


@pytest.mark.parametrize("n_parts", [FEW - 1, FAN_IN + 2])
def test_threads_of_one_process_have_them_too(client, n_parts) -> None:
    """Few parts get the state by themselves, and many pass it on and have sums of sums."""
    settings = options(X)
    plan = {"n_parts": n_parts, "local_steps": 4, "random_state": 0}
    model = DaskGPClassifier(**settings, **plan).fit(*arrays(X, Y, 25))
    alone = fit_in_rounds(partitions(X, Y, 12), n_parts, **settings)
    assert_allclose(model.predict_proba(X), alone.probabilities(X), rtol=1e-10)
    assert model.client_ is client


# --- rows ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_folder_of_files_is_opened_by_the_workers(client, tmp_path) -> None:
    for number, part in enumerate(np.array_split(FRAME.index, 4)):
        FRAME.loc[part].to_parquet(tmp_path / f"{number}.parquet")
    FRAME[:0].to_parquet(tmp_path / "empty.parquet")
    model = quick(n_parts=2).fit(tmp_path, target="y")
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.feature_names_in_.tolist() == ["x0", "x1", "x2", "color"]
    same = quick(n_parts=2).fit(f"{tmp_path}/[0-3].parquet", target="y")
    assert_array_equal(model.predict_proba(FRAME), same.predict_proba(FRAME))
    from_frame = quick(n_parts=2).fit(dd.from_pandas(FRAME, npartitions=4), target="y")
    assert_allclose(from_frame.predict_proba(FRAME), same.predict_proba(FRAME), atol=1e-8)


@pytest.mark.slow
def test_folders_by_key_give_a_column(client, tmp_path) -> None:
    for year, part in zip((2007, 2008), np.array_split(FRAME.index, 2), strict=True):
        (tmp_path / f"year={year}").mkdir()
        FRAME.loc[part].to_parquet(tmp_path / f"year={year}" / "rows.parquet")
    model = quick().fit(str(tmp_path), target="y", columns=["x0", "x1", "year"])
    assert model.encoding_.columns == ("x0", "x1", "year")


@pytest.mark.slow
def test_weights_labels_and_rows_in_other_chunks(client) -> None:
    rows, labels = arrays(X, Y)
    weight = da.from_array(np.where(np.arange(300) < 200, 1.0, 0.0), chunks=77)
    model = quick(n_parts=2).fit(rows.rechunk((50, 2)), labels.rechunk(90), weight)
    assert model.model_.n_seen == 200
    weighed = FRAME.assign(w=1.0 * (np.arange(300) < 200))
    named = quick(n_parts=2).fit(
        dd.from_pandas(weighed, npartitions=4), target="y", sample_weight="w"
    )
    assert named.model_.n_seen == 200


@pytest.mark.slow
def test_weights_beside_a_path_were_ignored(client, tmp_path) -> None:
    FRAME.to_parquet(tmp_path / "rows.parquet")
    weight = da.from_array(np.ones(300))
    with pytest.raises(InvalidData, match="sample_weight is given beside a path; name the col"):
        quick().fit(str(tmp_path / "rows.parquet"), target="y", sample_weight=weight)


@pytest.mark.slow
def test_unknown_sizes_are_fine_if_chunks_agree(client) -> None:
    rows, labels = arrays(X, Y)
    kept = labels >= 0
    model = quick().fit(rows[kept], labels[kept])
    assert model.model_.n_seen == 300
    table = frame()
    assert quick().fit(table[["x0", "x1"]], table["y"]).classes_.tolist() == ["no", "yes"]


@pytest.mark.slow
def test_a_class_in_one_partition_only_and_an_empty_partition(client) -> None:
    order = np.argsort(np.where(np.arange(300) < 20, 2, Y), kind="stable")
    labels = np.where(np.arange(300) < 20, 2, Y)[order]
    rows, y = arrays(X[order], labels, 60)
    rows, y = da.concatenate([rows[:0], rows]), da.concatenate([y[:0], y])
    assert quick().fit(rows, y).classes_.tolist() == [0, 1, 2]


# --- predictions --------------------------------------------------------------------------------


@pytest.mark.slow
def test_predictions_are_lazy_and_keep_the_container(client) -> None:
    rows, labels = arrays(X, Y)
    model = quick().fit(rows, labels)
    local = model.to_local()
    assert type(local) is GPClassifier
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        lazy = getattr(model, name)(rows)
        assert isinstance(lazy, da.Array)
        assert lazy.chunks[0] == rows.chunks[0]
        direct = getattr(local, name)(X)
        if name == "predict":
            assert_array_equal(lazy.compute(), direct)
        else:
            assert_allclose(lazy.compute(), direct, rtol=1e-12)
    for lazy, direct in zip(model.predict_latent(rows), local.predict_latent(X), strict=True):
        assert_allclose(lazy.compute(), direct, rtol=1e-12)
    assert model.score(rows, labels) == local.score(X, Y)
    unknown = rows[labels >= 0]
    assert_array_equal(model.predict(unknown).compute(), local.predict(X))


@pytest.mark.slow
def test_predictions_for_a_table_keep_its_index(client) -> None:
    table = frame()
    model = quick().fit(table, target="y")
    probabilities = model.predict_proba(table)
    assert isinstance(probabilities, dd.DataFrame)
    assert list(probabilities.columns) == ["no", "yes"]
    computed = probabilities.compute()
    assert_array_equal(computed.index, FRAME.index)
    assert_allclose(computed.to_numpy(), model.predict_proba(FRAME), rtol=1e-12)
    labels = model.predict(table)
    assert isinstance(labels, dd.Series)
    assert labels.compute().tolist() == model.predict(FRAME).tolist()
    assert isinstance(model.decision_function(table), dd.Series)
    some = model.predict_proba(table[table["x0"] > 0]).compute()
    assert_array_equal(some.index, FRAME.index[FRAME["x0"] > 0])
    none = model.predict_proba(table[table["x0"] > 99]).compute()
    assert none.shape == (0, 2)
    assert model.score(table) == model.score(FRAME)


# --- the estimator ------------------------------------------------------------------------------


def test_the_constructors_agree() -> None:
    ours, theirs = (inspect.signature(c).parameters for c in (DaskGPClassifier, GPClassifier))
    assert list(ours)[: len(theirs)] == list(theirs)
    assert all(ours[name] == theirs[name] for name in theirs)
    assert list(ours)[len(theirs) :] == ["client", "n_parts", "local_steps", "quorum"]
    assert quick(kernel="rbf").get_params()["kernel"] == "rbf"


@pytest.mark.slow
def test_the_client_is_never_pickled_or_copied(client) -> None:
    model = quick(client=client).fit(*arrays(X, Y))
    again = pickle.loads(pickle.dumps(model))
    assert again.client is None
    assert_array_equal(again.predict(X), model.predict(X))
    assert clone(model).client is client
    assert copy.deepcopy(model).client is client
    assert_array_equal(copy.deepcopy(model).predict(X), model.predict(X))


@pytest.mark.slow
def test_a_model_is_saved_as_a_local_one(client, tmp_path) -> None:
    model = quick(n_factors="part", n_parts=2).fit(*arrays(X, Y))
    model.save(tmp_path / "model.sepgp")
    loaded = sepgp.load(tmp_path / "model.sepgp")
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.slow
def test_a_warm_start_goes_on(client) -> None:
    rows, labels = arrays(X, Y)
    model = quick(warm_start=True).fit(rows, labels)
    first = model.model_
    assert model.fit(rows, labels).model_.iteration == first.iteration + 9
    with pytest.raises(InvalidData, match="y has the classes"):
        model.fit(rows, labels + 1)
    assert model.model_.iteration == first.iteration + 9


@pytest.mark.slow
def test_tasks_have_names_that_explain_themselves(client) -> None:
    quick(validation_fraction=0.2, n_parts=FEW + 1).fit(*arrays(X, Y, 25))
    prefixes = set(client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.task_prefixes]))
    wanted = ("look-at-partition", "prepare-partition", "state", "local-steps", "add-sums")
    assert {f"sepgp-{name}" for name in wanted} <= prefixes


@pytest.mark.slow
def test_progress_tells_rounds_and_rows_per_second(client, capsys) -> None:
    quick(verbose=True, validation_fraction=0.2).fit(*arrays(X, Y))
    said = capsys.readouterr().err
    assert "round 3  done after" in said
    assert "rows/s" in said
    assert "evidence" in said
    assert "validation NLL" in said


@pytest.mark.process
@pytest.mark.slow
def test_a_local_cluster_is_started_if_there_is_no_client() -> None:
    code = """
import warnings, dask.array as da, numpy as np
from sepgp.dask import DaskGPClassifier
if __name__ == "__main__":
    X = np.random.default_rng(0).normal(size=(200, 2))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model = DaskGPClassifier(n_inducing=5, max_iter=3)
        model.fit(da.from_array(X, chunks=(50, 2)), da.from_array(X[:, 0] > 0, chunks=50))
    print([str(w.message) for w in found], model.client_.status)
    code = "__import__('dask').config.get('distributed.worker.profile.enabled')"
    print(set(model.client_.run(eval, code).values()))
    model.client_.shutdown()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "so a LocalCluster of" in done.stdout, done.stderr
    assert "running" in done.stdout
    assert "{False}" in done.stdout


@pytest.mark.process
def test_the_library_does_not_import_dask() -> None:
    code = (
        "import sys, sepgp, sepgp.classifier; assert not {'dask', 'distributed'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- bad input: a sentence each, and what was learned before is kept ----------------------------


def broken_frame(part: pd.DataFrame, partition_info: Any = None) -> pd.DataFrame:
    """The table with another column in its third partition."""
    number = (partition_info or {}).get("number")
    return part.assign(extra=1.0) if number == 2 else part


def without_column(part: pd.DataFrame, partition_info: Any = None) -> pd.DataFrame:
    """The table without a column in its third partition."""
    number = (partition_info or {}).get("number")
    return part.drop(columns="x1") if number == 2 else part


def unequal() -> tuple[Any, Any]:
    """Arrays one of whose chunks has fewer columns."""
    parts = [dask.delayed(X[i : i + 100, : 2 if i == 100 else 3]) for i in (0, 100, 200)]
    rows = [da.from_delayed(part, (100, 3), float) for part in parts]
    return da.concatenate(rows), arrays(X, Y, 100)[1]


def with_nan() -> tuple[Any, Any]:
    """Arrays with a NaN."""
    wrong = X.copy()
    wrong[120, 1] = np.nan
    return arrays(wrong, Y)


BAD = {
    "width": (unequal, {}, "partition 1 of X has 2 columns, where partition 0 of X has 3; give"),
    "NaN": (with_nan, {}, r"partition 2 of X contains NaN in column 1 \(1 of 50 rows\); impute"),
    "extra": (
        lambda: (frame().map_partitions(broken_frame, meta=FRAME[:0]),),
        {"target": "y"},
        r"partition 2 of X cannot be computed \(.* Extra: \['extra'\] .*\); correct what",
    ),
    "missing": (
        lambda: (frame().map_partitions(without_column, meta=FRAME[:0]),),
        {"target": "y"},
        r"partition 2 of X cannot be computed \(.* Missing: \['x1'\]\); correct what",
    ),
    "chunks": (
        lambda: (arrays(X, Y)[0], arrays(X, Y, 30)[1][arrays(X, Y, 30)[1] >= 0]),
        {},
        "y has 10 partitions and X has 6, whose sizes are not known or do not agree; give both",
    ),
    "lengths": (
        lambda: (arrays(X, Y)[0], arrays(X, Y)[1][arrays(X, Y)[1] > 0]),
        {},
        r"y of partition \d of X has .* values but X has 50 rows; give one value per row",
    ),
    "one class": (lambda: arrays(X, 0 * Y), {}, "y contains one class only"),
    "memory": (lambda: (X, Y), {}, "X is a ndarray; give a Dask array of shape"),
    "labels in memory": (lambda: (arrays(X, Y)[0], Y), {}, "y is a ndarray; give a Dask array"),
    "flat": (lambda: (arrays(X, Y)[1], arrays(X, Y)[1]), {}, r"X is a Array of shape \(300,\)"),
    "no labels": (lambda: (arrays(X, Y)[0],), {}, "has no labels; name their column by target"),
    "twice": (lambda: (frame(), frame()["y"]), {"target": "y"}, "give the labels once"),
    "names": (lambda: (*arrays(X, Y),), {"columns": ["a"]}, "X is a Dask array without names"),
    "target": (lambda: (frame(),), {"target": "z"}, "X has no column 'z'; add it"),
    "path": (lambda: ("no/such/*.parquet",), {"target": "y"}, "There is no file 'no/such/"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", BAD)
def test_bad_input_is_one_sentence_and_nothing_is_lost(client, fault) -> None:
    make, named, message = BAD[fault]
    model = quick(n_parts=2)
    model.model_ = before = _fitted(client)
    with pytest.raises((InvalidData, InvalidParameter), match=message) as raised:
        model.fit(*make(), **named)
    assert_one_sentence(str(raised.value))
    assert model.model_ is before


_MODELS: dict[int, Any] = {}


def _fitted(client: distributed.Client) -> Any:
    if id(client) not in _MODELS:
        _MODELS[id(client)] = quick(n_parts=2).fit(*arrays(X, Y)).model_
    return _MODELS[id(client)]


@pytest.mark.slow
def test_a_file_that_cannot_be_used_is_named(client, tmp_path) -> None:
    FRAME.to_parquet(tmp_path / "a.parquet")
    for name, table, message in (
        ("b", FRAME.assign(new=1), r"b.parquet has a column 'new', which other partitions have no"),
        ("c", FRAME.drop(columns="x1"), r"c.parquet has no column 'x1'"),
        ("d", FRAME.assign(x1="text"), "X has a number in column 'x1' of some rows and a text in"),
    ):
        table.to_parquet(tmp_path / f"{name}.parquet")
        with pytest.raises(InvalidData, match=message) as raised:
            quick().fit(tmp_path, target="y")
        assert_one_sentence(str(raised.value))
        (tmp_path / f"{name}.parquet").unlink()
    (tmp_path / "e.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InvalidData, match=r"e\.parquet cannot be read") as raised:
        quick().fit(tmp_path, target="y")
    assert_one_sentence(str(raised.value))


@pytest.mark.slow
def test_workers_with_another_version_are_refused(client, monkeypatch) -> None:
    monkeypatch.setattr("sepgp.backends.cluster.__version__", "99.0")
    with pytest.raises(InvalidParameter, match=r"has sepgp .*; install") as raised:
        quick().fit(*arrays(X, Y))
    assert_one_sentence(str(raised.value))
    with pytest.raises(InvalidParameter, match=r"The worker tcp://a has no sepgp; install"):
        same_version({"tcp://a": ModuleNotFoundError("sepgp")})


def test_a_client_without_workers_is_refused() -> None:
    cluster = distributed.LocalCluster(
        n_workers=0, processes=False, dashboard_address=":0", protocol="inproc://"
    )
    with (
        cluster,
        distributed.Client(cluster, set_as_default=False) as empty,
        pytest.raises(InvalidParameter, match="client has no workers; start some"),
    ):
        Cluster(empty)


@pytest.mark.process
def test_without_dask_there_is_one_sentence() -> None:
    code = """
import sys
sys.modules["dask"] = None
try:
    import sepgp.dask
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "sepgp.dask needs Dask, which is not installed; install it by pip install 'sepgp[dask]'.\n"
    )


# --- who works on what --------------------------------------------------------------------------


def test_parts_stay_where_they_are_if_they_can() -> None:
    homes = assigned([], 4, {"a": 1, "b": 1})
    assert homes == ["a", "a", "b", "b"]
    assert assigned(homes, 4, {"a": 1, "b": 1}) == homes
    assert assigned(homes, 4, {"b": 1}) == ["b"] * 4
    joined = assigned(homes, 4, {"a": 1, "b": 1, "c": 2})
    assert sorted(joined) == ["a", "b", "c", "c"]
    assert sum(x == y for x, y in zip(homes, joined, strict=True)) == 2
    assert assigned(homes, 4, {}) == homes
    assert assigned([], 1, {"a": 1, "b": 1}) == ["a"]
