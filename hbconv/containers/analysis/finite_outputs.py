"""Answers that prove their input: a sum of products is finite only where all that was multiplied is, so that checks need no look of their own."""

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
    """Return a condition that holds in every row where one of the given ones does, from what the outputs compute anyway.

    It may hold in others too, as where a sum overflows.

    Examples
    --------
    >>> from hbconv.containers import Columns, Output, Schema
    >>> x = Columns.of(Schema.matrix(2))
    >>> graph = Graph(x.schema, {"predict": Output(Linear.of(Affine.of(x, div=[2.0, 3.0]), [6.0, 8.0]))})
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
    """Ask for an answer that shows all that is infinite in what is checked."""
    found = next(
        (node for node in graph.output_roots if all(_shows(c.x, node) for c in conditions)), None
    )
    return None if found is None else IsNonFinite(found, allow_nan=True)


def _infinite_sums(graph: Graph, conditions: tuple[IsNonFinite, ...]) -> Node | None:
    """Ask for sums of all that is checked, which are then not finite."""
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
    """Whether what is infinite in x is so in the same row of the node."""
    if not isinstance(node, Affine) or not all(_keeps_infinite(step) for step in node.steps):
        return False
    return node == x or node.x == x or _shows(x, node.x)


def _keeps_infinite(step: AffineStep) -> bool:
    size = np.abs(step.constant.data.astype(np.float64))
    return bool(np.all(size < LARGE) and (step.op != "mul" or np.all(size > 1 / LARGE)))


def _weighs_all(node: Linear) -> bool:
    """Whether the first column is a sum over all inputs: a kernel may pass over what weighs nothing."""
    return node.weights.shape[1] > 0 and bool(np.all(node.weights.data[:, 0] != 0))


def _spoils(x: Node, node: Node) -> bool:
    """Whether what is not finite in x leaves something in the same row of the node that is not: arithmetic makes no finite number of it."""
    if node == x:
        return True
    if isinstance(node, Concat):
        return any(_spoils(x, part) for part in node.xs)
    return (
        isinstance(node, Affine) or (isinstance(node, Cast) and node.type.dtype in FLOATS)
    ) and _spoils(x, node.x)
