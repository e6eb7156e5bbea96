"""The form of an answer: what a caller sees of it before any value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["form", "parts", "settled"]


def form(answer: Any, *, dtypes: bool = True) -> str:
    """Say of which class an answer is, its shape, its dtypes if wanted, the names of a frame.

    Examples
    --------
    >>> form(np.zeros((2, 3)))
    'ndarray (2, 3) float64'
    >>> form((np.zeros(2), [np.zeros(1)]))
    'tuple of (ndarray (2,) float64, list of (ndarray (1,) float64))'
    """
    if isinstance(answer, list | tuple):
        inner = ", ".join(form(part, dtypes=dtypes) for part in answer)
        return f"{type(answer).__name__} of ({inner})"
    if hasattr(answer, "columns"):
        return f"{_class(answer)} {_names(answer, dtypes=dtypes)}"
    if hasattr(answer, "dtype"):
        kind = str(answer.dtype) if dtypes else ""
        name = str(getattr(answer, "name", ""))
        return " ".join(filter(None, (_class(answer), name, str(answer.shape), kind)))
    return _class(answer)


def _class(answer: Any) -> str:
    return "ndarray" if isinstance(answer, np.memmap) else type(answer).__name__


def _names(frame: Any, *, dtypes: bool) -> str:
    kinds = [str(dtype) if dtypes else "" for dtype in frame.dtypes]
    index = list(getattr(frame, "index", ()))
    return f"{frame.shape} {dict(zip(map(str, frame.columns), kinds, strict=False))} {index[:3]}"


def parts(answer: Any) -> list[Any]:
    """Return the answers that a tuple holds, else the one there is."""
    return list(answer) if isinstance(answer, tuple) else [answer]


def settled(answer: Any) -> Any:
    """Return an answer that can be read twice."""
    return list(answer) if isinstance(answer, Iterator) else answer
