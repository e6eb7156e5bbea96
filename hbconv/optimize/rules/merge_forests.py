"""Merge forests that read the same columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Graph,
    LookupRows,
    Node,
    Select,
    Together,
    TreeEnsemble,
    TreeLeaves,
    at_step,
)
from hbconv.optimize.merged_columns import find_columns, unite_columns
from hbconv.optimize.merged_forests import (
    find_levels,
    first_places,
    group_by,
    group_sharing,
    join_forests,
    without_values,
)
from hbconv.optimize.rule import Declined, Derivation
from hbconv.trees.forest import Forest

__all__ = ["merge_forests"]

Trees = TreeEnsemble | TreeLeaves

_KEPT = "output keeps its terms and their order"


def merge_forests(graph: Graph) -> Iterator[Derivation | Declined]:
    """Make one forest of those that share columns, and select each one's outputs from it.

    The columns of all are put side by side, each once. A tree adds to the outputs of its own forest
    alone, so each output keeps its start, its terms and their order: bit-exact. The forests sum in
    one dtype and compare columns of one dtype. None of them reads another's scores. Strict and
    other comparisons become ``<=``. Single trees of vector leaves, as in bagging, look their
    vectors up. Forests of linear leaves stay apart, and so do those of several trees of vectors:
    longer vectors cost more than they save.

    Examples
    --------
    >>> from hbconv.containers import Columns, Concat, Output, Schema, show_rule
    >>> none, leaf = Array.of([], "int32"), Array.of([0], "int32")
    >>> forest = Forest(none, Array([]), Array.of([], "bool"), none, none, Array.of([-1], "int32"),
    ...                 Array.of([0, 1], "int32"), Array([[5.0]]), leaf, Array([0.5]), False, 2,
    ...                 leaf)
    >>> x = Columns.of(Schema.table(["a", "b"]))
    >>> one = TreeEnsemble(x, forest)
    >>> two = TreeEnsemble(x, replace(forest, values=Array([[7.0]])))
    >>> graph = Graph(x.schema, {"predict": Output(Concat((one, two)))})
    >>> (derivation,) = merge_forests(graph)
    >>> derivation.proof
    '2 forests, each output keeps its terms and their order'
    >>> show_rule(derivation.replacements.get, two)
    tree_ensemble(columns(a, b), 1 trees, 0 tests, <= float64, sums float64)
    -> select(tree_ensemble(columns(a, b), 2 trees, 0 tests, <= float64, sums float64), [1])
    """
    # Of one level, so that no forest reads the scores of another that it is merged with.
    levels = find_levels(graph, lambda node: isinstance(node, Trees))
    forests = [node for node in graph.nodes() if isinstance(node, Trees)]
    for group in group_by(forests, lambda node: (levels[node], *_kind(node))):
        names = {node: _column_names(node) for node in group}
        for sharing in group_sharing(
            group, {n: frozenset(columns) for n, columns in names.items()}
        ):
            if len(sharing) > 1:
                yield from _merge(sharing, names)


def _kind(node: Trees) -> tuple[Hashable, ...]:
    """Say what forests must have in common to become one."""
    if isinstance(node, TreeLeaves):
        return TreeLeaves, node.x.type.dtype, node.forest.leaf_id.dtype
    single = node.forest.n_trees == 1
    values = node.forest.values.shape[1]
    # Merged forests of 20 trees of vectors were 0.9 times as fast on tvm, padded ones 0.3 to 0.7.
    return TreeEnsemble, node.x.type.dtype, node.forest.accumulate, values, values > 1 and single


def _column_names(node: Trees) -> tuple[Hashable, ...]:
    """Name each column a forest reads; tests on categories read another than tests on numbers."""
    # A kernel prepares a column once, as codes of categories or as a number.
    listed = set(node.forest.feature.data[node.forest.on_category].tolist())
    return tuple((column, place in listed) for place, column in enumerate(find_columns(node.x)))


def _merge(
    group: Sequence[Trees], names: dict[Trees, tuple[Hashable, ...]]
) -> Iterator[Derivation | Declined]:
    """Propose one forest for a group, but for those that must stay apart."""
    merged: list[Trees] = []
    for node in group:
        if (reason := _refuse(node, merged)) is not None:
            yield Declined("merge_forests", node, reason)
        else:
            merged.append(node)
    if len(merged) > 1:
        yield Derivation("merge_forests", _replacements(merged, names), _proof(merged))


def _refuse(node: Trees, others: Sequence[Trees]) -> str | None:
    if isinstance(node, TreeLeaves):
        # As apply and decision_path: merged they would hold each tree twice.
        return "its trees are another's" if any(map(partial(_same_trees, node), others)) else None
    if node.forest.slopes is not None:
        return "its leaves are linear models"
    if _has_vectors(node) and node.forest.n_trees != 1:
        return f"its leaves are vectors, and it has {node.forest.n_trees} trees"
    return None


def _same_trees(one: Trees, other: Trees) -> bool:
    """Tell whether two forests send each row to the same places, and number them otherwise."""
    return one.x is other.x and one.forest == replace(other.forest, leaf_id=one.forest.leaf_id)


def _replacements(
    group: Sequence[Trees], names: dict[Trees, tuple[Hashable, ...]]
) -> dict[Node, Node]:
    """Select the columns of each node from those of the merged one."""
    united = unite_columns([node.x for node in group], [names[node] for node in group])
    forest = join_forests(
        [_joinable(node) for node in group], united.places, united.x.type.width, united.x.type.dtype
    )
    together = _merged_node(group, united.x, forest)
    widths = [node.type.width for node in group]
    return {
        node: Select(together, Array.of(np.arange(first, first + width), "int32"), step=node.step)
        for node, first, width in zip(group, first_places(widths), widths, strict=True)
    }


def _merged_node(group: Sequence[Trees], x: Node, forest: Forest) -> Node:
    """Sum the leaves of all trees; where each sum is one vector, look it up at the leaf."""
    if not any(_has_vectors(node) for node in group):
        return replace(group[0], x=x, forest=forest)
    # Each sum has one addition, which is made here instead of for each row.
    sums = np.concatenate([node.forest.start.data + node.forest.values.data for node in group])
    with at_step(group[0].step):
        leaves = TreeLeaves(x, forest.with_numbered_leaves(), group[0].strategy)
        return Together(LookupRows(leaves, Array.of(sums, group[0].forest.accumulate)))


def _has_vectors(node: Trees) -> bool:
    return isinstance(node, TreeEnsemble) and node.forest.values.shape[1] > 1


def _joinable(node: Trees) -> Forest:
    if isinstance(node, TreeLeaves) or _has_vectors(node):
        return without_values(node.forest)
    return node.forest


def _proof(group: Sequence[Trees]) -> str:
    kept = "tree keeps its leaves" if isinstance(group[0], TreeLeaves) else _KEPT
    return f"{len(group)} forests, each {kept}"
