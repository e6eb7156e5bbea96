"""Fold arithmetic after arithmetic into one node."""

from dataclasses import replace

from hbconv.containers import Affine, Node

__all__ = ["fold_affine_into_affine"]


def fold_affine_into_affine(node: Node) -> Node | None:
    """Make one pass over the columns instead of two.

    Bit-exact: the steps and their order stay.

    Examples
    --------
    >>> from hbconv.containers import Columns, Schema, show_rule
    >>> x = Columns.of(Schema.table(["a"]))
    >>> show_rule(fold_affine_into_affine, Affine.of(Affine.of(x, sub=[1.0]), mul=[2.0]))
    affine(affine(columns(a), sub [1.]), mul [2.])
    -> affine(columns(a), sub [1.], mul [2.])
    """
    if not (isinstance(node, Affine) and isinstance(node.x, Affine)):
        return None
    return replace(node, x=node.x.x, steps=node.x.steps + node.steps)
