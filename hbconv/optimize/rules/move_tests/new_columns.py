"""The columns that a forest reads after its tests have moved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Bins,
    Cast,
    Columns,
    Concat,
    MissingBetween,
    Node,
    Select,
    rewrite,
)
from hbconv.optimize.rules.move_tests.evaluator import Ref, dtype_of
from hbconv.optimize.rules.push_selection import push_selection
from hbconv.optimize.rules.remove_identity import remove_identity

__all__ = ["NewColumn", "order_columns", "side_by_side", "write_columns"]

ROUNDS = 20


@dataclass(frozen=True)
class NewColumn:
    """A column of the new forest.

    Parameters
    ----------
    ref : Ref
        What it is.
    is_code : bool
        Its values are codes, and its tests are on categories.
    is_rank : bool
        Its values are codes, and its thresholds whole numbers: any float dtype holds both.
    numbers : (float, float) or None
        The least and the largest number that stays one; all others become NaN.
    """

    ref: Ref
    is_code: bool = False
    is_rank: bool = False
    numbers: tuple[float, float] | None = None

    @property
    def is_input(self) -> bool:
        """Whether it is a column as the user gives it."""
        node, _ = self.ref
        return isinstance(node, Columns) and node.type.width == 1

    @property
    def place(self) -> tuple[bool, bool, bool, bool, int]:
        """What decides its place: columns of the input come first, in their order."""
        node, _ = self.ref
        column = node.columns[0] if isinstance(node, Columns) else 0
        return (*self.kind, column)

    @property
    def kind(self) -> tuple[bool, bool, bool, bool]:
        """What columns have in common that are written together."""
        is_count = isinstance(self.ref[0], Bins)
        return not self.is_input, self.numbers is not None, self.is_code, is_count


def order_columns(columns: Iterable[NewColumn]) -> list[NewColumn]:
    """Return each column once: those of the input in its order, then the others as they come."""
    return sorted(dict.fromkeys(columns), key=lambda column: column.place)


def write_columns(columns: Sequence[NewColumn]) -> Node:
    """Write the columns side by side, in the float dtype that holds all of them exactly."""
    others = {dtype_of(column.ref) for column in columns if not (column.is_code or column.is_rank)}
    dtype = "float32" if others <= {"float32"} else "float64"
    parts = [_part(list(group), dtype) for _, group in groupby(columns, lambda c: c.kind)]
    return parts[0] if len(parts) == 1 else Concat(tuple(parts))


def _part(columns: list[NewColumn], dtype: str) -> Node:
    """Write columns of one kind. Codes begin at -1, and those of tables at 0."""
    first = columns[0]
    part = _cast(side_by_side([column.ref for column in columns]), dtype)
    if first.is_code and not isinstance(first.ref[0], Bins):
        return Affine.of(part, add=1.0)
    if first.numbers is None:
        return part
    bounds = np.array([column.numbers for column in columns], dtype)
    return _within(part, bounds[:, 0], bounds[:, 1])


def side_by_side(refs: Sequence[Ref]) -> Node:
    """Read columns of the input at once, and neighbours in one node too."""
    if all(isinstance(node, Columns) for node, _ in refs):
        nodes = [node for node, _ in refs if isinstance(node, Columns)]
        indices = [node.columns[column] for node, (_, column) in zip(nodes, refs, strict=True)]
        if not any(node.dtype for node in nodes):
            return Columns(nodes[0].schema, Array.of(indices, np.int32))
    parts = []
    for node, members in groupby(refs, lambda ref: ref[0]):
        parts.append(_narrowed(node, [column for _, column in members]))
    return parts[0] if len(parts) == 1 else Concat(tuple(parts))


def _within(x: Node, low: npt.NDArray[np.floating], high: npt.NDArray[np.floating]) -> Node:
    """Return x with NaN for what is below the low bounds or above the high ones."""
    with np.errstate(over="ignore", under="ignore"):
        below = np.where(low > -np.inf, np.nextafter(low, np.array(-np.inf, low.dtype)), np.nan)
        above = np.where(high < np.inf, np.nextafter(high, np.array(np.inf, high.dtype)), np.nan)
    if not np.isnan(below).all():
        x = MissingBetween.of(x, np.where(np.isnan(below), np.nan, -np.inf), below)
    if not np.isnan(above).all():
        x = MissingBetween.of(x, above, np.where(np.isnan(above), np.nan, np.inf))
    return x


def _cast(x: Node, dtype: str) -> Node:
    return x if x.type.dtype == dtype else Cast(x, dtype)


def _narrowed(node: Node, columns: Sequence[int]) -> Node:
    """Return some columns of a node, the selection pushed down as far as it goes."""
    if list(columns) == list(range(node.type.width)):
        return node
    narrow: Node = Select(node, Array.of(columns, np.int32))
    for _ in range(ROUNDS):
        after = rewrite((narrow,), lambda n: remove_identity(n) or push_selection(n) or n)[narrow]
        if after == narrow:
            break
        narrow = after
    return narrow
