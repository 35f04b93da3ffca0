"""What a model is, what it was trained on, and which columns matter to it, in plain words."""

import math
from typing import Any

from sepgp.errors import brief
from sepgp.evaluation.relevance import EXCHANGES, relevance
from sepgp.model import Model

QUICK = 2e9
"""Products of numbers that relevance may cost when a model is saved."""


def about(model: Model) -> dict[str, Any]:
    """Facts by name, and for every column its name, how it is read and its relevance, as JSON."""
    shares = relevance(model)
    finite = len(shares) > 0 and all(map(math.isfinite, shares.values()))
    columns = [[name, kind, shares[name]] for name, kind, _ in model.schema.columns if finite]
    return {
        "facts": {
            "method": f"{model.method.upper()}, {str(model.dtype).removeprefix('torch.')}",
            "classes": _classes([str(label) for label in model.classes.tolist()]),
            "target": model.target or "not known",
            "training rows": f"{model.n_seen:,.0f}",
            "columns": f"{model.schema.n_columns}, as {model.Z.shape[1]} features",
            "inducing points": str(len(model.Z)),
            "kernel": repr(model.kernel).replace("\n", " "),
            **_prior(model),
            "log evidence": f"{model.log_evidence:,.1f}",
            "training": f"{model.n_iter} steps in {model.history['seconds'][-1]:.1f} s",
        },
        "columns": sorted(columns, key=lambda column: -column[2]),
    }


def about_if_quick(model: Model) -> dict[str, Any] | None:
    """The same, to be kept in a file, unless there are so many columns that it takes seconds."""
    m, d = model.Z.shape
    return about(model) if EXCHANGES * len(model.schema.columns) * m * m * d < QUICK else None


def _prior(model: Model) -> dict[str, str]:
    """The classifier that gives a prior mean, if there is one."""
    if model.mean is None:
        return {}
    factor = model.mean.factor * model.mean.ratio
    one = brief(repr(model.mean.classifiers[0]))
    return {"prior mean": f"{factor:.2f} times the score of {one}"}


def _classes(labels: list[str], most: int = 30) -> str:
    if len(labels) == 2:
        return " and ".join(labels)
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return f"{len(labels)}: {', '.join(labels[:most])}{more}"
