"""`sepgp info`: what a model file holds."""

from typing import Any

import typer

from sepgp.cli.options import Model


def info(model: Model) -> None:
    """Say what a model is, what it was trained on, and which columns matter to it.

    \b
    sepgp info loans.sepgp
    """
    from rich.console import Console
    from rich.table import Table

    from sepgp.classifier import load
    from sepgp.evaluation.relevance import relevance

    fitted = load(model)
    facts = Table(box=None, show_header=False)
    for name, value in _facts(fitted).items():
        facts.add_row(name, value)
    console = Console()
    console.print(facts)
    read = {} if fitted.encoding_ is None else dict(fitted.encoding_.kinds)
    columns = Table("column", "read as", "relevance", box=None)
    for name, share in sorted(relevance(fitted).items(), key=lambda item: -item[1])[:30]:
        bar = f"{100 * share:5.1f} %  {'█' * round(30 * share)}"
        columns.add_row(name, read.get(name, "number"), bar)
    typer.echo("")
    console.print(columns)


def _facts(model: Any) -> dict[str, str]:
    history = model.history_
    return {
        "method": f"{model.method.upper()}, {model.dtype}",
        "classes": " and ".join(str(label) for label in model.classes_.tolist()),
        "target": getattr(model, "target_", None) or "not known",
        "rows": f"{model._n_seen:,.0f}",
        "columns": f"{model.n_features_in_}, as {model._Z.shape[1]} features",
        "inducing points": str(len(model._Z)),
        "kernel": repr(model.kernel_).replace("\n", " "),
        "log evidence": f"{model.log_evidence_:,.1f}",
        "training": f"{model.n_iter_} steps in {history['seconds'][-1]:.1f} s",
    }
