"""LabelBinarizer: a column for each class.

MultiLabelBinarizer: a column for each label that a row may have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    ArgMax,
    Cast,
    Compare,
    ConstantRows,
    IsOutside,
    Labels,
    Modulo,
    Multiply,
    NameTuples,
    Node,
    Output,
    Pool,
    Recode,
    Schema,
    sparse_form,
)
from hbconv.containers.extractors import Terms, Tokens
from hbconv.parse.checks.soundness import require_order
from hbconv.parse.common.extracted_entries import (
    entry_name,
    extracted_entries,
    item_column,
)
from hbconv.parse.common.text_columns import are_numbers, category_codes
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, select


def _features(binarizer: Any) -> Schema:
    """Return one sequence of labels, or a column of zeros and ones for each class."""
    return (
        Schema.matrix(len(binarizer.classes_)) if _is_multilabel(binarizer) else Schema.sequence()
    )


@parses("sklearn.preprocessing.LabelBinarizer", features=_features, takes_sparse=True)
def parse_label_binarizer(step: Step) -> dict[str, Output]:
    """Give ``pos_label`` for a row's class and ``neg_label`` for the others, as int64."""
    if not _is_multilabel(step.estimator):
        step.refuse_sparse()
    codes = _indicators(step) if _is_multilabel(step.estimator) else _class_codes(step)
    return {"transform": Output(codes, sparse_form(bool(step.estimator.sparse_output)))}


def _is_multilabel(binarizer: Any) -> bool:
    return bool(binarizer.y_type_.startswith("multilabel"))


def _class_codes(step: Step) -> Node:
    """Look up the class.

    Two classes share a column, and other labels are refused: they would add a second column.
    """
    classes = np.asarray(step.estimator.classes_)
    require_order(step.estimator, step.place, classes)
    if are_numbers(classes):
        classes = classes.astype(np.int64) if classes.dtype.kind == "b" else classes
        _require_whole(step)
    codes = category_codes(step, 0, classes)
    if len(classes) > 2:
        return _shown(step, select(codes, [0] * len(classes)), np.eye(len(classes), dtype=bool))
    step.check(
        Compare.of(codes, "eq", -1), f"y contains previously unseen labels (step {step.where!r})."
    )
    return _shown(step, codes, np.arange(len(classes))[None] == 1)


def _indicators(step: Step) -> Node:
    """Return zeros and ones as the two labels."""
    _require_whole(step)
    step.check(
        IsOutside.of(step.x, 0.0, 1.0), f"y holds other values than 0 and 1 (step {step.where!r})."
    )
    return _shown(
        step, Compare.of(step.x, "ne", 0.0, "int32"), np.tile([False, True], (step.x.type.width, 1))
    )


def _require_whole(step: Step) -> None:
    """Refuse numbers with a fraction, which cannot be labels."""
    x = step.require_finite()
    fraction = Modulo(x, Array(np.ones(x.type.width)))
    step.check(
        Compare.of(fraction, "ne", 0.0),
        f"y holds numbers with a fraction, which are not labels (step {step.where!r}).",
    )


def _shown(step: Step, codes: Node, is_positive: npt.NDArray[np.bool_]) -> Node:
    """Return ``pos_label`` or ``neg_label`` for each code.

    Row j of ``is_positive`` tells which codes of column j get ``pos_label``.
    An unknown code gets ``neg_label``.
    """
    est = step.estimator
    values = np.where(np.insert(is_positive, 0, values=False, axis=1), est.pos_label, est.neg_label)
    return Recode(codes, tuple(Array(row.astype(np.int64)) for row in values))


def _shown_columns(binarizer: Any, width: int) -> Schema:
    """Return a sequence where two classes share a column, else a column for each class."""
    return Schema.sequence() if _has_one_column(binarizer) else Schema.matrix(width)


def _has_one_column(binarizer: Any) -> bool:
    return not _is_multilabel(binarizer) and binarizer.y_type_ != "multiclass"


@inverts("sklearn.preprocessing.LabelBinarizer", takes_sparse=True, columns=_shown_columns)
def invert_label_binarizer(step: Step) -> Output:
    """Take the class of the largest column, or compare with the middle of the two labels.

    Two columns for two classes, and another ``threshold``, are not taken.
    """
    est = step.estimator
    if est.sparse_input_:
        raise step.refuse("sparse_input_", True, "Fit it on an array to invert it.")
    x = step.require_finite()
    if est.y_type_ == "multiclass":
        return Output(_largest(step, x), Labels(Array(np.asarray(est.classes_))))
    threshold = Array(np.full(x.type.width, (est.pos_label + est.neg_label) / 2.0))
    above = Compare(Cast(x, "float"), "gt", threshold, "int32", weak=True)
    if _is_multilabel(est):
        return Output(Cast(above, "int64"))
    codes = above if len(est.classes_) > 1 else ConstantRows(x, Array(np.zeros(1, np.int32)))
    return Output(codes, Labels(Array(np.asarray(est.classes_))))


def _largest(step: Step, x: Node) -> Node:
    """Return the place of the largest column.

    The source model confuses classes in sparse rows that hold negative numbers and none above 0.
    """
    groups = (tuple(range(x.type.width)),)
    highest, lowest = (Pool(x, groups, name) for name in ("max", "min"))
    beside = Compare.of(Multiply((Compare.of(highest, "le", 0.0, "float64"), lowest)), "lt", 0.0)
    step.check_sparse(beside, f"A sparse row holds no number above 0 (step {step.where!r}).")
    return ArgMax(x)


@parses("sklearn.preprocessing.MultiLabelBinarizer", features=item_column)
def parse_multi_label_binarizer(step: Step) -> dict[str, Output]:
    """Set the column of each label of a row; unknown labels are left out.

    A text is refused: the source model takes its letters for labels.
    """
    labels = step.estimator.classes_.tolist()
    cached = step.estimator._cached_dict
    if cached is not None and cached != {label: j for j, label in enumerate(labels)}:
        raise step.damaged("_cached_dict does not hold the places of classes_")
    classes = Terms(tuple(entry_name(step, label) for label in labels))
    return {
        "transform": Output(
            extracted_entries(step, Tokens(), classes, "int64", binary=True),
            sparse_form(bool(step.estimator.sparse_output)),
        )
    }


@inverts("sklearn.preprocessing.MultiLabelBinarizer", takes_sparse=True)
def invert_multi_label_binarizer(step: Step) -> Output:
    """List the labels of each row as a tuple; other numbers than 0 and 1 are refused."""
    x = step.require_finite()
    is_other = Compare.of(Multiply((x, Affine.of(x, sub=1.0))), "ne", 0.0)
    step.check(is_other, f"Expected only 0s and 1s in label indicator (step {step.where!r}).")
    return Output(x, NameTuples(Array(np.asarray(step.estimator.classes_))))
