"""Memory that does not grow with the rows, and EP's that does."""

import os
import re
import subprocess
import sys

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROOT
from numpy.testing import assert_array_equal
from quick import assert_one_sentence, blobs, quick

from sepgp.data import stream_source
from sepgp.errors import NotEnoughMemory
from sepgp.inference.method import METHODS
from sepgp.training import fit, memory


@pytest.mark.process
def test_memory_is_flat_in_rows() -> None:
    """The short version of the benchmark: three times the rows, the same memory.

    A file of one million rows is read in one piece, and needs some megabytes less.
    """
    script = ROOT / "benchmarks" / "memory_is_flat_in_rows.py"
    command = [sys.executable, str(script), "--millions", "2", "6", "--steps", "40"]
    command += ["--rounds", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    apart = re.search(r"^peak: .* ([\d.]+) apart", done.stdout, re.MULTILINE)
    assert apart, done.stdout
    assert float(apart[1]) < 30, done.stdout


def test_there_is_some_memory() -> None:
    assert 1e6 < memory.available() < 1e15


@pytest.mark.parametrize(
    ("n", "m", "minibatch", "copies", "gigabytes"),
    [
        (2_000_000, 200, True, 1, "3.2"),
        (2_000_000, 200, True, 2, "6.5"),
        (10**9, 9, False, 1, "16"),
    ],
)
def test_ep_is_refused_with_the_number_it_needs(
    n, m, minibatch, copies, gigabytes, monkeypatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    with pytest.raises(NotEnoughMemory, match=rf"EP needs {gigabytes}.* GB .* 1\.0 GB") as error:
        memory.check_sites(METHODS["ep"], n, m, minibatch, copies=copies)
    assert "use method='sep'" in str(error.value)
    assert_one_sentence(str(error.value))


def test_ep_starts_if_there_is_room(monkeypatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 10**10)
    memory.check_sites(METHODS["ep"], 2_000_000, 200, True)


@pytest.mark.parametrize("source", ["array", "stream"])
def test_ep_is_refused_before_it_starts(source, tmp_path, monkeypatch) -> None:
    X, y = blobs(400)
    model = quick(method="ep", batch_size=50).fit(X, y)
    before = model.predict_proba(X)
    given, named = (X, y), {}
    if source == "stream":
        monkeypatch.setattr(stream_source, "MEMORY", 4096)
        path = tmp_path / "rows.parquet"
        columns = {f"x{i}": column for i, column in enumerate(X.T)}
        pq.write_table(pa.table({**columns, "y": y}), path)
        given, named = (path,), {"target": "y"}
    monkeypatch.setattr(memory, "available", lambda: 20_000)
    monkeypatch.setattr(memory, "LEAST", 0)
    with pytest.raises(NotEnoughMemory, match="400 rows and 10 inducing points"):
        model.fit(*given, **named)
    assert_array_equal(model.predict_proba(X), before)
    quick(batch_size=50).fit(*given, **named)  # SEP needs no such room
    assert np.isfinite(before).all()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 76.3 MiB for an array with shape (10,) and type int64"),
        RuntimeError("can't allocate memory: you tried to allocate 1600 bytes"),
    ],
    ids=["nothing", "numpy", "torch"],
)
def test_a_lack_of_memory_was_an_error_of_nothing(error, monkeypatch) -> None:
    def fail(*arguments):
        raise error

    monkeypatch.setattr(fit, "fit_data", fail)
    with pytest.raises(NotEnoughMemory, match=r"process cannot have .* memory.*; use") as found:
        quick().fit(*blobs())
    assert_one_sentence(str(found.value))


def test_the_limit_of_a_process_was_not_heeded(monkeypatch) -> None:
    resource = pytest.importorskip("resource")
    used = psutil.Process().memory_info().vms
    monkeypatch.setattr(resource, "getrlimit", lambda which: (used + 5_000_000, -1))
    assert memory.available() < 6_000_000
    with pytest.raises(NotEnoughMemory, match=r"may have \d MB more memory.*; raise") as found:
        quick().fit(*blobs())
    assert_one_sentence(str(found.value))
