"""The command `sepgp`: its groups, and one sentence for every mistake."""

import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import sepgp
from sepgp.cli import data, evaluate, info, predict, report, reproduce, signals, train
from sepgp.errors import InvalidData, InvalidParameter, NotEnoughMemory, out_of_memory
from sepgp.experiments.cells import CellFailed

OPTIONS = {
    "batch_size": "--batch-size", "checkpoint": "--checkpoint", "columns": "--columns",
    "forgetting": "--forgetting", "kernel": "--kernel", "max_iter": "--steps",
    "method": "--method", "n_inducing": "--inducing", "pos_label": "--positive",
    "random_state": "--seed", "read": "--read",
    "sample_weight": "--weight", "target": "--target", "time_budget": "--time-budget",
    "validation_fraction": "--validation",
}  # fmt: skip
"""What the parameters of Python are called on the command line."""

app = typer.Typer(
    help="Sparse Gaussian process classification by stochastic expectation propagation.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sepgp {sepgp.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None: ...


app.command()(train.train)
app.command()(predict.predict)
app.command()(evaluate.evaluate)
app.command()(info.info)
app.command()(report.report)
app.command()(train.update)
app.add_typer(data.app, name="data")
app.add_typer(reproduce.app, name="reproduce")


def _say(kind: str, said: object) -> None:
    """Print a sentence of the library, in which options stand for the parameters of Python."""
    python = (
        r"(?:columns=\[\.\.\.\]|read=\{.*?\}|dayfirst=True or False|open_rows\(\.\.\., \w+=True\))"
    )
    text = re.sub(rf"{python}, or (--.*?) on the command line", r"\1", str(said))
    text = re.sub("^X (?=has|contains)", "The data ", text)
    names = re.compile(rf"\b({'|'.join(OPTIONS)})(?==)|^(?:columns|read)(?= contains| names)")
    text = names.sub(lambda found: OPTIONS[found[0]], text)
    print(f"{kind}: {text}", file=sys.stderr)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    _say("Warning", message)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a mistake of the user ends it with one sentence and exit code 1."""
    try:
        with warnings.catch_warnings(), signals.handled(signals.end, signal.SIGTERM, signal.SIGINT):
            warnings.showwarning = _warn
            try:
                app(arguments, prog_name="sepgp")
            finally:
                sys.stdout.flush()  # now, since a reader may have had enough
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (InvalidData, InvalidParameter, CellFailed, ImportError, OSError) as error:
        _say("Error", error)
        sys.exit(1)
    except Exception as error:
        if isinstance(error, NotEnoughMemory) or out_of_memory(error) is not None:
            _say("Error", error if isinstance(error, NotEnoughMemory) else out_of_memory(error))
            sys.exit(1)
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(str(error).split())
        print(
            f"Error: {type(error).__name__} at {where.filename}:{where.lineno}: {said}. This is a "
            "fault of sepgp; please report it with the command that led to it.",
            file=sys.stderr,
        )
        sys.exit(1)
