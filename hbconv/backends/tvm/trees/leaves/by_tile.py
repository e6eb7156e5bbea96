"""Leaves by the tile: a kernel finds those of one tree for all rows of a tile, then the next.

Such a kernel hands over ``find(tree, place, i)`` once, as soon as all that it reads is written.
That function writes the number by which the trees name the leaf of each row to entry i of a place.
Numbers are counted over the forest, and leaves of equal values may share one where they are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.leaves.row_sums import adding_to_rows
from hbconv.backends.tvm.trees.leaves.tables import MIN_WIDTH, lay_out_values
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import Forest

__all__ = ["TileLeaves", "adding", "writing"]

TileLeaves = Callable[[Callable[[Any, Place, Any], None]], None]


def adding(
    k: Kernel, out: Place, forest: Forest, trees: Trees
) -> AbstractContextManager[TileLeaves]:
    """Add the values of the leaves, tree after tree."""
    form = _adding_rows if forest.values.shape[1] >= MIN_WIDTH else _adding_columns
    return form(k, out, forest, trees)


@contextmanager
def _adding_rows(k: Kernel, out: Place, forest: Forest, trees: Trees) -> Iterator[TileLeaves]:
    target = k.constant(trees.targets(forest))
    with adding_to_rows(k, out, forest, lay_out_values(forest, trees)) as add_leaf:

        def add(find: Callable[[Any, Place, Any], None]) -> None:
            with k.temporary("int32", (1,)) as leaves, k.over((forest.n_trees,)) as (tree,):
                find(tree, leaves, 0)
                first = k.bind(k.entry(target, tree))
                with k.rows() as row:
                    add_leaf(first, row, k.bind(k.load(leaves, (0,), row)))

        yield add


@contextmanager
def _adding_columns(k: Kernel, out: Place, forest: Forest, trees: Trees) -> Iterator[TileLeaves]:
    start = k.constant(forest.start.data)
    values = k.constant(lay_out_values(forest, trees))
    target = k.constant(trees.targets(forest))
    width = forest.values.shape[1]

    def add(find: Callable[[Any, Place, Any], None]) -> None:
        # The sum begins with the source's start value, which rounds as there.
        k.map_vectors(out, (start,), lambda value: value)
        with k.temporary("int32", (1,)) as leaves, k.over((forest.n_trees,)) as (tree,):
            find(tree, leaves, 0)
            first = k.bind(k.entry(target, tree))
            with k.over((width,)) as (i,), k.rows() as row:
                value = k.entry(values, k.load(leaves, (0,), row) * width + i)
                k.store(out, (first + i,), row, k.load(out, (first + i,), row) + value)

    yield add


@contextmanager
def writing(
    k: Kernel,
    out: Place,
    forest: Forest,
    trees: Trees,  # noqa: ARG001
) -> Iterator[TileLeaves]:
    """Have the numbers written to where they belong."""

    def write(find: Callable[[Any, Place, Any], None]) -> None:
        with k.over((forest.n_trees,)) as (tree,):
            find(tree, out, tree)

    yield write
