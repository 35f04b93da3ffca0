"""A run that was stopped goes on as if it had never been."""

import copy
import multiprocessing
import os
import random
import re
import resource
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from numpy.testing import assert_array_equal
from quick import METHODS, assert_one_sentence, blobs, quick
from safetensors.torch import load_file, save_file

from sepgp import GPClassifier, InvalidData, InvalidParameter, kernels
from sepgp.data import split, stream_source
from sepgp.errors import WriteFailed
from sepgp.files import tensors as persistence
from sepgp.gp.kernels import RBF, FeatureMap
from sepgp.training import monitor, prior

X, Y = blobs(120)
FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(["sepgp.classifier"])


def numbers(model: GPClassifier) -> np.ndarray:
    """Everything that a run has learned."""
    parts = [model.inducing_points_, *(p.detach() for p in model.kernel_.parameters())]
    parts += [model.model_.sites.Lambda, model.model_.sites.b, model.history_["log_evidence"]]
    parts += [model.history_["validation_nll"]]
    return np.concatenate([np.ravel(part) for part in parts])


class Crash(Exception):
    """What stops a run in the middle."""


def crash_at(iteration: int):
    """A callback that raises after this many steps."""

    def callback(record) -> None:
        if record.iteration == iteration:
            raise Crash

    return callback


SETTINGS = {
    **{method: {"method": method} for method in METHODS},
    "minibatches": {"batch_size": 30},
    "minibatches of EP": {"method": "ep", "batch_size": 30},
    "sign rule": {"optimizer": "sign"},
    "tolerance": {"tol": 1e-2, "max_iter": 100},
    "float32": {"dtype": "float32", "batch_size": 50},
    "kernel held": {"learn_kernel": False},
    "inducing points held": {"learn_inducing": False, "inducing": "random"},
    "every row a point": {"n_inducing": 120},
    "held-out rows": {"validation_fraction": 0.3, "batch_size": 30},
    "held-out rows with EP": {"validation_fraction": 0.3, "batch_size": 30, "method": "ep"},
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_a_continued_run_equals_one_that_was_never_stopped(setting, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(monitor, "EVERY", 3)
    path = tmp_path / "run.ckpt"
    whole = quick(**setting).fit(X, Y)
    stopped = quick(**setting, checkpoint=path, checkpoint_every=0, callbacks=[crash_at(7)])
    with pytest.raises(Crash):
        stopped.fit(X, Y)
    steps = []
    continued = quick(**setting, checkpoint=path, checkpoint_every=0, callbacks=[steps.append])
    continued.fit(X, Y)
    assert steps[0].iteration == 7  # one that began anew would end with the same numbers
    assert_array_equal(numbers(continued), numbers(whole))
    assert continued.n_iter_ == whole.n_iter_
    assert_array_equal(continued.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize("crash", [3, 6, 7, 19])
def test_the_best_model_so_far_outlives_a_crash(crash, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(monitor, "EVERY", 3)
    noise = np.random.default_rng(1).integers(0, 2, len(Y))
    setting = {"validation_fraction": 0.3, "learning_rate": 0.5}
    whole = quick(**setting).fit(X, noise)
    assert np.nanargmin(whole.history_["validation_nll"]) == 5  # noise is best not learned
    setting |= {"checkpoint": tmp_path / "run.ckpt", "checkpoint_every": 0}
    with pytest.raises(Crash):
        quick(**setting, callbacks=[crash_at(crash)]).fit(X, noise)
    for _ in range(2):  # the second time it is finished
        continued = quick(**setting).fit(X, noise)
        assert_array_equal(numbers(continued), numbers(whole))
        assert continued.log_evidence_ == whole.log_evidence_


def test_without_a_seed_the_run_keeps_its_own(tmp_path) -> None:
    setting = {"random_state": None, "batch_size": 30, "checkpoint": tmp_path / "run.ckpt"}
    with pytest.raises(Crash):
        quick(**setting, checkpoint_every=0, callbacks=[crash_at(7)]).fit(X, Y)
    again = tmp_path / "again.ckpt"
    again.write_bytes((tmp_path / "run.ckpt").read_bytes())
    one = quick(**setting).fit(X, Y)
    other = quick(**{**setting, "checkpoint": again}).fit(X, Y)
    assert_array_equal(numbers(one), numbers(other))


def test_a_finished_run_is_not_trained_again(tmp_path) -> None:
    setting = {"checkpoint": tmp_path / "run.ckpt"}
    first = quick(**setting).fit(X, Y)
    second = quick(**setting, callbacks=[crash_at(1)]).fit(X, Y)
    assert_array_equal(numbers(second), numbers(first))
    assert_array_equal(second.predict_proba(X), first.predict_proba(X))


@pytest.mark.slow
@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("more", [{"max_iter": 50}, {"max_iter": None, "time_budget": 2.0}])
def test_a_run_goes_on_with_more_steps_or_time(more, finished, tmp_path) -> None:
    setting = {"checkpoint": tmp_path / "run.ckpt"}
    stop = None if finished else [lambda record: record.iteration == 8]
    before = quick(**setting, callbacks=stop).fit(X, Y)
    steps = []
    after = quick(**(setting | more), callbacks=[steps.append]).fit(X, Y)
    first = 20 if finished else 8
    assert steps[0].iteration == first + 1
    if "time_budget" not in more:
        assert after.n_iter_ == 50
    assert after.n_iter_ > before.n_iter_
    assert_array_equal(
        after.history_["log_evidence"][:first], before.history_["log_evidence"][:first]
    )


@pytest.mark.parametrize("mean", [None, "trees"])
def test_a_run_that_went_on_with_more_time_was_said_to_be_on_other_rows(
    mean, tmp_path, monkeypatch
) -> None:
    """Which rows are held out, scored and trained on depends on the time budget."""
    monkeypatch.setattr(split, "PLENTY", 100)
    monkeypatch.setattr(prior, "ROWS_PER_SECOND", 20)
    setting = {"batch_size": 30, "checkpoint": tmp_path / "run.ckpt", "mean": mean}
    before = quick(**setting, time_budget=np.float32(5.0), max_iter=np.int64(8)).fit(X, Y)
    after = quick(**setting, time_budget=30.0, max_iter=12).fit(X, Y)
    assert (before.n_iter_, after.n_iter_) == (8, 12)
    assert_array_equal(after.history_["log_evidence"][:8], before.history_["log_evidence"])


def network(scale: float) -> FeatureMap:
    linear = torch.nn.Linear(2, 2)
    with torch.no_grad():
        linear.weight.fill_(scale)
        linear.bias.fill_(0.0)
    return FeatureMap(linear, RBF())


POINTS = np.random.default_rng(0).normal(size=(600, 2))
MOVED = np.where(np.arange(1200).reshape(600, 2) == 700, POINTS + 1e-9, POINTS)
ALIKE = {
    "inducing points": ("inducing", POINTS, MOVED, {"batch_size": 30, "learn_inducing": False}),
    "length-scales beyond the eighth": (
        "kernel",
        RBF([1.0] * 12),
        RBF([1.0] * 11 + [1.0 + 1e-9]),
        {},
    ),
    "a spread": ("kernel", RBF(spread=1.5), RBF(spread=2.5), {}),
    "weights of a feature map": ("kernel", network(0.3), network(0.4), {}),
}


@pytest.mark.parametrize(("name", "one", "other", "setting"), ALIKE.values(), ids=ALIKE)
def test_a_run_whose_settings_print_alike_was_resumed(name, one, other, setting, tmp_path) -> None:
    wide = isinstance(one, RBF) and one.log_lengthscale2.ndim
    rows = np.tile(X, 6) if wide else X
    setting = {**setting, "checkpoint": tmp_path / "run.ckpt", "checkpoint_every": 0, "max_iter": 3}
    first = quick(**setting, **{name: one}).fit(rows, Y)
    with pytest.raises(InvalidParameter, match=f"belongs to a run with .*{name}"):
        quick(**setting, **{name: other}).fit(rows, Y)
    again = quick(**setting, **{name: copy.deepcopy(one)}, callbacks=[crash_at(1)]).fit(rows, Y)
    assert_array_equal(numbers(again), numbers(first))


def test_a_random_state_could_not_be_resumed(tmp_path) -> None:
    """It was told apart by its address in memory."""
    setting = {"batch_size": 30, "checkpoint": tmp_path / "run.ckpt", "checkpoint_every": 0}
    whole = quick(batch_size=30, random_state=np.random.RandomState(3)).fit(X, Y)
    crashing = quick(**setting, callbacks=[crash_at(7)], random_state=np.random.RandomState(3))
    with pytest.raises(Crash):
        crashing.fit(X, Y)
    with pytest.raises(InvalidParameter, match="random_state"):
        quick(**setting, random_state=np.random.RandomState(4)).fit(X, Y)
    continued = quick(**setting, random_state=np.random.RandomState(3)).fit(X, Y)
    assert_array_equal(numbers(continued), numbers(whole))


def test_a_run_is_told_by_the_method_that_auto_stood_for(tmp_path) -> None:
    setting = {"checkpoint": tmp_path / "run.ckpt", "checkpoint_every": 0}
    whole = quick(n_inducing=119).fit(X, Y)
    with pytest.raises(Crash):
        quick(n_inducing=119, method="sep", **setting, callbacks=[crash_at(7)]).fit(X, Y)
    steps = []
    continued = quick(n_inducing=119, **setting, callbacks=[steps.append]).fit(X, Y)
    assert steps[0].iteration == 7
    assert_array_equal(numbers(continued), numbers(whole))

    setting["checkpoint"] = tmp_path / "other.ckpt"
    quick(n_inducing=120, method="sep", **setting).fit(X, Y)
    with pytest.raises(InvalidParameter, match="a run with method='sep', not 'ep'; use the same"):
        quick(n_inducing=120, **setting).fit(X, Y)


def test_a_warm_start_can_be_continued(tmp_path) -> None:
    def start() -> GPClassifier:
        return quick(warm_start=True).fit(X, Y)

    whole = start().fit(X, Y)
    setting = {"checkpoint": tmp_path / "run.ckpt", "checkpoint_every": 0}
    with pytest.raises(Crash):
        start().set_params(**setting, callbacks=[crash_at(27)]).fit(X, Y)
    continued = start().set_params(**setting).fit(X, Y)
    assert_array_equal(numbers(continued), numbers(whole))


def test_checkpoints_are_written_now_and_then_and_at_the_end(tmp_path, monkeypatch) -> None:
    written = []
    real = persistence.write
    monkeypatch.setattr(
        persistence, "write", lambda *a: (written.append(a[2]["state.iteration"]), real(*a))
    )
    quick(checkpoint=tmp_path / "run.ckpt", checkpoint_every=3600).fit(X, Y)
    assert written == [0, 20]
    quick(checkpoint=tmp_path / "other.ckpt", checkpoint_every=0).fit(X, Y)
    assert written[2:] == list(range(21))


def test_a_checkpoint_is_plain_tensors_and_json(tmp_path) -> None:
    quick(checkpoint=tmp_path / "run.ckpt").fit(X, Y)
    assert {"sites.Lambda", "sites.b", "state.xi", "history"} <= set(
        load_file(tmp_path / "run.ckpt")
    )


OTHER = {
    "rows": ({}, X + 1, Y, "belongs to a run on other rows; give the same rows"),
    "labels": ({}, X, 1 - Y, "belongs to a run on other rows"),
    "order of rows": ({}, X[::-1], Y[::-1], "belongs to a run on other rows"),
    "inducing points": ({"n_inducing": 9}, X, Y, "with n_inducing=10, not 9; use the same"),
    "method": ({"method": "ep"}, X, Y, "with method='sep', not 'ep'"),
    "seed": ({"random_state": 1}, X, Y, "with random_state=0, not 1"),
}


@pytest.mark.parametrize(("setting", "rows", "labels", "match"), OTHER.values(), ids=OTHER)
def test_a_checkpoint_of_another_run_is_refused(setting, rows, labels, match, tmp_path) -> None:
    path = tmp_path / "run.ckpt"
    # Many rows, so that they are kept in the order they come in.
    fitted = quick(checkpoint=path, batch_size=30).fit(X, Y)
    content, before = path.read_bytes(), fitted.predict_proba(X)
    with pytest.raises(InvalidParameter, match=match) as error:
        fitted.set_params(**setting).fit(rows, labels)
    assert_one_sentence(str(error.value))
    assert path.read_bytes() == content
    assert_array_equal(fitted.predict_proba(X), before)


def not_a_checkpoint(path: Path, how: str) -> None:
    quick(checkpoint=path).fit(X, Y)
    content = path.read_bytes()
    if how == "empty":
        path.write_bytes(b"")
    elif how == "text":
        path.write_text("to be or not to be")
    elif how == "truncated":
        path.write_bytes(content[:-100])
    elif how == "foreign":
        save_file({"weights": torch.zeros(3)}, path)
    elif how == "older":
        tensors, header = persistence.read(path)
        persistence.write(path, tensors, header | {"format": "sepgp checkpoint 3"})
    else:
        tensors, header = persistence.read(path)
        CHANGES[how](tensors, header)
        persistence.write(path, tensors, header)


CHANGES = {
    "without a tensor": lambda t, h: t.pop("sites.b"),
    "without a seed": lambda t, h: h.pop("seed"),
    "text for a seed": lambda t, h: h.update(seed="lucky"),
    "no identity": lambda t, h: h.update(identity=None),
    "an infinite count": lambda t, h: h.update({"state.iteration": float("inf")}),
    "text for a rate": lambda t, h: h.update({"state.rate": "fast"}),
    "time that runs backwards": lambda t, h: h.update(seconds=-1.0),
    "finished before it began": lambda t, h: t.update(history=t["history"][:0]),
    "an endless history": lambda t, h: t["history"].fill_(float("inf")),
    "a start that is a line": lambda t, h: t.update(start=t["start"].flatten()),
    "a start nowhere": lambda t, h: t["start"].fill_(float("nan")),
    "a kernel beyond all numbers": lambda t, h: t["state.xi"].fill_(1e5),
    "sites below zero": lambda t, h: t["sites.Lambda"].fill_(-1e5),
    "sites that are no numbers": lambda t, h: t["sites.Lambda"].fill_(float("nan")),
}


@pytest.mark.parametrize("how", ["empty", "text", "truncated", "foreign", "older", *CHANGES])
def test_a_file_that_is_no_checkpoint_is_refused(how, tmp_path) -> None:
    path = tmp_path / "run.ckpt"
    not_a_checkpoint(path, how)
    content = path.read_bytes()
    with pytest.raises(InvalidData, match=f"{re.escape(str(path))} is .*remove it") as error:
        quick(checkpoint=path).fit(X, Y)
    assert_one_sentence(str(error.value))
    assert path.read_bytes() == content


def test_a_setting_of_many_lines_is_told_in_one(tmp_path) -> None:
    path = tmp_path / "run.ckpt"
    kernel = kernels.FeatureMap(torch.nn.Linear(X.shape[1], 2), kernels.RBF())
    quick(checkpoint=path, kernel=kernel).fit(X, Y)
    with pytest.raises(InvalidParameter, match=r"kernel=FeatureMap\(.*, not 'rbf'") as error:
        quick(checkpoint=path, kernel="rbf").fit(X, Y)
    assert_one_sentence(str(error.value))


def test_a_folder_that_is_not_there_is_found_before_any_work(tmp_path) -> None:
    model = quick(checkpoint=tmp_path / "nowhere" / "run.ckpt", callbacks=[crash_at(1)])
    with pytest.raises(WriteFailed, match=r"cannot be written .*choose another folder") as error:
        model.fit(X, Y)
    assert_one_sentence(str(error.value))


# ----------------------------------------------------------------- other processes


def in_another_process(work, *arguments):
    """Run a function in a fresh process and give what it sends back."""
    receiver, sender = FRESH.Pipe(duplex=False)
    process = FRESH.Process(target=work, args=(sender, *arguments))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    finally:
        process.join()


def train_until_the_disk_is_full(answer, path: str, spare: int) -> None:
    def callback(record) -> None:
        if record.iteration == 5:
            limit = os.path.getsize(path) + spare
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    report(answer, path, callback)


def train_until_the_folder_is_read_only(answer, path: str) -> None:
    def callback(record) -> None:
        if record.iteration == 5:
            if os.geteuid() == 0:
                os.seteuid(65534)
            else:
                os.chmod(os.path.dirname(path), 0o555)

    report(answer, path, callback)


def report(answer, path: str, callback) -> None:
    torch.set_num_threads(1)
    model = quick(batch_size=30, checkpoint=path, checkpoint_every=0, callbacks=[callback])
    try:
        model.fit(X, Y)
    except WriteFailed as error:
        answer.send(str(error))
    else:
        answer.send("finished")


@pytest.mark.process
@pytest.mark.parametrize(
    ("work", "arguments", "reason"),
    [
        (train_until_the_disk_is_full, (200,), "too large"),
        (train_until_the_folder_is_read_only, (), "denied"),
    ],
    ids=["no space left", "read-only folder"],
)
def test_a_checkpoint_that_cannot_be_written_keeps_the_last_good_one(
    work, arguments, reason
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = f"{folder}/run.ckpt"
        message = in_another_process(work, path, *arguments)
        os.chmod(folder, 0o755)
        assert re.search(f"cannot be written .*{reason}.* is unchanged", message, re.IGNORECASE)
        assert_one_sentence(message)
        assert os.listdir(folder) == ["run.ckpt"]
        _, header = persistence.read(path)
        assert 4 <= header["state.iteration"] < 20
        continued = quick(batch_size=30, checkpoint=path).fit(X, Y)
    assert_array_equal(numbers(continued), numbers(quick(batch_size=30).fit(X, Y)))


@pytest.mark.parametrize("stop", [False, True], ids=["finished", "stopped"])
def test_a_checkpoint_that_could_not_be_written_in_the_end_threw_a_training_away(
    stop, tmp_path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()

    def callback(record):
        if record.iteration == 5:
            folder.rename(tmp_path / "elsewhere")
        return stop and record.iteration == 7

    model = quick(checkpoint=folder / "run.ckpt", callbacks=[callback])
    with pytest.warns(UserWarning, match="model kept, but .*run.ckpt cannot be written") as said:
        model.fit(X, Y)
    assert_one_sentence(str(said[0].message))
    assert model.n_iter_ == (8 if stop else 20)
    assert model.score(X, Y) > 0.8


LAST = 200


def streamed(path: str, data: str, callback=None) -> GPClassifier:
    """A fit from a file, with a checkpoint after every step."""
    torch.set_num_threads(1)
    stream_source.MEMORY, stream_source.CHUNK = 4096, 64
    model = quick(
        batch_size=50, max_iter=LAST, checkpoint=path, checkpoint_every=0, callbacks=callback
    )
    return model.fit(data, target="y")


def train(path: str, data: str, log: str) -> None:
    def callback(record) -> None:
        with open(log, "a") as file:
            print(record.iteration, file=file)
        time.sleep(0.005)

    streamed(path, data, [callback])


@pytest.mark.process
def test_killed_at_twenty_random_moments_a_run_ends_with_the_same_numbers(
    tmp_path, monkeypatch
) -> None:
    for name in ("MEMORY", "CHUNK"):
        # Put back what `streamed` sets.
        monkeypatch.setattr(stream_source, name, getattr(stream_source, name))
    rows, labels = blobs(400)
    data, path, log = f"{tmp_path}/rows.parquet", tmp_path / "run.ckpt", tmp_path / "steps"
    columns = {f"x{i}": column for i, column in enumerate(rows.T)}
    pq.write_table(pa.table({**columns, "y": labels}), data, row_group_size=90)
    expected = numbers(streamed(f"{tmp_path}/undisturbed.ckpt", data))

    moments, step = random.Random(0), 0
    for _ in range(20):
        log.write_text("")
        process = FRESH.Process(target=train, args=(str(path), data, str(log)))
        process.start()
        while process.is_alive() and log.read_text().count("\n") < 2:
            time.sleep(0.001)
        time.sleep(moments.uniform(0.0, 0.03))  # a few steps, and anywhere within one
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        before, step = step, persistence.read(path)[1]["state.iteration"]
        assert 0 < step < LAST, "killed before it had made a step, or after the last"
        assert log.read_text().startswith(f"{before + 1}\n"), "went on from another step"
        assert before < step
    steps = []
    continued = streamed(str(path), data, [steps.append])
    assert [record.iteration for record in steps] == [*range(step + 1, LAST + 1)]
    assert_array_equal(numbers(continued), expected)
    assert sorted(os.listdir(tmp_path)) == ["rows.parquet", "run.ckpt", "steps", "undisturbed.ckpt"]
