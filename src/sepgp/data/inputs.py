"""What users hand to `fit` and `partial_fit`, checked and made ready."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from sepgp.data import checks, stream_source
from sepgp.data.array_source import merge_duplicates
from sepgp.data.batches import MINIBATCH
from sepgp.data.columns.texts import Choices
from sepgp.data.identifiers import warn_of_identifiers
from sepgp.data.prepared import ArrayData, Data, prepare, split
from sepgp.data.rows import ArrayRows, Rows, TableRows, arrow, in_memory, is_table, open_rows
from sepgp.data.scaling import Floats
from sepgp.data.schema import Schema, is_source, needs_encoding, read, schema_of
from sepgp.data.sentinels import warn_of_sentinels
from sepgp.data.split import held_out_share
from sepgp.data.survey import class_factors
from sepgp.errors import InvalidData, InvalidParameter

ClassWeight = dict[Any, float] | str | None


class Given(NamedTuple):
    """Rows as users hand them in: see `GPClassifier.fit`."""

    X: Any
    y: Any = None
    sample_weight: Any = None
    target: str | None = None
    columns: Sequence[str] | None = None
    read: Mapping[str, str] | None = None
    dayfirst: bool | None = None

    @property
    def choices(self) -> Choices:
        """How columns are to be read, checked."""
        chosen = Choices(self.read or {}, self.dayfirst)
        checks.choices(chosen)
        if self.read and not (is_source(self.X) or is_table(in_memory(self.X))):
            raise InvalidParameter(
                f"read names columns, but X is a {type(self.X).__name__} without names; give a "
                "table."
            )
        return chosen

    @property
    def in_memory(self) -> bool:
        """Whether labels and weights are arrays beside rows in memory."""
        named = self.target is not None or self.columns is not None
        return not (named or isinstance(self.sample_weight, str) or is_source(self.X))

    def rows(self) -> Rows:
        """The rows with their labels, to be read block by block."""
        X, y, sample_weight, target, columns, *_ = self
        X = in_memory(X)
        if is_source(X):
            if y is not None:
                raise InvalidData(
                    "y is given beside a source of rows; leave it out and name the column of the "
                    "labels by target."
                )
            if sample_weight is not None and not isinstance(sample_weight, str):
                raise InvalidData(
                    "sample_weight is an array beside a source of rows; name the column of the "
                    "weights."
                )
            rows = open_rows(X, target, columns, sample_weight)
            if rows.schema is None and (columns is not None or self.read):
                raise InvalidParameter(
                    f"{'read' if columns is None else 'columns'} names columns, but {rows.name} "
                    "gives arrays without names; leave it out or give tables."
                )
            return rows
        if not is_table(X):
            if target is not None or columns is not None or isinstance(sample_weight, str):
                raise InvalidParameter(
                    "target, columns and a text as sample_weight name columns, but X is a "
                    f"{type(X).__name__} without names; give a table, or y and weights as arrays."
                )
            return ArrayRows(X, _labels(y, len(X)), _weights(sample_weight, len(X)))
        table = arrow(X)
        if target is not None and y is not None:
            raise InvalidData("y and target are both given; give the labels once.")
        labels = _labels(y, len(table)) if target is None else None
        if not isinstance(sample_weight, str):
            sample_weight = _weights(sample_weight, len(table))
        return TableRows(table, target, columns, sample_weight, labels)


class TrainingData(NamedTuple):
    """Rows to train on."""

    data: Data
    held_out: ArrayData | None
    """Some of the held-out rows, to measure the model on; None if none are held out."""
    schema: Schema
    target: str | None
    """The column of the labels, where they were one."""


def training_data(
    given: Given,
    *,
    known: Schema | None,
    class_weight: ClassWeight,
    held_out: float | str,
    seed: int,
    batch_size: int,
    in_order: bool = False,
) -> TrainingData:
    """The rows to fit, without the fraction of them that is `held_out`: see `held_out_share`.

    `known` is the schema of the model to go on from, if there is one. A stream has to be `in_order`
    if more is known of its rows by their places.
    """
    given = given._replace(X=in_memory(given.X))
    X = given.X
    measured: ArrayData | None = None
    data: Data
    target = given.target
    choices = given.choices
    if given.in_memory and not _large(X) and not _encoded(X, known) and not given.read:
        whole, schema = block_data(given, class_weight, known)
        share = held_out_share(held_out, whole.n_rows, batch_size)
        if share:
            whole, measured = split(whole, share, seed)
        data = _without_repeats(whole, batch_size)
    else:
        rows = given.rows()
        target = rows.target
        encoding = None if known is None or rows.schema is None else known.encoding
        data, measured = prepare(
            rows, class_weight, seed, encoding, batch_size, held_out, choices, in_order
        )
        schema = schema_of(data.encoding, data.sample()[0].shape[1])
        if isinstance(data, ArrayData):
            data = _without_repeats(data, batch_size)
    if known is None:
        warn_of_columns(schema, data.sample()[0])
    return TrainingData(data, measured, schema, target)


def block_data(
    given: Given, weights: ClassWeight, known: Schema | None, classes: NDArray[Any] | None = None
) -> tuple[ArrayData, Schema]:
    """Rows in memory with labels of shape (n,); those of weight zero are left out.

    `weights` are those of the classes. With `classes`, the rows are a part of all rows, and may
    have one of these classes only.
    """
    if known is None:
        schema, rows = read(in_memory(given.X), given.choices)
    else:
        schema, rows = known, known.features(given.X)
    labels = _labels(given.y, len(rows))
    partial = classes is not None
    if classes is None:
        classes = checks.distinct(labels, "y")
        checks.several_classes(classes, n_rows=len(labels))
    remedy = "name all classes in the first call of partial_fit"
    codes = checks.class_codes(labels, classes, remedy=remedy)
    weight = _weights(given.sample_weight, len(rows))
    weight = np.ones(len(rows)) if weight is None else weight
    counts = np.bincount(codes, minlength=len(classes))
    present = np.flatnonzero(counts)
    factors = np.ones(len(classes))
    by_label = dict(zip(classes.tolist(), counts.tolist(), strict=True))
    factors[present] = class_factors(weights, classes[present], by_label)
    weight *= factors[codes]
    kept = weight > 0
    if not kept.any():
        raise InvalidData("sample_weight is zero for every row; give some rows positive weight.")
    if not partial:
        checks.every_class(codes[kept], classes, "sample_weight")
    if not kept.all():
        rows, codes, weight = rows[kept], codes[kept], weight[kept]
    return ArrayData(rows, codes, weight, classes, schema.encoding), schema


def online_block(
    given: Given,
    class_weight: ClassWeight,
    known: Schema | None,
    classes: NDArray[Any] | None,
    batch_size: int,
) -> tuple[ArrayData, Schema]:
    """A block of rows for online learning."""
    data, schema = block_data(given, class_weight, known, classes)
    data = _without_repeats(data, batch_size)
    if known is None:
        warn_of_columns(schema, data.X)
    return data, schema


def warn_of_columns(schema: Schema, rows: NDArray[Any]) -> None:
    """Warn of columns that look like identifiers, and of numbers that stand for missing ones."""
    warn_of_identifiers(schema, rows)
    warn_of_sentinels(schema, rows)


def _encoded(X: Any, known: Schema | None) -> bool:
    """Whether the columns of a table need an encoding, or have one that is known."""
    return is_table(X) and (needs_encoding(X) if known is None else known.encoding is not None)


def _large(X: Any) -> bool:
    return isinstance(X, np.memmap) and X.nbytes > stream_source.MEMORY


def _labels(y: Any, n_rows: int) -> NDArray[Any]:
    if y is None:
        raise InvalidData(
            "y is not given; give the labels as y or name their column by target (GPClassifier "
            "requires y to be passed, but the target y is None)."
        )
    labels = checks.labels(column_or_1d(y, warn=True), n_rows)
    if labels.dtype == object:
        labels = checks.one_type(labels)
    check_classification_targets(labels)
    return labels


def _weights(sample_weight: Any, n_rows: int) -> Floats | None:
    return None if sample_weight is None else checks.weights(sample_weight, n_rows)


def _without_repeats(data: ArrayData, batch_size: int) -> ArrayData:
    if len(data.y) > min(batch_size, MINIBATCH):
        return data
    X, y, weight = merge_duplicates(np.asarray(data.X), data.y, data.weight)
    return data._replace(X=X, y=y, weight=weight)
