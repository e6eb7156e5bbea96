"""Leaves by the row: a kernel finds those of one row in a group of trees, then in the next group.

Such a kernel hands over ``(group, row, leaves)``: the number of the leaf in each tree of the group.
A place of a group without a tree gives the number after the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.leaves.row_sums import adding_to_rows
from hbconv.backends.tvm.trees.leaves.tables import lay_out_values, sparse_cost
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import Forest

__all__ = ["RowLeaves", "adding", "writing"]

RowLeaves = Callable[[Any, Any, list[Any]], None]


def adding(
    k: Kernel, out: Place, forest: Forest, trees: Trees
) -> AbstractContextManager[RowLeaves]:
    """Add the values of the leaves, tree after tree."""
    # Where a place has no tree, -0.0 is added: it changes no sum.
    no_leaf = np.full((1, forest.values.shape[1]), -0.0, forest.accumulate)
    table = np.concatenate([lay_out_values(forest, trees), no_leaf])
    are_sparse = sparse_cost(forest) is not None
    form = _adding_entries if are_sparse else _adding_all
    return form(k, out, forest, trees, table)


@contextmanager
def _adding_entries(
    k: Kernel, out: Place, forest: Forest, trees: Trees, table: npt.NDArray[Any]
) -> Iterator[RowLeaves]:
    target = k.constant(trees.targets(forest))
    with adding_to_rows(k, out, forest, table) as add_leaf:

        def add(group: Any, row: Any, leaves: list[Any]) -> None:
            column = k.bind(k.entry(target, group))
            for leaf in leaves:
                add_leaf(column, row, k.bind(leaf))

        yield add


@contextmanager
def _adding_all(
    k: Kernel, out: Place, forest: Forest, trees: Trees, table: npt.NDArray[Any]
) -> Iterator[RowLeaves]:
    width = forest.values.shape[1]
    target = k.constant(trees.targets(forest))
    values = k.constant(table)
    k.map_vectors(out, (k.constant(forest.start.data),), lambda value: value)

    def add(group: Any, row: Any, leaves: list[Any]) -> None:
        column = k.bind(k.entry(target, group))
        if width > 1:
            # An expression is computed where it is used, here once for each value.
            leaves = [k.bind(leaf) for leaf in leaves]
        with k.over((width,)) as (i,):
            total = k.load(out, (column + i,), row)
            # Tree after tree, so that sums round as the source's do.
            for leaf in leaves:
                total = total + k.entry(values, leaf * width + i)
            k.store(out, (column + i,), row, total)

    yield add


@contextmanager
def writing(k: Kernel, out: Place, forest: Forest, trees: Trees) -> Iterator[RowLeaves]:
    """Write the numbers, but for places without a tree."""

    def write(group: Any, row: Any, leaves: list[Any]) -> None:
        if trees.group == 1:
            k.store(out, (group,), row, leaves[0].astype("int32"))
            return
        for i, leaf in enumerate(leaves):
            tree = group * trees.group + i
            with T.If(tree < forest.n_trees), T.Then():
                k.store(out, (tree,), row, leaf.astype("int32"))

    yield write
