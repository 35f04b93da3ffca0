"""The package as a whole: version, public names and docstrings."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from importlib import metadata
from types import ModuleType

import pytest

import sepgp

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
