"""Model files: a trained classifier as tensors and JSON, without its rows and without code."""

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sepgp import __version__, persistence
from sepgp.classifier import GPClassifier
from sepgp.data.batch import aligned
from sepgp.data.encoding import encoding_from_json
from sepgp.data.scaling import Scaling
from sepgp.errors import InvalidData, InvalidParameter, reason
from sepgp.gp import kernels
from sepgp.gp.kernels import Kernel
from sepgp.gp.predictor import Predictor
from sepgp.inference import sep
from sepgp.optimizers import OPTIMIZERS
from sepgp.training import Record

FORMAT, VERSION = "sepgp model", 2
NOT_KEPT = ("callbacks", "checkpoint", "device", "random_state", "verbose", "warm_start")
"""Parameters that belong to a run and not to its model."""


def save(model: GPClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file. It is replaced at once or not at all.

    The file holds what predictions and `partial_fit` need, the history of the training, and no
    rows. Size: about three m × m matrices.
    """
    if not hasattr(model, "kernel_"):
        raise InvalidParameter("The model is not fitted yet; fit it before it is saved.")
    parameters = {k: v for k, v in model.get_params(deep=False).items() if k not in NOT_KEPT}
    tensors: dict[str, Tensor] = {
        "Z": model._Z,
        "Lambda": model._sites.Lambda,
        "b": model._sites.b,
        "beta": model._predictor.beta,
        "F": model._predictor.F,
        "mean": torch.from_numpy(model._scaling.mean),
        "scale": torch.from_numpy(model._scaling.scale),
        "history": torch.tensor(np.column_stack(list(model.history_.values())).astype(np.float64)),
    }
    if not isinstance(parameters["inducing"], str):
        tensors["inducing"] = torch.tensor(np.asarray(parameters.pop("inducing"), np.float64))
    if isinstance(parameters["kernel"], Kernel):
        tensors |= _parameters("start", parameters["kernel"])
        parameters["kernel"] = _structure(parameters["kernel"])
    if isinstance(parameters["class_weight"], dict):
        parameters["class_weight"] = [
            [_plain(k), float(v)] for k, v in parameters["class_weight"].items()
        ]
    moments, counts = persistence.flat("moments", model._moments)
    tensors |= moments | _parameters("kernel", model.kernel_)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "sepgp": __version__,
        "parameters": {k: _plain(v) for k, v in parameters.items()},
        "kernel": _structure(model.kernel_),
        "classes": [_plain(label) for label in model.classes_],
        "n_features": int(model.n_features_in_),
        "names": [str(n) for n in getattr(model, "feature_names_in_", [])],
        "encoding": None if model.encoding_ is None else model.encoding_.to_json(),
        "tail": _finite(model._scaling.tail),
        "target": model.target_,
        "n_seen": model._n_seen,
        "iteration": model._iteration,
        "log_evidence": model.log_evidence_,
        **counts,
    }
    persistence.write(path, tensors, header)


def load(path: str | os.PathLike[str]) -> GPClassifier:
    """Read a model that `save` wrote. No code in the file is run, and everything is checked."""
    tensors, header = persistence.read(path)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidData(f"{path} is not a model file of sepgp; name one that `save` wrote.")
    version = header.get("version")
    if version != VERSION:
        remedy = "train the model again" if version == 1 else "update sepgp"
        raise InvalidData(
            f"{path} is a model file of version {version}, and this is sepgp {__version__}, which "
            f"reads version {VERSION}; {remedy}."
        )
    try:
        return _model(tensors, header)
    except (KeyError, ValueError, TypeError, IndexError, RuntimeError, AttributeError) as error:
        raise InvalidData(f"{path} is damaged ({reason(error)}); save the model again.") from error


def _model(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> GPClassifier:
    parameters = dict(header["parameters"])
    if "inducing" in tensors:
        parameters["inducing"] = tensors["inducing"].numpy()
    if not isinstance(parameters["kernel"], str):
        parameters["kernel"] = _kernel(parameters["kernel"], "start", tensors)
    if isinstance(parameters["class_weight"], list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    model = GPClassifier(**parameters)
    tensors = {name: aligned(tensor) for name, tensor in tensors.items()}
    model._Z = tensors["Z"]
    model.kernel_ = _kernel(header["kernel"], "kernel", tensors)
    model._sites = sep.State(tensors["Lambda"], tensors["b"])
    model._predictor = Predictor(tensors["beta"], tensors["F"])
    mean, scale = (tensors[name].numpy().copy() for name in ("mean", "scale"))
    model._scaling = Scaling(mean, scale, _number(header["tail"]))
    model.encoding_ = None
    if header["encoding"] is not None:
        model.encoding_ = encoding_from_json(header["encoding"])
    model.target_ = header["target"]
    model.n_features_in_ = int(header["n_features"])
    if header["names"]:
        model.feature_names_in_ = np.array(header["names"], dtype=object)
    model.classes_ = np.array(header["classes"])
    model._n_seen, model._iteration = float(header["n_seen"]), int(header["iteration"])
    model._memory = None
    model._moments = _moments(model, tensors, header)
    model.log_evidence_ = float(header["log_evidence"])
    kinds = Record.__annotations__
    columns = zip(Record._fields, tensors["history"].T.numpy(), strict=True)
    model.history_ = {name: column.astype(kinds[name]) for name, column in columns}
    model.n_iter_ = len(tensors["history"])
    model.inducing_points_ = model._scaling.undo(model._Z.numpy())
    _check(model)
    return model


def _check(model: GPClassifier) -> None:
    """Raise a ValueError if the parts of a model do not belong together."""
    m, d = model._Z.shape
    expected = {
        "Lambda": (model._sites.Lambda, (m, m)),
        "b": (model._sites.b, (m,)),
        "beta": (model._predictor.beta, (m,)),
        "F": (model._predictor.F, (m, m)),
        "mean": (torch.from_numpy(model._scaling.mean), (d,)),
        "scale": (torch.from_numpy(model._scaling.scale), (d,)),
    }
    for name, (tensor, shape) in expected.items():
        if tuple(tensor.shape) != shape or not torch.isfinite(tensor).all():
            raise ValueError(f"{name} is not of shape {shape} and finite")
    if len(model.classes_) != 2 or model.classes_[0] == model.classes_[1]:
        raise ValueError("there are not two classes")
    if model.encoding_ is not None:
        features, columns = len(model.encoding_.features), len(model.encoding_.columns)
    else:
        features = columns = model.n_features_in_
    if features != d or columns != model.n_features_in_:
        raise ValueError("the features are not those of the inducing points")
    with torch.no_grad():
        if model.kernel_(model._Z, model._Z).shape != (m, m):
            raise ValueError("the kernel does not fit the inducing points")


def _moments(model: GPClassifier, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Any:
    hyper = model._hyperparameters()
    template = OPTIMIZERS[model.optimizer].init(hyper.start)
    return persistence.filled(template, "moments", tensors, header)


def _plain(value: Any) -> Any:
    """A value in terms of JSON."""
    return value.item() if isinstance(value, np.generic) else value


def _finite(value: float) -> float | None:
    """A number in terms of JSON, which has no infinity."""
    return value if math.isfinite(value) else None


def _number(value: float | None) -> float:
    return math.inf if value is None else float(value)


def _structure(kernel: Kernel) -> dict[str, Any]:
    """What a kernel is made of, without its parameters."""
    name = type(kernel).__name__
    if isinstance(kernel, kernels.Sum | kernels.Product):
        return {"kind": name, "parts": [_structure(part) for part in kernel.parts]}  # type: ignore[arg-type]
    if getattr(kernels, name, None) is not type(kernel) or isinstance(kernel, kernels.FeatureMap):
        raise InvalidParameter(
            f"kernel has a {name}, which is code and cannot be kept in a model file; use the "
            "kernels of sepgp.kernels alone, or pickle the model."
        )
    if isinstance(kernel, kernels.Stationary):
        return {"kind": name, "spread": _finite(kernel.spread), "from_data": kernel.from_data}
    return {"kind": name}


def _parameters(prefix: str, kernel: Kernel) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": value for name, value in kernel.state_dict().items()}


LEAVES = ("RBF", "Matern12", "Matern32", "Matern52", "Linear", "Constant", "White")


def _kernel(structure: Mapping[str, Any], prefix: str, tensors: Mapping[str, Tensor]) -> Kernel:
    """The kernel that `_structure` and `_parameters` describe."""
    name = structure["kind"]
    if name in ("Sum", "Product"):
        parts = [
            _kernel(part, f"{prefix}.parts.{i}", tensors)
            for i, part in enumerate(structure["parts"])
        ]
        composite: Kernel = getattr(kernels, name)(*parts)
        return composite
    if name not in LEAVES:
        raise ValueError(f"there is no kernel {name!r}")
    kernel: Kernel = getattr(kernels, name)()
    if isinstance(kernel, kernels.Stationary):
        kernel.spread, kernel.from_data = _number(structure["spread"]), bool(structure["from_data"])
    for parameter in list(kernel._parameters):
        value = tensors[f"{prefix}.{parameter}"]
        if value.dtype != torch.float64 or not torch.isfinite(value).all():
            raise ValueError(f"{prefix}.{parameter} is not finite")
        setattr(kernel, parameter, torch.nn.Parameter(value.clone()))
    return kernel
