"""Answers of a model as the tensors that its signature gives."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError
from hbconv.model import Model
from hbconv.serve.datatypes import DTYPES
from hbconv.serve.refusal import RefusedError
from hbconv.serve.rows import Rows, fed
from hbconv.serve.signature import Given, ModelSignature

__all__ = ["Answers", "compute", "require_size"]

MOST_TEXT_BYTES = 1 << 20
"""Of texts that are computed together: what a model makes of them takes up to 32 times as much."""
Answers = Mapping[str, npt.NDArray[Any]]
"""Tensors by their names."""


def require_size(size: int, most_bytes: int) -> None:
    """Refuse to compute answers that take too many bytes.

    Raises
    ------
    RefusedError
        They exceed what the server sends at once.
    """
    if size > most_bytes:
        raise RefusedError(
            400,
            "TooLarge",
            f"The answer takes up to {size:,} bytes, and the server sends {most_bytes:,} at once. "
            "Send fewer rows, or ask for fewer outputs.",
        )


def compute(
    model: Model, signature: ModelSignature, rows: Rows, wanted: Collection[Given]
) -> Answers:
    """Call the methods of some tensors, for some of the rows at a time where their texts are long.

    Raises
    ------
    InputError
        The source model refuses the rows.
    """
    parts: list[Answers] = []
    first = 0
    for part in rows.parts(MOST_TEXT_BYTES):
        try:
            parts.append(_computed(model, signature, part, wanted))
        except InputError as error:
            if part.count == rows.count:
                raise
            told = f"{error} Rows are counted from row {first} of the request."
            raise InputError(told) from error
        first += part.count
    if len(parts) == 1:
        return parts[0]
    return {one.name: np.concatenate([part[one.name] for part in parts]) for one in wanted}


def _computed(
    model: Model, signature: ModelSignature, rows: Rows, wanted: Collection[Given]
) -> Answers:
    x = fed(signature, rows)
    found: dict[str, Any] = {}
    for one in wanted:
        if one.method not in found:
            found[one.method] = getattr(model, one.method)(x)
    return {one.name: _tensor(one, found[one.method], rows.count) for one in wanted}


def _tensor(given: Given, found: Any, count: int) -> npt.NDArray[Any]:
    """Return one part of an answer, dense and in the shape that is told."""
    if not count:  # a source may answer no rows in another shape and dtype
        return np.empty((0, *given.shape[1:]), DTYPES[given.datatype])
    part = found if given.part is None else found[given.part]
    array = np.asarray(part.toarray() if hasattr(part, "toarray") else part)
    return array if array.ndim == len(given.shape) else array.reshape(count, *given.shape[1:])
