"""Model files: the same predictions after saving and loading, and no damage that goes unnoticed."""

import dataclasses
import json
import math
import os
import random
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from quick import METHODS, assert_one_sentence, blobs, quick
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import sepgp
from sepgp import GPClassifier, InvalidData, InvalidParameter, kernels
from sepgp.cli.main import app
from sepgp.errors import WriteFailed
from sepgp.files import tensors as persistence
from sepgp.files.model import VERSION

X, Y = blobs()
PROBE = np.random.default_rng(1).normal(1, 3, size=(50, 2))
MODELS = {
    **{method: {"method": method} for method in METHODS},
    "minibatches of EP": {"method": "ep", "batch_size": 16},
    "every row a point": {"n_inducing": 60},
    "sum of kernels": {"kernel": kernels.RBF() + kernels.Constant() * kernels.Linear()},
    "warped": {"kernel": kernels.Warped(kernels.Matern12() + kernels.RBF(), hidden=5)},
    "wide prior": {"kernel": kernels.Matern12(spread=float("inf"))},
    "float32": {"dtype": "float32"},
    "not standardised": {"standardize": False},
    "sign rule": {"optimizer": "sign"},
    "class weights": {"class_weight": {0: 2.0, 1: 1.0}},
    "given inducing points": {"inducing": X[:5]},
}


@pytest.mark.parametrize("setting", MODELS.values(), ids=MODELS)
def test_a_loaded_model_predicts_the_same_numbers(setting, tmp_path) -> None:
    model = quick(**setting).fit(X, Y)
    model.save(tmp_path / "model.sepgp")
    loaded = sepgp.load(tmp_path / "model.sepgp")
    for method in ("predict_latent", "predict_proba", "predict_log_proba", "predict"):
        assert_array_equal(getattr(loaded, method)(PROBE), getattr(model, method)(PROBE))
    assert_array_equal(loaded.inducing_points_, model.inducing_points_)
    assert loaded.log_evidence_ == model.log_evidence_
    assert loaded.n_iter_ == model.n_iter_
    for name, column in model.history_.items():
        assert_array_equal(loaded.history_[name], column)
        assert loaded.history_[name].dtype == column.dtype
    assert repr(loaded.kernel_) == repr(model.kernel_)
    assert loaded.model_.method == model.model_.method
    assert loaded.method == model.method


ON = [MODELS[name] for name in ("sep", "adf", "sum of kernels", "every row a point")]


@pytest.mark.parametrize("setting", ON)
def test_a_loaded_model_learns_on_as_the_saved_one(setting, tmp_path) -> None:
    model = quick(**setting).fit(X, Y)
    model.save(tmp_path / "model.sepgp")
    more = blobs(40, seed=5)
    loaded = sepgp.load(tmp_path / "model.sepgp").set_params(random_state=0).partial_fit(*more)
    assert_array_equal(loaded.predict_proba(PROBE), model.partial_fit(*more).predict_proba(PROBE))


@pytest.mark.parametrize(("n_inducing", "expected"), [(60, "EP"), (59, "SEP")])
def test_a_file_tells_the_method_that_auto_stood_for(n_inducing, expected, tmp_path) -> None:
    path = tmp_path / "model.sepgp"
    quick(n_inducing=n_inducing).fit(X, Y).save(path)
    told = CliRunner().invoke(app, ["info", str(path)]).output
    assert re.search(r"method +(\w+), float64", told)[1] == expected


def test_a_model_with_cuts_in_an_array_could_not_be_saved(tmp_path) -> None:
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=Y)
    cuts = {"a": np.array([0.5, 2.0])}
    model = quick(n_factors=cuts).fit(table, target="y")
    model.save(tmp_path / "m.sepgp")
    assert sepgp.load(tmp_path / "m.sepgp").n_factors == {"a": [0.5, 2.0]}


def test_a_loaded_model_can_be_saved_again(tmp_path) -> None:
    quick().fit(X, Y).save(tmp_path / "one.sepgp")
    sepgp.load(tmp_path / "one.sepgp").save(tmp_path / "two.sepgp")
    (one, head), (two, other) = (persistence.read(tmp_path / f"{n}.sepgp") for n in ("one", "two"))
    assert head == other
    assert set(one) == set(two)
    for name, tensor in one.items():
        assert_array_equal(tensor, two[name])


@pytest.mark.parametrize(
    "labels",
    [np.array(["no", "yes"])[Y], Y == 1, Y + 1.0, Y.astype(np.int8)],
    ids=["text", "bool", "float", "int8"],
)
def test_labels_keep_their_kind(labels, tmp_path) -> None:
    model = quick().fit(X, labels)
    model.save(tmp_path / "model.sepgp")
    loaded = sepgp.load(tmp_path / "model.sepgp")
    assert_array_equal(loaded.classes_, model.classes_)
    assert loaded.classes_.dtype.kind == np.asarray(labels).dtype.kind
    assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_table_keeps_its_encoding(tmp_path) -> None:
    table = pd.DataFrame(
        {"a": X[:, 0], "colour": np.array(["red", "blue", None])[np.arange(60) % 3]}
    )
    table["day"] = pd.date_range("2024-01-01", periods=60)
    model = quick().fit(table, Y)
    model.save(tmp_path / "model.sepgp")
    loaded = sepgp.load(tmp_path / "model.sepgp")
    assert loaded.encoding_ == model.encoding_
    assert_array_equal(loaded.feature_names_in_, ["a", "colour", "day"])
    assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))


@pytest.mark.process
def test_another_process_predicts_the_same_numbers(tmp_path) -> None:
    path = tmp_path / "model.sepgp"
    model = quick().fit(X, Y)
    model.save(path)
    np.save(tmp_path / "rows.npy", PROBE)
    code = (
        "import sys, numpy, sepgp; folder = sys.argv[1];"
        "model = sepgp.load(folder + '/model.sepgp');"
        "rows = numpy.load(folder + '/rows.npy');"
        "numpy.save(folder + '/there.npy', model.predict_proba(rows))"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=environment)
    assert_array_equal(np.load(tmp_path / "there.npy"), model.predict_proba(PROBE))


def test_a_model_file_holds_no_rows_and_no_run(tmp_path) -> None:
    path = tmp_path / "model.sepgp"
    model = quick(inducing="random", learn_inducing=False, n_inducing=3)
    for seed in range(3):
        model.partial_fit(*blobs(seed=seed))
    model.set_params(checkpoint="secret.ckpt").save(path)
    assert max(len(t) for t in load_file(path).values() if t.ndim) < 60
    assert b"secret" not in path.read_bytes()


def test_a_kernel_that_is_code_is_refused(tmp_path) -> None:
    module = torch.nn.Linear(2, 2)
    model = quick(kernel=kernels.FeatureMap(module, kernels.RBF())).fit(X, Y)
    with pytest.raises(InvalidParameter, match=r"FeatureMap, which is code .*pickle") as error:
        model.save(tmp_path / "model.sepgp")
    assert_one_sentence(str(error.value))
    assert not list(tmp_path.iterdir())


def test_a_model_that_is_not_fitted_is_refused(tmp_path) -> None:
    with pytest.raises(InvalidParameter, match="not fitted yet; fit it"):
        quick().save(tmp_path / "model.sepgp")


def test_a_place_that_cannot_be_written_is_named(tmp_path) -> None:
    with pytest.raises(WriteFailed, match=r"nowhere.* cannot be written") as error:
        quick().fit(X, Y).save(tmp_path / "nowhere" / "model.sepgp")
    assert_one_sentence(str(error.value))


def test_a_file_that_is_not_there_is_named(tmp_path) -> None:
    with pytest.raises(InvalidData, match=r"model.sepgp cannot be read .*check the path") as error:
        sepgp.load(tmp_path / "model.sepgp")
    assert_one_sentence(str(error.value))


# ----------------------------------------------------------------- damage


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A model file, its bytes and its predictions."""
    path = tmp_path_factory.mktemp("stored") / "model.sepgp"
    model = quick(n_inducing=4, max_iter=3).fit(X, Y)
    model.save(path)
    return path, path.read_bytes(), model.predict_proba(PROBE)


def assert_equal_or_refused(path, expected) -> bool:
    """Whether the file was refused."""
    try:
        model = sepgp.load(path)
    except InvalidData as error:
        assert_one_sentence(str(error))
        return True
    assert_array_equal(model.predict_proba(PROBE), expected)
    return False


@pytest.mark.slow
def test_ten_thousand_damaged_files_load_equal_or_are_refused(stored) -> None:
    path, content, expected = stored
    rng = random.Random(0)
    refused = 0
    for _ in range(10_000):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 1, 1, 2, 8])):
            # Half of them in the header, which is where a file lies about itself.
            end = len(damaged) if rng.random() < 0.5 else min(3000, len(damaged))
            damaged[rng.randrange(end)] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        refused += assert_equal_or_refused(path, expected)
    assert refused > 9_000


def test_a_file_cut_at_any_length_is_refused(stored) -> None:
    path, content, expected = stored
    for length in [*range(0, 64), *range(64, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:length])
        assert assert_equal_or_refused(path, expected)


def rewritten(path, content, change) -> None:
    """A file that is whole, but says something else."""
    path.write_bytes(content)
    tensors, header = persistence.read(path)
    change(tensors, header)
    persistence.write(path, tensors, header)


LIES = {
    "another format": (lambda t, h: h.update(format="a letter"), "is not a model file"),
    "a newer version": (lambda t, h: h.update(version=VERSION + 1), "version 5.* update sepgp"),
    "no header": (lambda t, h: h.clear(), "is not a model file"),
    "an unknown kernel": (
        lambda t, h: h["kernel"].update(kind="os.system"),
        "no kernel 'os.system'",
    ),
    "an unknown parameter": (lambda t, h: h["parameters"].update(spell="abracadabra"), "spell"),
    "one class": (lambda t, h: h.update(classes=[1, 1]), "not two classes"),
    "a missing tensor": (lambda t, h: t.pop("F"), "damaged"),
    "another shape": (lambda t, h: t.update(b=torch.zeros(7, dtype=torch.float64)), "b is not of"),
    "NaN": (lambda t, h: t["Lambda"].fill_(math.nan), "Lambda is not finite"),
    "inducing points nowhere": (lambda t, h: t["Z"].fill_(math.inf), "Z is not finite"),
    "no inducing points": (
        lambda t, h: t.update(Z=t["Z"][:0]),
        "has another shape|no inducing points",
    ),
    "float32": (lambda t, h: t.update(F=t["F"].float()), "F is not finite in float64"),
    "no steps": (lambda t, h: t.update(history=t["history"][:0]), "no steps"),
    "endless steps": (lambda t, h: t["history"].fill_(math.inf), "numbers that cannot be"),
    "infinitely many features": (lambda t, h: h.update(n_features=math.inf), "damaged"),
    "no rows seen": (lambda t, h: h.update(n_seen=-1), "seen no rows"),
    "a scale of zero": (lambda t, h: t["scale"].fill_(0), "scale is not positive"),
    "weights beyond all numbers": (
        lambda t, h: t["beta"].fill_(1e308),
        "predictions are not finite",
    ),
    "Lambda below zero": (lambda t, h: t["Lambda"].mul_(-1e6), "have no posterior"),
    "Lambda not symmetric": (lambda t, h: t["Lambda"].triu_(), "Lambda is not symmetric"),
    "a variance beyond all numbers": (
        lambda t, h: t["kernel.parts.0.log_variance"].fill_(1e6),
        "beyond all bounds",
    ),
    "a kernel of nothing": (
        lambda t, h: h.update(kernel={"kind": "Sum", "parts": []}),
        "has no parts",
    ),
    "a length-scale too many": (
        lambda t, h: t.update({"kernel.parts.1.log_lengthscale2": torch.zeros(3).double()}),
        "length-scale per feature|another shape",
    ),
    "text for a count": (lambda t, h: h.update({"moments.steps": "many"}), "moments.steps cannot"),
    "a count below zero": (lambda t, h: h.update({"moments.steps": -1}), "moments.steps cannot"),
    "an unknown type": (lambda t, h: h["parameters"].update(dtype="float16"), "dtype='float16'"),
    "an unknown method": (lambda t, h: h.update(method="auto"), "method='auto' is unknown"),
    "a place to write to": (
        lambda t, h: h["parameters"].update(checkpoint="somewhere.ckpt"),
        "checkpoint, which belongs to a run",
    ),
    "a column too many": (lambda t, h: h.update(names=["a", "b", "c"]), "not as many texts"),
    "half a character": (lambda t, h: h.update(target="\ud800"), "damaged"),
    "a number for a target": (lambda t, h: h.update(target=3), "not the name of a column"),
    "other features": (lambda t, h: h.update(n_features=5), "features are not those"),
    "text for a number": (lambda t, h: h.update(n_seen="many"), "damaged"),
}


@pytest.mark.parametrize(("change", "match"), LIES.values(), ids=LIES)
def test_a_file_whose_parts_do_not_belong_together_is_refused(stored, change, match) -> None:
    path, content, _ = stored
    rewritten(path, content, change)
    with pytest.raises(InvalidData, match=match) as error:
        sepgp.load(path)
    assert_one_sentence(str(error.value))


ENCODERS = {
    "two numbers for a missing one": {"fill": [0.0, 1.0]},
    "no numbers for a missing one": {"fill": []},
    "text for a missing number": {"fill": ["none"]},
    "a number for a name": {"name": 3},
    "text for a truth value": {"missing": "no"},
    "an unknown kind": {"kind": "picture"},
    "a list for a kind": {"kind": []},
    "the name of another": {"name": "colour"},
}


@pytest.mark.parametrize("change", ENCODERS.values(), ids=ENCODERS)
def test_an_encoding_that_cannot_be_is_refused(change, tmp_path) -> None:
    path = tmp_path / "model.sepgp"
    table = pd.DataFrame({"a": X[:, 0], "colour": np.array(["red", "blue"])[Y]})
    quick(n_inducing=4, max_iter=3).fit(table, Y).save(path)
    rewritten(path, path.read_bytes(), lambda t, h: h["encoding"][0].update(change))
    with pytest.raises(InvalidData, match="is damaged") as error:
        sepgp.load(path)
    assert_one_sentence(str(error.value))


@pytest.mark.parametrize("levels", ["red", [1, 2], [None]])
def test_texts_that_are_none_are_refused(levels, tmp_path) -> None:
    path = tmp_path / "model.sepgp"
    quick(n_inducing=4, max_iter=3).fit(pd.DataFrame({"c": np.array(["r", "b"])[Y]}), Y).save(path)
    rewritten(path, path.read_bytes(), lambda t, h: h["encoding"][0].update(levels=levels))
    with pytest.raises(InvalidData, match="is damaged") as error:
        sepgp.load(path)
    assert_one_sentence(str(error.value))


def test_numbers_of_a_type_that_numpy_lacks_are_refused(stored) -> None:
    path, _, _ = stored
    save_file({"F": torch.zeros(3, dtype=torch.bfloat16)}, path, {"sepgp": "{}", "sha256": ""})
    with pytest.raises(InvalidData, match="not written by sepgp") as error:
        sepgp.load(path)
    assert_one_sentence(str(error.value))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_a_header_without_a_bottom_is_refused(stored, text) -> None:
    path, _, _ = stored
    save_file({}, path, {"sepgp": text, "sha256": persistence._digest({}, text)})
    with pytest.raises(InvalidData, match="not written by sepgp") as error:
        sepgp.load(path)
    assert_one_sentence(str(error.value))


def test_a_model_without_evidence_keeps_none(tmp_path) -> None:
    model = quick().fit(X, Y)
    # As after steps that were thrown away.
    model.model_ = dataclasses.replace(model.model_, log_evidence=math.nan)
    model.save(tmp_path / "model.sepgp")
    assert math.isnan(sepgp.load(tmp_path / "model.sepgp").log_evidence_)


def test_the_header_is_json(stored) -> None:
    path, content, _ = stored
    path.write_bytes(content)
    length = int.from_bytes(content[:8], "little")
    outer = json.loads(content[8 : 8 + length])

    def refuse(constant):
        raise AssertionError(constant)

    header = json.loads(outer["__metadata__"]["sepgp"], parse_constant=refuse)
    assert header["format"] == "sepgp model"


def test_a_model_trained_in_float32_was_saved_and_could_not_be_loaded(tmp_path) -> None:
    """Sums over rows were symmetric to float32, and then taken to u by an ill-conditioned K."""
    random = np.random.default_rng(0)
    X = random.uniform(size=(4_000, 1))
    y = np.sin(6 * X[:, 0]) + 0.3 * random.normal(size=len(X)) > 0
    settings = {"n_inducing": 60, "max_iter": 20, "kernel": "rbf", "random_state": 0}
    model = GPClassifier(dtype="float32", **settings).fit(X, y)
    Lambda = model.model_.sites.Lambda
    assert (Lambda - Lambda.T).abs().max() < 1e-9 * Lambda.abs().max()
    model.save(tmp_path / "model.sepgp")
    again = sepgp.load(tmp_path / "model.sepgp")
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
