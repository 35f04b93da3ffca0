"""The page: findings as one HTML file that needs nothing else."""

import math
import os
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from scipy.special import entr
from sklearn.utils.validation import check_is_fitted

from sepgp import __version__
from sepgp.classifier import GPClassifier
from sepgp.data.inputs import Given
from sepgp.data.rows import Rows, is_table
from sepgp.data.schema import is_source
from sepgp.data.watched import WatchedRows
from sepgp.errors import InvalidParameter
from sepgp.evaluation.tally import Tally
from sepgp.evaluation.two_classes import BINS
from sepgp.files import atomic
from sepgp.model import Model
from sepgp.report import classes as of_classes
from sepgp.report import figures, maps
from sepgp.report.columns import count, fitting, shown
from sepgp.report.findings import Findings, findings
from sepgp.report.svg import shortened
from sepgp.report.verdict import verdict

VALUES = 4
"""Columns that a list of rows shows, the most relevant ones."""
BARS = 20
"""Columns whose relevance is shown."""


def write(
    model: GPClassifier,
    X: Any,
    y: Any = None,
    path: str | os.PathLike[str] = "report.html",
    *,
    target: str | None = None,
    sample_weight: Any = None,
    title: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write a report on a fitted model and some rows with labels as one HTML file.

    Parameters
    ----------
    model : GPClassifier
        The fitted model.
    X, y, target, sample_weight
        Rows, their labels and their weights, as for `GPClassifier.fit`: an array or table with y,
        or a table or path with the column `target`; weights as an array or the name of a column.
        They are read once, block by block.
    path : path
        The file to write. It is replaced at once or not at all.
    title : str, optional
        The heading of the page.
    progress : callable, optional
        Called after every block with the number of rows so far.
    """
    check_is_fitted(model)
    fitted = model.model_.about(model.pos_label)
    named = (is_source(X) or is_table(X)) and not isinstance(X, Rows)
    names = fitted.schema.names if named else None
    if names is not None and target in names:
        raise InvalidParameter(
            f"target={target!r} is a column that the model learned from; name that of the labels."
        )
    source = WatchedRows(Given(X, y, sample_weight, target, names).rows(), fitted.schema.encoding)
    atomic.check(path)
    text = page(fitted, findings(fitted, source, progress), title)
    with atomic.replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")


def page(model: Model, found: Findings, title: str | None = None) -> str:
    """The page as text."""
    classes = [str(label) for label in model.classes.tolist()]
    many = len(classes) > 2
    shares = found.confusion.totals / found.confusion.totals.sum()
    present = np.count_nonzero(shares)
    bits, entropy = math.log2(len(classes)), float(entr(shares).sum())
    return _template().render(
        title=title or "Report on a classifier",
        name=Path(found.name).name,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, sepgp {__version__}",
        classes=classes,
        first=shortened(classes[0], 40),
        second=shortened(classes[1], 40),
        many=many,
        tags=of_classes.tags(classes),
        listed=of_classes.listed(found.confusion),
        present="0.5 is a guess, 1 is perfect"
        if present == len(classes)
        else f"over the {present} classes that have rows",
        most_bits=bits,
        number_of_bits=f"{bits:.3g} bit" + "s" * many,
        model=model,
        found=found,
        verdict=verdict(found, entropy),
        measured=bool(np.isfinite(model.history["validation_nll"]).any()),
        kinds=Counter(column.kind for column in found.ranked),
        share=float(shares[1]),
        guess=1 - float(shares.max()),
        variance=1 - float(np.square(shares).sum()) if many else float(shares[0] * shares[1]),
        entropy=entropy,
        bins=list(zip(*found.tally.reliability(), strict=True)),
        n_bins=BINS,
        bars=found.ranked[:BARS],
        kept=fitting(found.ranked[: VALUES - many]),
        tallies=_tallies(found.tally),
    )


def _template() -> Template:
    loader = PackageLoader("sepgp", "report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    names = {"number": _number, "percent": _percent, "count": count, "short": shortened}
    modules = {"figures": figures, "maps": maps, "of_classes": of_classes}
    return environment.get_template("page.html", globals=names | modules | {"value": shown})


def _percent(share: float) -> str:
    if math.isnan(share):
        return "–"
    digits = 0 if share in (0.0, 1.0) else 1 if 0.001 <= share <= 0.999 else 3
    return f"{100 * share:.{digits}f}\u00a0%"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _tallies(tally: Tally) -> dict[str, Any]:
    """What the script of the page needs to say what happens at a threshold."""
    false, true = np.round(tally.positives(), 3).tolist()
    return {"false": false, "true": true, "totals": tally.totals}
