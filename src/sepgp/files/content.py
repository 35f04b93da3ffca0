"""What a file of sepgp holds, arrays and JSON, read and verified without torch."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as decode

from sepgp import __version__
from sepgp.errors import InvalidData, brief, reason

KEY, DIGEST = "sepgp", "sha256"
"""The entries of the file's header that hold the JSON, and the digest of all that is in it."""
FORMAT, VERSION = "sepgp model", 4
"""Of model files."""
DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    SafetensorError,
    TypeError,
    ValueError,
)
"""What goes wrong when something is read that sepgp did not write."""
Arrays = dict[str, NDArray[Any]]


def read(path: str | os.PathLike[str], remedy: str = "name another file") -> tuple[Arrays, Any]:
    """The arrays and the header of a file; `remedy` is for one that sepgp did not write."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # a device may never end
            raise OSError("it is not a file")
        # All bytes at once: another process may replace the file between two looks at it.
        content = Path(path).read_bytes()
        arrays = decode(content)
        length = int.from_bytes(content[:8], "little")
        entries = json.loads(content[8 : 8 + length])["__metadata__"]
        if entries[DIGEST] != digest(arrays, entries[KEY]):
            raise ValueError("the digest is another")
        header = json.loads(entries[KEY])
        json.dumps(header, ensure_ascii=False).encode()  # half a character is an error here
        return arrays, header
    except OSError as error:
        raise InvalidData(f"{path} cannot be read ({reason(error)}); check the path.") from error
    except DAMAGE as error:
        raise InvalidData(f"{path} is damaged or was not written by sepgp; {remedy}.") from error


def read_model(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and the header of a model file of this version or an earlier one."""
    arrays, header = read(path, "name a model file, and before the data")
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidData(f"{path} is not a model file of sepgp; name one that `save` wrote.")
    version = header.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise InvalidData(
            f"{path} is a model file of version {brief(str(version))}, and this is sepgp "
            f"{__version__}, which reads versions 1 to {VERSION}; update sepgp."
        )
    return arrays, header


def damaged(path: str | os.PathLike[str], error: BaseException) -> InvalidData:
    """The complaint about a file that holds no model."""
    return InvalidData(f"{path} is damaged ({reason(error)}); save the model again.")


def digest(arrays: Mapping[str, NDArray[Any]], text: str) -> str:
    """Of arrays and the text of a header."""
    total = hashlib.sha256(text.encode())
    for name, array in sorted(arrays.items()):
        total.update(f"{name} torch.{array.dtype} {tuple(array.shape)}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()
