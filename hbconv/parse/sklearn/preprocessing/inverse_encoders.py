"""Inverses of encoders: from codes, or zeros and ones, back to categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    ArgMax,
    Cast,
    CategoryColumns,
    Choose,
    Compare,
    ConstantRows,
    IsMissing,
    IsOtherDtype,
    IsOutside,
    LabelColumns,
    Labels,
    Node,
    Output,
    Pool,
    Recode,
    Schema,
    Select,
)
from hbconv.parse.common.text_columns import is_nan
from hbconv.parse.inverses import inverts
from hbconv.parse.step import Step, concat

__all__ = ["argmax_of_blocks", "codes_of_numbers"]

_NUMBERS = ("float32", "float64", "int64")
"""Dtypes of categories that a program may give itself."""


@inverts("sklearn.preprocessing.OneHotEncoder", takes_sparse=True)
def invert_one_hot_encoder(step: Step) -> Output:
    """Take the category of the largest column of each block.

    A block that adds up to 0 is the dropped category, else an unknown one, else refused.
    """
    est = step.estimator
    kept = [
        np.asarray(est._compute_transformed_categories(j, remove_dropped=False))
        for j in range(len(est.categories_))
    ]
    dtype = np.result_type(*[table.dtype for table in kept])
    step.require_finite()
    found = argmax_of_blocks(step.x, [int(size) for size in est._n_features_outs])
    read = [_one_hot_column(step, j, kept[j], *found[j]) for j in range(len(kept))]
    tables = [table.astype(dtype) for _, table, _ in read]
    return _categories(
        [codes for codes, _, _ in read], tables, unknown=any(may for _, _, may in read)
    )


def argmax_of_blocks(x: Node, sizes: Sequence[int]) -> list[tuple[Node, Node]]:
    """Return the place of the largest column of each block, and whether the block adds up to 0."""
    found: list[tuple[Node, Node]] = []
    ends = np.cumsum(sizes)
    for size, end in zip(sizes, ends.tolist(), strict=True):
        block = Select(x, Array(np.arange(end - size, end, dtype=np.int32)))
        total = Pool(block, (tuple(range(size)),), "sum") if size else ConstantRows(x, _zero())
        place = ArgMax(block) if size else ConstantRows(x, _zero())
        found.append((place, Compare.of(total, "eq", 0.0)))
    return found


def _zero() -> Array:
    return Array(np.zeros(1, np.int32))


def _one_hot_column(
    step: Step, j: int, kept: npt.NDArray[Any], place: Node, is_zero: Node
) -> tuple[Node, npt.NDArray[Any], bool]:
    """Return the codes of a column, its categories, and whether a code may be beyond these."""
    est = step.estimator
    shown = np.asarray(est._remove_dropped_categories(kept, j))
    drops = est._drop_idx_after_grouping
    dropped = None if drops is None else drops[j]
    grouped = est._infrequent_enabled and est._infrequent_indices[j] is not None
    takes_unknown = est.handle_unknown == "ignore" or (
        est.handle_unknown in ("infrequent_if_exist", "warn") and not grouped
    )
    if dropped is not None:
        names = est.categories_[j] if takes_unknown or not len(shown) else kept
        beyond = Choose(is_zero, _code(step.x, len(shown)), place)
        table = np.append(shown, np.asarray(names)[[int(dropped)]])
        return beyond, table, False
    if takes_unknown:
        return Choose(is_zero, _code(step.x, len(shown)), place), shown, True
    if drops is None or len(shown) > 1:  # of one category alone, the source model reads zeros too
        step.check(
            is_zero,
            f"Column {j} holds rows of zeros, which {step.name} (step {step.where!r}) cannot "
            f"invert with drop={est.drop!r} and handle_unknown={est.handle_unknown!r}.",
        )
    return place, shown, False


def _code(x: Node, code: int) -> Node:
    return ConstantRows(x, Array(np.array([code], np.int32)))


@inverts("sklearn.preprocessing.OrdinalEncoder")
def invert_ordinal_encoder(step: Step) -> Output:
    """Take the category of each code; those of unknown values are None.

    A negative code counts from the end, as a position of numpy does.
    """
    est = step.estimator
    step.require_finite(allow_nan=True)
    groups = getattr(est, "_infrequent_indices", None) or [None] * len(est.categories_)
    dtype = np.result_type(*[np.asarray(c).dtype for c in est.categories_])
    read = [
        _ordinal_column(step, j, np.asarray(est.categories_[j]).astype(dtype), groups[j])
        for j in range(len(est.categories_))
    ]
    unknown = est.handle_unknown == "use_encoded_value"
    if unknown or any(group is not None for group in groups):
        dtype = np.dtype(object)
    tables = [table.astype(dtype) for _, table in read]
    return _categories([codes for codes, _ in read], tables, unknown=unknown)


def _ordinal_column(
    step: Step, j: int, categories: npt.NDArray[Any], group: Any
) -> tuple[Node, npt.NDArray[Any]]:
    """Return the codes of a column, and its categories; one code beyond is the unknown value."""
    est = step.estimator
    label: Node = Cast(Select(step.x, Array.of([j], np.int32)), "float64")
    if j in est._missing_indices:
        missing = ConstantRows(label, Array([float(est._missing_indices[j])]))
        label = Choose(_equals(label, est.encoded_missing_value), missing, label)
    kept = categories if group is None else np.delete(categories, group)
    table = kept if group is None else np.append(kept.astype(object), "infrequent_sklearn")
    taken = [] if group is None else [(len(categories) - len(group), len(kept))]
    if est.handle_unknown == "use_encoded_value":
        taken.append((est.unknown_value, len(table)))
    known = label
    for value, _ in taken:
        known = Choose(_equals(label, value), ConstantRows(label, Array([0.0])), known)
    codes = codes_of_numbers(step, known, [len(kept)])
    for value, code in taken:
        codes = Choose(_equals(label, value), _code(label, code), codes)
    return codes, table


def _equals(label: Node, value: Any) -> Node:
    return IsMissing(label, float("nan") if is_nan(value) else float(value))


def codes_of_numbers(step: Step, x: Node, sizes: Sequence[int]) -> Node:
    """Return numbers as positions in tables of these sizes; refuse those beyond.

    A number is cut off to a whole one, and a negative one counts from the end.
    """
    n = np.asarray(sizes, dtype=np.float64)
    refused = Choose(IsMissing(x, float("nan")), ConstantRows(x, Array(np.full(len(n), np.inf))), x)
    step.check(
        IsOutside.of(refused, np.nextafter(-n - 1, 0), np.nextafter(n, 0)),
        f"Input X holds codes of no category, which {step.name} (step {step.where!r}) refuses.",
    )
    whole = Cast(Cast(x, "int32"), "float64")
    return Cast(Choose(Compare.of(whole, "lt", 0.0), Affine.of(whole, add=n), whole), "int32")


def _categories(
    codes: Sequence[Node], tables: Sequence[npt.NDArray[Any]], *, unknown: bool
) -> Output:
    """Return the category of each code as one array, of numbers where all are such."""
    node = concat(codes)
    if unknown:
        return Output(node, CategoryColumns(tuple(Array(table) for table in tables)))
    if tables[0].dtype.name not in _NUMBERS:
        return Output(node, LabelColumns(tuple(Array(table) for table in tables)))
    return Output(Recode(node, tuple(Array(np.append(table[:1], table)) for table in tables)))


def _labels(encoder: Any, width: int) -> Schema:  # noqa: ARG001
    return Schema.sequence("int64")


@inverts("sklearn.preprocessing.LabelEncoder", columns=_labels)
def invert_label_encoder(step: Step) -> Output:
    """Take the class of each code; the source model takes ints alone."""
    classes = np.asarray(step.estimator.classes_)
    step.check(
        IsOtherDtype(step.x, "int64"),
        f"{step.name} (step {step.where!r}) inverts ints alone.",
    )
    codes = Cast(step.x, "int64")
    step.check(
        IsOutside.of(codes, 0, len(classes) - 1),
        f"y contains previously unseen labels (step {step.where!r}).",
    )
    nothing = Array(np.empty(0))
    return Output(Cast(codes, "int32"), Labels(Array(classes)), of_no_rows=nothing)
