"""Put the parts of a concatenation inside another one side by side at once."""

from __future__ import annotations

from collections.abc import Sequence

from hbconv.containers import Beside, Concat, Node

__all__ = ["flatten_concat"]


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
