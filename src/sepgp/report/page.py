"""The page: findings as one HTML file that needs nothing else."""

import math
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sepgp import __version__
from sepgp.classifier import GPClassifier
from sepgp.data.inputs import Given
from sepgp.data.rows import is_table
from sepgp.data.schema import is_source
from sepgp.errors import InvalidParameter
from sepgp.evaluation.metrics import BINS
from sepgp.evaluation.tally import Tally
from sepgp.files import atomic
from sepgp.model import Model
from sepgp.report import figures
from sepgp.report.columns import columns, count, shown
from sepgp.report.findings import Findings, findings
from sepgp.report.svg import Plot, shortened

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
    fitted = model.model_
    names = fitted.schema.names if is_source(X) or is_table(X) else None
    if names is not None and target in names:
        raise InvalidParameter(
            f"target={target!r} is a column that the model learned from; name that of the labels."
        )
    source = Given(X, y, sample_weight, target, names).rows()
    atomic.check(path)
    text = page(fitted, findings(fitted, source, progress), title)
    with atomic.replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")


def page(model: Model, found: Findings, title: str | None = None) -> str:
    """The page as text."""
    first, second = (str(label) for label in model.classes.tolist())
    share = found.tally.totals[1] / found.tally.total
    return _template().render(
        title=title or "Report on a classifier",
        name=Path(found.name).name,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, sepgp {__version__}",
        classes=(first, second),
        first=shortened(first, 40),
        second=shortened(second, 40),
        model=model,
        found=found,
        data_facts=_data_facts(found, first, second),
        model_facts=_model_facts(model),
        share=share,
        guess=min(share, 1 - share),
        variance=share * (1 - share),
        entropy=-sum(s * math.log(s) for s in (share, 1 - share) if s > 0),
        bins=list(zip(*found.tally.reliability(), strict=True)),
        n_bins=BINS,
        bars=found.ranked[:BARS],
        kept=found.ranked[:VALUES],
        curves=_curves(found),
        maps=_maps(found, np.asarray(found.sample.y == model.classes[1], dtype=bool)),
        tallies=_tallies(found.tally),
    )


def _template() -> Template:
    loader = PackageLoader("sepgp", "report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    names = {"number": _number, "percent": _percent, "count": count, "short": shortened}
    return environment.get_template(
        "page.html", globals=names | {"figures": figures, "value": shown}
    )


def _percent(share: float) -> str:
    if math.isnan(share):
        return "–"
    digits = 0 if share in (0.0, 1.0) else 1 if 0.001 <= share <= 0.999 else 3
    return f"{100 * share:.{digits}f}\u00a0%"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _data_facts(found: Findings, first: str, second: str) -> Iterator[tuple[str, str]]:
    yield "rows", f"{found.n_rows:,}"
    if found.weighted:
        yield "weights", f"{count(found.tally.total)} in all; a row of weight 2 counts as two rows"
    for label, rows in zip((first, second), found.tally.totals, strict=True):
        share = _percent(rows / found.tally.total)
        yield f"class {shortened(label, 40)}", f"{count(rows)} rows, {share}"
    kinds = [column.kind for column in found.columns]
    words = {"number": "of numbers", "text": "of text", "time": "of times"}
    counted = [f"{kinds.count(k)} {words[k]}" for k in words if k in kinds]
    yield "columns", f"{len(kinds)}: {', '.join(counted)}"
    drawn = len(found.sample)
    sample = "all rows" if drawn == found.n_rows else f"a random sample of {drawn:,} rows"
    yield "looked at closely", sample


def _model_facts(model: Model) -> Iterator[tuple[str, str]]:
    features = model.Z.shape[1]
    yield "method", f"{model.method.upper()}, {len(model.Z)} inducing points"
    yield "kernel", shortened(" ".join(repr(model.kernel).split()), 320)
    yield "features", f"{features:,} from {len(columns(model)):,} columns"
    yield "trained on", f"{model.n_seen:,.0f} rows"
    seconds = model.history["seconds"][-1]
    yield "training", f"{model.n_iter:,} steps, {seconds:,.1f} s"
    per_row = model.log_evidence / max(model.n_seen, 1.0)
    yield "log evidence", f"{model.log_evidence:,.1f}, or {per_row:.4f} per row".replace("-", "−")


def _curves(found: Findings) -> list[Plot]:
    highest = max((float(curve.high.max()) for curve in found.curves), default=0.0)
    top = next(top for top in (0.1, 0.2, 0.3, 0.5, 0.75, 1.0) if highest <= top)
    return [figures.dependence(curve, top) for curve in found.curves]


def _maps(found: Findings, y: NDArray[np.bool_]) -> list[tuple[str, str, str, str, Plot]]:
    """Title, shades, the ends of the scale and the drawing of either map."""
    if found.map is None:
        return []
    low, high = (f"{100 * end:.0f}\u00a0%" for end in figures.unlearned(found.map)[1])
    p, left = (figures.decision_map(found.map, w, found.sample.X, y) for w in ("p", "unlearned"))
    return [("Probability", "d", "0 %", "100 %", p), ("Not yet learned", "s", low, high, left)]


def _tallies(tally: Tally) -> dict[str, Any]:
    """What the script of the page needs to say what happens at a threshold."""
    false, true, totals = (
        [int(v) if v == int(v) else round(v, 3) for v in values]
        for values in (*tally.positives().tolist(), tally.totals)
    )
    return {"false": false, "true": true, "totals": totals}
