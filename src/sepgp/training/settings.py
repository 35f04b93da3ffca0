"""How to train: the parameters of `GPClassifier` as one frozen value, checked in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from sepgp import means
from sepgp.data.batches import MINIBATCH
from sepgp.errors import InvalidParameter
from sepgp.gp.kernels import AUTO, KERNELS, Kernel
from sepgp.inference.method import METHODS
from sepgp.training.optimizers import OPTIMIZERS

DTYPES = {"float64": torch.float64, "float32": torch.float32}
PLENTY = 10_000
"""Rows to train with from which on minibatches are in float32 by default."""
EARLY = 10.0
"""Seconds of a time budget below which no rows are held out by default."""


@dataclass(frozen=True)
class Settings:
    """What decides the result of a training, but for rows and seed: see `GPClassifier`."""

    method: str = AUTO
    n_inducing: int | str = AUTO
    inducing: str | ArrayLike = "kmeans"
    kernel: str | Kernel = "auto"
    batch_size: int | None = None
    learn_kernel: bool = True
    learn_inducing: bool = True
    max_iter: int | None = None
    time_budget: float | None = None
    learning_rate: float | None = None
    optimizer: str = "adam"
    site_step: str | float = 0.01
    class_weight: dict[Any, float] | str | None = None
    standardize: bool = True
    tol: float | None = None
    validation_fraction: float | str = AUTO
    early_stopping: bool = True
    pos_label: Any = None
    device: str = "cpu"
    dtype: str = AUTO
    forgetting: float = 1.0
    n_factors: int | str | Mapping[str, Sequence[float]] = 1
    power: float = 1.0
    mean: Any = None
    shared_kernel: bool = True

    @classmethod
    def of(cls, parameters: dict[str, Any]) -> Self:
        """Those of the parameters that are settings, checked before any data is looked at."""
        settings = cls(**{field.name: parameters[field.name] for field in fields(cls)})
        settings._check()
        return settings

    def resolved(self, exact: bool = False) -> Self:
        """With the method that "auto" stands for: EP where it is `exact`, and else SEP."""
        return replace(self, method="ep" if exact else "sep") if self.method == AUTO else self

    @property
    def rows_per_step(self) -> int:
        """The size of a minibatch."""
        return MINIBATCH if self.batch_size is None else self.batch_size

    @property
    def held_out(self) -> float | str:
        """The `validation_fraction`, but 0 instead of "auto" in a time too short to end early.

        With a prior mean held-out rows also tell how far its scores are to be trusted.
        """
        short = self.time_budget is not None and self.time_budget < EARLY and self.mean is None
        return 0.0 if self.validation_fraction == AUTO and short else self.validation_fraction

    def row_dtype(self, n_rows: int) -> torch.dtype:
        """Of the work on rows.

        Few rows, all in every step: float32 gains no time, and rounding may choose the optimum.
        Features that are not standardised may have no digits to spare.
        """
        few = n_rows <= min(self.rows_per_step, MINIBATCH)
        if self.dtype == AUTO:
            plenty = n_rows >= max(PLENTY, self.rows_per_step + 1)
            return torch.float32 if plenty and self.standardize else torch.float64
        return torch.float64 if few else DTYPES[self.dtype]

    def _check(self) -> None:
        one_of("method", self.method, (AUTO, *METHODS))
        method = self.resolved().method
        one_of("optimizer", self.optimizer, tuple(OPTIMIZERS))
        one_of("dtype", self.dtype, (AUTO, *DTYPES))
        if not (isinstance(self.n_inducing, str) and self.n_inducing == AUTO):
            at_least("n_inducing", self.n_inducing, 1, whole=True, other=f" or {AUTO!r}")
        n_factors(self.n_factors)
        at_least("power", self.power, 0)
        if self.power > 1 or (self.power < 1 and METHODS[method].recounts):
            raise InvalidParameter(
                f"power={self.power!r} must be 1 or, for 'sep' and 'ep', a number of at least 0 "
                "and at most 1."
            )
        if self.n_factors != 1 and method != "sep":
            raise InvalidParameter(
                f"n_factors={self.n_factors!r} belongs to method='sep'; leave it at 1 for "
                f"{self.method!r}."
            )
        if not self.shared_kernel and METHODS[method].per_row:
            raise InvalidParameter(
                f"shared_kernel=False is for 'sep' and 'adf', and method is {self.method!r}, whose "
                "sites per row would need a direction for each class; leave it at True."
            )
        for name in ("batch_size", "max_iter"):
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), 1, whole=True)
        at_least("forgetting", self.forgetting, 0)
        if not 0 < self.forgetting <= 1:
            raise InvalidParameter(
                f"forgetting={self.forgetting!r} must be a number above 0 and at most 1."
            )
        if not (isinstance(self.validation_fraction, str) and self.validation_fraction == AUTO):
            validation_fraction(self.validation_fraction)
        for name in ("learning_rate", "time_budget", "tol"):
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), 0)
        if isinstance(self.site_step, str):
            one_of("site_step", self.site_step, ("paper", "average"))
        else:
            at_least("site_step", self.site_step, 0)
        if not isinstance(self.kernel, Kernel):
            kernel_name(self.kernel)
        if isinstance(self.inducing, str):
            one_of("inducing", self.inducing, ("kmeans", "random"))
        class_weights(self.class_weight)
        means.check(self.mean)
        available(self.device)


def one_of(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value that is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise InvalidParameter(f"{name}={value!r} is unknown; choose one of {listed}.")


def validation_fraction(value: Any) -> None:
    """Refuse what is no share of the rows that leaves some to train on."""
    at_least("validation_fraction", value, 0, other=f" and below 1, or {AUTO!r}")
    if not value < 1:
        raise InvalidParameter(
            f"validation_fraction={value!r} must be a number of at least 0 and below 1, or "
            f"{AUTO!r}."
        )


def kernel_name(value: object) -> None:
    """Refuse what is neither the name of a kernel nor a sum of such names."""
    parts = value.split("+") if isinstance(value, str) else [""]
    if value != AUTO and not all(part.strip() in KERNELS for part in parts):
        listed = ", ".join(repr(name) for name in (AUTO, *KERNELS))
        raise InvalidParameter(
            f"kernel={value!r} is unknown; choose one of {listed}, or a sum such as "
            "'matern32+matern32'."
        )


def n_factors(value: Any) -> None:
    """Refuse what is neither a number of factors nor a way to choose which one a row belongs to."""
    if isinstance(value, str):
        one_of("n_factors", value, ("class", "part"))
    elif isinstance(value, Mapping):
        right = len(value) == 1
        for edges in value.values():
            found = np.asarray(edges, dtype=object).ravel().tolist()
            right &= bool(found) and all(isinstance(edge, int | float) for edge in found)
            right = right and bool((np.diff(found) > 0).all())
        if not right:
            raise InvalidParameter(
                f"n_factors={value!r} must be one column with increasing numbers to cut it at, "
                "such as {'month': [3.5, 6.5]}."
            )
    else:
        at_least("n_factors", value, 1, whole=True)


def at_least(name: str, value: Any, least: float, whole: bool = False, other: str = "") -> None:
    """Refuse a value that is not a number of at least `least`; `other` is what else may be."""
    number = isinstance(value, (int, np.integer)) or (
        not whole and isinstance(value, (float, np.floating))
    )
    if isinstance(value, bool) or not number or not value >= least:
        kind = "a whole number" if whole else "a number"
        raise InvalidParameter(f"{name}={value!r} must be {kind} of at least {least}{other}.")


def class_weights(value: Any) -> None:
    """Refuse weights of classes that are not None, "balanced" or a dict of finite numbers."""
    if value is None or (isinstance(value, str) and value == "balanced"):
        return
    if not isinstance(value, dict):
        raise InvalidParameter(
            f"class_weight={value!r} is unknown; give None, 'balanced' or a dict of weights."
        )
    for label, weight in value.items():
        if not np.isfinite(weight) or weight < 0:
            raise InvalidParameter(
                f"class_weight of {label!r} is {weight!r}, which is negative, NaN or infinite; "
                "give a weight of at least 0."
            )


def available(device: Any) -> None:
    """Refuse a device that torch does not have here."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError):
        raise InvalidParameter(
            f"device={device!r} is not available; choose 'cpu' or a device that torch has here."
        ) from None
