"""MultiLabelBinarizer: a column for each label that a row may have."""

from __future__ import annotations

from hbconv.containers import Output, sparse_form
from hbconv.containers.extractors import Terms, Tokens
from hbconv.parse.common.extracted_entries import (
    entry_name,
    extracted_entries,
    item_column,
)
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.preprocessing.MultiLabelBinarizer", features=item_column)
def parse_multi_label_binarizer(step: Step) -> dict[str, Output]:
    """Give each label of a row a one in its column; others are left out. A text is refused: the source takes its letters for labels."""
    classes = Terms(tuple(entry_name(step, label) for label in step.estimator.classes_.tolist()))
    return {
        "transform": Output(
            extracted_entries(step, Tokens(), classes, "int64", binary=True),
            sparse_form(bool(step.estimator.sparse_output)),
        )
    }
