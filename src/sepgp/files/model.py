"""Model files: a trained classifier as tensors and JSON, without its rows and without code."""

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sepgp import __version__, validation
from sepgp.classifier import GPClassifier
from sepgp.data.batches import aligned
from sepgp.data.encoding import encoding_from_json
from sepgp.data.scaling import Scaling
from sepgp.errors import InvalidData, InvalidParameter, brief, reason
from sepgp.files import tensors as persistence
from sepgp.gp import kernels
from sepgp.gp.fitc import Natural
from sepgp.gp.kernels import Kernel
from sepgp.gp.predictor import Predictor, posterior
from sepgp.inference import sep
from sepgp.training.loop import Record
from sepgp.training.optimizers import OPTIMIZERS

FORMAT, VERSION = "sepgp model", 2
NOT_KEPT = ("callbacks", "checkpoint", "device", "random_state", "verbose", "warm_start")
"""Parameters that belong to a run and not to its model."""
LARGEST_LOG = 300.0
"""Of a kernel's parameter: products of a few of them are still finite."""
LARGEST_COUNT = 2**32
"""Of steps and the like."""


def save(model: GPClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file. It is replaced at once or not at all.

    The file holds what predictions and `partial_fit` need, the history of the training, and no
    rows: of the data it has means and deviations, frequent texts, and the inducing points. These
    are rows only if they were taken from rows (`inducing="random"` or an array of them) and not
    learned. Size: about three m × m matrices.
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
        "log_evidence": _finite(model.log_evidence_),
        **counts,
    }
    persistence.write(path, tensors, header)


def load(path: str | os.PathLike[str]) -> GPClassifier:
    """Read a model that `save` wrote. No code in the file is run, and everything is checked."""
    tensors, header = persistence.read(path, "name a model file, and before the data")
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidData(f"{path} is not a model file of sepgp; name one that `save` wrote.")
    version = header.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise InvalidData(
            f"{path} is a model file of version {brief(str(version))}, and this is sepgp "
            f"{__version__}, which reads versions 1 to {VERSION}; update sepgp."
        )
    try:
        return _model(_upgraded(tensors, version), header)
    except persistence.DAMAGE as error:
        raise InvalidData(f"{path} is damaged ({reason(error)}); save the model again.") from error


def _upgraded(tensors: Mapping[str, Tensor], version: int) -> Mapping[str, Tensor]:
    """The tensors of a file as the present version would have written them."""
    if version == 1:  # nothing was measured during training
        history = torch.nn.functional.pad(tensors["history"], (0, 1), value=math.nan)
        tensors = {**tensors, "history": history}
    return tensors


def _model(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> GPClassifier:
    json.dumps(header, allow_nan=False)  # NaN and infinity are errors here
    for name, tensor in tensors.items():
        # A step that was thrown away may have had no evidence.
        if tensor.dtype != torch.float64 or not (name == "history" or persistence.finite(tensor)):
            raise ValueError(f"{name} is not finite in float64")
    parameters = dict(header["parameters"])
    for name in NOT_KEPT:
        if name in parameters:
            raise ValueError(f"it has the parameter {name}, which belongs to a run")
    if "inducing" in tensors:
        parameters["inducing"] = tensors["inducing"].numpy()
    if not isinstance(parameters["kernel"], str):
        parameters["kernel"] = _kernel(parameters["kernel"], "start", tensors)
    if isinstance(parameters["class_weight"], list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    model = GPClassifier(**parameters)
    validation.parameters(model)
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
    evidence = header["log_evidence"]
    model.log_evidence_ = math.nan if evidence is None else float(evidence)
    model.history_ = _history(tensors["history"])
    model.n_iter_ = len(tensors["history"])
    _check(model)
    model.inducing_points_ = model._scaling.undo(model._Z.numpy())
    _check_numbers(model)
    return model


def _history(stored: Tensor) -> dict[str, Any]:
    """The columns of the history, each in its own type."""
    if stored.ndim != 2 or not len(stored):
        raise ValueError("the history has no steps")
    columns = dict(zip(Record._fields, stored.T.numpy(), strict=True))
    others = [columns[name] for name in columns if name not in ("log_evidence", "validation_nll")]
    if not np.all(np.abs(others) < LARGEST_COUNT):
        raise ValueError("the history has numbers that cannot be")
    return {name: column.astype(Record.__annotations__[name]) for name, column in columns.items()}


def _check(model: GPClassifier) -> None:
    """Raise a ValueError if the parts of a model do not belong together."""
    m, d = model._Z.shape
    if not m or not d:
        raise ValueError("there are no inducing points")
    expected = {
        "Lambda": (model._sites.Lambda, (m, m)),
        "b": (model._sites.b, (m,)),
        "beta": (model._predictor.beta, (m,)),
        "F": (model._predictor.F, (m, m)),
        "mean": (torch.from_numpy(model._scaling.mean), (d,)),
        "scale": (torch.from_numpy(model._scaling.scale), (d,)),
    }
    for name, (tensor, shape) in expected.items():
        if tuple(tensor.shape) != shape:
            raise ValueError(f"{name} is not of shape {shape}")
    classes = model.classes_
    if classes.shape != (2,) or classes.dtype.kind not in "biufU" or not classes[0] < classes[1]:
        raise ValueError("there are not two classes")
    if not (model.target_ is None or isinstance(model.target_, str)):
        raise ValueError("the target is not the name of a column")
    if not (0 < model._n_seen < math.inf and 0 <= model._iteration < LARGEST_COUNT):
        raise ValueError("it has seen no rows, or more than there can be")
    if not (np.all(model._scaling.scale > 0) and model._scaling.tail > 0):
        raise ValueError("a scale is not positive")
    if model.encoding_ is not None:
        features, columns = len(model.encoding_.features), len(model.encoding_.columns)
    else:
        features = columns = model.n_features_in_
    if features != d or columns != model.n_features_in_:
        raise ValueError("the features are not those of the inducing points")
    names = getattr(model, "feature_names_in_", None)
    known = None if model.encoding_ is None else model.encoding_.columns
    if names is not None and (
        names.shape != (model.n_features_in_,) or not all(isinstance(name, str) for name in names)
    ):
        raise ValueError("the names of the columns are not as many texts")
    if known is not None and (names is None or tuple(names) != known):
        raise ValueError("the names of the columns are not those of the encoding")
    if any(parameter.numel() not in (1, d) for parameter in model.kernel_.parameters()):
        raise ValueError("the kernel has not one length-scale per feature")


def _check_numbers(model: GPClassifier) -> None:
    """Raise a ValueError if kernel, sites and predictor do not give finite numbers."""
    sites = Natural(model._sites.Lambda, model._sites.b)
    size = sites.Lambda.abs().max()
    if not torch.allclose(sites.Lambda, sites.Lambda.T, rtol=0.0, atol=1e-6 * float(size)):
        raise ValueError("Lambda is not symmetric")
    with torch.no_grad():
        _, q = posterior(model.kernel_, model._Z, sites)
    if not (persistence.finite(q.mean) and persistence.finite(q.cov)):
        raise ValueError("the kernel and Lambda have no posterior")
    at = model.inducing_points_[:100]
    if not (np.isfinite(at).all() and np.isfinite(model._latent(at)).all()):
        raise ValueError("the predictions are not finite")


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
    """The number that `_finite` made None of, if infinity it was."""
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
        if not parts:
            raise ValueError(f"a {name} of kernels has no parts")
        composite: Kernel = getattr(kernels, name)(*parts)
        return composite
    if name not in LEAVES:
        raise ValueError(f"there is no kernel {name!r}")
    kernel: Kernel = getattr(kernels, name)()
    if isinstance(kernel, kernels.Stationary):
        kernel.spread, kernel.from_data = _number(structure["spread"]), bool(structure["from_data"])
        if not kernel.spread > 0:
            raise ValueError(f"the spread of {prefix} is not positive")
    for parameter in list(kernel._parameters):
        value = tensors[f"{prefix}.{parameter}"]
        if value.ndim > (parameter == "log_lengthscale2") or value.abs().gt(LARGEST_LOG).any():
            raise ValueError(f"{prefix}.{parameter} has another shape or is beyond all bounds")
        setattr(kernel, parameter, torch.nn.Parameter(value.clone()))
    return kernel
