"""How all plots look."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sepgp.files.atomic import replacing

COLOURS = {"adf": "#7f7f7f", "ep": "#0072b2", "sep": "#d55e00"}
"""Of the methods, told apart by the colour-blind too."""
MARKERS = {"adf": "s", "ep": "o", "sep": "^"}
STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "font.size": 10,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.hashsalt": "sepgp",  # so that equal plots are equal files
}


def look(method: str) -> dict[str, str]:
    """The marker and the colour of a method's line."""
    return {"marker": MARKERS[method], "color": COLOURS[method]}


def images(stem: Path) -> list[Path]:
    """The files that `drawing` writes: a PNG and an SVG."""
    return [stem.with_suffix(suffix) for suffix in (".png", ".svg")]


def matplotlib() -> Any:
    """The library that draws, or one sentence that says how to install it."""
    try:
        import matplotlib
        import matplotlib.figure
        import pandas  # noqa: F401, for the tables
    except ImportError as error:
        raise ImportError(
            f"{error.name} is needed to draw; install it by `pip install 'sepgp[paper]'`."
        ) from error
    return matplotlib


@contextmanager
def drawing(
    stem: Path, rows: int, columns: int, width: float, height: float, **options: Any
) -> Iterator[tuple[Any, Any]]:
    """A figure of `width` × `height` inches and its axes, shape (rows, columns), saved at the end.

    `options` go to `Figure.subplots`.
    """
    library = matplotlib()
    with library.rc_context(STYLE):
        figure = library.figure.Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False, **options)
        for path in images(stem):
            kind = path.suffix[1:]
            with replacing(path) as temporary:
                metadata = {"Date": None} if kind == "svg" else {}
                figure.savefig(temporary, format=kind, dpi=150, metadata=metadata)
