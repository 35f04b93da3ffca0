"""The examples and the scripts that draw the pictures of the documentation run, in small."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SMALL = {
    "uncertainty_map": {"n_rows": 60, "size": 10, "max_iter": 5},
    "imbalanced": {"n_rows": 1000, "max_iter": 5},
    "streaming": {"n_files": 2, "n_rows": 500, "max_iter": 5},
    "online": {"n_days": 3, "n_rows": 50},
    "pipeline": {"max_iter": 3, "lengthscales": (1.0, 3.0)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_example_runs(name, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"](**SMALL[name])
    assert capsys.readouterr().out


def test_every_example_is_run() -> None:
    found = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert found == {*SMALL, "digits"}  # `make demo` runs the digits


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "pictures").glob("*.py")), ids=lambda p: p.stem
)
def test_picture_is_drawn(path, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", [path.name, "--small", "--out", str(tmp_path)])
    runpy.run_path(str(path), run_name="__main__")
    assert (tmp_path / f"{path.stem}.png").stat().st_size > 0
