"""Computing on a Dask cluster: functions of `sepgp.backends` as tasks of its scheduler.

Nothing is scattered: every value is the result of a task, so that Dask computes it again when a
worker is lost. Workers do not talk to each other but to fetch values.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

import dask
import distributed
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from sepgp import __version__
from sepgp.backends.backend import Handle
from sepgp.errors import ClusterLost, InvalidParameter, NotEnoughMemory
from sepgp.training.memory import keep_freed_memory

GONE = (CancelledError, CommClosedError)
"""What Dask raises when its scheduler does not answer any more ..."""
PERHAPS_GONE = (OSError, RuntimeError)
"""... and when it cannot be found again, or for other reasons."""
VERSION = "__import__('sepgp').__version__"
"""What a worker evaluates, which a function of sepgp could not ask if the worker lacks it."""


class Cluster:
    """Computes on the workers of a Dask client."""

    def __init__(self, client: distributed.Client) -> None:
        if client.asynchronous:
            raise InvalidParameter(
                "client is asynchronous, and fit waits for its results; make it by "
                "Client(..., asynchronous=False)."
            )
        self._client, self._name = client, uuid.uuid4().hex[:8]
        self._calls = 0
        self._threads: dict[str, int] = {}
        self._homes: list[str] = []
        self._coming: dict[str, asyncio.Task[Any]] = {}
        self._renew()
        if not self._threads:
            raise InvalidParameter(
                "client has no workers; start some, for example by cluster.scale(2)."
            )

    @property
    def slots(self) -> int:
        """The threads of all workers."""
        return max(1, sum(self._threads.values()))

    def place(self, n_parts: int) -> None:
        """Give each part a worker; those of workers that are lost, or came late, change hands."""
        self._renew()
        self._homes = assigned(self._homes, n_parts, self._threads)

    def call(
        self, name: str, function: Callable[..., Any], *arguments: Any, part: int | None = None
    ) -> Handle:
        """The task of a function; the dashboard shows it as sepgp-name.

        Tasks are sent together, by `keep` or `results`: each message to the scheduler costs as much
        as many tasks, and may have to wait for some milliseconds.
        """
        self._calls += 1
        where: dict[str, Any] = {}
        if part is not None and self._homes:
            where = {"workers": [self._homes[part]], "allow_other_workers": True}
        key = f"sepgp-{name}-{self._name}-{self._calls}"
        with dask.annotate(**where):
            return ON_WORKER(function, *arguments, dask_key_name=key)

    def keep(self, handles: Sequence[Handle]) -> list[Handle]:
        """Futures of tasks, which are sent in one message."""
        with self._reached():
            return list(self._client.compute(list(handles), optimize_graph=False))

    def first(self, handles: Sequence[Handle], count: int) -> dict[int, Any]:
        """Values of tasks, by their place, once so many are here; the others are on their way."""
        if count >= len(handles) and not self._coming:
            return dict(enumerate(self.results(handles)))
        with self._reached():
            found: dict[int, Any] = self._client.sync(self._arrived, handles, count)
        return found

    async def _arrived(self, handles: Sequence[distributed.Future], count: int) -> dict[int, Any]:
        """Ask once for each value, however often it is waited for."""
        for handle in handles:
            if handle.key not in self._coming:
                self._coming[handle.key] = value = asyncio.ensure_future(self._value(handle))
                value.add_done_callback(_seen)
        coming = [self._coming[handle.key] for handle in handles]
        while sum(value.done() for value in coming) < count:
            waiting = [value for value in coming if not value.done()]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        done = [place for place, value in enumerate(coming) if value.done()]
        return {place: self._coming.pop(handles[place].key).result() for place in done}

    async def _value(self, handle: distributed.Future) -> Any:
        """The value of one task.

        That it is done is not enough: a worker that stands still does not hand it over. The client
        would ask for several values at once, and wait for all of them.
        """
        with self._client.as_current():
            await distributed.wait([handle])
        if handle.status == "finished":
            answer = await self._client.scheduler.gather(keys=[handle.key])
            if answer["status"] == "OK":
                return answer["data"][handle.key]
        return await self._client.gather(handle)

    def results(self, handles: Sequence[Handle]) -> list[Any]:
        """The values of tasks, wherever they are."""
        with self._reached():
            return list(self._client.gather(self.keep(handles)))

    def _renew(self) -> None:
        """Who works now; refuse workers with another version of sepgp."""
        with self._reached():
            threads = self._client.nthreads()
            new = [address for address in threads if address not in self._threads]
            if new:
                found = self._client.run(eval, VERSION, workers=new, on_error="return")
                same_version(found)
        self._threads = dict(threads)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except KilledWorker as error:
            raise NotEnoughMemory(
                f"Workers were lost again and again in the task {error.task}, most likely for lack "
                "of memory; give them more of it, or raise n_parts so that each part is smaller."
            ) from error
        except (*GONE, *PERHAPS_GONE) as error:
            if not isinstance(error, GONE) and self._client.status == "running":
                raise
            raise ClusterLost(
                "The Dask scheduler does not answer any more; what was learned until then is in "
                "the model and in the checkpoint, if there is one: call fit again with a client "
                "that works."
            ) from error


def _seen(value: asyncio.Task[Any]) -> None:
    """Let a failure that nobody waits for, after that of another value, pass without a log."""
    if not value.cancelled():
        value.exception()


def on_worker(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on a worker.

    Dask lets processes give back every freed block at once, and a training step frees and takes
    thirty of them; a process that is a worker's own keeps them instead.
    """
    if distributed.get_worker().nanny is not None:
        keep_freed_memory()
    return function(*arguments)


ON_WORKER = dask.delayed(on_worker, pure=False, traverse=False)


def same_version(found: Mapping[str, Any]) -> None:
    """Refuse workers, by address, that have another version of sepgp than is here, or none."""
    for address, version in found.items():
        if isinstance(version, ModuleNotFoundError):
            raise InvalidParameter(
                f"The worker {address} has no sepgp; install version {__version__} on all workers."
            )
        if isinstance(version, str) and version != __version__:
            raise InvalidParameter(
                f"The worker {address} has sepgp {version}, and this is {__version__}; install the "
                "same version everywhere."
            )


def assigned(homes: Sequence[str], n_parts: int, threads: Mapping[str, int]) -> list[str]:
    """A worker for each part, by the number of their threads; parts stay where they can.

    Neighbouring parts go to one worker, since that is how Dask places what it reads.
    """
    slots = [address for address, count in threads.items() for _ in range(max(1, count))]
    if not slots:
        return list(homes)
    if len(homes) != n_parts:
        return [slots[part * len(slots) // n_parts] for part in range(n_parts)]
    room = dict.fromkeys(slots, 0)
    for number in range(n_parts):
        room[slots[number * len(slots) // n_parts]] += 1
    kept: list[str | None] = []
    for home in homes:
        stays = room.get(home, 0) > 0
        kept.append(home if stays else None)
        if stays:
            room[home] -= 1
    free = iter([address for address, count in room.items() for _ in range(count)])
    return [next(free) if home is None else home for home in kept]
