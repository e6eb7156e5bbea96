"""Served models: a model with its name, version and signature, warm before it is asked."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from hbconv.errors import InputError
from hbconv.model import Model
from hbconv.serve.answers import compute
from hbconv.serve.rows import Rows, fed
from hbconv.serve.signature import ModelSignature, Taken

__all__ = ["ServedModel", "warmed"]

QUICK_SECONDS = 0.0005
"""A batch that takes no longer is computed between two requests, without a thread."""
MOST_QUICK_ROWS = 256


@dataclass(frozen=True)
class ServedModel:
    """A model that is ready to be asked.

    Parameters
    ----------
    name, version : str
    model : Model
    signature : ModelSignature
    quick_rows : int
        Number of rows that all methods answer within ``QUICK_SECONDS``.
    """

    name: str
    version: str
    model: Model
    signature: ModelSignature
    quick_rows: int


def warmed(name: str, version: str, model: Model) -> ServedModel:
    """Compile all methods of a model, and time how many rows it answers at once.

    It answers arrays from now on, whatever tables it was made to answer.
    """
    if hasattr(model, "set_output"):
        model.set_output(transform="default")
    signature = ModelSignature.of(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(InputError):  # a model of mappings reads none of the texts made here
            model.compile(fed(signature, _some_rows(signature, 1)))
        quick = _quick_rows(model, signature)
    return ServedModel(name, version, model, signature, quick)


def _quick_rows(model: Model, signature: ModelSignature) -> int:
    """Find how many rows all methods together answer quickly; 0 where they refuse the rows.

    Texts are never quick: a longer one than any before may compile.
    """
    if signature.feeds == "items":
        return 0
    quick, rows = 0, 1
    try:
        compute(model, signature, _some_rows(signature, rows), signature.given)
        while rows <= MOST_QUICK_ROWS and _seconds(model, signature, rows) <= QUICK_SECONDS:
            quick, rows = rows, rows * 4
    except InputError:
        return 0
    return quick


def _seconds(model: Model, signature: ModelSignature, rows: int) -> float:
    """Time all methods, the second time: the first one may fill caches."""
    sample = _some_rows(signature, rows)
    compute(model, signature, sample, signature.given)
    began = time.perf_counter()
    compute(model, signature, sample, signature.given)
    return time.perf_counter() - began


def _some_rows(signature: ModelSignature, count: int) -> Rows:
    """Make rows of zeros and of texts."""
    return Rows(count, tuple(_values(taken, count) for taken in signature.taken))


def _values(taken: Taken, count: int) -> np.ndarray[Any, Any]:
    if taken.dtype == "string":
        return np.full(count, "a", dtype=object)
    return np.zeros(count if taken.width is None else (count, taken.width), taken.dtype)
