"""The driver's side of a contestant: a process of its own that answers requests."""

import json
import os
import selectors
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import environments

HERE = Path(__file__).parent
OWN_ENVIRONMENT = ("gpflow", "gpytorch")
"""Scripts that do not run in the project's environment."""


class Failed(RuntimeError):
    """A contestant could not do what it was asked."""


class Worker:
    """A process that runs `<script>_peer.py`; a context, which ends it."""

    def __init__(self, script: str, threads: int, log: Path) -> None:
        own = script in OWN_ENVIRONMENT
        try:
            interpreter = environments.python(script) if own else Path(sys.executable)
        except (environments.NoEnvironment, OSError) as error:
            raise Failed(str(error)) from error
        variables = dict(os.environ)
        if own:
            variables.pop("PYTHONPATH", None)
        for library in ("OMP", "MKL", "OPENBLAS"):
            variables[f"{library}_NUM_THREADS"] = str(threads)
        variables |= {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1"}
        variables["CUDA_VISIBLE_DEVICES"] = "-1"
        self._script = script
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                [interpreter, HERE / f"{script}_peer.py"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=variables,
            )

    def ask(self, task: str, patience: float = 600.0, **request: Any) -> Any:
        """The result of a task, or `Failed`; the process has `patience` seconds for it."""
        pipe, replies = self._process.stdin, self._process.stdout
        assert pipe is not None
        assert replies is not None
        try:
            print(json.dumps({"task": task, **request}), file=pipe, flush=True)
        except BrokenPipeError as error:
            raise Failed(f"{self._script} has ended; see the log") from error
        with selectors.DefaultSelector() as selector:
            selector.register(replies, selectors.EVENT_READ)
            if not selector.select(patience):
                self._process.kill()
                raise Failed(f"{self._script} gave no answer for {patience:.0f} s")
        line = replies.readline()
        if not line:
            raise Failed(f"{self._script} has ended with code {self._process.wait()}; see the log")
        reply = json.loads(line)
        if "error" in reply:
            raise Failed(reply["error"])
        return reply["result"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
