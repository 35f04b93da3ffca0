"""Checkpoints: a training run that was stopped goes on as if it had never been."""

import math
import os
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch

from sepgp.errors import InvalidData, InvalidParameter, WriteFailed, brief
from sepgp.files import tensors as persistence
from sepgp.files.atomic import remove_leftovers
from sepgp.files.content import DAMAGE
from sepgp.training.monitor import Best
from sepgp.training.record import Record
from sepgp.training.settings import Settings
from sepgp.training.step import TrainingState

FORMAT = "sepgp checkpoint 4"
Identity = dict[str, tuple[str, str]]
"""What tells a run from others: by name, a value as people read it, and its digest."""


LIMITS = ("max_iter", "time_budget", "tol", "early_stopping")
"""Settings that say when a run ends: with others of these it is the same run, and goes on."""
PLAN = ("max_iter", "time_budget")
"""Those that more than the end depends on: which rows are held out, which kernel is taken, …"""


def identity(**values: Any) -> Identity:
    """The identity of a run with these values: by what they are, not by how they print."""
    return {name: (repr(value), joblib.hash(_plain(value))) for name, value in values.items()}


def _plain(value: Any) -> Any:
    """A value in terms of plain Python and arrays, equal for equal values in any process."""
    if isinstance(value, np.random.RandomState):
        return [_plain(part) for part in value.get_state(legacy=True)]
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, torch.nn.Module):
        scalars = (bool, int, float, str, tuple)
        parts = {
            (path, type(module).__qualname__): {
                name: v for name, v in vars(module).items() if isinstance(v, scalars)
            }
            for path, module in value.named_modules()
        }
        return parts, {name: _plain(tensor) for name, tensor in value.state_dict().items()}
    if hasattr(value, "get_params"):  # a classifier
        return type(value).__qualname__, _plain(value.get_params(deep=False))
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, str | int | float) else np.asarray(value)


class Checkpoint:
    """A file that follows a training run.

    It holds the state of training, the best model so far, the history, the seed and thereby the
    position in the data, and what identifies the run: the rows and the settings. A run with
    another identity is refused; one with other limits goes on, even if it was finished.

    Parameters
    ----------
    path : path
        Of the file. If it is there, the run goes on from it.
    every : float
        Seconds from one writing to the next.
    """

    def __init__(self, path: str | os.PathLike[str], every: float) -> None:
        self._path, self._every = Path(path), every
        self._tensors: dict[str, torch.Tensor] = {}
        self._header: dict[str, Any] | None = None
        self._identity: Identity = {}
        self._plan: dict[str, Any] = {}
        self._seed = 0
        self._start: torch.Tensor = torch.empty(0)
        self._written = 0.0
        remove_leftovers(self._path)
        if self._path.exists():
            self._tensors, self._header = persistence.read(
                self._path, "name another file, or remove it if it is a checkpoint"
            )
            if not isinstance(self._header, dict) or self._header.get("format") != FORMAT:
                raise InvalidData(
                    f"{self._path} is not a checkpoint that this version can go on from; "
                    "remove it or name another file."
                )
            try:
                self._check(self._tensors, self._header)
            except DAMAGE as error:
                raise self.damaged() from error

    @staticmethod
    def _check(tensors: dict[str, torch.Tensor], header: dict[str, Any]) -> None:
        """Raise an error if a file has not what a run needs before it knows its own shape."""
        (m, d), seed = tensors["start"].shape, header["seed"]
        right = m > 0 and d > 0 and tensors["sites.Lambda"].shape[-2:] == (m, m)
        right &= tensors["start"].dtype == torch.float64 and persistence.finite(tensors["start"])
        right &= all(len(named) == 2 for named in header["identity"].values())
        right &= set(header["plan"]) == set(PLAN)
        right &= all(v is None or isinstance(v, int | float) for v in header["plan"].values())
        right &= isinstance(seed, int) and 0 <= seed < 2**31
        if not right:
            raise ValueError("its parts do not belong together")

    def damaged(self) -> InvalidData:
        """The complaint about a file that no run can go on from."""
        return InvalidData(f"{self._path} is damaged; remove it or name another file.")

    @property
    def finished(self) -> bool:
        """Whether the run in the file came to its end."""
        return self._header is not None and bool(self._header.get("finished"))

    @property
    def seed(self) -> int | None:
        """The seed of the run in the file; None if there is no file."""
        return None if self._header is None else int(self._header["seed"])

    @property
    def start(self) -> torch.Tensor | None:
        """Where the inducing points of the run in the file started, shape (m, d), or None."""
        return self._tensors.get("start")

    def as_planned(self, settings: Settings) -> Settings:
        """The settings with the steps and seconds that the run in the file began with.

        What was decided by them at first stays as it was when the run goes on with others.
        """
        if self._header is not None:
            self._plan = self._header["plan"]
        else:
            plan = {name: getattr(settings, name) for name in PLAN}
            self._plan = {k: v.item() if isinstance(v, np.generic) else v for k, v in plan.items()}
        return replace(settings, **self._plan)

    def value(self, name: str) -> str | None:
        """A value that identifies the run in the file, as people read it; None if unknown."""
        known: Identity = {} if self._header is None else self._header["identity"]
        return known[name][0] if name in known else None

    def identify(self, identity: "Identity", seed: int, start: torch.Tensor) -> None:
        """Say what run this is, and refuse the file if it belongs to another one."""
        self._identity, self._seed, self._start = identity, seed, start
        if self._header is None:
            return
        known = self._header["identity"]
        for name, (text, digest) in identity.items():
            other, other_digest = known.get(name, (None, None))
            if other_digest == digest:
                continue
            if name in LIMITS:
                self._header["finished"] = False
                continue
            if name == "data":
                raise InvalidParameter(
                    f"checkpoint={str(self._path)!r} belongs to a run on other rows; "
                    "give the same rows, or name another file."
                )
            belongs = f"checkpoint={str(self._path)!r} belongs to a run with"
            if other == text:
                raise InvalidParameter(
                    f"{belongs} another {name} that looks alike; use the same values, or name "
                    "another file."
                )
            raise InvalidParameter(
                f"{belongs} {name}={brief(str(other))}, not {brief(text)}; "
                "use the same setting, or name another file."
            )

    def resume(self, state: TrainingState) -> tuple[TrainingState, list[Record], float, bool]:
        """State, history, seconds so far, and whether the run in the file is finished.

        Without a file: the state as it is, written at once, so that a place that cannot be written
        to is found before any work is done.
        """
        if self._header is None:
            self.save(state, [], 0.0)
            return state, [], 0.0, False
        tensors, header = self._tensors, self._header
        try:
            sites = persistence.filled(state.sites, "sites", tensors, header)
            optimizer = persistence.filled(state.optimizer, "optimizer", tensors, header)
            best = None
            if "best.nll" in header:
                like = Best(0, 0.0, state.xi, state.sites.Lambda, state.sites.b)
                best = persistence.filled(like, "best", tensors, header)
            state = persistence.filled(_flat(state), "state", tensors, header)
            kinds = [Record.__annotations__[name] for name in Record._fields]
            history = [
                Record(*(kind(value) for kind, value in zip(kinds, row, strict=True)))
                for row in tensors["history"].tolist()
            ]
            seconds, finished = float(header["seconds"]), bool(header["finished"])
            if not 0 <= seconds < math.inf or (finished and not history):
                raise ValueError("a run cannot have ended like this")
        except DAMAGE as error:
            raise self.damaged() from error
        self._tensors = {}
        self._written = time.monotonic()
        state = state._replace(sites=sites, optimizer=optimizer, best=best)
        return state, history, seconds, finished

    def save(
        self,
        state: TrainingState,
        history: list[Record],
        seconds: float,
        finished: bool = False,
        ending: bool = False,
    ) -> None:
        """Write the file. Cost: as many numbers as the state has, and the history.

        At the end of a run, one that cannot be written is a warning: its model is here.
        """
        tensors = {"start": self._start, "history": torch.tensor(history, dtype=torch.float64)}
        header = {
            "format": FORMAT,
            "identity": self._identity,
            "plan": self._plan,
            "seed": self._seed,
            "seconds": seconds,
            "finished": finished,
        }
        parts = {"state": _flat(state), "sites": state.sites, "optimizer": state.optimizer}
        if state.best is not None:
            parts["best"] = state.best
        for prefix, values in parts.items():
            more, others = persistence.flat(prefix, values._asdict())
            tensors |= more
            header |= others
        try:
            persistence.write(self._path, tensors, header)
        except WriteFailed as error:
            if not (finished or ending):
                raise
            warnings.warn(f"The training is over and its model kept, but {error}", stacklevel=2)
        self._written = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._written >= self._every


def _flat(state: TrainingState) -> TrainingState:
    """The state without the tuples inside it."""
    return state._replace(sites=None, optimizer=None, best=None)
