"""Files of tensors and JSON that are never half written and never run code when they are read."""

import json
import os
from collections.abc import Mapping
from typing import Any

import torch
from safetensors.torch import save as encode
from torch import Tensor

from sepgp.data.batches import aligned
from sepgp.files import content
from sepgp.files.atomic import replacing
from sepgp.files.content import DIGEST as DIGEST
from sepgp.files.content import KEY as KEY


def write(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], header: Any) -> None:
    """Write tensors and a header, a JSON object, to a safetensors file."""
    # Copies, since tensors of one file must not share memory.
    copies = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    text = json.dumps(header)
    # Not by `save_file`, whose own temporary file nobody would remove if the process was killed.
    encoded = encode(copies, {KEY: text, DIGEST: _digest(copies, text)})
    with replacing(path) as temporary:
        temporary.write_bytes(encoded)


def read(
    path: str | os.PathLike[str], remedy: str = "name another file"
) -> tuple[dict[str, Tensor], Any]:
    """The tensors and the header of a file that `write` wrote; `remedy` is for one it did not."""
    arrays, header = content.read(path, remedy)
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}, header


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    return content.digest({name: tensor.numpy() for name, tensor in tensors.items()}, text)


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
