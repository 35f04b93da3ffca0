"""Values with tensors on their way between processes."""

import io
import pickle
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

PROTOCOL = 5
"""The first of pickle's that leaves large buffers where they are."""


class Parcel:
    """A value whose tensors are pickled as arrays, without a copy, wherever they are in it.

    Torch writes an archive for each tensor: half a millisecond for a state of m = 200, several
    times in a round, of processors that others wait for.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As arrays for those who can do without copies, as usual for others."""
        if protocol < PROTOCOL:
            return super().__reduce_ex__(protocol)
        file, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
        _Pickler(file, PROTOCOL, buffer_callback=buffers.append).dump(vars(self))
        return _opened, (type(self), file.getvalue(), buffers)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if type(value) is not Tensor or value.device.type != "cpu":
            return NotImplemented
        return _tensor, (value.detach().numpy(),)


def _tensor(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(values if values.flags.writeable else values.copy())


def _opened(kind: type, content: bytes, buffers: list[Any]) -> Any:
    parcel: Any = object.__new__(kind)
    parcel.__dict__.update(pickle.loads(content, buffers=buffers))
    return parcel
