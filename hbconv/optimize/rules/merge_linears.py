"""Merge products that read the same columns, and arithmetic after arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from hbconv.array import Array
from hbconv.containers import Affine, Graph, Linear, Node, Select, Together
from hbconv.optimize.merged_columns import Ints, find_columns, unite_columns
from hbconv.optimize.merged_forests import find_levels, first_places, group_by, group_sharing
from hbconv.optimize.rule import Declined, Derivation, find_decisive

__all__ = ["fold_affine_into_affine", "merge_linears"]

Name = tuple[Hashable, int]


def merge_linears(graph: Graph) -> Iterator[Derivation | Declined]:
    """Multiply by the matrices of all products side by side, and select each one's columns.

    The products share columns, have equal dtypes, and none of them reads another's result. The
    columns of all are put side by side, each once. Where a product lacks one, its weight is zero:
    the source models refuse rows of columns that are not finite. A library of products may add in
    another order for a wider matrix, so this never comes before a threshold.

    Examples
    --------
    >>> from hbconv.containers import Columns, Concat, Output, Schema, show_rule
    >>> x = Columns.of(Schema.table(["a", "b"]))
    >>> one, two = Linear.of(x, [1.0, 2.0], 3.0), Linear.of(x, [4.0, 5.0], 6.0)
    >>> graph = Graph(x.schema, {"predict": Output(Concat((one, two)))})
    >>> (derivation,) = merge_linears(graph)
    >>> derivation.proof
    '2 products of 2 columns'
    >>> show_rule(derivation.replacements.get, two)
    linear(columns(a, b), [[4.], [5.]] + [6.])
    -> select(together(linear(columns(a, b), [[1., 4.], [2., 5.]] + [3., 6.])), [1])
    """
    # A BLAS may add in another order for a wider matrix,
    # so no product before a threshold is merged.
    decisive = find_decisive(graph)
    levels = find_levels(graph, lambda node: isinstance(node, Linear))
    linears = [n for n in graph.nodes() if isinstance(n, Linear) and n not in decisive]
    for group in group_by(linears, lambda node: (levels[node], *_dtypes(node))):
        names = {node: _column_names(node.x) for node in group}
        for sharing in group_sharing(
            group, {n: frozenset(columns) for n, columns in names.items()}
        ):
            if len(sharing) > 1:
                yield _merge(sharing, names)


def _dtypes(node: Linear) -> tuple[str, str, str]:
    return node.x.type.dtype, node.weights.dtype, node.bias.dtype


def _column_names(x: Node) -> tuple[Name, ...]:
    """Name each column by what it is, and by how often that was there before."""
    seen: Counter[Hashable] = Counter()
    names = []
    for column in find_columns(x):
        # Counted, since a matrix may weigh the same column twice.
        names.append((column, seen[column]))
        seen[column] += 1
    return tuple(names)


def _merge(group: Sequence[Linear], names: dict[Linear, tuple[Name, ...]]) -> Derivation:
    """Propose one product. The widest comes first, since its sums show most of what is read."""
    group = sorted(group, key=lambda node: -node.x.type.width)
    united = unite_columns([node.x for node in group], [names[node] for node in group])
    weights = _side_by_side(group, united.places, united.x.type.width)
    bias = Array(np.concatenate([node.bias.data for node in group]))
    together = Together(Linear(united.x, weights, bias, step=group[0].step), step=group[0].step)
    widths = [node.type.width for node in group]
    replacements: dict[Node, Node] = {
        node: Select(together, Array.of(np.arange(first, first + width), "int32"), step=node.step)
        for node, first, width in zip(group, first_places(widths), widths, strict=True)
    }
    proof = f"{len(group)} products of {united.x.type.width} columns"
    return Derivation("merge_linears", replacements, proof)


def _side_by_side(group: Sequence[Linear], places: Sequence[Ints], width: int) -> Array:
    """Lay the weights out over the common columns, zero for a column that a product lacks."""
    blocks = []
    for node, rows in zip(group, places, strict=True):
        block = np.zeros((width, node.type.width), node.weights.dtype)
        block[rows] = node.weights.data
        blocks.append(block)
    return Array(np.concatenate(blocks, axis=1))


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
