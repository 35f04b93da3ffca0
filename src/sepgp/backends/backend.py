"""Who computes: in this process here, and on a cluster in `sepgp.backends.cluster`."""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

FAN_IN = 8
"""Values that are added at a time."""

Handle = Any
"""A value that is computed, or will be: an argument for other calls."""


class Backend(Protocol):
    """Calls functions that depend on their arguments alone, so that they can be called again."""

    @property
    def slots(self) -> int:
        """How many calls go on at the same time."""
        ...

    def place(self, n_parts: int) -> None:
        """Choose where each of so many parts is worked on."""
        ...

    def call(
        self, name: str, function: Callable[..., Any], *arguments: Any, part: int | None = None
    ) -> Handle:
        """Call a function, near a part if one is named; arguments may be handles.

        `name` is what people see of it.
        """
        ...

    def first(self, handles: Sequence[Handle], count: int) -> list[bool]:
        """Wait until so many handles have a value, and say which ones have."""
        ...

    def result(self, handle: Handle) -> Any:
        """The value of a handle."""
        ...


class Here:
    """Computes in this process, one call after the other."""

    slots = 1

    def place(self, n_parts: int) -> None:
        """There is one place."""

    def call(
        self, name: str, function: Callable[..., Any], *arguments: Any, part: int | None = None
    ) -> Handle:
        """The value itself."""
        return function(*arguments)

    def first(self, handles: Sequence[Handle], count: int) -> list[bool]:
        """All of them have a value."""
        return [True] * len(handles)

    def result(self, handle: Handle) -> Any:
        """The value, which is its own handle."""
        return handle


def tree_sum(backend: Backend, name: str, handles: Sequence[Handle]) -> Handle:
    """The sum of values with `+`, in an order that depends on their number alone."""
    handles = list(handles)
    while len(handles) > 1:
        groups = [handles[i : i + FAN_IN] for i in range(0, len(handles), FAN_IN)]
        handles = [backend.call(name, added, *group) for group in groups]
    return handles[0]


def added(*values: Any) -> Any:
    """The sum of some values."""
    return functools.reduce(operator.add, values)


def itself(value: Any) -> Any:
    """A value as the result of a call, so that it is sent once for all who need it."""
    return value
