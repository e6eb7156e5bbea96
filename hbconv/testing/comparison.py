"""Compare an answer with the source's: form first, then values within rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.containers import (
    Distances,
    Linear,
    Nearest,
    NearestPoints,
    RowDot,
    SquaredDistances,
    topological,
)
from hbconv.model import Model
from hbconv.testing.forms import form, parts
from hbconv.testing.outcomes import Kind
from hbconv.testing.ties import size, tied
from hbconv.testing.watch import Call
from hbconv.verification import coarsest, compare

__all__ = ["Verdict", "compared"]

Verdict = tuple[Kind, str, str]
"""The kind of an outcome, its reason, its detail."""


_SUMS = Distances | Linear | Nearest | NearestPoints | RowDot | SquaredDistances
"""What adds products in an order of its own."""

_PROMISED = {"float32", "float64", "int64"}
"""Dtypes of rows for which the dtype of an answer is promised."""


def compared(call: Call, model: Model, found: Any) -> Verdict:
    """Compare the answer found with the call's."""
    dtypes = _dtypes(call.rows) <= _PROMISED and 0 not in getattr(call.answer, "shape", ())
    want = form(call.answer, dtypes=dtypes)
    got = form(found, dtypes=dtypes)
    if want != got:
        return "wrong", "another form", f"{got} instead of {want}"
    dtype = coarsest(model, call.rows)
    scale = _scale(call, model)
    for a, b in zip(parts(call.answer), parts(found), strict=True):
        difference = compare(call.method, a, b, dtype, scale)
        if not difference.within and not tied(call, a, b, dtype):
            return "wrong", "other values", str(difference)
    return "right", "", ""


def _scale(call: Call, model: Model) -> float:
    """Return the largest input, by which the rounding of sums of products grows; else 1."""
    sums = any(isinstance(node, _SUMS) for node in topological(model.parsed.roots))
    return size(call.rows) if sums else 1.0


def _dtypes(rows: Any) -> set[str]:
    """Dtypes of an array or a frame; none of other rows, whose numbers become one of those."""
    if hasattr(rows, "dtypes"):
        return {str(dtype) for dtype in rows.dtypes} if np.ndim(rows) == 2 else {str(rows.dtypes)}
    return {str(rows.dtype)} if hasattr(rows, "dtype") else set()
