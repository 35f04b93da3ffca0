"""The errors a user can cause, each raised with one sentence that names the remedy."""

import difflib
import re
from collections.abc import Sequence


class InvalidParameter(ValueError):
    """A parameter has a value that cannot be used."""


class InvalidData(ValueError):
    """The data handed in cannot be used."""


class WriteFailed(OSError):
    """A file cannot be written; what was there before is unchanged."""


class NotEnoughMemory(MemoryError):
    """The work would need more memory than there is."""


def out_of_memory(error: BaseException) -> NotEnoughMemory | None:
    """What to say of an error of another library that had no memory left; None for others."""
    refused = isinstance(error, RuntimeError) and "allocate memory" in str(error)
    if not refused and not isinstance(error, MemoryError):
        return None
    wanted = re.search(r"allocate (?:memory: you tried to allocate )?(\d[\d.]* ?\w*)", str(error))
    room = "the memory that is left" if wanted is None else f"{wanted[1]} more memory"
    return NotEnoughMemory(
        f"This process cannot have {room}; use fewer rows or inducing points, smaller batches "
        "(batch_size), or raise its limit (ulimit -v)."
    )


class ClusterLost(ConnectionError):
    """The cluster that a training runs on went away; what was learned until then is kept."""

    reached: object = None
    """Where the training had come to."""
    model: object = None
    """The model that it had come to."""


def nearest(name: str, names: Sequence[str]) -> str | None:
    """Which of some names a misspelt one stands for, if it is near enough to any."""
    by_case = {known.lower(): known for known in names}
    found = difflib.get_close_matches(name.lower(), by_case, 1)
    return by_case[found[0]] if found else None


def brief(text: str) -> str:
    """Text from elsewhere as a part of a sentence: on one line, and not too long."""
    text = " ".join(text.split())
    return text if len(text) <= 120 else f"{text[:117]}..."


def reason(error: BaseException) -> str:
    """What an error of another library says, as a part of a sentence."""
    said = getattr(error, "strerror", None) or error
    if type(error).__module__.startswith("pyarrow") and error.args:
        said = error.args[0]  # without the quotes that a KeyError puts around it
    return brief(str(said).strip().split("\n")[0].split(". ")[0].rstrip("."))
