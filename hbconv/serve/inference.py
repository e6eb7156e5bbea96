"""Inference: rows of a request of any protocol, once they are read, and the tensors it wants.

A value is taken where it converts exactly, so that no request makes the model compile. Another one
is refused: the source model might predict otherwise for it. This is the one rule of exactness of
the server: the rows then have the dtypes that the model reads, which converts them no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.errors import InputError, shown
from hbconv.names import unknown
from hbconv.serve.signature import InputTensor, ModelSignature, OutputTensor

__all__ = [
    "Inference",
    "Rows",
    "choose_outputs",
    "convert_values",
    "form_input",
    "join_rows",
    "quote_names",
    "read_rows",
]

_EXACT_INTS = {"float32": 2**24, "float64": MOST_EXACT_INT}
"""Up to here a float holds all ints: it has 24 or 53 bits for their digits."""
_INT64 = np.iinfo(np.int64)

MOST_NAMES = 20
"""Names that a message quotes: a model may read thousands of columns."""
TEXT_BYTES = 56
"""Of a text of Python, beside its letters."""
ENTRY_BYTES = 150
"""Of a dict, for each of its names."""


def convert_values(where: str, values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Convert values to the dtype of a column.

    Parameters
    ----------
    where : str
        What the message of an error calls the values.
    values : array
    dtype : {"float32", "float64", "int64", "string"}

    Raises
    ------
    InputError
        A value does not convert exactly, or is text where numbers are read.

    Examples
    --------
    >>> convert_values("column 'a'", np.array([1, 2], np.int32), "float64")
    array([1., 2.])
    """
    if dtype == "string":
        return values if values.dtype == object else values.astype(object)
    if values.dtype.kind == "O":
        raise InputError(f"{where} holds text, where the model reads {dtype}.")
    if values.dtype == dtype:
        return values
    if values.dtype.kind == "b":
        return values.astype(dtype)
    if values.dtype.kind == "f":
        return _convert_floats(where, values, np.dtype(dtype))
    return _convert_ints(where, values, np.dtype(dtype))


def _convert_floats(where: str, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    # An overflow becomes an infinity or another int, so it is unequal and refused below.
    with np.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(dtype)
    same = converted == values
    # NaN is unequal to itself. A float holds it, and an int does not.
    if dtype.kind == "f":
        same |= np.isnan(values)
    _require_all(same, where, values, dtype)
    return converted


def _convert_ints(where: str, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    limit = _EXACT_INTS.get(dtype.name)
    low, high = (_INT64.min, _INT64.max) if limit is None else (-limit, limit)
    # Every dtype holds the ints of 8 and 16 bits, so these are not looked at.
    if values.dtype.itemsize >= 4:
        _require_all((values >= low) & (values <= high), where, values, dtype)
    return values.astype(dtype)


def _require_all(
    exact: npt.NDArray[np.bool_], where: str, values: npt.NDArray[Any], dtype: np.dtype[Any]
) -> None:
    if not exact.all():
        wrong = values[~exact].flat[0]
        raise InputError(
            f"{where} holds {wrong!s} as {values.dtype}, which {dtype} does not hold exactly. "
            f"Send {dtype}, or convert the model with a sample of {values.dtype}."
        )


@dataclass(slots=True)
class Rows:
    """Rows as the signature of a model takes them.

    Parameters
    ----------
    count : int
    arrays : tuple of array
        One for each tensor of ``ModelSignature.inputs``: of shape (count,), or (count, width).
    """

    count: int
    arrays: tuple[npt.NDArray[Any], ...]

    def size(self) -> int:
        """Return the bytes that it takes in memory, about."""
        values = [array for array in self.arrays if array.dtype == object]
        sizes = sum(sum(map(_weigh, array)) + TEXT_BYTES * array.size for array in values)
        return sizes + sum(dict(map(_find_owner, self.arrays)).values())

    def parts(self, most: int) -> Iterator[Rows]:
        """Cut it into parts whose texts and items take so many bytes, or those of a row more."""
        texts = [array for array in self.arrays if array.dtype == object]
        if sum(sum(map(_weigh, array)) for array in texts) <= most:
            yield self
            return
        lengths = [sum(map(_weigh, row)) for row in zip(*texts, strict=True)]
        # A part ends where the running sum passes a multiple, so none exceeds it by over a row.
        groups = np.cumsum(lengths, dtype=np.int64) // most
        starts = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), self.count]
        for start, stop in pairwise(starts):
            yield Rows(stop - start, tuple(array[start:stop] for array in self.arrays))


def _weigh(value: object) -> int:
    """Return the bytes that a text or an item takes, about."""
    if isinstance(value, str):
        return len(value)
    return ENTRY_BYTES * (1 + len(value)) if isinstance(value, dict | list) else 0


def _find_owner(array: npt.NDArray[Any]) -> tuple[int, int]:
    """Return what holds the values of an array, and its bytes: a body, or the array itself."""
    owner: Any = array
    # A view keeps the whole array alive, and an array over a body keeps the whole body.
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if isinstance(owner.base, memoryview):
        return id(owner.base.obj), memoryview(owner.base.obj).nbytes
    return id(owner), owner.nbytes


def read_rows(signature: ModelSignature, tensors: Mapping[str, npt.NDArray[Any]]) -> Rows:
    """Read the tensors of a request.

    Raises
    ------
    InputError
        Names, shapes or values do not fit, or the lengths differ.
    """
    if tensors.keys() != signature.names:
        _require_names(tensors.keys(), signature)
    shaped = [_reshape(tensor, tensors[tensor.name]) for tensor in signature.inputs]
    count = len(shaped[0]) if shaped else 0
    if len(shaped) > 1:
        _require_one_length(signature, shaped)
    arrays = [
        array
        if array.dtype == tensor.array_dtype
        else convert_values(f"Input {shown(tensor.name)}", array, tensor.dtype)
        for tensor, array in zip(signature.inputs, shaped, strict=True)
    ]
    return Rows(count, tuple(arrays))


def _require_one_length(signature: ModelSignature, shaped: Sequence[npt.NDArray[Any]]) -> None:
    if len({len(array) for array in shaped}) > 1:
        lengths = zip(signature.inputs, shaped, strict=True)
        listing = ", ".join(f"{shown(tensor.name)} has {len(array)}" for tensor, array in lengths)
        raise InputError(f"The inputs differ in their number of rows: {listing:.500}.")


def _require_names(names: AbstractSet[str], signature: ModelSignature) -> None:
    """Refuse names that are missing or unknown; columns that are not read may come."""
    missing = sorted(signature.names - names)
    strange = signature.find_strange(names)
    faults = [
        f"{what} {quote_names(wrong)}."
        for what, wrong in (("Inputs are missing:", missing), ("Unknown inputs:", strange))
        if wrong
    ]
    if faults:
        takes = quote_names([tensor.name for tensor in signature.inputs])
        raise InputError(f"{' '.join(faults)} The model takes {takes}.")


def quote_names(names: Sequence[str]) -> str:
    """Return the first names of a list as messages quote them.

    Examples
    --------
    >>> quote_names(["age", "city"])
    "'age', 'city'"
    """
    return ", ".join(map(shown, names[:MOST_NAMES]))


def _reshape(tensor: InputTensor, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a tensor in the shape of the metadata; a column may arrive as (n_rows, 1)."""
    shape = array.shape
    if tensor.width is None:
        if len(shape) == 2 and shape[1] == 1:
            return array[:, 0]
        fits = len(shape) == 1
    else:
        fits = len(shape) == 2 and shape[1] == tensor.width
    if not fits:
        raise InputError(
            f"Input {shown(tensor.name)} has shape {list(array.shape)}; the model takes "
            f"{list(tensor.shape)}, with any number of rows for -1."
        )
    return array


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Return rows of several requests as one."""
    if len(parts) == 1:
        return parts[0]
    arrays = zip(*(part.arrays for part in parts), strict=True)
    return Rows(sum(part.count for part in parts), tuple(map(np.concatenate, arrays)))


def form_input(signature: ModelSignature, rows: Rows) -> Any:
    """Return rows in the form in which the model is called."""
    if signature.feeds in ("matrix", "items"):
        return rows.arrays[0]
    names = (tensor.name for tensor in signature.inputs)
    keys = names if signature.feeds == "names" else range(len(rows.arrays))
    return dict(zip(keys, rows.arrays, strict=True))


@dataclass(slots=True)
class Inference:
    """Rows, and the tensors wanted for them.

    Parameters
    ----------
    rows : Rows
    wanted : tuple of OutputTensor
    id : str
        What the client calls the request; empty where it does not.
    binary : frozenset of str
        Names of the tensors that the client wants in binary form.
    columns : tuple of str
        Names by whose order rows were read that came as lists; empty for others.
    """

    rows: Rows
    wanted: tuple[OutputTensor, ...]
    id: str = ""
    binary: frozenset[str] = frozenset()
    columns: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Number of values of all wanted tensors for a row."""
        return sum([tensor.width for tensor in self.wanted])

    @property
    def answer_bytes(self) -> int:
        """Bytes of the tensors of its response."""
        # Each value counts as the widest number: the labels of rows are not known before.
        return 8 * self.rows.count * self.width


def choose_outputs(signature: ModelSignature, names: Iterable[str]) -> tuple[OutputTensor, ...]:
    """Find tensors that the model returns; the usual ones where a request names none.

    Raises
    ------
    OptionError
        The model does not return one of them.
    InputError
        One is named twice.
    """
    wanted = tuple(names)
    if not wanted:
        return signature.usual
    by_name = signature.outputs_by_name
    for name in wanted:
        if name not in by_name:
            raise unknown("output", name, by_name)
    if len(set(wanted)) < len(wanted):
        raise InputError("An output is named twice.")
    return tuple([by_name[name] for name in wanted])
