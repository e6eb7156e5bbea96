"""Forests side by side: the trees of all in one, each with outputs of its own.

The helpers that sort nodes into groups serve all merging rules.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Graph, Node
from hbconv.trees.forest import CategoryTables, Forest

__all__ = [
    "find_levels",
    "first_places",
    "group_by",
    "group_sharing",
    "join_forests",
    "without_values",
]

Ints = npt.NDArray[np.integer]

_JOINED = (
    "feature",
    "threshold",
    "default_left",
    "left",
    "right",
    "roots",
    "values",
    "target",
    "start",
    "leaf_id",
)
"""Fields that are one forest's after another's, once they are shifted."""


def join_forests(
    forests: Sequence[Forest], places: Sequence[Ints], n_features: int, dtype: str
) -> Forest:
    """Make one forest of all trees, in their order.

    A tree of scalar leaves adds to an output of its own forest, so each output has its terms in its
    order.

    Parameters
    ----------
    forests : sequence of Forest
        Of scalar leaves and one dtype of sums, without linear leaves.
    places : sequence of arrays of int
        For each forest, the columns that its features are.
    n_features : int
        Width of the common input.
    dtype : str
        Dtype of the common input, which tests compare.

    Examples
    --------
    >>> none, leaf = Array.of([], "int32"), Array.of([0], "int32")
    >>> one = Forest(none, Array([]), Array.of([], "bool"), none, none, Array.of([-1], "int32"),
    ...              Array.of([0, 1], "int32"), Array([[5.0]]), leaf, Array([0.5]), False, 2, leaf)
    >>> both = join_forests([one, one], [np.arange(2)] * 2, 2, "float64")
    >>> both.roots, both.target, both.start
    ([-1, -2], [0, 1], [0.5, 0.5])
    """
    shifted = _shift_forests(forests, places, dtype)
    joined: dict[str, Any] = {
        name: Array(np.concatenate([getattr(f, name).data for f in shifted])) for name in _JOINED
    }
    return replace(
        shifted[0],
        **joined,
        first_leaf=_first_leaves(forests),
        n_features=n_features,
        tables=_join_tables([f.tables for f in forests], [f.n_tests for f in forests]),
    )


def _shift_forests(forests: Sequence[Forest], places: Sequence[Ints], dtype: str) -> list[Forest]:
    """Renumber columns, tests, leaves and outputs as in the joined forest.

    Where some forests compare by ``<`` and others by ``<=``, all become ``<=``.
    """
    tests = first_places([f.n_tests for f in forests])
    leaves = first_places([f.n_leaves for f in forests])
    outputs = first_places([f.n_outputs for f in forests])
    # A kernel compares by one operator; below a threshold of floats there is always a next float.
    if len({f.strict for f in forests}) > 1:
        forests = [_less_equal(f, dtype) for f in forests]
    return [
        replace(
            forest,
            feature=Array.of(places[i][forest.feature.data], "int32"),
            left=_shift(forest.left, tests[i], leaves[i]),
            right=_shift(forest.right, tests[i], leaves[i]),
            roots=_shift(forest.roots, tests[i], leaves[i]),
            target=Array.of(forest.target.data + outputs[i], "int32"),
        )
        for i, forest in enumerate(forests)
    ]


def _shift(children: Array, tests: np.int64, leaves: np.int64) -> Array:
    # Tests are numbered from 0 up and leaves from -1 down, so the two shift in opposite directions.
    codes = children.data
    return Array.of(np.where(codes >= 0, codes + tests, codes - leaves), "int32")


def _less_equal(forest: Forest, dtype: str) -> Forest:
    """Write tests ``x <= t``, which decide as the forest's own for x of the dtype."""
    # A test on categories has no threshold, and its entry there may not fit the dtype.
    thresholds = np.where(forest.on_category, 0, forest.less_equal_thresholds(dtype))
    return replace(forest, threshold=Array.of(thresholds, dtype), strict=False)


def first_places(sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    """Where each of several things begins when they follow one another."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def without_values(forest: Forest) -> Forest:
    """Keep what finds the leaf of each tree, and the names of the leaves."""
    return replace(
        forest,
        # Forests that differ in their sums alone then join, and their leaves are found once.
        values=Array(np.zeros((forest.n_leaves, 1))),
        target=Array.of(np.zeros(forest.n_trees), "int32"),
        start=Array(np.zeros(1)),
        slopes=None,
    )


def _first_leaves(forests: Sequence[Forest]) -> Array:
    sizes = np.concatenate([np.diff(f.first_leaf.data) for f in forests])
    return Array.of(np.append(0, np.cumsum(sizes)), "int32")


def _join_tables(
    tables: Sequence[CategoryTables | None], n_tests: Sequence[int]
) -> CategoryTables | None:
    """Put the tables of category sets one after another; None where there are none."""
    present = [t for t in tables if t is not None]
    if not present:
        return None
    counts = first_places([0 if t is None else t.count for t in tables])
    of_test = [
        np.full(n, -1) if t is None else np.where(t.of_test.data >= 0, t.of_test.data + count, -1)
        for t, count, n in zip(tables, counts, n_tests, strict=True)
    ]
    sizes = np.concatenate([np.diff(t.start.data) for t in present])
    return CategoryTables(
        Array.of(np.concatenate(of_test), "int32"),
        Array.of(np.append(0, np.cumsum(sizes)), "int32"),
        Array(np.concatenate([t.goes_left.data for t in present])),
    )


N = TypeVar("N", bound=Node)


def group_by(nodes: Iterable[N], key: Callable[[N], Hashable]) -> list[list[N]]:
    """Sort nodes by a key, each group in the order of its first node."""
    groups: dict[Hashable, list[N]] = {}
    for node in nodes:
        groups.setdefault(key(node), []).append(node)
    return list(groups.values())


def group_sharing(nodes: Sequence[N], names: Mapping[N, frozenset[Hashable]]) -> list[list[N]]:
    """Sort nodes so that those with a name in common, or with one between them, are together.

    Examples
    --------
    >>> from hbconv.containers import Columns, Map, Schema
    >>> x = Columns.of(Schema.matrix(1))
    >>> a, b, c = (Map(x, name) for name in ("exp", "log", "sqrt"))
    >>> groups = group_sharing([a, b, c], {a: frozenset("xy"), b: frozenset("z"),
    ...                                    c: frozenset("yz")})
    >>> [[node.function for node in group] for group in groups]
    [['exp', 'log', 'sqrt']]
    """
    groups: list[tuple[set[Hashable], list[N]]] = []
    for node in nodes:
        # A node may share names with several groups, which it then makes one.
        near = [group for group in groups if not group[0].isdisjoint(names[node])]
        groups = [group for group in groups if group[0].isdisjoint(names[node])]
        shared = set(names[node]).union(*(group[0] for group in near))
        groups.append((shared, [*(n for group in near for n in group[1]), node]))
    place = {node: i for i, node in enumerate(nodes)}
    return [sorted(group, key=place.__getitem__) for _, group in groups]


def find_levels(graph: Graph, counts: Callable[[Node], bool]) -> dict[Node, int]:
    """Count the counted nodes on the longest way to each node, itself left out.

    None of two counted nodes of one level is an input, near or far, of the other.
    """
    level: dict[Node, int] = {}
    for node in graph.nodes():
        level[node] = max((level[x] + counts(x) for x in node.inputs), default=0)
    return level
