"""`sepgp train` and `sepgp update`: learning from files."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sepgp.cli.options import Model, Quiet, Rows, Target, label_column
from sepgp.cli.stdin import readable
from sepgp.errors import InvalidParameter

if TYPE_CHECKING:
    from sepgp.classifier import GPClassifier

Out = Annotated[Path, typer.Option(metavar="FILE", help="Where the model goes.")]


def train(
    data: Rows,
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column with the labels.")],
    out: Out = Path("model.sepgp"),
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Columns to learn from; all by default.")
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with the rows' weights.")
    ] = None,
    method: Annotated[str, typer.Option(help="sep, ep or adf.")] = "sep",
    inducing: Annotated[int, typer.Option(help="Number of inducing points.")] = 200,
    kernel: Annotated[str, typer.Option(help="rbf, matern12, matern32 or matern52.")] = "matern32",
    batch_size: Annotated[int | None, typer.Option(help="Rows per step.")] = None,
    steps: Annotated[int | None, typer.Option(help="Training steps.")] = None,
    time_budget: Annotated[float | None, typer.Option(help="Seconds for training.")] = None,
    balanced: Annotated[bool, typer.Option("--balanced", help="Weigh both classes alike.")] = False,
    validation: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share of the rows kept aside to evaluate on.")
    ] = 0.1,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Progress is kept here; the same command goes on."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of everything that is random.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Train a classifier on the rows of a table.

    Numbers, truth values, dates, text with few values and missing values are all understood.
    Ctrl-C ends training early and keeps the model so far.

    \b
    sepgp train loans.csv --target defaulted --out loans.sepgp
    sepgp train "flights/*.parquet" --target late --time-budget 60 --checkpoint flights.ckpt
    """
    from sepgp.classifier import GPClassifier
    from sepgp.cli.evaluate import show
    from sepgp.data.parts import Part
    from sepgp.data.rows import open_rows

    _writable(out)
    model = GPClassifier(
        method=method,
        n_inducing=inducing,
        kernel=kernel,
        batch_size=batch_size,
        max_iter=steps,
        time_budget=time_budget,
        class_weight="balanced" if balanced else None,
        checkpoint=checkpoint,
        random_state=seed,
        verbose=not quiet,
    )
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    with readable(data) as path:
        rows = open_rows(path, target, names, weight)
        learned = Part(rows, validation, seed, kept_aside=False) if validation else rows
        with _stoppable(model) as stopped:
            model.fit(learned)
        model.target_ = target
        model.save(out)
        if not quiet:
            said = _summary(model, out)
            typer.echo(said, err=True)
            if stopped:
                again = f", and the same command goes on from {checkpoint}" if checkpoint else ""
                typer.echo(f"Stopped early; the model so far is kept{again}.", err=True)
        if validation:
            show(model, Part(rows, validation, seed, kept_aside=True), json=False, quiet=quiet)
    if stopped:
        raise typer.Exit(130)


def update(
    model: Model,
    data: Rows,
    target: Target = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the new model goes; MODEL if not given."),
    ] = None,
    forgetting: Annotated[
        float, typer.Option(help="Factor on the weight of what was learned before, per block.")
    ] = 1.0,
    quiet: Quiet = False,
) -> None:
    """Learn from new rows, on top of all rows seen before.

    \b
    sepgp update flights.sepgp today.parquet
    """
    from sepgp.models import load

    fitted = load(model)
    _writable(out or model)
    before = fitted._n_seen
    fitted.set_params(forgetting=forgetting, random_state=0)
    with readable(data) as path:
        fitted.partial_fit(path, target=label_column(fitted, target))
    fitted.save(out or model)
    if not quiet:
        typer.echo(
            f"{out or model}: {before:,.0f} rows before, {fitted._n_seen:,.0f} now.", err=True
        )


def _summary(model: "GPClassifier", out: Path) -> str:
    seconds = model.history_["seconds"][-1]
    return (
        f"{out}: {model.method.upper()} with {len(model.inducing_points_)} inducing points, "
        f"{model._n_seen:,.0f} rows of {model.n_features_in_} columns, {model.n_iter_} steps in "
        f"{seconds:.1f} s."
    )


def _writable(path: Path) -> None:
    """Find out before hours of work that the result has no place to go."""
    if path.is_dir():
        raise InvalidParameter(f"--out={path} is a folder; name a file.")
    if not path.absolute().parent.is_dir():
        raise InvalidParameter(f"--out={path} is in a folder that is not there; make it first.")


@contextmanager
def _stoppable(model: "GPClassifier") -> Iterator[list[Any]]:
    """Let Ctrl-C end training after the step under way; the list is not empty if it did."""
    stopped: list[Any] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if stopped:
            raise KeyboardInterrupt
        stopped.append(number)

    model.callbacks = [lambda record: bool(stopped)]
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)
        model.callbacks = None
