"""Values between the operators of an ONNX graph.

A tensor over the rows is a node of the container DAG, whose columns are the entries of one row.
So an operator that only moves entries is a selection of columns.
It is computed once, by numpy on the numbers of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Cast, LookupRows, Node, Recode, Select
from hbconv.containers.extractors import Texts, TypedMappings
from hbconv.errors import ConversionError

__all__ = [
    "DTYPES",
    "NARROW",
    "ROWS",
    "FlatTensor",
    "KnownTensor",
    "LabelTensor",
    "MapList",
    "MapRows",
    "NarrowTensor",
    "RowTensor",
    "TensorList",
    "TextTensor",
    "TokenTensor",
    "Value",
    "ends_of",
    "holds_rows",
    "require_few",
]

ROWS = (1 << 56) + 1
"""Stands for the number of rows in a constant shape."""

MOST_OF_ROW = 1 << 22
"""Entries of one row that a tensor may have: a damaged file would ask for all memory."""

NARROW = {2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 12: "uint32", 13: "uint64"}
"""Types of ints that nodes hold as int64."""

DTYPES = {
    1: "float32", 6: "int32", 7: "int64", 8: "string", 9: "bool", 11: "float64", **NARROW
}  # fmt: skip
"""Types of ONNX that rows may have, by their numbers in TensorProto."""

Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class KnownTensor:
    """An array that does not depend on the rows; shapes of tensors may hold ``ROWS``."""

    data: Numbers


@dataclass(frozen=True)
class _OverRows:
    """Base of the values that have an entry for each row.

    Parameters
    ----------
    dims : tuple of int
        The shape, with 1 at the axis of the rows.
    axis : int
        Axis of the rows.
    """

    dims: tuple[int, ...]
    axis: int

    @property
    def width(self) -> int:
        """Entries of one row."""
        return prod(self.dims)

    @property
    def places(self) -> npt.NDArray[np.int32]:
        """Number of each entry of a row, in the shape of the tensor."""
        return np.arange(self.width, dtype=np.int32).reshape(self.dims)

    @property
    def shape(self) -> npt.NDArray[np.int64]:
        """The shape as ONNX computes it, with ``ROWS`` for the number of rows."""
        shape = np.array(self.dims, np.int64)
        shape[self.axis] = ROWS
        return shape

    def taking(self, places: npt.NDArray[np.int32], axis: int) -> Any:
        """Return the tensor of these entries, whose rows are along an axis.

        Raises
        ------
        ConversionError
            There are more than ``MOST_OF_ROW``.
        """
        require_few(places.shape)
        moved = replace(self, dims=places.shape, axis=axis)
        if np.array_equal(places.ravel(), np.arange(self.width)):
            return moved
        return moved.selected(places.ravel())

    def moved(self, move: Callable[[Any], Any]) -> Any:
        """Return the tensor after a movement of entries that leaves the rows where they are."""
        return self.taking(np.ascontiguousarray(move(self.places)), self.axis)

    def selected(self, places: npt.NDArray[np.int32]) -> Any:
        """Return the same shape over other entries of the node."""
        raise NotImplementedError


@dataclass(frozen=True)
class RowTensor(_OverRows):
    """A tensor of numbers or bools."""

    node: Node

    @property
    def dtype(self) -> str:
        """Dtype of the numbers."""
        return self.node.type.dtype

    def selected(self, places: npt.NDArray[np.int32]) -> RowTensor:
        """Return the same shape over other entries of the node."""
        return replace(self, node=Select(self.node, Array(places)))

    def of(self, node: Node) -> RowTensor:
        """Return a tensor of the same shape."""
        return replace(self, node=node)

    def cast(self, dtype: str) -> RowTensor:
        """Convert to a dtype of the containers."""
        return self if self.dtype == dtype else self.of(Cast(self.node, dtype))


@dataclass(frozen=True)
class NarrowTensor(RowTensor):
    """Ints of a type that no node has; the node holds them as int64.

    They are moved, compared, looked up and converted. Computed with, they would wrap around.
    """

    narrow: str

    def of(self, node: Node) -> RowTensor:
        """Return a tensor of the same shape, of the node's own dtype."""
        return RowTensor(self.dims, self.axis, node)

    def cast(self, dtype: str) -> RowTensor:
        """Convert to a dtype of the containers."""
        return self.of(self.node).cast(dtype)


@dataclass(frozen=True)
class LabelTensor(_OverRows):
    """Entries of a constant table, such as class labels; the node computes their int32 codes."""

    node: Node
    table: Array

    def selected(self, places: npt.NDArray[np.int32]) -> LabelTensor:
        """Return the same shape over other entries of the node."""
        return replace(self, node=Select(self.node, Array(places)))

    @property
    def numbers(self) -> RowTensor:
        """The entries of a table of numbers."""
        narrow = self.table.dtype in NARROW.values()
        table = self.table.data.astype(np.int64) if narrow else self.table.data
        node = LookupRows(self.node, Array(table[:, None]))
        if narrow:
            return NarrowTensor(self.dims, self.axis, node, self.table.dtype)
        return RowTensor(self.dims, self.axis, node)

    def through(self, table: Numbers) -> LabelTensor:
        """Replace each entry of the table."""
        return replace(self, table=Array(table))

    def recoded(self, codes: npt.NDArray[np.int32]) -> Node:
        """Return other codes, one for each entry of the table."""
        tables = (Array.of(np.append(-1, codes), np.int32),) * self.width
        return Recode(self.node, tables)


@dataclass(frozen=True)
class TextTensor(_OverRows):
    """Texts of the input; the node of each column is made where the known ones are.

    Parameters
    ----------
    columns : tuple of int
        Column of the schema of each entry.
    edits : tuple of tuples of (str, str)
        Texts of each entry that are replaced, and by what; () where none are.
    folded : {"", "ascii", "characters"}
        Which of their letters are in lower case, as ``Texts`` has it.
    """

    columns: tuple[int, ...]
    edits: tuple[tuple[tuple[str, str], ...], ...] = ()
    folded: Literal["", "ascii", "characters"] = ""

    @property
    def edits_of(self) -> list[dict[str, str]]:
        """What replaces the texts of each entry."""
        return [dict(edits) for edits in self.edits or ((),) * len(self.columns)]

    def selected(self, places: npt.NDArray[np.int32]) -> TextTensor:
        """Return the same shape over other entries of the node."""
        columns = tuple(self.columns[i] for i in places.tolist())
        edits = tuple(self.edits[i] for i in places.tolist()) if self.edits else ()
        return replace(self, columns=columns, edits=edits)


@dataclass(frozen=True)
class TokenTensor:
    """Tokens of a column of texts: a row of each text, filled up to the longest by ``padding``."""

    column: int
    texts: Texts
    padding: str


@dataclass(frozen=True)
class MapList:
    """A list of dicts, one for each row: what ZipMap makes of a matrix."""

    values: RowTensor
    keys: Array


@dataclass(frozen=True)
class TensorList:
    """A sequence of matrices of one dtype: the answers of several targets."""

    values: tuple[RowTensor, ...]


@dataclass(frozen=True)
class MapRows:
    """Rows of the input that are mappings of names to numbers."""

    names: TypedMappings
    dtype: str


@dataclass(frozen=True)
class FlatTensor:
    """Entries in an order that has an axis for the rows, under a shape that has none.

    Such are rows put behind one another. A Reshape brings the axis back.
    """

    values: RowTensor | LabelTensor


Value = (
    KnownTensor
    | RowTensor
    | LabelTensor
    | TextTensor
    | TokenTensor
    | TensorList
    | MapList
    | MapRows
    | FlatTensor
)


def require_few(dims: Sequence[int]) -> None:
    """Refuse a tensor of too many entries of each row, before memory is asked for it."""
    if prod(dims) > MOST_OF_ROW:
        raise ConversionError(
            f"The ONNX file is damaged: it computes {prod(dims):g} numbers of each row. hbconv "
            f"takes up to {MOST_OF_ROW}."
        )


def ends_of(dtype: str) -> tuple[int, int]:
    """Return the least and largest int of a type that int64 holds too."""
    ends = np.iinfo(dtype)
    return int(ends.min), min(int(ends.max), np.iinfo(np.int64).max)


def holds_rows(value: Numbers) -> bool:
    """Whether a constant holds the number of rows, or something computed from it."""
    return value.dtype.kind == "i" and bool(np.any(np.abs(value) >= ROWS >> 1))
