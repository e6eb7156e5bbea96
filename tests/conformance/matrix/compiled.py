"""Models of the matrix, converted once for all tests of a process."""

from __future__ import annotations

from functools import cache

from matrix.case import Case, fitted

import hbconv

__all__ = ["compiled"]


@cache
def compiled(case: Case, backend: str, dtype: str = "float64") -> hbconv.Model:
    """Convert once for rows of each dtype: a model converts rows to dtypes that it has met."""
    return hbconv.convert(fitted(case), backend=backend)
