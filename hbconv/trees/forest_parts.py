"""Keep some trees or some outputs of a forest, each sum with its own terms in its own order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.trees.forest import CategoryTables, Forest, Slopes

__all__ = ["keep_outputs", "keep_trees"]

Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]


def keep_outputs(forest: Forest, outputs: Ints) -> Forest:
    """Return the forest that computes only these outputs, in this order, none of them twice.

    Vector leaves lose entries. Scalar leaves go with their trees.

    Examples
    --------
    >>> none, leaf = Array.of([], "int32"), Array.of([0, 0], "int32")
    >>> forest = Forest(none, Array([]), Array.of([], "bool"), none, none,
    ...                 Array.of([-1, -2], "int32"), Array.of([0, 1, 2], "int32"),
    ...                 Array([[5.0], [7.0]]), Array.of([0, 1], "int32"), Array([0.0, 0.5]), False,
    ...                 2, leaf)
    >>> second = keep_outputs(forest, np.array([1]))
    >>> second.values, second.target, second.start
    ([[7.]], [0], [0.5])
    """
    start = Array(forest.start.data[outputs])
    if forest.values.shape[1] > 1:
        return replace(forest, values=Array(forest.values.data[:, outputs]), start=start)
    fewer = keep_trees(forest, np.flatnonzero(np.isin(forest.target.data, outputs)))
    place = np.zeros(forest.n_outputs, np.int32)
    place[outputs] = np.arange(len(outputs))
    return replace(fewer, target=Array(place[fewer.target.data]), start=start)


def keep_trees(forest: Forest, trees: Ints) -> Forest:
    """Return the forest of these trees alone, which ascend; their outputs and names stay."""
    kept = np.zeros(forest.n_trees, np.bool_)
    kept[trees] = True
    tests = kept[forest.tree_of_tests]
    leaves = np.repeat(kept, np.diff(forest.first_leaf.data))
    counts = np.diff(forest.first_leaf.data)[kept]
    return replace(
        forest,
        feature=Array(forest.feature.data[tests]),
        threshold=Array(forest.threshold.data[tests]),
        default_left=Array(forest.default_left.data[tests]),
        left=_renumbered(forest.left.data[tests], tests, leaves),
        right=_renumbered(forest.right.data[tests], tests, leaves),
        roots=_renumbered(forest.roots.data[kept], tests, leaves),
        first_leaf=Array.of(np.append(0, np.cumsum(counts)), np.int32),
        values=Array(forest.values.data[leaves]),
        target=Array(forest.target.data[kept]),
        leaf_id=Array(forest.leaf_id.data[leaves]),
        tables=forest.tables and _tables_of(forest.tables, tests),
        slopes=forest.slopes and _slopes_of(forest.slopes, leaves),
    )


def _renumbered(children: Ints, tests: Bools, leaves: Bools) -> Array:
    """Children by the numbers that their tests and leaves get."""
    test = np.append(np.cumsum(tests) - 1, 0)  # one more, as a place for any child to look up
    leaf = np.append(np.cumsum(leaves) - 1, 0)
    inner = children >= 0
    places = np.where(
        inner, test[np.where(inner, children, -1)], ~leaf[np.where(inner, -1, ~children)]
    )
    return Array.of(places, np.int32)


def _tables_of(tables: CategoryTables, tests: Bools) -> CategoryTables | None:
    """Keep the tables that a kept test has; None where no test has any."""
    of_test = tables.of_test.data[tests]
    kept = np.unique(of_test[of_test >= 0])
    if not len(kept):
        return None
    sizes = np.diff(tables.start.data)
    entries = np.repeat(np.isin(np.arange(tables.count), kept), sizes)
    return CategoryTables(
        Array.of(np.where(of_test >= 0, np.searchsorted(kept, of_test), -1), np.int32),
        Array.of(np.append(0, np.cumsum(sizes[kept])), np.int32),
        Array(tables.goes_left.data[entries]),
    )


def _slopes_of(slopes: Slopes, leaves: Bools) -> Slopes:
    """Keep the linear models of the kept leaves."""
    counts = np.diff(slopes.start.data)
    terms = np.repeat(leaves, counts)
    return Slopes(
        Array(slopes.constant.data[leaves]),
        Array.of(np.append(0, np.cumsum(counts[leaves])), np.int32),
        Array(slopes.feature.data[terms]),
        Array(slopes.coefficient.data[terms]),
    )
