"""Checks of parameters: one sentence that names the input, the fault and the remedy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sepgp.errors import InvalidParameter
from sepgp.gp.kernels import AUTO, KERNELS, Kernel
from sepgp.training.optimizers import OPTIMIZERS


def one_of(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value that is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise InvalidParameter(f"{name}={value!r} is unknown; choose one of {listed}.")


def kernel_name(value: object) -> None:
    """Refuse what is neither the name of a kernel nor a sum of such names."""
    parts = value.split("+") if isinstance(value, str) else [""]
    if value != AUTO and not all(part.strip() in KERNELS for part in parts):
        listed = ", ".join(repr(name) for name in (AUTO, *KERNELS))
        raise InvalidParameter(
            f"kernel={value!r} is unknown; choose one of {listed}, or a sum such as "
            "'matern32+matern32'."
        )


def at_least(name: str, value: Any, least: float, whole: bool = False) -> None:
    """Refuse a value that is not a number of at least `least`."""
    number = isinstance(value, (int, np.integer)) or (
        not whole and isinstance(value, (float, np.floating))
    )
    if isinstance(value, bool) or not number or not value >= least:
        kind = "a whole number" if whole else "a number"
        raise InvalidParameter(f"{name}={value!r} must be {kind} of at least {least}.")


def parameters(model: Any) -> None:
    """Refuse parameters of a `GPClassifier` that cannot be used, before any data is looked at."""
    one_of("method", model.method, ("sep", "ep", "adf"))
    one_of("optimizer", model.optimizer, tuple(OPTIMIZERS))
    one_of("dtype", model.dtype, ("float64", "float32"))
    at_least("n_inducing", model.n_inducing, 1, whole=True)
    for name in ("batch_size", "max_iter"):
        if getattr(model, name) is not None:
            at_least(name, getattr(model, name), 1, whole=True)
    at_least("checkpoint_every", model.checkpoint_every, 0)
    at_least("forgetting", model.forgetting, 0)
    if not 0 < model.forgetting <= 1:
        raise InvalidParameter(
            f"forgetting={model.forgetting!r} must be a number above 0 and at most 1."
        )
    at_least("validation_fraction", model.validation_fraction, 0)
    if not model.validation_fraction < 1:
        raise InvalidParameter(
            f"validation_fraction={model.validation_fraction!r} must be a number of at least 0 and "
            "below 1."
        )
    for name in ("learning_rate", "time_budget", "tol"):
        if getattr(model, name) is not None:
            at_least(name, getattr(model, name), 0)
    if isinstance(model.site_step, str):
        one_of("site_step", model.site_step, ("paper", "average"))
    else:
        at_least("site_step", model.site_step, 0)
    if not isinstance(model.kernel, Kernel):
        kernel_name(model.kernel)
    if isinstance(model.inducing, str):
        one_of("inducing", model.inducing, ("kmeans", "random"))
    if callable(model.callbacks):
        raise InvalidParameter(
            "callbacks is a single function; give a list, such as callbacks=[function]."
        )
    class_weights(model.class_weight)
    device(model.device)


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


def device(name: Any) -> None:
    """Refuse a device that torch does not have here."""
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, TypeError):
        raise InvalidParameter(
            f"device={name!r} is not available; choose 'cpu' or a device that torch has here."
        ) from None


def inducing_points(given: Any, n_features: int) -> NDArray[np.float64]:
    """Inducing points as an array of shape (m, d)."""
    try:
        points = np.asarray(given, dtype=np.float64)
    except (ValueError, TypeError):
        points = np.empty(())
    finite = points.ndim == 2 and np.isfinite(points).all()
    if not finite or not len(points) or points.shape[1] != n_features:
        raise InvalidParameter(
            f"inducing has shape {points.shape}; give a finite array of shape "
            f"(n_inducing, {n_features}), 'kmeans' or 'random'."
        )
    return points
