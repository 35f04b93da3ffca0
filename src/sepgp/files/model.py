"""Model files: a trained model as tensors and JSON, without its rows and without code."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.typing import NDArray
from torch import Tensor

from sepgp import __version__
from sepgp.data.batches import aligned
from sepgp.data.encoding import encoding_from_json
from sepgp.data.logarithms import Logarithms
from sepgp.data.scaling import LARGEST, Scaling
from sepgp.data.schema import Schema
from sepgp.errors import InvalidData
from sepgp.files import classifiers, content
from sepgp.files import tensors as tensor_files
from sepgp.files.content import FORMAT, VERSION
from sepgp.files.kernels import kernel_of, parameters_of, structure_of, width
from sepgp.gp.kernels import Kernel
from sepgp.gp.natural import Natural
from sepgp.gp.predictor import Predictor, posterior, triangular
from sepgp.inference.method import METHODS
from sepgp.likelihoods import for_classes
from sepgp.means import Mean
from sepgp.model import Model

CLASSIFIERS, GIVEN = "classifiers", "given"
"""The classifiers of a prior mean: the name of their bytes, and of the one that the user gave."""
LEVELS = "levels."
"""How the names of label means begin."""
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


def save(
    model: Model, parameters: Mapping[str, Any], path: str | os.PathLike[str], about: Any = None
) -> None:
    """Write a fitted model to a file, with the parameters of the estimator that holds it.

    `about` is what `sepgp info` says of it, if that is known.

    The file is replaced at once or not at all. It holds what predictions and `partial_fit` need,
    the history of the training, and no rows: of the data it has means and deviations, frequent
    texts, hashes of others with the shares of the classes in their rows, and the inducing points.
    These are rows where there are no more distinct rows than points, or where they were taken from
    rows (`inducing="random"` or an array of them) and not learned. Size: about three m × m matrices
    for each latent function. The classifiers of a prior mean are kept by skops if it trusts them;
    of the rows they hold what they were fitted to keep, such as thresholds of trees.
    """
    stored, given = _stored_parameters(parameters)
    moments, counts = tensor_files.flat("moments", model.moments)
    tensors = _tensors(model) | moments | given
    if model.mean is not None or stored["mean"] == GIVEN:
        kept = {
            "fitted": [] if model.mean is None else list(model.mean.classifiers),
            GIVEN: parameters["mean"] if stored["mean"] == GIVEN else None,
        }
        tensors[CLASSIFIERS] = torch.from_numpy(classifiers.encoded(kept).copy())
    header = {
        "format": FORMAT,
        "version": VERSION,
        "sepgp": __version__,
        "parameters": stored,
        "method": model.method,
        "kernel": structure_of(model.kernel),
        "classes": [_plain(label) for label in model.classes],
        "n_features": model.schema.n_columns,
        "names": list(map(str, model.schema.names or [])),
        "encoding": None if model.schema.encoding is None else model.schema.encoding.to_json(),
        "tail": model.scaling.tail if math.isfinite(model.scaling.tail) else None,
        "dtype": str(model.dtype).removeprefix("torch."),
        "target": model.target,
        "n_seen": model.n_seen,
        "iteration": model.iteration,
        "about": about,
        "log_evidence": model.log_evidence if math.isfinite(model.log_evidence) else None,
        "factor": None if model.mean is None else model.mean.factor,
        "ratio": None if model.mean is None else model.mean.ratio,
        "sklearn": sklearn.__version__,
        **counts,
    }
    tensor_files.write(path, tensors, header)


def _tensors(model: Model) -> dict[str, Tensor]:
    """The numbers of a model by name, all but the state of the optimiser."""
    encoding, columns = model.schema.encoding, [model.history[name] for name in HISTORY]
    levels = {} if encoding is None else encoding.arrays
    return {
        "Z": model.Z,
        "Lambda": model.sites.Lambda,
        "b": model.sites.b,
        "beta": model.predictor.beta,
        "F": model.predictor.F,
        "mean": torch.from_numpy(model.scaling.mean),
        "scale": torch.from_numpy(model.scaling.scale),
        **_derived(model.scaling),
        "far": torch.from_numpy(np.minimum(model.scaling.far, LARGEST)),
        "history": torch.tensor(np.column_stack(columns).astype(np.float64)),
        **parameters_of("kernel", model.kernel),
        **{f"{LEVELS}{name}": torch.from_numpy(array) for name, array in levels.items()},
    }


def _derived(scaling: Scaling) -> dict[str, Tensor]:
    """What the kernel sees of the features, if it is not they alone."""
    derived = {"components": scaling.components}
    if scaling.logarithms is not None:
        derived["logarithms"] = np.stack([part.astype(float) for part in scaling.logarithms])
    return {
        name: torch.from_numpy(np.ascontiguousarray(array))
        for name, array in derived.items()
        if array is not None
    }


def _logarithms(stored: Tensor) -> Logarithms:
    columns, *others = stored.numpy().copy()
    return Logarithms(columns.astype(np.int64), *others)


def load(path: str | os.PathLike[str]) -> tuple[Model, dict[str, Any]]:
    """The model that `save` wrote and its parameters; no code in the file is run."""
    arrays, header = content.read_model(path)
    kept = _classifiers(arrays.pop(CLASSIFIERS, None), header, path)
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    try:
        if header["version"] == 1:  # nothing was measured during training
            tensors["history"] = torch.nn.functional.pad(tensors["history"], (0, 1), value=math.nan)
        _check_tensors(tensors, header)
        tensors = {name: aligned(tensor) for name, tensor in tensors.items()}
        parameters = _parameters(tensors, header)
        if parameters.get("mean") == GIVEN:
            parameters["mean"] = kept[GIVEN]
        model = _model(tensors, header, parameters, kept["fitted"])
        _check(model)
        _check_numbers(model)
        return model, parameters
    except content.DAMAGE as error:
        raise content.damaged(path, error) from error


def _classifiers(
    data: NDArray[Any] | None, header: Mapping[str, Any], path: str | os.PathLike[str]
) -> dict[str, Any]:
    """The classifiers of a prior mean that a file holds: those that are fitted, and the parameter.

    Other versions of scikit-learn may have other parts.
    """
    nothing: dict[str, Any] = {"fitted": [], GIVEN: None}
    if data is None:
        return nothing
    classifiers.library()
    try:
        return nothing | dict(classifiers.decoded(data))
    except Exception as error:  # whatever scikit-learn says about what is not its own
        there, here = header.get("sklearn"), sklearn.__version__
        if there != here:
            raise InvalidData(
                f"{path} has a classifier of scikit-learn {there}, which version {here} cannot "
                "read; install that version, or train the model again."
            ) from error
        raise content.damaged(path, error) from error


def _check_tensors(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Raise a ValueError if a number is not finite or of another type, or a shape does not fit."""
    json.dumps(header, allow_nan=False)  # NaN and infinity are errors here
    for name, tensor in tensors.items():
        # A step that was thrown away may have had no evidence.
        finite = name == "history" or tensor_files.finite(tensor)
        _require(tensor.dtype == torch.float64 and finite, f"{name} is not finite in float64")
    m, d = tensors["Z"].shape
    _require(m > 0 and d > 0, "there are no inducing points")
    of_u = {"Lambda": (m, m), "b": (m,), "beta": (m,), "F": (m, m)}
    latents = for_classes(len(header["classes"])).latents
    shapes = {name: (*latents, *shape) for name, shape in of_u.items()}
    if "components" in tensors:
        features = len(tensors["components"])
        shapes["components"], d = (features, d), features
    elif "logarithms" in tensors:
        k = tensors["logarithms"].shape[-1]
        shapes["logarithms"], d = (len(Logarithms._fields), k), d - k
    vectors = dict.fromkeys({"mean", "scale", "far"} & {*tensors}, (d,))
    for name, shape in {**shapes, **vectors}.items():
        _require(tensors[name].shape == shape, f"{name} is not of shape {shape}")


def _stored_parameters(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Parameters of an estimator in terms of JSON, and those that are tensors."""
    stored, tensors = dict(parameters), {}
    if not isinstance(stored["inducing"], str):
        tensors["inducing"] = torch.tensor(np.asarray(stored.pop("inducing"), np.float64))
    if isinstance(stored["kernel"], Kernel):
        tensors |= parameters_of("start", stored["kernel"])
        stored["kernel"] = structure_of(stored["kernel"])
    if stored["mean"] is not None and not isinstance(stored["mean"], str):
        stored["mean"] = GIVEN
    if isinstance(stored["n_factors"], Mapping):
        edges = {name: np.asarray(at).tolist() for name, at in stored["n_factors"].items()}
        stored["n_factors"] = edges
    if isinstance(stored["class_weight"], dict):
        stored["class_weight"] = [[_plain(k), float(v)] for k, v in stored["class_weight"].items()]
    return {name: _plain(value) for name, value in stored.items()}, tensors


def _parameters(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> dict[str, Any]:
    parameters = dict(header["parameters"])
    if "inducing" in tensors:
        parameters["inducing"] = tensors["inducing"].numpy()
    if not isinstance(parameters["kernel"], str):
        parameters["kernel"] = kernel_of(parameters["kernel"], "start", tensors)
    if isinstance(parameters["class_weight"], list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    return parameters


def _model(
    tensors: Mapping[str, Tensor],
    header: Mapping[str, Any],
    parameters: Mapping[str, Any],
    fitted: Sequence[Any],
) -> Model:
    stored, tail, evidence = (header[name] for name in ("encoding", "tail", "log_evidence"))
    levels = {k.removeprefix(LEVELS): v.numpy() for k, v in tensors.items() if k.startswith(LEVELS)}
    encoding = None if stored is None else encoding_from_json(stored, levels)
    method = header.get("method", parameters["method"])
    _require(method in METHODS, f"method={method!r} is unknown")
    dtype = header.get("dtype", parameters["dtype"])
    _require(dtype in ("float64", "float32"), f"dtype={dtype!r} is unknown")
    return Model(
        method=method,
        schema=Schema(int(header["n_features"]), tuple(header["names"]) or None, encoding),
        target=header["target"],
        classes=np.array(header["classes"]),
        scaling=Scaling(
            tensors["mean"].numpy().copy(),
            tensors["scale"].numpy().copy(),
            math.inf if tail is None else float(tail),
            # Files from before it was there have values of any size compressed.
            tensors.get("far", torch.full_like(tensors["mean"], LARGEST)).numpy().copy(),
            tensors["components"].numpy().copy() if "components" in tensors else None,
            _logarithms(tensors["logarithms"]) if "logarithms" in tensors else None,
        ),
        likelihood=for_classes(len(header["classes"]), float(parameters.get("power", 1.0))),
        kernel=kernel_of(header["kernel"], "kernel", tensors),
        Z=tensors["Z"],
        sites=Natural(tensors["Lambda"], tensors["b"]),
        predictor=Predictor(tensors["beta"], _triangular(tensors["F"])),
        n_seen=float(header["n_seen"]),
        history=_history(tensors["history"]),
        log_evidence=math.nan if evidence is None else float(evidence),
        iteration=int(header["iteration"]),
        moments=_moments(tensors, header),
        seed=0,
        dtype=getattr(torch, dtype),
        mean=_mean(header, fitted),
    )


def _mean(header: Mapping[str, Any], fitted: Sequence[Any]) -> Mean | None:
    """The prior mean by classifiers that are fitted; None if there are none."""
    if not fitted:
        return None
    factor, ratio = float(header["factor"]), float(header.get("ratio", 1.0))
    return Mean(tuple(fitted), len(header["classes"]), factor, ratio)


def _history(stored: Tensor) -> dict[str, Any]:
    """The columns of the history, each in its own type."""
    _require(stored.ndim == 2 and len(stored) > 0, "the history has no steps")
    columns = dict(zip(HISTORY, stored.T.numpy(), strict=True))
    others = [columns[name] for name in columns if name not in ("log_evidence", "validation_nll")]
    possible = bool(np.all(np.abs(others) < LARGEST_COUNT))
    _require(possible, "the history has numbers that cannot be")
    return {name: column.astype(HISTORY[name]) for name, column in columns.items()}


def _moments(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> dict[str, Any]:
    """The optimiser's state: arrays of one length, and counts."""
    prefix = "moments."
    arrays, counts = (
        {k.removeprefix(prefix): v for k, v in part.items() if k.startswith(prefix)}
        for part in (tensors, header)
    )
    shapes = {tuple(array.shape) for array in arrays.values()}
    one = len(shapes) == 1 and len(shapes.pop()) == 1
    _require(one, "the optimiser's state is incomplete")
    for name, count in counts.items():
        possible = type(count) is int and 0 <= count < 2**53
        _require(possible, f"{prefix}{name} cannot be {count!r}")
    return arrays | counts


def _check(model: Model) -> None:
    """Raise a ValueError if the parts of a model do not belong together."""
    d, classes = model.Z.shape[1], model.classes
    several = classes.ndim == 1 and len(classes) > 1 and classes.dtype.kind in "biufU"
    _require(several and bool((classes[:-1] < classes[1:]).all()), "there are not two classes")
    named = model.target is None or isinstance(model.target, str)
    _require(named, "the target is not the name of a column")
    seen = 0 < model.n_seen < math.inf and 0 <= model.iteration < LARGEST_COUNT
    _require(seen, "it has seen no rows, or more than there can be")
    positive = bool(np.all(model.scaling.scale > 0)) and model.scaling.tail > 0
    _require(positive, "a scale is not positive")
    beyond = math.isinf(model.scaling.tail) or bool(np.all(model.scaling.far >= model.scaling.tail))
    _require(beyond, "a scaling has its far values nearer than its tail")
    _check_columns(model.schema, len(model.scaling.mean))
    if model.scaling.logarithms is not None:
        _check_logarithms(model.scaling.logarithms, len(model.scaling.mean))
    _require(width(model.kernel) in (None, d), "the kernel has not one length-scale per feature")


def _check_logarithms(found: Logarithms, d: int) -> None:
    there = bool(np.all((found.columns >= 0) & (found.columns < d)))
    _require(there, "a logarithm is of no feature")
    scaled = bool(np.all((found.unit != 0) & (found.deviation > 0)))
    _require(scaled, "a logarithm has no unit")


def _check_columns(schema: Schema, d: int) -> None:
    features = schema.n_columns
    if schema.encoding is not None:
        features = len(schema.encoding.features)
        same = schema.names == schema.encoding.columns
        _require(same, "the names of the columns are not those of the encoding")
    _require(features == d, "the features are not those of the inducing points")
    if schema.names is not None:
        texts = [name for name in schema.names if isinstance(name, str)]
        same = len(texts) == len(schema.names) == schema.n_columns
        _require(same, "the names of the columns are not as many texts")


def _triangular(F: Tensor) -> Tensor:
    """F as it is, or made triangular if the file is from before it was."""
    return F if torch.equal(F, F.triu()) else triangular(F)


def _check_numbers(model: Model) -> None:
    """Raise a ValueError if kernel, sites and predictor do not give finite numbers."""
    sites = model.natural
    size = float(sites.Lambda.abs().max())
    symmetric = torch.allclose(sites.Lambda, sites.Lambda.mT, rtol=0.0, atol=1e-6 * size)
    _require(symmetric, "Lambda is not symmetric")
    with torch.no_grad():
        _, q = posterior(model.kernel, model.Z, sites)
    finite = tensor_files.finite(q.mean) and tensor_files.finite(q.cov)
    _require(finite, "the kernel and Lambda have no posterior")
    at = model.inducing_points[:100]
    finite = bool(np.isfinite(at).all() and np.isfinite(model.latent_of_features(at)).all())
    _require(finite, "the predictions are not finite")


def _require(right: bool, fault: str) -> None:
    if not right:
        raise ValueError(fault)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
