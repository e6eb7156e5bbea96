"""Answers that prove their input: a sum of products is finite only where all that was multiplied is, so that checks need no look of their own."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hbconv.array import Array
from hbconv.containers import Graph, Node
from hbconv.containers.affine import Affine
from hbconv.containers.decide import IsNonFinite
from hbconv.containers.elementwise import Map
from hbconv.containers.linear import Linear
from hbconv.containers.wiring import Cast, Concat, Select

__all__ = ["find_proof"]

FLOATS = ("float32", "float64")


def find_proof(graph: Graph, checked: Iterable[Node]) -> Node | None:
    """Return a condition that holds in every row where one of the checked nodes is not finite, from what the outputs compute anyway.

    It may hold in others too, as where a sum overflows.

    Examples
    --------
    >>> from hbconv.containers import Output, Schema
    >>> from hbconv.containers.columns import Columns
    >>> x = Columns.of(Schema.matrix(2))
    >>> found = find_proof(Graph(x.schema, {"predict": Output(Linear.of(Affine.of(x, div=[2.0, 3.0]), [6.0, 8.0]))}), [x])
    >>> found.name, found.x.name
    ('is_non_finite', 'linear')
    """
    nodes, wanted = graph.nodes(), tuple(checked)
    clipped = {node.x for node in nodes if isinstance(node, Map) and node.function == "relu"}  # as part of the product, while nothing else reads it
    sums = (node for node in nodes if isinstance(node, Linear) and node not in clipped and _weighs_all(node))
    found = next((node for node in sums if all(_spoils(x, node.x) for x in wanted)), None)
    if found is None:
        return None
    return IsNonFinite(found if found.type.width == 1 else Select(found, Array([0])), allow_nan=False)


def _weighs_all(node: Linear) -> bool:
    """Whether the first column is a sum over all inputs: a kernel may pass over what weighs nothing."""
    return node.weights.shape[1] > 0 and bool(np.all(node.weights.data[:, 0] != 0))


def _spoils(x: Node, node: Node) -> bool:
    """Whether what is not finite in x leaves something in the same row of the node that is not: arithmetic makes no finite number of it."""
    if node == x:
        return True
    if isinstance(node, Concat):
        return any(_spoils(x, part) for part in node.xs)
    return (isinstance(node, Affine) or (isinstance(node, Cast) and node.type.dtype in FLOATS)) and _spoils(x, node.x)
