"""Products of matrices, in float32 by the faster of the two libraries that torch brings.

Torch takes them to MKL, which has AVX-512 on processors of Intel alone. Those of AMD have it since
Zen 4, and there oneDNN is twice as fast. For float64 it has nothing.
"""

import functools
import platform
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

WORTH = 2**21
"""Multiplications from which on oneDNN, which takes longer to begin, is the faster one."""
NARROW = 16
"""Columns of A from which on a product that is added to another matrix is faster there too."""
ROUND = (50, 64)
"""It makes a program for every shape, which takes half a millisecond and half a megabyte, and keeps
about a thousand of them. So it only gets multiples of one of these as numbers of rows: nearly all
batches and chunks have the same few, and of those at an end, which may have any number of rows, few
are multiples."""
CPUINFO = Path("/proc/cpuinfo")

Transposed = Callable[[Tensor, Tensor], Tensor]
"""A Wᵀ for A, shape (…, a, k), and W, shape (b, k)."""


def rounded(n_rows: int) -> int:
    """The next lower multiple; the number itself if there is none but 0."""
    return max(n_rows - n_rows % unit for unit in ROUND) if n_rows >= min(ROUND) else n_rows


def next_round(n_rows: int) -> int:
    """The next higher multiple."""
    return min(n_rows - n_rows % unit + unit for unit in ROUND)


def product(A: Tensor, B: Tensor) -> Tensor:
    """A B for A, shape (…, a, k), and B, shape (k, b), with a column for each of b rows of data."""
    linear = _faster(A, B, B.shape[-1])
    return A @ B if linear is None else linear(A, B.T)


def add_product_(C: Tensor, A: Tensor, B: Tensor, alpha: float) -> Tensor:
    """C + α A B in the place of C, shape (a, b), otherwise as `product`."""
    linear = _faster(A, B, B.shape[-1]) if A.shape[-1] >= NARROW else None
    return C.addmm_(A, B, alpha=alpha) if linear is None else C.add_(linear(A, B.T), alpha=alpha)


def product_over_rows(A: Tensor, B: Tensor) -> Tensor:
    """A Bᵀ for A, shape (…, a, b), and B, shape (k, b), with a column for each of b rows of data.

    By MKL a product is faster with its larger matrix on the right, so it may be taken transposed.
    """
    linear = _faster(A, B, B.shape[-2])
    if linear is not None:
        return linear(A, B)
    return (B @ A.mT).mT if len(B) < len(A) and A.ndim == B.ndim == 2 else A @ B.mT


def _faster(A: Tensor, B: Tensor, width: int) -> Transposed | None:
    """What is faster than `@` with a product of A and B that is so wide; None if nothing is."""
    if A.dtype != torch.float32 or A.device.type != "cpu" or A.ndim < 2 or B.ndim != 2:
        return None
    if torch.is_grad_enabled() and (A.requires_grad or B.requires_grad):  # it has no derivative
        return None
    few_shapes = any(B.shape[1] % unit == 0 for unit in ROUND)
    worth = A.numel() * width >= WORTH and torch.backends.mkldnn.enabled
    return _by_onednn() if few_shapes and worth else None


@functools.cache
def _by_onednn() -> Transposed | None:
    """The product by oneDNN, where it is the faster library; None elsewhere."""
    both = torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    if not (both and _has_avx512() and _is_amd()):
        return None
    try:
        linear = torch.ops.mkldnn._linear_pointwise.default
        eye = torch.eye(2, dtype=torch.float32, device="cpu")
        works = torch.equal(linear(eye, eye, None, "none", [], ""), eye)
    except (AttributeError, RuntimeError, TypeError):  # torch does not promise to keep it
        return None

    def transposed(A: Tensor, W: Tensor) -> Tensor:
        found: Tensor = linear(A, W, None, "none", [], "")
        return found

    return transposed if works else None


def _has_avx512() -> bool:
    """Whether torch uses AVX-512 here; `ATEN_CPU_CAPABILITY` may keep it from that."""
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512")


def _is_amd() -> bool:
    """Whether the processor is one of AMD's, as far as Linux and Windows say."""
    try:
        return "AuthenticAMD" in CPUINFO.read_text()
    except OSError:
        return "AuthenticAMD" in platform.processor()
