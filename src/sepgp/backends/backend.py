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
        """The call of a function, near a part if one is named; arguments may be handles.

        It may wait until its value is asked for, and is then forgotten. `name` is what people see
        of it.
        """
        ...

    def keep(self, handles: Sequence[Handle]) -> list[Handle]:
        """Begin with calls, and keep their values for as long as these handles are."""
        ...

    def first(self, handles: Sequence[Handle], count: int) -> dict[int, Any]:
        """Values that are kept, by their place, once so many are here."""
        ...

    def results(self, handles: Sequence[Handle]) -> list[Any]:
        """The values of handles."""
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

    def keep(self, handles: Sequence[Handle]) -> list[Handle]:
        """All of them are there."""
        return list(handles)

    def first(self, handles: Sequence[Handle], count: int) -> dict[int, Any]:
        """All of them are here."""
        return dict(enumerate(handles))

    def results(self, handles: Sequence[Handle]) -> list[Any]:
        """The values, which are their own handles."""
        return list(handles)


def tree_sum(backend: Backend, name: str, handles: Sequence[Handle]) -> Any:
    """The sum of values with `+`, in an order that depends on their number alone."""
    handles = list(handles)
    while len(handles) > 1:
        groups = [handles[i : i + FAN_IN] for i in range(0, len(handles), FAN_IN)]
        handles = [backend.call(name, added, *group) for group in groups]
    return backend.results(handles)[0]


def added(*values: Any) -> Any:
    """The sum of some values."""
    return functools.reduce(operator.add, values)


def itself(value: Any) -> Any:
    """A value as the result of a call, so that it is sent once for all who need it."""
    return value
