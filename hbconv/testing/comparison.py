"""Compare an answer with the source's: form first, then values within rounding."""

from __future__ import annotations

from dataclasses import replace
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
from hbconv.testing.rounding import uncertainty
from hbconv.testing.ties import size, tied
from hbconv.testing.watch import Call
from hbconv.verification import TOLERANCE, coarsest, compare, plain

__all__ = ["Verdict", "compared"]

Verdict = tuple[Kind, str, str]
"""The kind of an outcome, its reason, its detail."""


_SUMS = Distances | Linear | Nearest | NearestPoints | RowDot | SquaredDistances
"""What adds products in an order of its own."""

_PROMISED = {"float32", "float64", "int64"}
"""Dtypes of rows for which the dtype of an answer is promised."""


def compared(call: Call, model: Model, found: Any) -> Verdict:
    """Compare the answer found with the call's.

    Lists that a pipeline without work hands back are compared as the arrays that hbconv makes.
    """
    if _is_handed_back(call):
        call = replace(call, answer=np.asarray(call.answer))
    dtypes = _dtypes(call.rows) <= _PROMISED and 0 not in getattr(call.answer, "shape", ())
    want = form(call.answer, dtypes=dtypes)
    got = form(found, dtypes=dtypes)
    if want != got:
        return "wrong", "another form", f"{got} instead of {want}"
    dtype = coarsest(model, call.rows)
    scale = _scale(call, model)
    for a, b in zip(parts(call.answer), parts(found), strict=True):
        difference = compare(call.method, a, b, dtype, scale)
        settled = difference.within or tied(call, a, b, dtype)
        if not settled and not _rounded(call, model, a, b, TOLERANCE[dtype] * scale):
            return "wrong", "other values", str(difference)
    return "right", "", ""


def _is_handed_back(call: Call) -> bool:
    both = isinstance(call.answer, list) and isinstance(call.rows, list)
    return both and np.array_equal(call.answer, call.rows)


def _rounded(call: Call, model: Model, a: Any, b: Any, tolerance: float) -> bool:
    """Whether two parts of answers are as near as the rounding of sums of products allows."""
    want, got = plain(a), plain(b)
    if want.dtype.kind != "f" or not _adds_products(model):
        return False
    uncertain = uncertainty(call, model)
    if uncertain is None or uncertain.size != want.size:
        return False
    same = (want == got) | (np.isnan(want) & np.isnan(got))
    limit = tolerance * np.maximum(1.0, np.abs(want)) + uncertain.reshape(want.shape)
    with np.errstate(all="ignore"):
        return bool((same | (np.abs(want - got) <= limit)).all())


def _scale(call: Call, model: Model) -> float:
    """Return the largest input, by which the rounding of sums of products grows; else 1."""
    return size(call.rows) if _adds_products(model) else 1.0


def _adds_products(model: Model) -> bool:
    return any(isinstance(node, _SUMS) for node in topological(model.parsed.roots))


def _dtypes(rows: Any) -> set[str]:
    """Dtypes of an array or a frame; none of other rows, whose numbers become one of those."""
    if hasattr(rows, "dtypes"):
        return {str(dtype) for dtype in rows.dtypes} if np.ndim(rows) == 2 else {str(rows.dtypes)}
    return {str(rows.dtype)} if hasattr(rows, "dtype") else set()
