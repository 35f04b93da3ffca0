"""`sepgp reproduce`: the experiments of the paper."""

import os
import signal
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from sepgp.cli import signals
from sepgp.cli.options import Data, same
from sepgp.errors import InvalidParameter

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Repeat an experiment of the paper."
)

Out = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder for the results; made if it is not there.")
]
Jobs = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Processes at a time; else one per core.")
]
Quick = Annotated[bool, typer.Option("--quick", help="A small version that takes minutes.")]


EXPERIMENTS = {
    "table1": "Seven UCI sets: ADF, EP and SEP, by number of inducing points.",
    "figure2": "MNIST and airline delays: NLL against time, and memory.",
    "figure3": "MNIST: NLL by numbers of rows and of inducing points.",
    "powers": "All these sets: powers from 0 (variational inference) to 1 (EP).",
    "classes": "Four sets with 4 to 11 classes: ADF, EP and SEP.",
}


def _command(name: str, about: str) -> None:
    @app.command(name, help=f"{about}\n\n\b\nsepgp reproduce {name} --data DIR --quick")
    def command(
        data: Data = None, out: Out = Path("reproduction"), jobs: Jobs = None, quick: Quick = False
    ) -> None:
        _reproduce(name, data, out, jobs, quick)


for _name, _about in EXPERIMENTS.items():
    _command(_name, _about)


def _reproduce(name: str, data: Path | None, out: Path, jobs: int | None, quick: bool) -> None:
    """Run the cells that are not finished yet, with a progress bar, and write the outputs."""
    from rich.console import Console

    from sepgp.experiments import cells, style

    place = data or os.environ.get("SEPGP_DATA")
    if place and same(out, Path(place)):
        raise InvalidParameter(f"--out={out} is the folder with the data; name another folder.")
    style.matplotlib()  # now, not after hours of work
    experiment: Any = import_module(f"sepgp.experiments.{name}")
    grid = experiment.cells(quick)
    stem = out / (f"{name}-quick" if quick else name)
    folder = stem.with_suffix(".cells")
    new = [path for path in (folder, out) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameter(
            f"--out={out} cannot hold the results ({error.strerror}); name another folder."
        ) from None
    console = Console(stderr=True)
    done = cells.finished(grid, folder)
    if done:
        console.print(f"{len(done)} of {len(grid)} cells are finished already; going on.")
    try:
        with signals.handled(signal.default_int_handler, signal.SIGINT):
            _run(console, grid, done, folder, data, jobs or os.cpu_count() or 1)
    except KeyboardInterrupt:
        kept = len(cells.finished(grid, folder))
        console.print(
            f"Stopped. {kept} of {len(grid)} cells are kept in {folder}; "
            "the same command goes on from there."
        )
        raise typer.Exit(130) from None
    finally:
        with suppress(OSError):  # not empty
            for path in new:
                path.rmdir()
    for path in experiment.report(grid, cells.finished(grid, folder), stem):
        typer.echo(path)


def _run(
    console: Any, grid: list[Any], done: dict[str, Any], folder: Path, data: Path | None, jobs: int
) -> None:
    from rich import progress

    from sepgp.experiments import cells

    counts = progress.BarColumn(), "{task.fields[done]} of {task.fields[all]} cells"
    times = progress.TimeElapsedColumn(), "gone,", progress.TimeRemainingColumn(), "left"
    left = [cell for cell in grid if cell.name not in done]
    cost = sum(cell.cost for cell in left)
    with progress.Progress(*counts, *times, console=console, speed_estimate_period=600) as bar:
        task = bar.add_task("", total=cost, done=len(done), all=len(grid))
        with closing(cells.run(left, folder, data, jobs)) as finishing:
            for number, cell in enumerate(finishing, len(done) + 1):
                bar.update(task, advance=cell.cost, done=number)
