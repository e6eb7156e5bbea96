"""Push a column selection towards the input, inject one where columns are ignored, or join them."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Beside,
    Cast,
    Concat,
    ConstantRows,
    Entries,
    Linear,
    Node,
    Polynomial,
    Select,
    TreeEnsemble,
    TreeLeaves,
    at_step,
)

__all__ = ["inject_selection", "join_selections", "push_selection"]


def push_selection(node: Node) -> Node | None:
    """Let the selected node compute only the selected columns.

    Selections pass one-to-one containers, and merge into leaves and other selections. The constants
    of Linear, OneHot and Polynomial absorb them. A node that mixes columns, as Normalize or
    Softmax, blocks them. No columns tell the number of rows alone, as no columns of any operand
    do. Neither is one pushed that repeats columns. Bit-exact.

    Examples
    --------
    >>> from hbconv.array import Array
    >>> from hbconv.containers import Affine, Columns, Schema, show_rule
    >>> x = Columns.of(Schema.table(["a", "b", "c"]))
    >>> show_rule(push_selection, Select(Affine.of(x, sub=[1.0, 2.0, 3.0]), Array([2])))
    select(affine(columns(a, b, c), sub [1., 2., 3.]), [2])
    -> affine(select(columns(a, b, c), [2]), sub [3.])
    >>> show_rule(push_selection, Select(x, Array([2])))
    select(columns(a, b, c), [2])
    -> columns(c)
    >>> show_rule(push_selection, Select(Affine.of(x, sub=[1.0, 2.0, 3.0]), Array.of([], "int32")))
    select(affine(columns(a, b, c), sub [1., 2., 3.]), [])
    -> select(columns(a, b, c), [])
    >>> twice = Select(Affine.of(Columns.of(Schema.table(["a"])), sub=[1.0]), Array([0, 0]))
    >>> push_selection(twice) is None
    True
    """
    if not isinstance(node, Select) or _repeats(node):
        return None
    with at_step(node.x.step):
        return _rows(node) if _tells_rows(node) else node.x.narrowed(node.indices)


def _repeats(node: Select) -> bool:
    """Whether it has more columns than are computed, so that pushed it would compute some twice."""
    # A repeating selection pushed into a product made
    # a matrix of all fitted rows of its one column.
    is_computed = node.x.inputs and not isinstance(node.x, Select)
    return bool(is_computed) and len(node.indices) > node.x.type.width


def _tells_rows(node: Select) -> bool:
    """Whether it selects nothing, of what is computed from numbers."""
    # A concatenation of nothing has no lowering, and stacks that end in a dummy model made one.
    return not node.indices.data.size and any(x.type.dtype != "string" for x in node.x.inputs)


def _rows(node: Select) -> Node:
    operand = next(x for x in node.x.inputs if x.type.dtype != "string")
    rows = Select(operand, node.indices)
    return rows if rows.type.dtype == node.type.dtype else Cast(rows, node.type.dtype)


_READERS = Linear | TreeEnsemble | TreeLeaves | Polynomial


def inject_selection(node: Node) -> Node | None:
    """Read only the columns that the output depends on.

    1. Linear: rows of weights that are all zero. The source model refuses infinite values, so zero
       times x is zero.
    2. Trees: features that no split reads.
    3. Polynomial: columns that no term multiplies.
    4. ConstantRows: a column of the input gives the number of rows as well as what is made of it.

    Examples
    --------
    >>> from hbconv.containers import Columns, Schema, show_rule
    >>> x = Columns.of(Schema.table(["a", "b", "c"]))
    >>> show_rule(inject_selection, Linear.of(x, [0.0, 2.0, 0.0], 1.0))
    linear(columns(a, b, c), [[0.], [2.], [0.]] + [1.])
    -> linear(select(columns(a, b, c), [1]), [[2.]] + [1.])
    """
    # A column of none would be selected for the number of rows.
    if isinstance(node, _READERS) and not node.x.type.width:
        return None
    if isinstance(node, Linear):
        used = _at_least_one(np.flatnonzero(np.any(node.weights.data != 0, axis=1)))
        return _read_only(node, used, weights=Array(node.weights.data[used]))
    if isinstance(node, TreeEnsemble | TreeLeaves):
        used = _at_least_one(node.forest.used_features)
        return _read_only(node, used, forest=node.forest.with_features(used))
    if isinstance(node, Polynomial):
        used = _at_least_one(np.unique(node.terms.data[node.terms.data >= 0]))
        terms = np.where(node.terms.data < 0, -1, np.searchsorted(used, node.terms.data)).astype(
            np.int32
        )
        return _read_only(node, used, terms=Array(terms))
    return _count_rows_of(node) if isinstance(node, ConstantRows) else None


def _read_only(
    node: _READERS,
    used: npt.NDArray[np.int32],
    **changes: object,
) -> Node | None:
    if len(used) == node.x.type.width:
        return None
    return replace(node, x=Select(node.x, Array(used)), **changes)  # type: ignore[arg-type]


def _count_rows_of(node: ConstantRows) -> Node | None:
    x = node.x
    # A selection on its way would else be passed, and the whole input be read for a count.
    while x.inputs and not _moves(x):
        x = x.inputs[0]
    return None if x is node.x or isinstance(x, Entries) else replace(node, x=x)


def _moves(x: Node) -> bool:
    """Whether x is a selection on its way to the input."""
    return isinstance(x, Select) and x.x.narrowed(x.indices) is not None


def _at_least_one(used: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
    """Keep one column where none matters, for the number of rows."""
    # Without any column a program would not know how many rows it has.
    return (used if len(used) else np.zeros(1)).astype(np.int32)


def join_selections(node: Node) -> Node | None:
    """Take columns of one node at once, where several selections of it are put side by side.

    Bit-exact: the columns and their order stay.

    Examples
    --------
    >>> from hbconv.containers import Columns, Schema, Softmax, show_rule
    >>> x = Softmax(Columns.of(Schema.table(["a", "b", "c"])))
    >>> show_rule(join_selections, Concat((Select(x, Array([2])), Select(x, Array([0])))))
    concat(select(softmax(columns(a, b, c)), [2]), select(softmax(columns(a, b, c)), [0]), width 2)
    -> select(softmax(columns(a, b, c)), [2, 0])
    """
    # The columns of a table keep their own dtypes, which a common selection would lose.
    if not isinstance(node, Concat) or isinstance(node, Beside):
        return None
    parts = [part for _, run in groupby(node.xs, _input_of_selection) for part in _join(list(run))]
    if len(parts) == len(node.xs):
        return None
    return parts[0] if len(parts) == 1 else Concat(tuple(parts), step=node.step)


def _input_of_selection(part: Node) -> Node | None:
    return part.x if isinstance(part, Select) else None


def _join(run: list[Node]) -> list[Node]:
    """Make one selection of several of one node."""
    picks = [part for part in run if isinstance(part, Select)]
    if len(picks) < 2:
        return run
    indices = np.concatenate([pick.indices.data for pick in picks])
    return [Select(picks[0].x, Array.of(indices, "int32"), step=picks[0].step)]
