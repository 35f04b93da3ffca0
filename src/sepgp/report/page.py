"""The page: findings as one HTML file that needs nothing else."""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sepgp import __version__
from sepgp.classifier import GPClassifier
from sepgp.data.inputs import training_rows
from sepgp.data.rows import is_table
from sepgp.data.schema import is_source
from sepgp.errors import InvalidParameter
from sepgp.evaluation.metrics import BINS, Estimate
from sepgp.evaluation.tally import Tally
from sepgp.files import atomic
from sepgp.model import Model
from sepgp.report import figures
from sepgp.report.columns import columns, count, shown
from sepgp.report.findings import Findings, UncertainRows, findings
from sepgp.report.svg import shortened

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
    source = training_rows(X, y, sample_weight, target, names)
    atomic.check(path)
    text = page(fitted, findings(fitted, source, progress), title)
    with atomic.replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")


def page(model: Model, found: Findings, title: str | None = None) -> str:
    """The page as text."""
    first, second = (str(label) for label in model.classes.tolist())
    tally = found.tally
    drawn = found.sample
    y = np.asarray(drawn.y == model.classes[1], dtype=bool)
    parts = {
        "title": title or "Report on a classifier",
        "name": Path(found.name).name,
        "made": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, sepgp {__version__}",
        "first": shortened(first, 40),
        "second": shortened(second, 40),
    }
    markup = {
        "tiles": _tiles(found),
        "verdict": _verdict(found, shortened(second, 40)),
        "data_facts": _facts(_data_facts(found, first, second)),
        "model_facts": _facts(_model_facts(model)),
        "learning": str(figures.learning_curve(model.history, max(model.n_seen, 1.0))),
        "reliability": str(figures.reliability(tally, second)),
        "reliability_table": _reliability_table(tally),
        "bins": str(BINS),
        "ece": _with_interval(found.scores["ece"], _number),
        "roc": str(figures.roc(tally)),
        "pr": str(figures.precision_recall(tally)),
        "auc": _with_interval(found.scores["auc"], _number),
        "average_precision": _number(tally.average_precision()),
        "base_rate": _percent(tally.totals[1] / tally.total),
        "histogram": str(figures.histogram(tally, (first, second))),
        "relevance": _relevance(found),
        "curves": _curves(found),
        "noise": f"{found.noise:.3f}",
        "ignorance": f"{found.ignorance:.3f}",
        "ignorance_share": _percent(found.ignorance / max(found.noise + found.ignorance, 1e-12)),
        "uncertain": _rows(found, found.most_uncertain, (first, second)),
        "ignorant": _rows(found, found.most_ignorant, (first, second)),
        "map": _map(found, y),
        "tallies": _embedded(_tallies(tally)),
    }
    template = Template(files("sepgp.report").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute({k: escape(v) for k, v in parts.items()} | markup)


# ------------------------------------------------------------------- words and numbers


def _percent(share: float) -> str:
    if math.isnan(share):
        return "–"
    digits = 0 if share in (0.0, 1.0) else 1 if 0.001 <= share <= 0.999 else 3
    return f"{100 * share:.{digits}f}\u00a0%"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _range(estimate: Estimate, shown_as: Callable[[float], str]) -> str:
    """The interval of an estimate in words."""
    if math.isnan(estimate.value):
        return "needs rows of both classes"
    return f"{shown_as(estimate.low)} to {shown_as(estimate.high)}"


def _with_interval(estimate: Estimate, shown_as: Callable[[float], str]) -> str:
    return f"{shown_as(estimate.value)} ({_range(estimate, shown_as)})"


def _tiles(found: Findings) -> str:
    share = found.tally.totals[1] / found.tally.total
    guess = [share, 1 - share]
    entropy = -sum(s * math.log(s) for s in guess if s > 0)
    tiles = [
        ("Area under ROC", "auc", _number, "0.5 is a guess, 1 is perfect"),
        ("Error", "error", _percent, f"always the larger class: {_percent(min(guess))}"),
        ("Log loss", "nll", _number, f"base rate alone: {_number(entropy)}"),
        ("Brier score", "brier", _number, f"base rate alone: {_number(share * (1 - share))}"),
        ("Calibration error", "ece", _number, "0 means that probabilities hold"),
    ]
    return "".join(
        f'<div class="tile"><dt>{name}</dt><dd>{shown_as(found.scores[key].value)}</dd>'
        f'<dd class="range">{_range(found.scores[key], shown_as)}</dd>'
        f'<dd class="hint">{hint}</dd></div>'
        for name, key, shown_as, hint in tiles
    )


def _verdict(found: Findings, second: str) -> str:
    """The bin with the most rows in words, as a way into the reliability diagram."""
    bins = found.tally.reliability()
    top = int(np.argmax(bins.rows))
    return (
        f"For example, where it says {_percent(bins.stated[top])} on average, "
        f"<b>{escape(second)}</b> is the outcome of {_percent(bins.observed[top])} of "
        f"{count(bins.rows[top])} rows."
    )


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


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = (f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts)
    return f'<table class="facts">{"".join(rows)}</table>'


def _reliability_table(tally: Tally) -> str:
    rows = (
        f"<tr><td>{_percent(stated)}</td><td>{_percent(observed)}</td>"
        f"<td>{_percent(low)} to {_percent(high)}</td><td>{count(rows)}</td></tr>"
        for rows, stated, observed, low, high in zip(*tally.reliability(), strict=True)
    )
    head = "<tr><th>stated</th><th>observed</th><th>95 % interval</th><th>rows</th></tr>"
    return f'<table class="numbers">{head}{"".join(rows)}</table>'


def _relevance(found: Findings) -> str:
    if not found.relevance:
        return "<p>The latent function depends on no column: they are in their own order.</p>"
    shown_ = found.ranked[:BARS]
    top = max(found.relevance[column.name] for column in shown_)
    bars = []
    for column in shown_:
        share = found.relevance[column.name]
        bars.append(
            f'<div class="bar"><span title="{escape(column.name)}">'
            f"{escape(shortened(column.name, 40))}</span>"
            f'<i><b style="width:{100 * share / top:.1f}%"></b></i><em>{_percent(share)}</em></div>'
        )
    rest = len(found.ranked) - len(shown_)
    more = f'<p class="note">{rest:,} columns with less relevance are left out.</p>' if rest else ""
    return f'<div class="bars">{"".join(bars)}</div>{more}'


def _curves(found: Findings) -> str:
    if not found.curves:
        return "<p>No column has two different values in these rows.</p>"
    highest = max(float(curve.high.max()) for curve in found.curves)
    top = next(top for top in (0.1, 0.2, 0.3, 0.5, 0.75, 1.0) if highest <= top)
    drawn = (f"<figure>{figures.dependence(curve, top)}</figure>" for curve in found.curves)
    return f'<div class="small">{"".join(drawn)}</div>'


def _rows(found: Findings, rows: UncertainRows, classes: tuple[str, str]) -> str:
    kept = found.ranked[:VALUES]
    heads = "".join(f"<th>{escape(shortened(column.name, 16))}</th>" for column in kept)
    lines = []
    for i in range(len(rows.numbers)):
        noise, ignorance = rows.parts.noise[i], rows.parts.ignorance[i]
        cells = "".join(
            f"<td>{escape(shortened(shown(rows.X, i, column), 20))}</td>" for column in kept
        )
        label = escape(shortened(classes[int(rows.y[i])], 24))
        lines.append(
            f"<tr><td>{rows.numbers[i]:,}</td><td>{label}</td><td>{_percent(float(rows.p[i]))}</td>"
            f'<td><div class="split" title="noise {noise:.3f}, ignorance {ignorance:.3f} bits">'
            f'<b style="width:{100 * noise:.1f}%"></b><i style="width:{100 * ignorance:.1f}%"></i>'
            f"</div></td><td>{noise:.2f}</td><td>{ignorance:.2f}</td>{cells}</tr>"
        )
    return (
        '<div class="scroll"><table class="numbers rows"><tr><th>row</th><th>class</th>'
        f"<th>stated</th><th>0 to 1 bit</th><th>noise</th><th>ignorance</th>{heads}</tr>"
        f"{''.join(lines)}</table></div>"
    )


def _map(found: Findings, y: Any) -> str:
    if found.map is None:
        return "<p>A map needs two columns with different values.</p>"
    drawn = [
        figures.decision_map(found.map, which, found.sample.X, y) for which in ("p", "unlearned")
    ]
    low, high = (f"{100 * end:.0f}\u00a0%" for end in figures.unlearned(found.map)[1])
    keys = [("d", "0 %", "100 %"), ("s", low, high)]
    titles = ["Probability", "Not yet learned"]
    drawings = (
        f"<figure><figcaption>{title}{_key(*key)}</figcaption>{plot}</figure>"
        for title, key, plot in zip(titles, keys, drawn, strict=True)
    )
    return f'<div class="two">{"".join(drawings)}</div>'


def _key(style: str, low: str, high: str) -> str:
    shades = "".join(
        f'<rect class="{style}{k}" x="{5 * k}" width="5.2" height="10"/>'
        for k in range(figures.SHADES)
    )
    width = 5 * figures.SHADES
    return (
        f'<span class="shades">{low} <svg viewBox="0 0 {width} 10" width="{width}" height="10" '
        f'aria-hidden="true">{shades}</svg> {high}</span>'
    )


def _tallies(tally: Tally) -> dict[str, Any]:
    """What the script of the page needs to say what happens at a threshold."""
    false, true, totals = (
        [int(v) if v == int(v) else round(v, 3) for v in values]
        for values in (*tally.positives().tolist(), tally.totals)
    )
    return {"false": false, "true": true, "totals": totals}


def _embedded(value: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
