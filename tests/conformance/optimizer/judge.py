"""Count the rows that a backend answers otherwise than the source."""

from __future__ import annotations

from typing import Any

import numpy as np
from fitted import available_backends
from sources import dense, quietly
from tolerances import allowed, precision

import hbconv

__all__ = ["BACKENDS", "FEW", "assert_same_rows"]

BACKENDS = tuple(name for name in available_backends() if name != "torchscript")
"""TorchScript is a trace of torch's module."""
FEW = ("reference", "torch")
"""Backends that compile in no time."""


def assert_same_rows(
    estimator: Any, method: str, backend: str, rows: Any, kind: str = "trees"
) -> None:
    """Assert that no row differs by more than rounding explains.

    A row in another leaf differs by far more, for leaves of a tree have values of their own.
    """
    want = dense(quietly(estimator, method, rows))
    got = dense(getattr(hbconv.convert(estimator, backend=backend), method)(rows))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    limit = allowed(kind, precision(rows, want), rows, want)
    same = (got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= limit)
    other = ~same.reshape(len(want), -1).all(axis=1)
    assert not other.any(), (
        f"{backend}: {other.sum()} of {len(want)} rows, such as {got[other][:2]} for "
        f"{want[other][:2]}, {np.flatnonzero(other)[:5]}"
    )
