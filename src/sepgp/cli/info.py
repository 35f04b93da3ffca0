"""`sepgp info`: what a model file holds."""

from pathlib import Path
from typing import Any

import typer

from sepgp.cli.columns import WORDS
from sepgp.cli.options import Model


def info(model: Model) -> None:
    """Say what a model is, what it was trained on, and which columns matter to it.

    \b
    sepgp info loans.sepgp
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from sepgp.files.content import DAMAGE, damaged

    facts = Table(box=None, show_header=False)
    columns = Table("column", "read as", "relevance", box=None)
    told = _told(model)
    try:
        for name, value in told["facts"].items():
            facts.add_row(name, escape(value))
        for name, kind, share in told["columns"][:30]:
            bar = f"{100 * share:5.1f} %  {'█' * round(30 * share)}"
            columns.add_row(escape(name), WORDS.get(kind, kind), bar)
    except DAMAGE as error:
        raise damaged(model, error) from error
    console = Console()
    console.print(facts)
    typer.echo("")
    console.print(columns)


def _told(path: Path) -> Any:
    """What the file says itself, which needs no torch, or what its model says."""
    from sepgp.files.content import read_model

    _, header = read_model(path)
    if header.get("about") is not None:
        return header["about"]
    from sepgp.cli.options import load_model
    from sepgp.evaluation.about import about

    return about(load_model(path).model_)
