"""`sepgp train` and `sepgp update`: learning from files."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sepgp.cli import columns as columns_
from sepgp.cli import options, signals
from sepgp.cli.options import Model, Quiet, Rows, Target, Unlabelled, Weight, readable
from sepgp.errors import InvalidParameter, nearest

if TYPE_CHECKING:
    from sepgp.classifier import GPClassifier
    from sepgp.model import Model as Fitted

CLASSES = 10
"""Classes that are listed."""

Out = Annotated[Path, typer.Option(metavar="FILE", help="Where the model goes.")]
NewOut = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where the new model goes; else MODEL.")
]
Forgetting = Annotated[
    float | None,
    typer.Option(
        metavar="FACTOR", help="Factor on the weight of old rows, per block; else the model's."
    ),
]
Labels = Annotated[str, typer.Option(metavar="COLUMN", help="The column with the labels.")]
Columns = Annotated[
    str | None, typer.Option(metavar="A,B,…", help="Feature columns; all by default.")
]
Drop = Annotated[str | None, typer.Option(metavar="A,B,…", help="Columns to leave out.")]
Method = Annotated[str, typer.Option(metavar="NAME", help="auto, sep, ep or adf.")]
Inducing = Annotated[
    int | None,
    typer.Option(metavar="M", help="Number of inducing points; 200, or by time and rows."),
]
Kernel = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="auto, rbf, matern12, matern32, matern52, or a sum: matern32+rbf."
    ),
]
Mean = Annotated[
    Literal["trees"] | None, typer.Option(help="Boosted trees as the prior mean of f.")
]
Positive = Annotated[
    str | None, typer.Option(metavar="LABEL", help="The positive one of two classes.")
]
BatchSize = Annotated[int | None, typer.Option(metavar="ROWS", help="Rows per step.")]
Steps = Annotated[int | None, typer.Option(metavar="N", help="Training steps.")]
TimeBudget = Annotated[float | None, typer.Option(metavar="SECONDS", help="Time for training.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Random seed.")]
Balanced = Annotated[bool, typer.Option("--balanced", help="Give all classes equal weight.")]
Validation = Annotated[
    float,
    typer.Option(metavar="SHARE", min=0, max=0.9, help="Share of rows held out for validation."),
]
Early = Annotated[bool, typer.Option(help="Stop once the NLL of held-out rows stops falling.")]
Checkpoint = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Where checkpoints go; else OUT.ckpt, or none with EP."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume from the checkpoint.")]


def train(
    data: Rows,
    target: Labels,
    out: Out = Path("model.sepgp"),
    columns: Columns = None,
    drop: Drop = None,
    read: columns_.Read = None,
    dayfirst: columns_.DayFirst = None,
    positive: Positive = None,
    weight: Weight = None,
    drop_unlabelled: Unlabelled = False,
    method: Method = "auto",
    inducing: Inducing = None,
    kernel: Kernel = "auto",
    mean: Mean = None,
    batch_size: BatchSize = None,
    steps: Steps = None,
    time_budget: TimeBudget = None,
    balanced: Balanced = False,
    validation: Validation = 0.1,
    early_stopping: Early = True,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train a classifier on the rows of a table.

    Columns may have numbers, booleans, dates, text with few values, and missing values; after
    training a table says how every column was read. Ctrl-C ends training early and keeps the best
    model so far. After Ctrl-C or a crash, the same command with --resume goes on.

    \b
    sepgp train loans.csv --target defaulted --out loans.sepgp
    sepgp train loans.csv --target defaulted --out loans.sepgp --resume
    sepgp train "flights/*.parquet" --target late --time-budget 600 --validation 0.05
    """
    options.check_out(out, data)
    reading = {"read": columns_.choices(read), "dayfirst": dayfirst}
    with readable(data) as path:
        rows = _open(path, drop, target, columns_.listed(columns), weight, drop_unlabelled)
        model = _classifier(
            method=method,
            n_inducing="auto" if inducing is None else inducing,
            kernel=kernel,
            mean=mean,
            batch_size=batch_size,
            max_iter=steps,
            time_budget=time_budget,
            class_weight="balanced" if balanced else None,
            validation_fraction=validation,
            early_stopping=early_stopping,
            pos_label=positive,
            checkpoint=_checkpoint(checkpoint, out, data, method, resume),
            random_state=seed,
            verbose=not quiet,
        )
        _train(model, rows, out, validation, quiet, **reading)


def _classifier(**parameters: Any) -> "GPClassifier":
    """A classifier, in a process that does little else."""
    from sepgp.classifier import GPClassifier
    from sepgp.training.memory import keep_freed_memory

    keep_freed_memory()
    return GPClassifier(**parameters)


def _train(
    model: "GPClassifier", rows: Any, out: Path, share: float, quiet: bool, **reading: Any
) -> None:
    """Fit and save a model, say what came out, and evaluate it on the share that is held out."""
    from rich.console import Console
    from rich.markup import escape

    from sepgp.cli.evaluate import show
    from sepgp.data.rows.cached import CachedRows
    from sepgp.data.rows.counted import CountedRows
    from sepgp.data.split import SplitRows
    from sepgp.data.stream_source import MEMORY
    from sepgp.evaluation.advice import advice_on

    checkpoint = None if model.checkpoint is None else Path(model.checkpoint)
    going_on = checkpoint is not None and checkpoint.exists()
    begun: list[bool] = []

    def first_step() -> None:
        status.stop()
        begun.append(True)

    def too_early() -> None:
        status.stop()
        typer.echo("No step was made, and no model was written.", err=True)
        if checkpoint is not None and not going_on:
            checkpoint.unlink(missing_ok=True)

    with (
        Console(stderr=True, quiet=quiet).status(f"Reading {escape(rows.name)} ...") as status,
        signals.stoppable(model, first_step, too_early) as stopped,
    ):
        rows = CountedRows(CachedRows(rows, MEMORY))  # held-out rows are read again in the end
        fitted = model.fit(rows, **reading).model_
        model.save(out)
    if not begun:
        typer.echo(
            "The run was finished already; more --steps or --time-budget go on with it.", err=True
        )
    if not quiet:
        typer.echo(_summary(fitted, out), err=True)
        typer.echo(_classes(options.told(model), rows.counts), err=True)
        Console(stderr=True).print(columns_.table(fitted.schema))
        if stopped:
            typer.echo(_how_to_go_on(fitted, checkpoint), err=True)
    if stopped:  # whoever stops a command wants it to end
        raise typer.Exit(signals.code(stopped[0]))
    if share:
        held_out = SplitRows(rows, share, fitted.seed, held_out=True)
        chose = "" if fitted.best_iteration == fitted.iteration else ", which also chose the model"
        show(fitted, held_out, json=False, quiet=quiet, kind="held-out rows", about=chose)
        if not quiet:
            typer.echo(f"What would help most: {advice_on(fitted, held_out)}", err=True)


def update(
    model: Model,
    data: Rows,
    target: Target = None,
    drop_unlabelled: Unlabelled = False,
    out: NewOut = None,
    forgetting: Forgetting = None,
    quiet: Quiet = False,
) -> None:
    """Learn from new rows, on top of all rows learned from before.

    \b
    sepgp update flights.sepgp today.parquet
    """
    if out is None:
        options.refuse_inputs("MODEL", model, data)
    else:
        options.check_out(out, data)
    with readable(data) as path:
        fitted = options.load_model(model)
        from sepgp.data.rows import open_rows

        labels, names = options.label_column(fitted.model_, target), fitted.model_.schema.names
        rows = open_rows(path, labels, names, drop_unlabelled=drop_unlabelled)
        before = fitted.model_.n_seen
        if forgetting is not None:
            fitted.set_params(forgetting=forgetting)
        fitted.set_params(random_state=0).partial_fit(rows)
    fitted.save(out or model)
    if not quiet:
        now = fitted.model_.n_seen
        typer.echo(f"{out or model}: learned from {now:,.0f} rows, {before:,.0f} before.", err=True)


def _summary(model: "Fitted", out: Path) -> str:
    seconds, best = model.history["seconds"][-1], model.best_iteration
    earlier = "" if best == model.iteration else f", step {best} was the best and is kept"
    return (
        f"{out}: {model.method.upper()} with {len(model.Z)} inducing points, "
        f"{model.n_seen:,.0f} training rows of {model.schema.n_columns} columns, "
        f"{model.n_iter} steps in {seconds:.1f} s{earlier}."
    )


def _classes(model: "Fitted", counts: Mapping[Any, int]) -> str:
    """The classes, how many rows each has, and which one's probability is told."""
    labels = [label for label in model.classes.tolist() if label in counts]
    shown = ", ".join(f"{label} ({counts[label]:,})" for label in sorted(labels[:CLASSES]))
    if len(labels) > CLASSES:
        shown += f" and {len(labels) - CLASSES:,} more"
    one = f"; probabilities are those of {model.classes[1]}" if len(model.classes) == 2 else ""
    return f"Classes (rows): {shown}{one}."


def _how_to_go_on(model: "Fitted", checkpoint: Path | None) -> str:
    how = "to go on, add --resume to the same command"
    if checkpoint is None:
        how = "with --checkpoint another run could go on"
    return f"Stopped at step {model.iteration}; {how}."


def _checkpoint(
    checkpoint: Path | None, out: Path, data: str, method: str, resume: bool
) -> Path | None:
    """The file for progress; refuse to go on from nothing, and to begin where a run was left.

    One of a finished run is for those who want to go on with more steps or time.
    """
    if checkpoint is None and not resume:
        from sepgp.inference.method import METHODS

        if method in METHODS and METHODS[method].per_row:
            return None
    checkpoint = checkpoint or Path(f"{out}.ckpt")
    options.refuse_inputs("--checkpoint", checkpoint, data, out)
    if not checkpoint.exists():
        if resume:
            raise InvalidParameter(
                f"There is no checkpoint {checkpoint} to go on from; leave out --resume to begin "
                "anew."
            )
        return checkpoint
    from sepgp.training.checkpoint import Checkpoint

    finished = Checkpoint(checkpoint, every=0).finished  # which refuses a file of another kind
    if not resume and not finished:
        raise InvalidParameter(
            f"{checkpoint} holds a run that was not finished; add --resume to go on with it, or "
            "remove it to begin anew."
        )
    if not resume:
        checkpoint.unlink()
    return checkpoint


def _open(path: str, drop: str | None, target: str, columns: Any, *others: Any) -> Any:
    """The rows of a path, with the columns that are chosen and without those that are dropped."""
    from sepgp.data.rows import open_rows

    rows = open_rows(path, target, columns, *others)
    if drop is None:
        return rows
    return open_rows(path, target, _without(rows, drop), *others)


def _without(rows: Any, drop: str) -> list[str]:
    """The columns that rows are learned from, without those in a list, or one of that name."""
    names = [] if rows.schema is None else rows.schema.names
    dropped = [drop] if drop in names else columns_.listed(drop) or []
    for name in dropped:
        if name not in names:
            near, known = nearest(name, names), ", ".join(map(repr, names))
            one = "correct it" if near is None else f"name {near!r} or another"
            raise InvalidParameter(f"--drop names {name!r}, which is not among {known}; {one}.")
    return [name for name in names if name not in dropped]
