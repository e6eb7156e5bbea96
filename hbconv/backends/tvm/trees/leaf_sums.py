"""Leaf sums: the values of the leaves that rows reach, added tree after tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.forest import Forest

__all__ = ["FindLeaves", "add_leaves", "write_leaves"]

FindLeaves = Callable[[Any, Place, Any], None]
"""``find(tree, place, i)`` writes the number of the leaf that each row reaches, counted over the forest, to entry i of a place."""


def add_leaves(k: Kernel, out: Place, forest: Forest, find: FindLeaves) -> None:
    """Write sums, as the source adds."""
    k.map_vectors(out, (k.constant(forest.start.data),), lambda value: value)
    values, width = k.constant(forest.values.data), forest.values.shape[1]
    target = k.constant(forest.target.data)
    with k.temporary("int32", (1,)) as numbers, k.over((forest.n_trees,)) as (tree,):
        find(tree, numbers, 0)
        first = k.bind(k.entry(target, tree))
        with k.over((width,)) as (i,), k.rows() as row:
            value = k.entry(values, k.load(numbers, (0,), row) * width + i)
            k.store(out, (first + i,), row, k.load(out, (first + i,), row) + value)


def write_leaves(k: Kernel, out: Place, forest: Forest, find: FindLeaves) -> None:
    """Write the numbers themselves."""
    with k.over((forest.n_trees,)) as (tree,):
        find(tree, out, tree)
