"""Finite-output analysis: if an output is finite, every input of that row was finite.

A sum of products is finite only if all its factors are. A row with such an output needs no check
whether its input is finite.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hbconv.array import Array
from hbconv.containers import Graph, Node
from hbconv.containers.nodes.affine import Affine, AffineStep
from hbconv.containers.nodes.decisions import IsNonFinite
from hbconv.containers.nodes.elementwise import Map
from hbconv.containers.nodes.linear import Linear
from hbconv.containers.nodes.wiring import Cast, Concat, Select

__all__ = ["find_finite_output"]

FLOATS = ("float32", "float64")
LARGE = 1e30
"""Far from overflow, and its reciprocal from underflow, in float32 too."""


def find_finite_output(graph: Graph, checked: Iterable[IsNonFinite]) -> Node | None:
    """Find a condition on the outputs that flags every row in which a given condition holds.

    It may flag other rows too, as where a sum overflows. It costs little, because the outputs are
    computed anyway. Returns None if no output has the property.

    Parameters
    ----------
    graph : Graph
    checked : iterable of IsNonFinite

    Examples
    --------
    >>> from hbconv.containers import Columns, Output, Schema
    >>> x = Columns.of(Schema.matrix(2))
    >>> sums = Linear.of(Affine.of(x, div=[2.0, 3.0]), [6.0, 8.0])
    >>> graph = Graph(x.schema, {"predict": Output(sums)})
    >>> found = find_finite_output(graph, [IsNonFinite(x, allow_nan=False)])
    >>> found.name, found.x.name
    ('is_non_finite', 'linear')
    """
    conditions = tuple(checked)
    return (
        _infinite_answers(graph, conditions)
        if all(c.allow_nan for c in conditions)
        else _infinite_sums(graph, conditions)
    )


def _infinite_answers(graph: Graph, conditions: tuple[IsNonFinite, ...]) -> Node | None:
    """Find an output that is infinite wherever a checked value is."""
    found = next(
        (node for node in graph.output_roots if all(_shows(c.x, node) for c in conditions)), None
    )
    return None if found is None else IsNonFinite(found, allow_nan=True)


def _infinite_sums(graph: Graph, conditions: tuple[IsNonFinite, ...]) -> Node | None:
    """Find a sum over all checked values: it is not finite if one of them is not."""
    nodes = graph.nodes()
    clipped = {
        node.x for node in nodes if isinstance(node, Map) and node.function == "relu"
    }  # as part of the product, while nothing else reads it
    sums = (
        node
        for node in nodes
        if isinstance(node, Linear) and node not in clipped and _weighs_all(node)
    )
    found = next((node for node in sums if all(_spoils(c.x, node.x) for c in conditions)), None)
    if found is None:
        return None
    return IsNonFinite(
        found if found.type.width == 1 else Select(found, Array([0])), allow_nan=False
    )


def _shows(x: Node, node: Node) -> bool:
    """Whether the node is infinite in every row in which x is."""
    if not isinstance(node, Affine) or not all(_keeps_infinite(step) for step in node.steps):
        return False
    return node == x or node.x == x or _shows(x, node.x)


def _keeps_infinite(step: AffineStep) -> bool:
    size = np.abs(step.constant.data.astype(np.float64))
    return bool(np.all(size < LARGE) and (step.op != "mul" or np.all(size > 1 / LARGE)))


def _weighs_all(node: Linear) -> bool:
    """Whether the first column sums all inputs: a kernel may skip those of weight zero."""
    return node.weights.shape[1] > 0 and bool(np.all(node.weights.data[:, 0] != 0))


def _spoils(x: Node, node: Node) -> bool:
    """Whether the node is not finite in every row in which x is not: arithmetic keeps it so."""
    if node == x:
        return True
    if isinstance(node, Concat):
        return any(_spoils(x, part) for part in node.xs)
    return (
        isinstance(node, Affine) or (isinstance(node, Cast) and node.type.dtype in FLOATS)
    ) and _spoils(x, node.x)
