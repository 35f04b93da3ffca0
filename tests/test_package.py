"""The package as a whole: version, public names and docstrings."""

import importlib
import inspect
import json
import os
import pkgutil
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

import sepgp

ROOT = Path(__file__).resolve().parents[1]
MODULES = ["sepgp"] + [
    info.name
    for info in pkgutil.walk_packages(sepgp.__path__, "sepgp.")
    if not any(part.startswith("_") for part in info.name.split("."))
]


def public(names: dict[str, object]) -> Iterator[tuple[str, object]]:
    return ((name, value) for name, value in names.items() if not name.startswith("_"))


def documented_things(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Public functions and classes that the module defines, and the methods of those classes."""
    for name, value in public(vars(module)):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            yield name, value
            for attribute, member in public(vars(value)):
                if inspect.isroutine(member) or isinstance(member, property):
                    yield f"{name}.{attribute}", getattr(value, attribute)


def has_docstring(thing: object) -> bool:
    text = inspect.getdoc(thing) or ""  # an overriding method inherits its own
    # A dataclass or named tuple without a docstring is given its signature for one.
    generated = inspect.isclass(thing) and text.startswith(f"{thing.__name__}(")
    return bool(text) and not generated


def test_version_is_the_installed_one():
    assert isinstance(sepgp.__version__, str)
    assert sepgp.__version__ == metadata.version("sepgp")


def test_all_names_exist():
    assert sepgp.__all__
    assert all(hasattr(sepgp, name) for name in sepgp.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_has_a_docstring(name):
    module = importlib.import_module(name)
    missing = [label for label, thing in documented_things(module) if not has_docstring(thing)]
    assert not missing, f"{name} has no docstring for {', '.join(missing)}"


@pytest.mark.slow
@pytest.mark.process
def test_predictions_have_precise_types():
    command = [sys.executable, "-m", "mypy", "tests/typed.py", "--no-error-summary"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    kept = ("src", "pyproject.toml", "README.md", "LICENSE")
    for name in kept:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "."]
    subprocess.run([*pip, "-w", "dist"], cwd=folder, check=True, capture_output=True)
    return next((folder / "dist").glob("*.whl"))


@pytest.mark.slow
@pytest.mark.process
def test_the_wheel_passes_twine(wheel):
    command = [sys.executable, "-m", "twine", "check", "--strict", wheel]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        said = content.read(next(n for n in names if n.endswith("METADATA"))).decode()
    assert {"sepgp/py.typed", "sepgp/report/page.html"} <= set(names)
    for line in ("Project-URL: Source", "Classifier: Typing", "Provides-Extra: onnx"):
        assert line in said


@pytest.mark.slow
@pytest.mark.process
def test_the_wheel_works_in_an_empty_environment(wheel, tmp_path):
    """Its own files come from the wheel; its dependencies, which are gigabytes, from here."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    packages = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", packages, wheel]
    subprocess.run(pip, check=True, capture_output=True)
    here = [path for path in sys.path if path.endswith("site-packages")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), *here])}
    script = """if True:
        import sepgp
        from sepgp import report
        from sklearn.datasets import load_iris
        X, y = load_iris(return_X_y=True)
        sepgp.GPClassifier(n_inducing=10, max_iter=5).fit(X, y).save("m.sepgp")
        report.write(sepgp.load("m.sepgp"), X, y, "r.html")
        print(sepgp.__file__)
    """
    done = subprocess.run(
        [python, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert str(packages) in done.stdout
    command = [python, "-m", "sepgp", "info", "m.sepgp", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert json.loads(done.stdout)["n_inducing"] == 10
