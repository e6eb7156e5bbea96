"""Centred kernels."""

from __future__ import annotations

from collections.abc import Iterator

from matrix.case import Case
from matrix.kernel_rows import fit_few, kernel_of, kernel_rows
from sklearn import (
    preprocessing,
)


def centred() -> Iterator[Case]:
    """Centred kernels."""
    centre = "sklearn.preprocessing.KernelCenterer"
    yield Case(
        centre, "default", fit_few(preprocessing.KernelCenterer(), make=kernel_of), rows=kernel_rows
    )


CASES = (*centred(),)
