"""Rows of a request: an array for each tensor that the model takes, converted, of one length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError, shown
from hbconv.serve.columns import as_declared
from hbconv.serve.signature import ModelSignature, Taken

TEXT_BYTES = 56
"""Of a text of Python, beside its letters."""
ENTRY_BYTES = 150
"""Of a dict, for each of its names."""

__all__ = ["Rows", "fed", "joined", "rows_of"]


@dataclass(slots=True)
class Rows:
    """Rows as the signature of a model takes them.

    Parameters
    ----------
    count : int
    arrays : tuple of array
        One for each tensor of ``ModelSignature.taken``: of shape (count,), or (count, width).
    """

    count: int
    arrays: tuple[npt.NDArray[Any], ...]

    def size(self) -> int:
        """Return the bytes that it takes in memory, about."""
        values = [array for array in self.arrays if array.dtype == object]
        sizes = sum(sum(map(_weight, array)) + TEXT_BYTES * array.size for array in values)
        return sizes + sum(dict(map(_memory, self.arrays)).values())

    def parts(self, most: int) -> Iterator[Rows]:
        """Cut it into parts whose texts and items take so many bytes, or those of a row more."""
        texts = [array for array in self.arrays if array.dtype == object]
        if sum(sum(map(_weight, array)) for array in texts) <= most:
            yield self
            return
        lengths = [sum(map(_weight, row)) for row in zip(*texts, strict=True)]
        groups = np.cumsum(lengths, dtype=np.int64) // most
        starts = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), self.count]
        for start, stop in pairwise(starts):
            yield Rows(stop - start, tuple(array[start:stop] for array in self.arrays))


def _weight(value: object) -> int:
    """Return the bytes that a text or an item takes, about."""
    if isinstance(value, str):
        return len(value)
    return ENTRY_BYTES * (1 + len(value)) if isinstance(value, dict | list) else 0


def _memory(array: npt.NDArray[Any]) -> tuple[int, int]:
    """Return what holds the values of an array, and its bytes: a body, or the array itself."""
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if isinstance(owner.base, memoryview):
        return id(owner.base.obj), memoryview(owner.base.obj).nbytes
    return id(owner), owner.nbytes


def rows_of(signature: ModelSignature, tensors: Mapping[str, npt.NDArray[Any]]) -> Rows:
    """Read the tensors of a request.

    Raises
    ------
    InputError
        Names, shapes or values do not fit, or the lengths differ.
    """
    if tensors.keys() != signature.names:
        _require_names(tensors.keys(), signature)
    shaped = [_shaped(taken, tensors[taken.name]) for taken in signature.taken]
    count = len(shaped[0]) if shaped else 0
    if len(shaped) > 1:
        _require_one_length(signature, shaped)
    arrays = [
        array
        if array.dtype == taken.array_dtype
        else as_declared(f"Input {shown(taken.name)}", array, taken.dtype)
        for taken, array in zip(signature.taken, shaped, strict=True)
    ]
    return Rows(count, tuple(arrays))


def _require_one_length(signature: ModelSignature, shaped: Sequence[npt.NDArray[Any]]) -> None:
    if len({len(array) for array in shaped}) > 1:
        lengths = zip(signature.taken, shaped, strict=True)
        told = ", ".join(f"{shown(taken.name)} has {len(array)}" for taken, array in lengths)
        raise InputError(f"The inputs differ in their number of rows: {told:.500}.")


def _require_names(given: AbstractSet[str], signature: ModelSignature) -> None:
    """Refuse names that are missing or unknown; columns that are not read may come."""
    missing = sorted(signature.names - given)
    unknown = signature.refused(given)
    said = [
        f"{what} {', '.join(map(shown, names[:20]))}."
        for what, names in (("Inputs are missing:", missing), ("Unknown inputs:", unknown))
        if names
    ]
    known = ", ".join(repr(taken.name) for taken in signature.taken[:20])
    if said:
        raise InputError(f"{' '.join(said)} The model takes {known}.")


def _shaped(taken: Taken, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a tensor in the shape that is told; a column may come as (n_rows, 1)."""
    shape = array.shape
    if taken.width is None:
        if len(shape) == 2 and shape[1] == 1:
            return array[:, 0]
        fits = len(shape) == 1
    else:
        fits = len(shape) == 2 and shape[1] == taken.width
    if not fits:
        raise InputError(
            f"Input {shown(taken.name)} has shape {list(array.shape)}; the model takes "
            f"{list(taken.shape)}, with any number of rows for -1."
        )
    return array


def joined(parts: Sequence[Rows]) -> Rows:
    """Return rows of several requests as one."""
    if len(parts) == 1:
        return parts[0]
    arrays = zip(*(part.arrays for part in parts), strict=True)
    return Rows(sum(part.count for part in parts), tuple(map(np.concatenate, arrays)))


def fed(signature: ModelSignature, rows: Rows) -> Any:
    """Return rows in the form in which the model is called."""
    if signature.feeds in ("matrix", "items"):
        return rows.arrays[0]
    names = (taken.name for taken in signature.taken)
    keys = names if signature.feeds == "names" else range(len(rows.arrays))
    return dict(zip(keys, rows.arrays, strict=True))
