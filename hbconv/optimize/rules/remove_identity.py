"""Remove nodes that do nothing, and concatenations inside others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hbconv.containers import Affine, Beside, Cast, CastLike, Clip, Concat, Node, Select

__all__ = ["flatten_concat", "remove_identity"]


def remove_identity(node: Node) -> Node | None:
    """Replace a node by its input if it changes no row.

    1. Select of all columns in order.
    2. Affine of steps ``+ 0``, ``- 0``, ``* 1`` and ``/ 1`` alone: the conversion to float stays.
    3. Concat of one part, and parts of no width.
    4. Cast to the dtype that its input has, for the column dtypes at hand.
    5. Clip between infinities: the conversion to float stays.
    6. CastLike: for the column dtypes at hand it is a Cast, which reads nothing for its dtype.

    Examples
    --------
    >>> from hbconv.containers import Columns, Schema, show_rule
    >>> x = Columns.of(Schema.table(["a", "b"]))
    >>> show_rule(remove_identity, Affine.of(x, sub=[0.0, 0.0], div=[1.0, 1.0]))
    affine(columns(a, b), sub [0., 0.], div [1., 1.])
    -> cast(columns(a, b), float)
    """
    if isinstance(node, Select) and np.array_equal(node.indices.data, np.arange(node.x.type.width)):
        return node.x
    if isinstance(node, Affine) and node.is_identity:
        return Cast(node.x, "float")
    if (
        isinstance(node, Clip)
        and np.all(np.isneginf(node.low.data))
        and np.all(np.isposinf(node.high.data))
    ):
        return Cast(node.x, "float")
    if isinstance(node, Concat):
        return _without_empty_parts(node)
    # Before the optimizer it is needed: the dtype of ``like`` follows the columns of a call.
    if isinstance(node, CastLike):
        return Cast(node.x, node.type.dtype)
    if isinstance(node, Cast) and _keeps_dtype(node):
        return node.x
    return None


def _keeps_dtype(node: Cast) -> bool:
    """Whether readers see the same dtype: next to float32, small ints count as less."""
    # Removing a Cast of small ints changed the type of a Concat with float32.
    return node.type.dtype == node.x.type.dtype and node.weak_int == node.x.weak_int


def _without_empty_parts(node: Concat) -> Node | None:
    # One part is kept, for the number of rows.
    parts = tuple(x for x in node.xs if x.type.width) or node.xs[:1]
    if len(parts) == len(node.xs) > 1:
        return None
    rest = parts[0] if len(parts) == 1 else Concat(parts)
    return rest if rest.type.dtype == node.type.dtype else Cast(rest, node.type.dtype)


def flatten_concat(node: Node) -> Node | None:
    """Copy the parts of an inner concatenation straight to where the outer one puts them.

    The outer one copies as many columns either way, so the inner one is no more work where others
    read it too. Bit-exact where both have one dtype: each part is converted to it once.

    Examples
    --------
    >>> from hbconv.containers import Columns, Map, Schema, show_rule
    >>> x = Columns.of(Schema.table(["a"]))
    >>> pair = Concat((Map(x, "exp"), Map(x, "sqrt")))
    >>> show_rule(flatten_concat, Concat((pair, x)))
    concat(concat(map(columns(a), exp), map(columns(a), sqrt), width 2), columns(a), width 3)
    -> concat(map(columns(a), exp), map(columns(a), sqrt), columns(a), width 3)
    """
    if not isinstance(node, Concat) or isinstance(node, Beside):
        return None
    parts = tuple(part for x in node.xs for part in _parts(x, node.type.dtype))
    return None if parts == node.xs else Concat(parts, step=node.step)


def _parts(x: Node, dtype: str) -> Sequence[Node]:
    if not isinstance(x, Concat) or isinstance(x, Beside) or x.type.dtype != dtype:
        return (x,)
    return x.xs
