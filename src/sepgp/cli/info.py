"""`sepgp info`: what a model file holds."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sepgp.cli.columns import WORDS
from sepgp.cli.options import Model


def info(
    model: Model,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Describe a model: data, kernel, training, relevance of columns.

    \b
    sepgp info loans.sepgp
    sepgp info loans.sepgp --json
    """
    if as_json:
        typer.echo(json.dumps(_described(model), indent=1, ensure_ascii=False))
        return
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


def _described(path: Path) -> dict[str, Any]:
    """The same facts as numbers, lists and texts."""
    from sepgp.files.content import DAMAGE, damaged, read_model

    arrays, header = read_model(path)
    told = _told(path)
    try:
        m, d = arrays["Z"].shape
        return {
            "sepgp": header["sepgp"],
            "method": header.get("method", header["parameters"]["method"]),
            "dtype": header.get("dtype", header["parameters"]["dtype"]),
            "classes": header["classes"],
            "target": header["target"],
            "rows": header["n_seen"],
            "n_inducing": m,
            "n_features": d,
            "kernel": told["facts"]["kernel"],
            "log_evidence": header["log_evidence"],
            "steps": len(arrays["history"]),
            "seconds": float(arrays["history"][-1, 1]),
            "columns": [
                {"name": name, "read_as": WORDS.get(kind, kind), "relevance": share}
                for name, kind, share in told["columns"]
            ],
        }
    except DAMAGE as error:
        raise damaged(path, error) from error
