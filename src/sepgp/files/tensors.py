"""Files of tensors and JSON that are never half written and never run code when they are read."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as decode
from safetensors.torch import save as encode
from torch import Tensor

from sepgp.data.batches import aligned
from sepgp.errors import InvalidData, reason
from sepgp.files.atomic import replacing

KEY, DIGEST = "sepgp", "sha256"
"""The entries of the file's header that hold the JSON, and the digest of all that is in it."""
DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    SafetensorError,
    TypeError,
    ValueError,
)
"""What goes wrong when something is read that `write` did not write."""


def write(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], header: Any) -> None:
    """Write tensors and a header, a JSON object, to a safetensors file."""
    # Copies, since tensors of one file must not share memory.
    copies = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    text = json.dumps(header)
    # Not by `save_file`, whose own temporary file nobody would remove if the process was killed.
    content = encode(copies, {KEY: text, DIGEST: _digest(copies, text)})
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def read(
    path: str | os.PathLike[str], remedy: str = "name another file"
) -> tuple[dict[str, Tensor], Any]:
    """The tensors and the header of a file that `write` wrote; `remedy` is for one it did not."""
    try:
        # All bytes at once: another process may replace the file between two looks at it.
        content = Path(path).read_bytes()
        tensors = decode(content)
        length = int.from_bytes(content[:8], "little")
        entries = json.loads(content[8 : 8 + length])["__metadata__"]
        if entries[DIGEST] != _digest(tensors, entries[KEY]):
            raise ValueError("the digest is another")
        header = json.loads(entries[KEY])
        json.dumps(header, ensure_ascii=False).encode()  # half a character is an error here
        return tensors, header
    except OSError as error:
        raise InvalidData(f"{path} cannot be read ({reason(error)}); check the path.") from error
    except DAMAGE as error:
        raise InvalidData(f"{path} is damaged or was not written by sepgp; {remedy}.") from error


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    total = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()


def flat(prefix: str, values: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors among some values by name, and the others by name."""
    named = {f"{prefix}.{name}": value for name, value in values.items()}
    tensors = {name: value for name, value in named.items() if isinstance(value, Tensor)}
    return tensors, {name: value for name, value in named.items() if name not in tensors}


def filled(template: Any, prefix: str, tensors: Mapping[str, Tensor], header: Any) -> Any:
    """A NamedTuple like the template, with the values that `flat` gave; else a ValueError."""
    values: dict[str, Any] = {}
    for name, old in template._asdict().items():
        key = f"{prefix}.{name}"
        if isinstance(old, Tensor):
            tensor = tensors[key]
            if tensor.shape != old.shape or tensor.dtype != old.dtype or not finite(tensor):
                raise ValueError(f"{key} has another shape or is not finite")
            values[name] = aligned(tensor.to(old.device))
        else:
            values[name] = header[key]
            count = values[name] if isinstance(old, int) else 0
            if type(values[name]) is not type(old) or not 0 <= count < 2**53:
                raise ValueError(f"{key} cannot be {values[name]!r}")
    return template._replace(**values)


def finite(tensor: Tensor) -> bool:
    """Whether a tensor holds neither NaN nor infinity."""
    return bool(torch.isfinite(tensor).all())
