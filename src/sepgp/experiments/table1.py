"""Table 1: seven UCI sets, three methods, three numbers of inducing points, in batch mode.

Test negative log-likelihood over 20 random splits into 90 % training and 10 % test rows, after 250
iterations in each of which every row is seen. Australian appears twice: with its own class as the
label, and as the paper must have had it.
"""

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from sepgp.experiments import paper
from sepgp.experiments.cells import Cell, Result
from sepgp.experiments.pages import markdown_table, write_csv, write_results, write_text
from sepgp.experiments.paper import METHODS, SHARES

TITLE = "Table 1: negative test log-likelihood on UCI sets"
SETS = ("australian", *paper.NLL)
SEED = 2015
"""Of the splits. The settings below were chosen on splits with other seeds."""
SPLITS = 20
ITERATIONS = 250
SETTINGS = {"lengthscale": 4.0, "optimizer": "sign", "rate": 0.01}
"""One for all sets, methods and numbers of inducing points.

The kernel is the paper's, RBF with a length-scale for each feature. All length-scales start at
`lengthscale` standard deviations of the features, the amplitude at 1. `optimizer` is the batch rule
of the paper's authors, with its first step size.
"""
NEAR = 0.02
"""A cell agrees with the paper if our mean is at most this much above the paper's."""


def cells(quick: bool = False) -> list[Cell]:
    """All fits: a cell is one split of one set with one method and one number of points.

    The quick run has two splits, and leaves the dear m = 50 % out.
    """
    fixed = {"iterations": ITERATIONS} | SETTINGS
    return [
        Cell(
            f"{name}-{share}-{method}-{split:02d}",
            fit,
            {"name": name, "share": share, "method": method, "split": split, "seed": SEED} | fixed,
            cost=100 + share**2,
        )
        for share in (SHARES[:2] if quick else SHARES)
        for split in range(2 if quick else SPLITS)
        for name in SETS
        for method in METHODS
    ]


def fit(
    data: Path | None, name: str, share: int, method: str, split: int, seed: int, **settings: Any
) -> Result:
    """Train on one split and look at its test rows; `settings` are `iterations` and `SETTINGS`.

    All methods of a split start from the same kernel parameters and inducing points.
    """
    from sklearn.model_selection import ShuffleSplit

    from sepgp.classifier import GPClassifier
    from sepgp.experiments.catalogue import load
    from sepgp.experiments.splits import Split, trained
    from sepgp.gp.kernels import RBF

    X, y = load(name, data)[:2]
    splits = ShuffleSplit(split + 1, test_size=0.1, random_state=seed)
    train, test = list(splits.split(X))[split]
    model = GPClassifier(
        method=method,
        n_inducing=round(share / 100 * len(train)),
        batch_size=len(train),
        kernel=RBF(settings["lengthscale"]),
        optimizer=settings["optimizer"],
        learning_rate=settings["rate"],
        max_iter=settings["iterations"],
        random_state=split,
    )
    result = trained(model, Split(X[train], y[train], X[test], y[test]))
    return result | {"log_evidence": model.log_evidence_}


class Row(NamedTuple):
    """One cell of the printed table: a set, a number of points and a method."""

    set: str
    share: int
    method: str
    splits: int
    nll: float
    """Mean over the splits."""
    deviation: float
    """Standard deviation over the splits."""
    standard_error: float
    """Of the mean."""
    error: float
    """Mean share of test rows on the wrong side of ½."""
    seconds: float
    """Mean training time."""
    paper_nll: float | None
    paper_deviation: float | None

    @property
    def near(self) -> bool:
        """Whether our mean is at most `NEAR` above the paper's."""
        return self.paper_nll is not None and self.nll - self.paper_nll <= NEAR


def summary(grid: list[Cell], results: Mapping[str, Result]) -> list[Row]:
    """Means and spreads over the splits, in the order of the paper."""
    groups: dict[tuple[str, int, str], list[Result]] = {}
    for cell in grid:
        key = cell.arguments["name"], cell.arguments["share"], cell.arguments["method"]
        groups.setdefault(key, []).append(results[cell.name])
    rows = []
    for (name, share, method), fits in groups.items():
        nll = [fit["nll"] for fit in fits]
        printed = paper.NLL[name][share, method] if name in paper.NLL else None
        spread = stdev(nll), stdev(nll) / len(nll) ** 0.5
        error, seconds = (fmean(fit[key] for fit in fits) for key in ("error", "seconds"))
        own = (fmean(nll), *spread, error, seconds)
        rows.append(Row(name, share, method, len(fits), *own, *(printed or (None, None))))
    return sorted(rows, key=lambda r: (r.share, SETS.index(r.set), METHODS.index(r.method)))


class Average(NamedTuple):
    """Over the paper's seven sets."""

    share: int
    method: str
    nll: float
    standard_error: float
    """Of `nll`, for these sets and other splits of them."""
    paper_nll: float
    seconds: float
    paper_seconds: float


def averages(rows: list[Row]) -> list[Average]:
    """Averages over the paper's sets, for each number of points and method."""
    keys = dict.fromkeys((row.share, row.method) for row in rows)
    result = []
    for share, method in keys:
        own = [r for r in rows if (r.share, r.method) == (share, method) and r.set in paper.NLL]
        nll, seconds = (fmean(getattr(row, key) for row in own) for key in ("nll", "seconds"))
        error = sum(row.standard_error**2 for row in own) ** 0.5 / len(own)
        printed = fmean(paper.NLL[row.set][share, method].mean for row in own)
        paper_seconds = paper.SECONDS[share, method].mean
        result.append(Average(share, method, nll, error, printed, seconds, paper_seconds))
    return result


def report(grid: list[Cell], results: Mapping[str, Result], stem: Path) -> list[Path]:
    """Write the table, the fits behind it, a plot and a page; return their paths."""
    rows = summary(grid, results)
    table = write_csv(stem.with_suffix(".csv"), Row._fields, rows)
    keys = ("name", "share", "method", "split")
    fields = ("nll", "error", "seconds", "log_evidence")
    fits = write_results(stem.with_name(f"{stem.name}_fits.csv"), grid, results, keys, fields)
    page = write_text(stem.with_suffix(".md"), text(rows, stem.name))
    return [table, fits, *plot(rows, stem), page]


def text(rows: list[Row], stem: str) -> str:
    """The page: paper and run side by side."""
    printed = [row for row in rows if row.paper_nll is not None]
    near = sum(row.near for row in printed)
    parts = [
        f"# {TITLE}\n",
        f"Mean over {rows[0].splits} random 90/10 splits, ± standard deviation, the standard error "
        "of the mean in brackets, and then what the paper prints. "
        f"{ITERATIONS} iterations in batch mode. "
        "A mean more than .02 above the paper's is in italics.\n",
        f"![Run and paper, set by set]({stem}.png)\n",
        f"In {near} of {len(printed)} cells the mean is at most .02 above the paper's.\n",
    ]
    for share in dict.fromkeys(row.share for row in rows):
        lines = []
        for name in SETS:
            line = [name]
            for row in (r for r in rows if (r.share, r.set) == (share, name)):
                own = f"{_short(row.nll)} ± {_short(row.deviation)} ({_short(row.standard_error)})"
                if row.paper_nll is None:
                    line += [own, "—"]
                else:
                    line += [own if row.near else f"*{own}*", _paper(row)]
            lines.append(line)
        header = ["set"] + [h for m in METHODS for h in (m.upper(), f"{m.upper()} paper")]
        parts += [f"## m = {share} %\n", markdown_table(header, lines)]
    header = ["m", "method", "NLL", "paper", "difference", "seconds", "paper's seconds"]
    lines = [_average_line(average) for average in averages(rows)]
    parts += ["## Averages over the paper's seven sets\n", markdown_table(header, lines)]
    return "\n".join(parts)


def _average_line(a: Average) -> list[str]:
    nll = f"{_short(a.nll)} ({_short(a.standard_error)})"
    printed = [_short(a.paper_nll), _short(a.nll - a.paper_nll, "+")]
    times = [f"{a.seconds:.2f}", f"{a.paper_seconds:g}"]
    return [f"{a.share} %", a.method.upper(), nll, *printed, *times]


def _short(value: float, sign: str = "") -> str:
    return f"{value:{sign}.3f}".replace("0.", ".", 1)


def _paper(row: Row) -> str:
    return f"{row.paper_nll:.2f} ± {row.paper_deviation:.2f}".replace("0.", ".")


def plot(rows: list[Row], stem: Path) -> list[Path]:
    """A panel for each set: our means with standard errors, and the paper's."""
    from sepgp.experiments.style import COLOURS, drawing, images

    shares = list(dict.fromkeys(row.share for row in rows))
    with drawing(stem, 2, 4, width=11, height=5.6) as (figure, axes):
        for axis, name in zip(axes.flat, SETS, strict=True):
            for offset, method in zip((-0.24, 0, 0.24), METHODS, strict=True):
                own = [r for r in rows if (r.set, r.method) == (name, method)]
                x = [shares.index(row.share) + offset for row in own]
                nll, errors = [row.nll for row in own], [row.standard_error for row in own]
                color, upper = COLOURS[method], method.upper()
                label = f"{upper}, this run (± s.e.)"
                axis.errorbar(x, nll, errors, fmt="o", color=color, label=label)
                if name in paper.NLL:
                    printed = [row.paper_nll for row in own]
                    look = {"markersize": 15, "markeredgewidth": 2, "alpha": 0.6}
                    axis.plot(x, printed, "_", color=color, label=f"{upper}, paper", **look)
            axis.set_xticks(range(len(shares)), [f"{share} %" for share in shares])
            title = name.replace("_paper", ", the paper's target")
            axis.set(title=title, xlim=(-0.5, len(shares) - 0.5))
        for axis in axes[:, 0]:
            axis.set_ylabel("negative test log-likelihood")
        for axis in axes[1]:
            axis.set_xlabel("inducing points, share of rows")
        handles = dict(zip(*reversed(axes[0, 1].get_legend_handles_labels()), strict=True))
        labels = sorted(handles, key=lambda label: label.split(",")[0])  # a column for each method
        shown = [handles[label] for label in labels]
        figure.legend(shown, labels, loc="outside lower center", ncols=3)
    return images(stem)
