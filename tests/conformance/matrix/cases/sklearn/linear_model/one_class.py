"""A linear one-class machine."""

from __future__ import annotations

from collections.abc import Iterator

from matrix.case import Case
from matrix.kernel_rows import fit_few
from sklearn import (
    linear_model,
)


def one_class() -> Iterator[Case]:
    """A linear one-class machine."""
    yield Case(
        "sklearn.linear_model.SGDOneClassSVM",
        "default",
        fit_few(linear_model.SGDOneClassSVM(random_state=0)),
    )


CASES = (*one_class(),)
