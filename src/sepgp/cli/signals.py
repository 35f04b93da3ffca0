"""Signals that ask a command to end: SIGINT, which is Ctrl-C, and SIGTERM."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sepgp.classifier import GPClassifier
    from sepgp.training.record import Record


def code(number: int) -> int:
    """The exit code of a command that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + number


def end(number: int, frame: FrameType | None) -> None:
    """End the command now; files that are half written are removed on the way out."""
    print("Stopped.", file=sys.stderr)
    raise SystemExit(code(number))


@contextmanager
def handled(handler: Callable[[int, FrameType | None], None], *numbers: int) -> Iterator[None]:
    """Let a function handle these signals."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def stoppable(
    model: "GPClassifier", at_first_step: Callable[[], None], too_early: Callable[[], None]
) -> Iterator[list[int]]:
    """Let a signal end training after the step under way; the list then has its number.

    Before the first step there is nothing to keep: after `too_early` a signal ends the command, as
    a second one does.
    """
    stopped: list[int] = []
    begun = False

    def stop(number: int, frame: FrameType | None) -> None:
        if not begun:
            too_early()
        if stopped or not begun:
            end(number, frame)
        stopped.append(number)

    def after_step(record: "Record") -> bool:
        nonlocal begun
        if not begun:
            begun = True
            at_first_step()
        return bool(stopped)

    model.callbacks = [after_step]
    try:
        with handled(stop, signal.SIGINT, signal.SIGTERM):
            yield stopped
    finally:
        model.callbacks = None
