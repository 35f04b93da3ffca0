"""What a step of any method reports: log Z_q, and equation (2) as adjoints of kernel matrices."""

import math
from typing import NamedTuple

from torch import Tensor

from sepgp.gp.fitc import KernelMatrices


class Info(NamedTuple):
    """What a step reports beside the new state."""

    log_evidence: Tensor
    """Estimate of log Z_q from this batch, shape ()."""
    adjoints: KernelMatrices
    """∂ log Z_q / ∂ (Kmm, Kmb, kdiag)."""
    jitter: float
    """Relative jitter that the Cholesky factor of Kmm needed."""
    skipped: int
    """Rows whose cavity was improper, so that their site stayed as it was (EP alone)."""
    ok: bool
    """False when log Z_q or a site is not finite: the state is then the one handed in."""


def finite(*tensors: Tensor) -> bool:
    """Whether all entries of all tensors are finite. Cost O(size)."""
    return math.isfinite(sum(float(tensor.sum()) for tensor in tensors))
