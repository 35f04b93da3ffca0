"""Model files that earlier versions wrote, as they wrote them: see `samples/make.py`."""

from pathlib import Path

import pandas as pd
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import sepgp
from sepgp.cli.main import app
from sepgp.files import tensors as persistence
from sepgp.files.model import VERSION

SAMPLES = Path(__file__).parent / "samples"
VERSIONS = range(1, VERSION + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_of_an_earlier_version_predicts_what_it_did(version) -> None:
    path = SAMPLES / f"version-{version}.csv"
    ((mean, variance),) = sepgp.load(SAMPLES / f"version-{version}.sepgp").predict_latent(path)
    expected = pd.read_csv(path)
    assert expected[["age", "city", "since"]].isna().any().all()
    assert_allclose(mean, expected["mean"], rtol=1e-12, atol=1e-12)
    assert_allclose(variance, expected["variance"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_of_an_earlier_version_is_described(version) -> None:
    done = CliRunner().invoke(app, ["info", str(SAMPLES / f"version-{version}.sepgp")])
    assert done.exit_code == 0
    for words in ("SEP, float64", "no and yes", "defaulted", "4, as 16 features", "20 steps"):
        assert words in done.output
    assert {"age", "city", "since", "member"} <= set(done.output.split())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_of_an_earlier_version_says_so(version) -> None:
    _, header = persistence.read(SAMPLES / f"version-{version}.sepgp")
    assert header["version"] == version


def test_a_sample_is_small_and_holds_no_training_row() -> None:
    path = SAMPLES / f"version-{VERSION}.sepgp"
    assert path.stat().st_size < 12_000
    tensors, _ = persistence.read(path)
    learned = {"Z": (5, 16), "Lambda": (5, 5), "b": (5,), "beta": (5,), "F": (5, 5)}
    scaling = {"mean": (16,), "scale": (16,)}
    kernel = {"kernel.log_lengthscale2": (16,), "kernel.log_variance": ()}
    moments = {"moments.first": (5 * 16 + 18,), "moments.second": (5 * 16 + 18,)}
    assert len(tensors.pop("classifiers")) < 3_000  # of a naive Bayes: means and variances
    shapes = learned | scaling | kernel | moments | {"history": (20, 10)}
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == shapes
