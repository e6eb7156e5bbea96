"""Descriptions: an answer as plain values, of which no two differ in a bit and are the same."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["describe", "describe_call"]


def describe_call(call: Callable[[Any], Any], x: Any) -> Any:
    """Return what a call answers, warns of and raises, as JSON holds it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            told = describe(call(x))
        except Exception as error:
            told = [type(error).__qualname__, str(error)]
    said = [[each.category.__name__, str(each.message)] for each in caught]
    return [told, said] if said else [told]


def describe(found: Any) -> Any:
    """Return an answer as lists, texts and digests of bytes."""
    if isinstance(found, np.ndarray):
        return _array(found)
    if hasattr(found, "detach"):
        return ["tensor", str(found.device), str(found.dtype), *_array(found.numpy())]
    if hasattr(found, "tocsr"):
        csr = found.tocsr()
        arrays = [describe(array) for array in (csr.indptr, csr.indices, csr.data)]
        return [type(found).__name__, list(found.shape), *arrays]
    if hasattr(found, "columns"):
        return _frame(found)
    if isinstance(found, dict):
        return {str(name): describe(value) for name, value in found.items()}
    if isinstance(found, list | tuple | Iterator):
        parts = [describe(part) for part in found]
        return [
            type(found).__name__,
            len(parts),
            parts if len(parts) < 50 else _digest(repr(parts)),
        ]
    return [type(found).__name__, repr(found)]


def _array(array: np.ndarray) -> list[Any]:
    data = repr(array.tolist()) if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()
    return [str(array.dtype), list(array.shape), _digest(data)]


def _frame(frame: Any) -> list[Any]:
    index = (
        [str(frame.index.dtype), _digest(repr(frame.index.tolist()))]
        if hasattr(frame, "index")
        else []
    )
    names = [str(name) for name in frame.columns]
    columns = [[str(frame[name].dtype), describe(frame[name].to_numpy())] for name in frame.columns]
    return [type(frame).__module__.partition(".")[0], list(frame.shape), index, names, columns]


def _digest(data: bytes | str) -> str:
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()
