"""Join selections that stand side by side."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from hbconv.array import Array
from hbconv.containers import Beside, Concat, Node, Select

__all__ = ["join_selections"]


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
    if not isinstance(node, Concat) or isinstance(node, Beside):
        return None
    parts = [part for _, run in groupby(node.xs, _selected) for part in _joined(list(run))]
    if len(parts) == len(node.xs):
        return None
    return parts[0] if len(parts) == 1 else Concat(tuple(parts), step=node.step)


def _selected(part: Node) -> Node | None:
    return part.x if isinstance(part, Select) else None


def _joined(run: list[Node]) -> list[Node]:
    """Make one selection of several of one node."""
    picks = [part for part in run if isinstance(part, Select)]
    if len(picks) < 2:
        return run
    indices = np.concatenate([pick.indices.data for pick in picks])
    return [Select(picks[0].x, Array.of(indices, "int32"), step=picks[0].step)]
