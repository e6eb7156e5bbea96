"""Sets of labels as zeros and ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.preprocessing import (
    MultiLabelBinarizer,
)


def label_sets(n: int) -> np.ndarray:
    """Sets of labels, some of them empty, some labels never seen and some met twice."""
    rng = np.random.default_rng(n)
    made = np.empty(n, dtype=object)
    made[:] = [
        tuple(rng.choice(["red", "green", "blue", "mauve"], rng.integers(0, 4))) for _ in range(n)
    ]
    return made


def label_set_encoders() -> Iterator[Case]:
    """Sets of labels as zeros and ones."""
    case = partial(
        Case, "sklearn.preprocessing.MultiLabelBinarizer", kind="elementwise", rows=label_sets
    )
    yield case("dense", lambda: MultiLabelBinarizer().fit([{"red", "blue"}, {"green"}]))
    yield case(
        "sparse, in another order",
        lambda: MultiLabelBinarizer(classes=["red", "blue"], sparse_output=True).fit([["blue"]]),
    )


CASES = (*label_set_encoders(),)
