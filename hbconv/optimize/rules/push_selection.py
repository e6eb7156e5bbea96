"""Push a column selection towards the input, so that unread columns are never computed."""

from hbconv.containers import Cast, Node, Select, at_step

__all__ = ["push_selection"]


def push_selection(node: Node) -> Node | None:
    """Let the selected node compute only the selected columns.

    Selections pass one-to-one containers, and merge into leaves and other selections. The constants
    of Linear, OneHot and Polynomial absorb them. A node that mixes columns, such as Normalize or
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
    is_computed = node.x.inputs and not isinstance(node.x, Select)
    return bool(is_computed) and len(node.indices) > node.x.type.width


def _tells_rows(node: Select) -> bool:
    """Whether it selects nothing, of what is computed from numbers."""
    return not node.indices.data.size and any(x.type.dtype != "string" for x in node.x.inputs)


def _rows(node: Select) -> Node:
    operand = next(x for x in node.x.inputs if x.type.dtype != "string")
    rows = Select(operand, node.indices)
    return rows if rows.type.dtype == node.type.dtype else Cast(rows, node.type.dtype)
