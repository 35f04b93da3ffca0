"""`sepgp info`: what a model file holds."""

from typing import TYPE_CHECKING

import typer

from sepgp.cli.options import Model

if TYPE_CHECKING:
    from sepgp.model import Model as Fitted


def info(model: Model) -> None:
    """Say what a model is, what it was trained on, and which columns matter to it.

    \b
    sepgp info loans.sepgp
    """
    from rich.console import Console
    from rich.table import Table

    from sepgp.classifier import load
    from sepgp.evaluation.relevance import relevance

    fitted = load(model).model_
    facts = Table(box=None, show_header=False)
    for name, value in _facts(fitted).items():
        facts.add_row(name, value)
    console = Console()
    console.print(facts)
    read = {name: kind for name, kind, _ in fitted.schema.columns}
    columns = Table("column", "read as", "relevance", box=None)
    for name, share in sorted(relevance(fitted).items(), key=lambda item: -item[1])[:30]:
        bar = f"{100 * share:5.1f} %  {'█' * round(30 * share)}"
        columns.add_row(name, read[name], bar)
    typer.echo("")
    console.print(columns)


def _facts(model: "Fitted") -> dict[str, str]:
    return {
        "method": f"{model.method.upper()}, {str(model.dtype).removeprefix('torch.')}",
        "classes": _classes([str(label) for label in model.classes.tolist()]),
        "target": model.target or "not known",
        "rows": f"{model.n_seen:,.0f}",
        "columns": f"{model.schema.n_columns}, as {model.Z.shape[1]} features",
        "inducing points": str(len(model.Z)),
        "kernel": repr(model.kernel).replace("\n", " "),
        "log evidence": f"{model.log_evidence:,.1f}",
        "training": f"{model.n_iter} steps in {model.history['seconds'][-1]:.1f} s",
    }


def _classes(labels: list[str], most: int = 30) -> str:
    if len(labels) == 2:
        return " and ".join(labels)
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return f"{len(labels)}: {', '.join(labels[:most])}{more}"
