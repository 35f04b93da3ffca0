"""The errors a user can cause, each raised with one sentence that names the remedy."""


class InvalidParameter(ValueError):
    """A parameter has a value that cannot be used."""


class InvalidData(ValueError):
    """The data handed in cannot be used."""
