"""The errors a user can cause, each raised with one sentence that names the remedy."""


class InvalidParameter(ValueError):
    """A parameter has a value that cannot be used."""


class InvalidData(ValueError):
    """The data handed in cannot be used."""


class WriteFailed(OSError):
    """A file cannot be written; what was there before is unchanged."""


class NotEnoughMemory(MemoryError):
    """The work would need more memory than there is."""
