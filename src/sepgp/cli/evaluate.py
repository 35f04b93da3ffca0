"""`sepgp evaluate`: how good a model is on labelled rows."""

import json as json_
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sepgp.cli.options import (
    Model,
    Rows,
    Target,
    Unlabelled,
    Weight,
    label_column,
    load_model,
    readable,
)

if TYPE_CHECKING:
    from sepgp.evaluation.metrics import Estimate
    from sepgp.model import Model as Fitted

NAMES = {
    "nll": "negative log-likelihood",
    "error": "error",
    "brier": "Brier score",
    "ece": "calibration error (ECE)",
    "auc": "area under the ROC curve",
    "classwise_ece": "class-wise calibration error",
    "macro_auc": "macro AUC, one class against the rest",
    "weighted_auc": "weighted AUC, by the rows of a class",
}


def evaluate(
    model: Model,
    data: Rows,
    target: Target = None,
    weight: Weight = None,
    drop_unlabelled: Unlabelled = False,
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Measure how good the probabilities are on labelled rows.

    Every score has a 95 % bootstrap interval. With more than two classes the Brier score is summed
    over them, and the calibration error is that of the predicted class. A score that the rows do
    not have, as the area under the ROC curve with rows of one class, is null in JSON.

    \b
    sepgp evaluate loans.sepgp new-loans.csv
    sepgp evaluate loans.sepgp new-loans.csv --json | jq .nll.value
    """
    from sepgp.data.rows import open_rows
    from sepgp.data.watched import WatchedRows

    with readable(data) as path:
        fitted = load_model(model).model_
        names = fitted.schema.names
        rows = open_rows(path, label_column(fitted, target), names, weight, drop_unlabelled)
        show(fitted, WatchedRows(rows, fitted.schema.encoding), json, quiet=False)


def show(
    model: "Fitted", rows: Any, json: bool, quiet: bool, kind: str = "rows", about: str = ""
) -> None:
    """Print the metrics of a model on rows with labels; `kind` and `about` say which."""
    import numpy as np

    from sepgp.errors import InvalidData
    from sepgp.evaluation.metrics import class_codes, metrics
    from sepgp.evaluation.two_classes import chance_of_calibration_error

    parts = []
    for block in rows.blocks():
        latent, codes = model.latent(block.X), class_codes(model.classes, block.y, rows.name)
        loss = -model.likelihood.log_probability(codes, *latent)
        parts.append((model.likelihood.probabilities(*latent), loss, codes, block.weight))
    if not any(weight.any() for *_, weight in parts):
        raise InvalidData(f"{rows.name} has no rows of positive weight; give data that has some.")
    p, loss, y, weight = map(np.concatenate, zip(*parts, strict=True))
    found = metrics(p, loss, y, weight)
    if json:
        typer.echo(json_.dumps({name: _without_nan(value) for name, value in found.items()}))
        return
    from rich.console import Console
    from rich.table import Table

    n_classes, n_present = len(model.classes), len(np.unique(y[weight > 0]))
    several = "both" if n_classes == 2 else "several"
    table = Table("", "", "95 % interval", box=None)
    for name, value in found.items():
        number, interval = f"{value.value:.4f}", f"{value.low:.4f} to {value.high:.4f}"
        if math.isnan(value.value):
            number, interval = "–", f"needs rows of {several} classes"
        table.add_row(NAMES[name], number, interval)
    if not quiet:
        weighted = "" if (weight == 1).all() else ", each by its weight"
        typer.echo(f"{len(y):,} {kind} of {rows.name}{about}{weighted}:")
    Console().print(table)
    chance = chance_of_calibration_error(p[:, 1] if n_classes == 2 else p.max(1), weight)
    typer.echo(
        f"Perfectly calibrated probabilities would have an ECE of {chance:.4f} here, by chance."
    )
    if 1 < n_present < n_classes:
        typer.echo(f"AUC is over the {n_present} of {n_classes} classes that the rows have.")


def _without_nan(estimate: "Estimate") -> dict[str, float | None]:
    return {k: None if math.isnan(v) else v for k, v in estimate._asdict().items()}
