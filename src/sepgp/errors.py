"""The errors a user can cause, each raised with one sentence that names the remedy."""


class InvalidParameter(ValueError):
    """A parameter has a value that cannot be used."""


class InvalidData(ValueError):
    """The data handed in cannot be used."""


class WriteFailed(OSError):
    """A file cannot be written; what was there before is unchanged."""


class NotEnoughMemory(MemoryError):
    """The work would need more memory than there is."""


def reason(error: BaseException) -> str:
    """What an error of another library says, as a part of a sentence."""
    said = getattr(error, "strerror", None) or error
    if type(error).__module__.startswith("pyarrow") and error.args:
        said = error.args[0]  # without the quotes that a KeyError puts around it
    said = str(said).strip().split("\n")[0].split(". ")[0].rstrip(".")
    return said if len(said) <= 120 else f"{said[:117]}..."
