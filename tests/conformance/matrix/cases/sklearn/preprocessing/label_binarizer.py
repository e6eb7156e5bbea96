"""Labels as zeros and ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.preprocessing import (
    LabelBinarizer,
)


def counts(n: int) -> np.ndarray:
    """Two columns of whole numbers, some of them never seen."""
    return np.random.default_rng(n).integers(0, 9, (n, 2)).astype(np.float64)


def seen(n: int) -> np.ndarray:
    """One column of two whole numbers."""
    return counts(n)[:, :1] % 2


def flags(n: int) -> np.ndarray:
    """Three columns of zeros and ones."""
    return np.random.default_rng(n).integers(0, 2, (n, 3)).astype(np.float64)


def label_encoders() -> Iterator[Case]:
    """Labels as zeros and ones."""
    case = partial(Case, "sklearn.preprocessing.LabelBinarizer", kind="elementwise")
    yield case(
        "six classes",
        lambda: LabelBinarizer(neg_label=-1, pos_label=2).fit(np.arange(6)),
        rows=lambda n: counts(n)[:, :1],
    )
    yield case(
        "sparse",
        lambda: LabelBinarizer(sparse_output=True).fit(np.arange(3)),
        rows=lambda n: counts(n)[:, :1],
    )
    yield case(
        "two classes, 0 for the second",
        lambda: LabelBinarizer(neg_label=-1, pos_label=0).fit([0, 1]),
        rows=seen,
    )
    yield case(
        "one class", lambda: LabelBinarizer().fit([4, 4]), rows=lambda n: np.full((n, 1), 4.0)
    )
    yield case(
        "several labels", lambda: LabelBinarizer(neg_label=-3).fit(flags(9).astype(int)), rows=flags
    )


CASES = (*label_encoders(),)
