"""MultiLabelBinarizer: a column for each label that a row may have."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import Affine, Compare, Multiply, NameTuples, Output, sparse_form
from hbconv.containers.extractors import Terms, Tokens
from hbconv.parse.common.extracted_entries import (
    entry_name,
    extracted_entries,
    item_column,
)
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


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
