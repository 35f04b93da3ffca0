"""Model files: a trained model as tensors and JSON, without its rows and without code."""

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sepgp import __version__
from sepgp.data.batches import aligned
from sepgp.data.encoding import encoding_from_json
from sepgp.data.scaling import Scaling
from sepgp.data.schema import Schema
from sepgp.errors import InvalidData, brief, reason
from sepgp.files import tensors as tensor_files
from sepgp.files.kernels import kernel_of, parameters_of, structure_of
from sepgp.gp.kernels import Kernel
from sepgp.gp.natural import Natural
from sepgp.gp.predictor import Predictor, posterior
from sepgp.likelihoods import Probit
from sepgp.model import Model

FORMAT, VERSION = "sepgp model", 2
LARGEST_COUNT = 2**32
"""Of steps and the like."""
HISTORY = {
    "iteration": int,
    "seconds": float,
    "epoch": float,
    "log_evidence": float,
    "learning_rate": float,
    "jitter": float,
    "skipped": int,
    "rejected": bool,
    "state_size": int,
    "validation_nll": float,
}
"""Columns of the history in the order of the file, each with its type."""


def save(model: Model, parameters: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, with the parameters of the estimator that holds it.

    The file is replaced at once or not at all. It holds what predictions and `partial_fit` need,
    the history of the training, and no rows: of the data it has means and deviations, frequent
    texts, and the inducing points. These are rows only if they were taken from rows
    (`inducing="random"` or an array of them) and not learned. Size: about three m × m matrices.
    """
    tensors: dict[str, Tensor] = {
        "Z": model.Z,
        "Lambda": model.sites.Lambda,
        "b": model.sites.b,
        "beta": model.predictor.beta,
        "F": model.predictor.F,
        "mean": torch.from_numpy(model.scaling.mean),
        "scale": torch.from_numpy(model.scaling.scale),
        "history": torch.tensor(
            np.column_stack([model.history[name] for name in HISTORY]).astype(np.float64)
        ),
    }
    stored, more = _stored_parameters(parameters)
    moments = {f"moments.{name}": value for name, value in model.moments.items()}
    counts = {name: value for name, value in moments.items() if not isinstance(value, Tensor)}
    tensors |= {name: value for name, value in moments.items() if isinstance(value, Tensor)}
    tensors |= more | parameters_of("kernel", model.kernel)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "sepgp": __version__,
        "parameters": stored,
        "kernel": structure_of(model.kernel),
        "classes": [_plain(label) for label in model.classes],
        "n_features": model.schema.n_columns,
        "names": list(map(str, model.schema.names or [])),
        "encoding": None if model.schema.encoding is None else model.schema.encoding.to_json(),
        "tail": model.scaling.tail if math.isfinite(model.scaling.tail) else None,
        "target": model.target,
        "n_seen": model.n_seen,
        "iteration": model.iteration,
        "log_evidence": model.log_evidence if math.isfinite(model.log_evidence) else None,
        **counts,
    }
    tensor_files.write(path, tensors, header)


def load(path: str | os.PathLike[str]) -> tuple[Model, dict[str, Any]]:
    """The model that `save` wrote and its parameters; no code in the file is run."""
    tensors, header = tensor_files.read(path, "name a model file, and before the data")
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidData(f"{path} is not a model file of sepgp; name one that `save` wrote.")
    version = header.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise InvalidData(
            f"{path} is a model file of version {brief(str(version))}, and this is sepgp "
            f"{__version__}, which reads versions 1 to {VERSION}; update sepgp."
        )
    try:
        tensors = _upgraded(tensors, version)
        _check_values(tensors, header)
        _check_shapes(tensors)
        tensors = {name: aligned(tensor) for name, tensor in tensors.items()}
        parameters = _parameters(tensors, header)
        model = _model(tensors, header, parameters)
        _check(model)
        _check_numbers(model)
        return model, parameters
    except tensor_files.DAMAGE as error:
        raise damaged(path, error) from error


def damaged(path: str | os.PathLike[str], error: BaseException) -> InvalidData:
    """The complaint about a file that holds no model."""
    return InvalidData(f"{path} is damaged ({reason(error)}); save the model again.")


def _upgraded(tensors: Mapping[str, Tensor], version: int) -> dict[str, Tensor]:
    """The tensors of a file as the present version would have written them."""
    if version == 1:  # nothing was measured during training
        history = torch.nn.functional.pad(tensors["history"], (0, 1), value=math.nan)
        tensors = {**tensors, "history": history}
    return dict(tensors)


def _check_values(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Raise a ValueError if a number is not finite or of another type."""
    json.dumps(header, allow_nan=False)  # NaN and infinity are errors here
    for name, tensor in tensors.items():
        # A step that was thrown away may have had no evidence.
        finite = name == "history" or tensor_files.finite(tensor)
        if tensor.dtype != torch.float64 or not finite:
            raise ValueError(f"{name} is not finite in float64")


def _check_shapes(tensors: Mapping[str, Tensor]) -> None:
    """Raise a ValueError if the tensors of a model do not belong to each other."""
    m, d = tensors["Z"].shape
    if not m or not d:
        raise ValueError("there are no inducing points")
    shapes = {"Lambda": (m, m), "b": (m,), "beta": (m,), "F": (m, m), "mean": (d,), "scale": (d,)}
    for name, shape in shapes.items():
        if tensors[name].shape != shape:
            raise ValueError(f"{name} is not of shape {shape}")


def _stored_parameters(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Parameters of an estimator in terms of JSON, and those that are tensors."""
    stored, tensors = dict(parameters), {}
    if not isinstance(stored["inducing"], str):
        tensors["inducing"] = torch.tensor(np.asarray(stored.pop("inducing"), np.float64))
    if isinstance(stored["kernel"], Kernel):
        tensors |= parameters_of("start", stored["kernel"])
        stored["kernel"] = structure_of(stored["kernel"])
    if isinstance(stored["class_weight"], dict):
        stored["class_weight"] = [[_plain(k), float(v)] for k, v in stored["class_weight"].items()]
    return {name: _plain(value) for name, value in stored.items()}, tensors


def _parameters(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that `_stored_parameters` stored."""
    parameters = dict(header["parameters"])
    if "inducing" in tensors:
        parameters["inducing"] = tensors["inducing"].numpy()
    if not isinstance(parameters["kernel"], str):
        parameters["kernel"] = kernel_of(parameters["kernel"], "start", tensors)
    if isinstance(parameters["class_weight"], list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    return parameters


def _model(
    tensors: Mapping[str, Tensor], header: Mapping[str, Any], parameters: Mapping[str, Any]
) -> Model:
    stored = header["encoding"]
    encoding = None if stored is None else encoding_from_json(stored)
    tail, evidence = (
        default if header[name] is None else float(header[name])
        for name, default in (("tail", math.inf), ("log_evidence", math.nan))
    )
    return Model(
        method=parameters["method"],
        schema=Schema(int(header["n_features"]), tuple(header["names"]) or None, encoding),
        target=header["target"],
        classes=np.array(header["classes"]),
        scaling=Scaling(tensors["mean"].numpy().copy(), tensors["scale"].numpy().copy(), tail),
        likelihood=Probit(),
        kernel=kernel_of(header["kernel"], "kernel", tensors),
        Z=tensors["Z"],
        sites=Natural(tensors["Lambda"], tensors["b"]),
        predictor=Predictor(tensors["beta"], tensors["F"]),
        n_seen=float(header["n_seen"]),
        history=_history(tensors["history"]),
        log_evidence=evidence,
        iteration=int(header["iteration"]),
        moments=_moments(tensors, header),
        seed=0,
        dtype=_dtype(parameters["dtype"]),
    )


def _dtype(name: str) -> torch.dtype:
    if name not in ("float64", "float32"):
        raise ValueError(f"dtype={name!r} is unknown")
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def _history(stored: Tensor) -> dict[str, Any]:
    """The columns of the history, each in its own type."""
    if stored.ndim != 2 or not len(stored):
        raise ValueError("the history has no steps")
    columns = dict(zip(HISTORY, stored.T.numpy(), strict=True))
    others = [columns[name] for name in columns if name not in ("log_evidence", "validation_nll")]
    if not np.all(np.abs(others) < LARGEST_COUNT):
        raise ValueError("the history has numbers that cannot be")
    return {name: column.astype(HISTORY[name]) for name, column in columns.items()}


def _moments(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> dict[str, Any]:
    """The optimiser's state: arrays of one length, and counts."""
    prefix = "moments."
    arrays = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
    counts = {k.removeprefix(prefix): v for k, v in header.items() if k.startswith(prefix)}
    shapes = {tuple(array.shape) for array in arrays.values()}
    if len(shapes) != 1 or len(shapes.pop()) != 1:
        raise ValueError("the optimiser's state is incomplete")
    for name, count in counts.items():
        if type(count) is not int or not 0 <= count < 2**53:
            raise ValueError(f"{prefix}{name} cannot be {count!r}")
    return arrays | counts


def _check(model: Model) -> None:
    """Raise a ValueError if the parts of a model do not belong together."""
    d = model.Z.shape[1]
    classes = model.classes
    if classes.shape != (2,) or classes.dtype.kind not in "biufU" or not classes[0] < classes[1]:
        raise ValueError("there are not two classes")
    if not (model.target is None or isinstance(model.target, str)):
        raise ValueError("the target is not the name of a column")
    if not (0 < model.n_seen < math.inf and 0 <= model.iteration < LARGEST_COUNT):
        raise ValueError("it has seen no rows, or more than there can be")
    if not (np.all(model.scaling.scale > 0) and model.scaling.tail > 0):
        raise ValueError("a scale is not positive")
    _check_columns(model.schema, d)
    if any(parameter.numel() not in (1, d) for parameter in model.kernel.parameters()):
        raise ValueError("the kernel has not one length-scale per feature")


def _check_columns(schema: Schema, d: int) -> None:
    """Raise a ValueError if a schema does not lead to d features."""
    features = columns = schema.n_columns
    if schema.encoding is not None:
        features, columns = len(schema.encoding.features), len(schema.encoding.columns)
        if schema.names != schema.encoding.columns:
            raise ValueError("the names of the columns are not those of the encoding")
    if features != d or columns != schema.n_columns:
        raise ValueError("the features are not those of the inducing points")
    names = schema.names
    if names is not None and (
        len(names) != schema.n_columns or not all(isinstance(name, str) for name in names)
    ):
        raise ValueError("the names of the columns are not as many texts")


def _check_numbers(model: Model) -> None:
    """Raise a ValueError if kernel, sites and predictor do not give finite numbers."""
    sites = model.natural
    size = sites.Lambda.abs().max()
    if not torch.allclose(sites.Lambda, sites.Lambda.T, rtol=0.0, atol=1e-6 * float(size)):
        raise ValueError("Lambda is not symmetric")
    with torch.no_grad():
        _, q = posterior(model.kernel, model.Z, sites)
    if not (tensor_files.finite(q.mean) and tensor_files.finite(q.cov)):
        raise ValueError("the kernel and Lambda have no posterior")
    at = model.inducing_points[:100]
    if not (np.isfinite(at).all() and np.isfinite(model.latent_of_features(at)).all()):
        raise ValueError("the predictions are not finite")


def _plain(value: Any) -> Any:
    """A value in terms of JSON."""
    return value.item() if isinstance(value, np.generic) else value
