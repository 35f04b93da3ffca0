"""Checks of data: one sentence that names the input, the fault and the remedy."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sepgp.data.columns.texts import Choices
from sepgp.data.scaling import Floats
from sepgp.errors import InvalidData, InvalidParameter, brief

KINDS = ("number", "text", "date", "drop")
"""Ways to read a column."""
MOST_CLASSES = 1000
"""Each class has a latent function: memory and time grow with their number."""
MANY_CODES, FEW_CODES = 30, 10
"""More numbers than the first are seldom codes of classes, and those of fewer rows each than the
second are not, if there are more than it."""


LABELS = (str, bool, int, float, np.bool_, np.integer, np.floating)
"""Types of labels: those that a model file can hold."""
MANY_ROWS = 100
"""With fewer, classes of one row are nothing strange."""
HEAVIEST = 1e15
"""Weight of a row: beyond, other rows are lost in the rounding of a sum."""


def choices(given: Choices) -> None:
    """Refuse what is no way to read a column."""
    for name, kind in given.read.items():
        if kind not in KINDS:
            raise InvalidParameter(
                f"read={{{name!r}: {kind!r}}} is no way to read a column; choose one of "
                f"{', '.join(KINDS)}."
            )
    if given.dayfirst not in (None, True, False):
        raise InvalidParameter(f"dayfirst={given.dayfirst!r} is unknown; give True or False.")


def unique_names(names: Sequence[str], what: str) -> None:
    """Refuse names of columns that come twice."""
    twice = [column for column, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidData(f"{what} has several columns {twice[0]!r}; give each its own name.")


def matrix(rows: Any, what: str) -> NDArray[Any]:
    """Rows of finite numbers as an array of shape (b, d)."""
    X: NDArray[Any] = np.asarray(rows)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InvalidData(
            f"{what} has rows of shape {X.shape} and type {X.dtype}; "
            "give arrays of numbers of shape (rows, features), or tables."
        )
    finite_columns(X, None, what)
    return X


def finite_columns(X: NDArray[Any], names: Sequence[str] | None, what: str = "X") -> None:
    """Refuse rows X, shape (n, d), with NaN or infinity, and name the first column that has any."""
    if X.dtype.kind != "f":
        return
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum(dtype=np.float64)):
            return
    bad = ~np.isfinite(X)
    if not bad.any():  # the sum itself overflowed
        return
    column = int(np.argmax(bad.any(0)))
    value = "NaN" if np.isnan(X[:, column]).any() else "infinity (inf)"
    name = f"{column}" if names is None else f"{names[column]!r}"
    raise InvalidData(
        f"{what} contains {value} in column {name} ({int(bad[:, column].sum())} of {len(X)} rows); "
        "impute these values or drop the rows."
    )


def numeric_columns(X: Any) -> None:
    """Refuse rows X, shape (n, d), with a column of anything but numbers, and name it."""
    columns = X.items() if hasattr(X, "items") else enumerate(np.asarray(X, dtype=object).T)
    for name, values in columns:
        try:
            np.asarray(values, dtype=np.float64)
        except TypeError:  # scikit-learn says it better
            continue
        except ValueError:
            raise InvalidData(
                f"X contains text or other values that are not numbers in column {name!r}; "
                "drop the column or encode it, as sklearn.preprocessing.OneHotEncoder does."
            ) from None


def one_per_row(values: NDArray[Any], n_rows: int, what: str) -> None:
    """Refuse values of another shape than (n,)."""
    if values.shape != (n_rows,):
        count = f"{len(values)} values" if values.ndim == 1 else f"values of shape {values.shape}"
        raise InvalidData(f"{what} has {count} but X has {n_rows} rows; give one value per row.")


def changed_rows(what: str, n_rows: int) -> InvalidData:
    """The complaint about rows that are not the same at every reading."""
    return InvalidData(
        f"{what} no longer has the {n_rows:,} rows that it had at first, or has other weights; "
        "give the same rows at every reading."
    )


def other_rows(what: str) -> InvalidData:
    """The complaint about as many rows as at first, but others."""
    return InvalidData(
        f"{what} has other rows than at its first reading; give the same rows at every reading."
    )


def weights(values: Any, n_rows: int, what: str = "sample_weight") -> Floats:
    """The weights of n rows, each finite and at least 0, as an array of shape (n,)."""
    try:
        weight = np.array(values, dtype=np.float64)
    except (ValueError, TypeError) as error:
        message = f"{what} has weights that are not numbers; convert them."
        raise InvalidData(message) from error
    one_per_row(weight, n_rows, what)
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise InvalidData(
            f"{what} has a value that is negative, missing, NaN or infinite; "
            "give a weight of at least 0 for every row."
        )
    if weight.size and weight.max() > HEAVIEST:
        raise InvalidData(
            f"{what} has a value of {weight.max():.3g}; a weight is the number of rows that a row "
            f"counts for, at most {HEAVIEST:.0e}: divide all weights by their mean."
        )
    return weight


def every_class(
    codes: NDArray[np.int64],
    classes: NDArray[Any],
    what: str,
    remedy: str = "give every class positive weight",
) -> None:
    """Refuse what leaves rows of these class numbers, unless every class is among them."""
    missing = np.setdiff1d(np.arange(len(classes)), codes)
    if len(missing):
        raise InvalidData(
            f"{what} leaves no row of class {classes[missing].tolist()[0]!r}; {remedy}."
        )


def labels(values: Any, n_rows: int, what: str = "y") -> NDArray[Any]:
    """The labels of n rows, none missing or infinite, as an array of shape (n,)."""
    y: NDArray[Any] = np.asarray(values)
    one_per_row(y, n_rows, what)
    missing = y != y if y.dtype.kind == "f" else np.zeros(len(y), bool)
    if y.dtype == object:
        missing = np.fromiter(map(_is_missing, y), bool, len(y))
    if missing.any():
        raise missing_labels(int(np.sum(missing)), what)
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise InvalidData(f"{what} contains infinity (inf); drop the rows that have no label.")
    kinds = set(map(type, y.tolist())) if y.dtype.kind == "O" else {y.dtype.type}
    if strange := [kind for kind in kinds if not issubclass(kind, LABELS)]:
        found = strange[0].__name__.rstrip("_")  # NumPy's bytes_
        raise InvalidData(
            f"{what} has labels of type {found}; give text, whole numbers or truth values."
        )
    return y


def _is_missing(label: Any) -> bool:
    """Whether it is None, NaN, or what pandas has for missing values."""
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(label != label)


def one_type(y: NDArray[Any], what: str = "y") -> NDArray[Any]:
    """Labels that came as Python's objects, shape (n,), in a type of their own if they have one."""
    kinds = sorted({type(label).__name__ for label in y.tolist()})
    if len(kinds) > 1:
        raise InvalidData(
            f"{what} has labels of several types, {' and '.join(kinds)}; give all of them one type."
        )
    return y if kinds == ["str"] else np.array(y.tolist())


def missing_labels(
    n_missing: int, what: str, example: tuple[str, Any] | None = None
) -> InvalidData:
    """The complaint about rows without a label, one of which has this value in this column."""
    if example is None:
        return InvalidData(
            f"{what} has no label in {_rows(n_missing)}; drop the rows that have no label."
        )
    column, value = example
    return InvalidData(
        f"{what} has no label, or a sign for none as ? or -, in {_rows(n_missing)}, such as that "
        f"with {brief(repr(value))} in {column!r}; write another label, or drop these rows "
        "(open_rows(..., drop_unlabelled=True), or --drop-unlabelled on the command line)."
    )


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def labelled(y: NDArray[Any] | None, what: str) -> NDArray[Any]:
    """The labels of a block, which must have some."""
    if y is None:
        raise InvalidData(
            f"{what} has no labels; name their column by target, or give blocks (X, y)."
        )
    return y


def distinct(y: NDArray[Any], what: str) -> NDArray[Any]:
    """The different labels among y, shape (b,), sorted."""
    try:
        return np.unique(y)
    except TypeError as error:
        raise InvalidData(
            f"{what} has labels that cannot be compared with each other; give all of them one type."
        ) from error


def several_classes(
    classes: NDArray[Any], what: str = "y", read: int | None = None, n_rows: int | None = None
) -> None:
    """Refuse fewer distinct labels than two, and more than there is a use for.

    `read` is the number of rows that the labels are from if more will come; then there may be
    fewer than two yet. `n_rows` is that of all rows.
    """
    if len(classes) > 2 and classes.dtype.kind == "f" and (classes % 1 != 0).any():
        fraction = classes[classes % 1 != 0][0]
        raise InvalidData(
            f"{what} has labels with a fraction, such as {fraction}, so it is a quantity and not a "
            "class; use a regressor, or cut the quantity into classes."
        )
    if len(classes) > MOST_CLASSES:
        some = ", ".join(map(repr, classes[:3].tolist()))
        where = "" if read is None else f" within its first {read:,} rows"
        raise InvalidData(
            f"{what} has {len(classes):,} classes{where} ({some}, ...), and at most "
            f"{MOST_CLASSES:,} can be told apart; merge the rare ones, or use a regressor if "
            f"{what} is a quantity."
        )
    if read is None and not len(classes):
        raise InvalidData(f"{what} is empty; name the classes that y may contain.")
    if read is None and len(classes) < 2:
        raise InvalidData(
            f"{what} contains one class only ({classes.tolist()[0]!r}); "
            "a classifier needs rows of two classes."
        )
    if read is None:
        _warn_of_alike(classes, what)
    if n_rows is not None:
        _warn_of_quantity(classes, what, n_rows)


def warn_of_single(counts: Mapping[Any, int], what: str) -> None:
    """Warn of a label of one row, as a line of units, a total or a typing error has."""
    single = [label for label, count in counts.items() if count == 1]
    if single and 2 < len(counts) <= MANY_CODES and sum(counts.values()) >= MANY_ROWS:
        (label,) = np.array(single[:1]).tolist()
        warnings.warn(
            f"{what} has the label {label!r} in one row only, as a class of its own; if it is "
            "none, as in a line of units or a total, remove the row.",
            UserWarning,
            stacklevel=2,
        )


def _warn_of_quantity(classes: NDArray[Any], what: str, n_rows: int) -> None:
    """Warn of whole numbers as labels that are more than codes of classes usually are."""
    many = len(classes) > MANY_CODES
    few_rows = len(classes) > FEW_CODES and n_rows < FEW_CODES * len(classes)
    if classes.dtype.kind in "iuf" and (many or few_rows):
        warnings.warn(
            f"{what} has {len(classes)} whole numbers as classes, from {classes[0]:g} to "
            f"{classes[-1]:g}; if it is a quantity, cut it into a few classes or use a regressor.",
            UserWarning,
            stacklevel=2,
        )


def _warn_of_alike(classes: NDArray[Any], what: str) -> None:
    """Warn of labels that differ in nothing but case and spaces, as typing errors do."""
    found: dict[str, str] = {}
    for label in classes.tolist():
        if not isinstance(label, str):
            return
        other = found.setdefault(" ".join(label.split()).casefold(), label)
        if other is not label:
            warnings.warn(
                f"{what} has the labels {other!r} and {label!r}, which differ in nothing but case "
                "or spaces, as two classes; if they are one, write them alike.",
                UserWarning,
                stacklevel=2,
            )
            return


def class_codes(
    y: NDArray[Any],
    classes: NDArray[Any],
    what: str = "y",
    the: str = "classes",
    remedy: str = "correct the label or drop the row",
) -> NDArray[np.int64]:
    """Labels y, shape (b,), as their places among the classes, shape (C,)."""
    y = like_classes(y, classes)
    if y.dtype.kind in "biuf" and classes.dtype.kind in "biuf":  # a loop in C
        order = np.argsort(classes)
        places = np.searchsorted(classes, y, sorter=order).clip(0, len(classes) - 1)
        codes: NDArray[np.int64] = order[places]
        unknown = classes[codes] != y
    else:
        code_of = {label: code for code, label in enumerate(classes.tolist())}
        codes = np.array([code_of.get(label, -1) for label in y.tolist()], np.int64)
        unknown = codes < 0
    if unknown.any():
        raise InvalidData(
            f"{what} has the label {y[unknown].tolist()[0]!r}, but the {the} are "
            f"{_listed(classes.tolist())}; {remedy}."
        )
    return codes


def like_classes(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Labels y, shape (b,), as text where classes are and the labels are whole numbers or truths.

    Files of text say nothing of types: 0 and 1 alone are numbers, and beside "unknown" text.
    """
    text = classes.dtype.kind in "OU" and all(isinstance(label, str) for label in classes.tolist())
    return y.astype(str) if text and y.dtype.kind in "biu" else y


def positive(label: Any, classes: NDArray[Any]) -> None:
    """Refuse a `pos_label` that is none of two classes; text may stand for a number."""
    if label is not None and len(classes) > 2:
        raise InvalidParameter(
            f"pos_label={label!r} chooses one of two classes, and y has {len(classes)}; leave it "
            "out."
        )
    if label is not None and str(label) not in map(str, classes.tolist()):
        raise InvalidParameter(
            f"pos_label={label!r} is not among the classes {classes.tolist()}; choose one of them."
        )


def _listed(labels: list[Any], room: int = 150) -> str:
    """The labels as Python writes a list, or those of the first ones that there is room for."""
    ends = np.cumsum([len(repr(label)) + 2 for label in labels])
    shown = max(1, int(np.searchsorted(ends, room)))
    return f"[{', '.join(map(repr, labels[:shown]))}{', …' * (shown < len(labels))}]"
