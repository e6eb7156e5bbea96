"""Columns that are only moved: selected, put side by side, and followed back to what made them.

A table keeps the type of each column. An array has one type, until one of its columns is text: then
the source model holds objects, and each column is again what it was before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.node import Node, at_step, rewrite, topological
from hbconv.containers.nodes.column_wise import Select
from hbconv.containers.nodes.conditions import NoTexts, OnlyNumbers
from hbconv.containers.nodes.inputs import (
    CleanText,
    Columns,
    EditText,
    FillObjects,
    FromObjects,
    KeepText,
)
from hbconv.containers.nodes.missing import Impute
from hbconv.containers.nodes.wiring import Beside, Cast, Concat
from hbconv.errors import UnsupportedError

__all__ = [
    "columns_of",
    "concat",
    "find_columns_read",
    "find_origin",
    "of_objects",
    "select",
]


def select(x: Node, indices: Sequence[int]) -> Node:
    """Select columns, each with its own dtype where x is a table or an array of objects.

    A table is the input itself, or columns that the source model keeps side by side.
    Columns of another array, which have a common dtype, are selected with the container Select.

    Examples
    --------
    >>> from hbconv.containers import Schema
    >>> select(Columns.of(Schema.table(["a", "b", "c"])), [2, 0]).detail
    'c, a'
    """
    positions = np.asarray(indices, dtype=np.int32)
    if np.array_equal(positions, np.arange(x.type.width)):
        return x
    if isinstance(x, Columns):
        return Columns(x.schema, Array(x.indices.data[positions]))
    if isinstance(x, Beside):
        return Beside(tuple(_runs(x, positions)))
    # An array that holds text is one of objects, so each column has the type that it had before.
    if x.type.dtype == "string":
        return _of_array(x, indices)
    return Select(x, Array(positions))


def _of_array(x: Node, indices: Sequence[int]) -> Node:
    """Select columns of an array of objects."""
    if not len(indices):
        return select(next(n for n in topological((x,)) if isinstance(n, Columns)), [])
    return FromObjects(columns_of(x, indices))


def _runs(table: Beside, positions: npt.NDArray[np.int32]) -> Iterator[Node]:
    """Select runs of columns from the part of a table that they belong to."""
    # By the right side: a part without columns ends where the next one begins, and owns none.
    ends = np.cumsum([part.type.width for part in table.xs])
    for owner, run in groupby(
        positions.tolist(), key=lambda position: int(np.searchsorted(ends, position, side="right"))
    ):
        part = table.xs[owner]
        yield select(part, [position - int(ends[owner]) + part.type.width for position in run])


def concat(xs: Sequence[Node]) -> Node:
    """Concatenate nodes; one node stays itself, and nodes without columns are left out."""
    # A part without columns would still count for the common dtype.
    wide = [x for x in xs if x.type.width] or list(xs[:1])
    return wide[0] if len(wide) == 1 else Concat(tuple(wide))


def columns_of(x: Node, positions: Sequence[int]) -> Node:
    """Select columns of x, each followed back as far as it was only moved.

    Text columns may be next to it on the way.
    """
    runs = groupby((find_origin(x, j) for j in positions), key=itemgetter(0))
    return concat(
        [_select_of_maker(maker, [position for _, position in run]) for maker, run in runs]
    )


def _select_of_maker(maker: Node, places: Sequence[int]) -> Node:
    """Select columns of what makes them, and no more of what a step of texts reads."""
    if isinstance(maker, FillObjects):
        fill = tuple(maker.fill[place] for place in places)
        return replace(maker, x=select(maker.x, places), fill=fill)
    if isinstance(maker, CleanText | EditText | KeepText):
        return replace(maker, x=select(maker.x, places))
    return select(maker, places)


def find_origin(x: Node, position: int) -> tuple[Node, int]:
    """Return the node that made a column, and the column's place in it.

    Selections and concatenations on the way are passed.
    """
    if isinstance(x, FromObjects):
        return find_origin(x.x, position)
    if isinstance(x, Select):
        return find_origin(x.x, int(x.indices[position]))
    if not isinstance(x, Concat):
        return x, position
    ends = np.cumsum([part.type.width for part in x.xs])
    owner = int(np.searchsorted(ends, position, side="right"))
    return find_origin(x.xs[owner], position - int(ends[owner]) + x.xs[owner].type.width)


def find_columns_read(roots: tuple[Node, ...]) -> frozenset[int]:
    """Return the columns of the input that some node computes with, or that are roots themselves.

    Columns that a selection behind a concatenation drops are only moved.
    """
    columns: set[int] = set()
    for root in roots:
        _follow(root, np.arange(root.type.width), columns)
    for node in topological(roots):
        for x in () if isinstance(node, Select | Concat) else node.inputs:
            _follow(x, np.arange(x.type.width), columns)
    return frozenset(columns)


def _follow(x: Node, places: npt.NDArray[np.integer[Any]], columns: set[int]) -> None:
    """Add the columns of the input that some places of x hold, if they were only moved."""
    if isinstance(x, Columns):
        columns.update(x.indices.data[places].tolist())
    if isinstance(x, Select):
        _follow(x.x, x.indices.data[places], columns)
    if not isinstance(x, Concat):
        return
    first = 0
    for part in x.xs:
        part_places = places[(places >= first) & (places < first + part.type.width)]
        if len(part_places):
            _follow(part, part_places - first, columns)
        first += part.type.width


def _select_input(x: Node, indices: Sequence[int]) -> Node | None:
    """Select columns of the input before they become float64; None where x is something else.

    Columns that are dropped behind a cast would be read as numbers, and may be texts.
    """
    if isinstance(x, Columns):
        return select(x, indices)
    if not isinstance(x, Cast) or x.type.dtype != "float64":
        return None
    kept = _select_input(x.x, indices)
    return kept and replace(x, x=kept)


def of_objects(node: Node) -> Node:
    """Take what is made of an array of objects as what it is, once it is known what is text.

    Other nodes stay as they are. The source model makes float64 of objects before it computes.
    """
    with at_step(node.step):
        if isinstance(node, FillObjects) and node.type.dtype != "string":
            return _fill(node)
        if isinstance(node, Select) and node.x.type.dtype == "string":
            taken = _of_array(node.x, node.indices.data.tolist())
            return rewrite((taken,), of_objects)[taken]
        if isinstance(node, Select) and isinstance(node.x, Cast):
            return _select_input(node.x, node.indices.data.tolist()) or node
        if isinstance(node, FromObjects):
            # numpy makes float64 of objects that are numbers, whatever their own types are.
            return node.x if node.type.dtype == "string" else Cast(node.x, "float64")
        return node


def _fill(node: FillObjects) -> Node:
    """Fill numbers; where only None is missing, they do not tell it from NaN."""
    if not node.fills_numbers:
        return node.x
    # Where None is filled, numbers may hold it as NaN; elsewhere None among numbers is refused too.
    mark = NoTexts if None in node.missing else OnlyNumbers
    x = Cast(mark(node.x), "float64")
    numbers = [value for value in node.missing if isinstance(value, int | float)]
    if None in node.missing and not numbers:
        name = node.step.rpartition("/")[2]
        hint = "Columns of numbers do not tell it from NaN: take NaN or pandas.NA for missing."
        raise UnsupportedError(name, node.step, "missing_values", None, hint)
    fill = np.array([np.nan if value is None else value for value in node.fill], np.float64)
    return Impute(x, Array(fill), float(numbers[0])) if numbers else x
