"""Whether an answer is the source's: form first, then values, and what rounding alone decides."""

from __future__ import annotations

from typing import Any

from hbconv.model import Model
from hbconv.testing.forms import form, parts
from hbconv.testing.outcomes import Kind
from hbconv.testing.watch import Call
from hbconv.verification import coarsest, compare

__all__ = ["Verdict", "compared"]

Verdict = tuple[Kind, str, str]
"""The kind of an outcome, its reason, its detail."""


def compared(call: Call, model: Model, found: Any) -> Verdict:
    """Compare the answer found with the call's."""
    want, got = form(call.answer), form(found)
    if want != got:
        return "wrong", "another form", f"{got} instead of {want}"
    dtype = coarsest(model, call.rows)
    for a, b in zip(parts(call.answer), parts(found), strict=True):
        difference = compare(call.method, a, b, dtype)
        if not difference.within:
            return "wrong", "other values", str(difference)
    return "right", "", ""
