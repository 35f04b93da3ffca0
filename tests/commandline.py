"""The command line in this process, and as a process."""

import contextlib
import io
import os
import subprocess
import sys
import warnings
from unittest.mock import patch

from sepgp.cli.main import main

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


def run(*arguments, cwd=".", input=""):
    """Run `sepgp` with these arguments in this process; the result is like that of a process."""
    streams = [io.TextIOWrapper(io.BytesIO(text)) for text in (input.encode(), b"", b"")]
    with (
        contextlib.redirect_stdout(streams[1]),
        contextlib.redirect_stderr(streams[2]),
        contextlib.chdir(cwd),
        patch.object(sys, "stdin", streams[0]),
        patch.dict(os.environ, COLUMNS="120"),
        warnings.catch_warnings(action="default"),
    ):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code or 0
    for stream in streams[1:]:
        stream.flush()
    said = (stream.buffer.getvalue().decode() for stream in streams[1:])
    return subprocess.CompletedProcess(arguments, code, *said)


def process(*arguments, **options):
    """Run `sepgp` with these arguments as a process."""
    command = [sys.executable, "-m", "sepgp", *map(str, arguments)]
    given = {"capture_output": True, "text": True, "env": ENVIRONMENT} | options
    return subprocess.run(command, check=False, **given)


def assert_one_line(done, match: str, code: int = 1) -> None:
    """A mistake: one line on standard error, no traceback, this exit code."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().split("\n")
    assert match in lines[-1], done.stderr
    assert len(lines) == 1, done.stderr
