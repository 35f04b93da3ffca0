"""One safe Cholesky factorisation for every covariance matrix in the package."""

from typing import NamedTuple

import torch
from torch import Tensor

JITTER = 1e-6
MAX_JITTER = 1e-1


class Cholesky(NamedTuple):
    """L Lᵀ = K, the matrix handed in plus jitter·(mean of its diagonal)·I.

    `ok` is False when no jitter sufficed.
    """

    L: Tensor
    K: Tensor
    jitter: float
    ok: bool


def safe_cholesky(K: Tensor, jitter: float = JITTER) -> Cholesky:
    """Factorise K, shape (m, m) or (C, m, m), with the least jitter that works. Cost O(m³).

    The jitter is relative to the mean of the diagonal and grows tenfold until the
    factorisation succeeds or `MAX_JITTER` is passed. Several matrices have the same jitter, each
    relative to its own diagonal. A failure is a value, not an exception: the caller sees
    `ok=False`, and a factor of NaN.
    """
    mean_diagonal = K.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True)
    while True:
        jittered = K.clone()
        jittered.diagonal(dim1=-2, dim2=-1).add_(jitter * mean_diagonal)
        L, info = torch.linalg.cholesky_ex(jittered)
        ok = not bool(info.any()) and bool(torch.isfinite(L[..., -1, -1]).all())
        if ok:
            return Cholesky(L, jittered, jitter, True)
        if jitter >= MAX_JITTER:
            return Cholesky(torch.full_like(L, torch.nan), jittered, jitter, False)
        jitter = max(jitter * 10, JITTER)
