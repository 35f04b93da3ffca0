"""Files of others: what they may cost, and that nothing in them is run or followed."""

import json
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from quick import assert_one_sentence, blobs, quick

import sepgp
from sepgp import InvalidData
from sepgp.errors import WriteFailed
from sepgp.files import atomic

X, Y = blobs()
NUMBERS = 10**12


def header(**entries) -> bytes:
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("bomb",)


FOREIGN = {
    "more numbers than bytes": header(
        Z={"dtype": "F64", "shape": [NUMBERS], "data_offsets": [0, 8 * NUMBERS]}
    )
    + bytes(100),
    "numbers of no bytes": header(
        Z={"dtype": "F64", "shape": [NUMBERS, 0], "data_offsets": [0, 0]}, __metadata__={}
    ),
    "a header of any length": (2**60).to_bytes(8, "little") + bytes(100),
    "a pickle": pickle.dumps(Bomb()),
    "a path": header(__metadata__={"sepgp": "../../etc/passwd", "sha256": "/etc/passwd"}),
    "zip": b"PK\x03\x04" + bytes(100),
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_costs_no_more_than_its_size_and_runs_nothing(
    content, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.sepgp"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidData) as error:
            sepgp.load(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert_one_sentence(str(error.value))
    assert peak < 5e6
    assert os.listdir(tmp_path) == ["model.sepgp"]


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="this system has no such device")
def test_a_device_that_never_ends_was_read_for_ever() -> None:
    with pytest.raises(InvalidData, match=r"/dev/zero cannot be read \(it is not a file\)"):
        sepgp.load("/dev/zero")


def test_temporary_files_cannot_be_guessed_or_linked_away(tmp_path, monkeypatch) -> None:
    target, names = tmp_path / "model", set()
    for _ in range(50):
        with atomic.replacing(target) as temporary:
            names.add(temporary.name)
            temporary.write_bytes(b"x")
    assert len(names) == 50
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(atomic.secrets, "token_hex", lambda n: "guessed")
    (tmp_path / ".model.guessed.tmp").symlink_to(victim)
    with pytest.raises(WriteFailed), atomic.replacing(target) as temporary:
        temporary.write_bytes(b"overwritten")
    assert victim.read_text() == "precious"


def test_a_model_file_holds_no_value_of_a_row(tmp_path) -> None:
    model = quick(inducing="kmeans").fit(X, Y)
    model.save(tmp_path / "model.sepgp")
    content = (tmp_path / "model.sepgp").read_bytes()
    assert not any(np.float64(value).tobytes() in content for value in X.ravel())
