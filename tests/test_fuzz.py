"""Files that are whole, by their digest, and say anything at all: each works or is refused.

`test_models.py` has damage that the digest finds. Here it is made anew after every change, so that
what stands behind it is put to the test.
"""

import copy
import json
import math
import struct

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quick import assert_one_sentence, blobs, quick
from safetensors.torch import save_file

import sepgp
from sepgp import InvalidData, InvalidParameter, kernels
from sepgp.data.encoding import Number, Time
from sepgp.evaluation.about import about
from sepgp.evaluation.relevance import relevance
from sepgp.files import tensors as persistence

X, Y = blobs(40)


def fuzz(examples):
    """The same examples at every run, however long each takes."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


# --- what a file may say ----------------------------------------------------------------------

numbers = st.sampled_from([0, 1, -1, 2, 7, 10**6, 2**63, 10**400, 0.5, -1e300, 1e300, 1e-300])
scalars = (
    st.none()
    | st.booleans()
    | numbers
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(
        ["", "kernel", "sep", "RBF", "White", "Sum", "os.system", "\ud800", "é" * 300]
    )
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value, path=()):
    """The path of every value inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))


@st.composite
def changed_headers(draw, header):
    """A header with one to three changes."""
    header = copy.deepcopy(header)
    for _ in range(draw(st.integers(1, 3))):
        *path, key = draw(st.sampled_from(list(places(header))))
        parent = header
        for step in path:
            parent = parent[step]
        how = draw(st.sampled_from(["replace", "remove", "repeat", "wrap", "move", "text"]))
        if how == "replace":
            parent[key] = draw(anything)
        elif how == "remove":
            del parent[key]
        elif how == "repeat":
            parent[key] = [parent[key], parent[key]]
        elif how == "wrap":
            parent[key] = {"kind": "Sum", "parts": [parent[key]]}
        elif how == "move":
            parent[key] = copy.deepcopy(draw(st.sampled_from(list(header.values()))))
        else:
            parent[key] = str(parent[key])
        if not header:
            break
    return header


SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-300, 1e300, -1e300, 710.0, 1e12]


@st.composite
def changed_tensors(draw, tensors):
    """The tensors of a file with one or two changes."""
    tensors = dict(tensors)
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(tensors)))
        tensor = tensors[name].double().clone()
        how = draw(
            st.sampled_from(
                ["remove", "entry", "all", "dtype", "shape", "turn", "negate", "resize", "swap"]
            )
        )
        if how == "remove":
            del tensors[name]
            continue
        if how == "entry" and tensor.numel():
            tensor.view(-1)[draw(st.integers(0, tensor.numel() - 1))] = draw(
                st.sampled_from(SPECIAL)
            )
        elif how == "all":
            tensor.fill_(draw(st.sampled_from(SPECIAL)))
        elif how == "dtype":
            kinds = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint8]
            tensor = tensor.to(draw(st.sampled_from([*kinds, torch.float8_e4m3fn])))
        elif how == "shape":
            tensor = tensor.reshape(draw(st.sampled_from([(-1,), (1, -1), (-1, 1), (-1, 1, 1)])))
        elif how == "turn":
            tensor = tensor.flip(0) if tensor.ndim else tensor[None]
        elif how == "negate":
            tensor = -tensor
        elif how == "resize":
            tensor = torch.zeros(draw(st.lists(st.integers(0, 7), max_size=3)), dtype=tensor.dtype)
        elif how == "swap":
            tensor = tensors[draw(st.sampled_from(sorted(tensors)))].clone()
        tensors[name] = tensor
    return tensors


def write(path, tensors, text) -> None:
    """A file with these tensors and this text for a header, and with the right digest."""
    copies = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    try:
        digest = persistence._digest(copies, text)
    except (TypeError, UnicodeEncodeError):  # of numbers that NumPy does not have
        digest = "0" * 64
    save_file(copies, path, {persistence.KEY: text, persistence.DIGEST: digest})


# --- models -----------------------------------------------------------------------------------


def table_model():
    """A model with text, dates and missing values."""
    n = len(Y)
    table = pd.DataFrame(
        {"a": X[:, 0], "colour": np.array(["red", "blue", None])[np.arange(n) % 3]}
    )
    table["day"] = pd.date_range("2024-01-01", periods=n)
    table.loc[::7, ["a", "day"]] = None
    return quick(n_inducing=3, max_iter=3).fit(table, Y)


def array_model():
    """A model whose kernel has parts, with given inducing points and class weights."""
    kernel = kernels.RBF() + kernels.Constant() * kernels.Linear() + kernels.White()
    return quick(kernel=kernel, inducing=X[:3], class_weight={0: 2.0, 1: 1.0}, max_iter=3).fit(X, Y)


MODELS = {"table": table_model, "array": array_model}


@pytest.fixture(scope="module", params=MODELS)
def stored(request, tmp_path_factory):
    """A path to write to, and the tensors and the header of a model file."""
    path = tmp_path_factory.mktemp("fuzz") / "model.sepgp"
    MODELS[request.param]().save(path)
    return path, *persistence.read(path)


def rows_for(model):
    """Two rows that a model must take, whatever its columns are."""
    if model.encoding_ is None or model.encoding_.plain:
        columns = np.array([[0.0] * model.n_features_in_, [1.0] * model.n_features_in_])
        if model.encoding_ is None and not hasattr(model, "feature_names_in_"):
            return columns
        return pd.DataFrame(columns, columns=model.feature_names_in_)
    columns = {}
    for encoder in model.encoding_.encoders:
        if isinstance(encoder, Number):
            columns[encoder.name] = pa.array([1.0, None])
        elif isinstance(encoder, Time):
            columns[encoder.name] = pa.array([0, None], pa.timestamp("us"))
        else:
            columns[encoder.name] = pa.array(["red", None])
    return pa.table(columns)


def assert_works_or_is_refused(path) -> bool:
    """Whether the file was refused."""
    try:
        model = sepgp.load(path)
    except InvalidData as error:
        assert_one_sentence(str(error))
        return True
    p = model.predict_proba(rows_for(model))
    assert p.shape == (2, 2)
    assert np.isfinite(p).all()
    assert set(model.predict(rows_for(model))) <= set(model.classes_)
    assert all(isinstance(fact, str) for fact in about(model.model_)["facts"].values())
    assert all(0 <= share <= 1 for share in relevance(model.model_).values())
    return False


@fuzz(120)
@given(data=st.data())
def test_a_model_file_with_another_header(stored, data) -> None:
    path, tensors, header = stored
    write(path, tensors, json.dumps(data.draw(changed_headers(header))))
    assert_works_or_is_refused(path)


@fuzz(120)
@given(data=st.data())
def test_a_model_file_with_other_tensors(stored, data) -> None:
    path, tensors, header = stored
    write(path, data.draw(changed_tensors(tensors)), json.dumps(header))
    assert_works_or_is_refused(path)


@fuzz(50)
@given(value=anything)
def test_a_model_file_whose_header_is_anything(stored, value) -> None:
    path, tensors, _ = stored
    write(path, tensors, json.dumps(value))
    assert assert_works_or_is_refused(path)


@fuzz(50)
@given(text=st.text() | st.sampled_from(["[" * 100_000, '{"a":' * 50_000, "NaN", "1e999", ""]))
def test_a_model_file_whose_header_is_any_text(stored, text) -> None:
    path, tensors, _ = stored
    write(path, tensors, text.encode(errors="replace").decode())
    assert assert_works_or_is_refused(path)


@pytest.mark.parametrize("depth", [1, 10, 40, 400])
def test_a_kernel_of_kernels_of_kernels(stored, depth) -> None:
    path, tensors, header = stored
    structure, prefix = {"kind": "Constant"}, "kernel"
    for _ in range(depth):
        structure, prefix = {"kind": "Sum", "parts": [structure]}, f"{prefix}.parts.0"
    deep = {f"{prefix}.log_variance": torch.zeros((), dtype=torch.float64)}
    write(path, {**tensors, **deep}, json.dumps({**header, "kernel": structure}))
    assert_works_or_is_refused(path)


# --- the file around it -----------------------------------------------------------------------


def parts_of(content):
    """The outer header of a safetensors file, and the bytes behind it."""
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def joined(outer, rest, length=None):
    text = json.dumps(outer).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + rest


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "model.sepgp"
    table_model().save(path)
    return path, path.read_bytes()


@fuzz(100)
@given(data=st.data())
def test_tensors_that_lie_elsewhere(whole, data) -> None:
    """Offsets that overlap, leave gaps or go beyond the end; shapes and types that do not fit."""
    path, content = whole
    outer, rest = parts_of(content)
    names = sorted(set(outer) - {"__metadata__"})
    for _ in range(data.draw(st.integers(1, 3))):
        entry = outer[data.draw(st.sampled_from(names))]
        size = st.sampled_from([0, 1, 8, 16, len(rest), 2**31, 2**63, 2**64, -8])
        how = data.draw(st.sampled_from(["offsets", "shape", "dtype", "same", "anything"]))
        if how == "offsets":
            entry["data_offsets"] = data.draw(st.lists(size, min_size=2, max_size=2))
        elif how == "shape":
            entry["shape"] = data.draw(st.lists(size, max_size=3))
        elif how == "dtype":
            entry["dtype"] = data.draw(
                st.sampled_from(["F32", "BF16", "I8", "F8_E4M3", "C64", "X"])
            )
        elif how == "same":
            entry.update(outer[data.draw(st.sampled_from(names))])
        else:
            entry[data.draw(st.sampled_from(sorted(entry)))] = data.draw(st.none() | st.integers())
    path.write_bytes(joined(outer, rest))
    assert_works_or_is_refused(path)


@fuzz(100)
@given(data=st.data())
def test_any_bytes(whole, data) -> None:
    path, content = whole
    outer, rest = parts_of(content)
    lengths = st.sampled_from([0, 1, 7, 2**20, 2**31, 2**40, 2**63, 2**64 - 1])
    pieces = st.sampled_from([content, content[:8], rest, b"", b"\0" * 8, b"{}"]) | st.binary()
    path.write_bytes(
        data.draw(
            st.lists(pieces, min_size=1, max_size=3).map(b"".join)
            | lengths.map(lambda length: joined(outer, rest, length))
        )
    )
    if path.read_bytes() != content:
        assert assert_works_or_is_refused(path)


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}, {"sepgp": "{}"}])
def test_a_file_of_another_library(tmp_path, metadata) -> None:
    save_file({"weights": torch.zeros(3)}, tmp_path / "m.safetensors", metadata)
    assert assert_works_or_is_refused(tmp_path / "m.safetensors")


def test_a_folder_is_no_model(tmp_path) -> None:
    assert assert_works_or_is_refused(tmp_path)


# --- checkpoints ------------------------------------------------------------------------------


def run(path):
    return quick(n_inducing=3, max_iter=6, checkpoint=path, checkpoint_every=0)


class Stop(Exception):
    """What ends a run half-way."""


def half_way(record):
    if record.iteration == 3:
        raise Stop


@pytest.fixture(scope="module", params=["sep", "ep", "finished"])
def half(request, tmp_path_factory):
    """A path, the setting of a run, and the tensors and the header of its checkpoint."""
    path = tmp_path_factory.mktemp("fuzz") / "run.ckpt"
    method = {"method": "ep", "batch_size": 20} if request.param == "ep" else {}
    if request.param == "finished":
        run(path).fit(X, Y)
    else:
        with pytest.raises(Stop):
            run(path).set_params(callbacks=[half_way], **method).fit(X, Y)
    return path, method, *persistence.read(path)


def assert_goes_on_or_is_refused(path, setting) -> None:
    try:
        model = run(path).set_params(**setting).fit(X, Y)
    except (InvalidData, InvalidParameter) as error:
        assert_one_sentence(str(error))
        return
    assert np.isfinite(model.predict_proba(X)).all()


@fuzz(50)
@given(data=st.data())
def test_a_checkpoint_with_another_header(half, data) -> None:
    path, setting, tensors, header = half
    write(path, tensors, json.dumps(data.draw(changed_headers(header))))
    assert_goes_on_or_is_refused(path, setting)


@pytest.mark.filterwarnings("ignore:.*steps were rejected")
@fuzz(50)
@given(data=st.data())
def test_a_checkpoint_with_other_tensors(half, data) -> None:
    path, setting, tensors, header = half
    write(path, data.draw(changed_tensors(tensors)), json.dumps(header))
    assert_goes_on_or_is_refused(path, setting)
