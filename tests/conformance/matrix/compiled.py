"""Models of the matrix, converted once for all tests of a process."""

from __future__ import annotations

from functools import cache

from matrix.case import Case, fitted

import hbconv

__all__ = ["compiled"]


@cache
def compiled(case: Case, backend: str) -> hbconv.Model:
    """Convert once."""
    return hbconv.convert(fitted(case), backend=backend)
