"""Trees by traversal of packed nodes: tree after tree, some rows at once walk down side by side, without a branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.leaf_sums import FindLeaves, add_leaves, write_leaves
from hbconv.backends.tvm.trees.single_row.emit import key_of, step
from hbconv.backends.tvm.trees.walk.tables import PackedNodes, pack_nodes
from hbconv.forest import Forest

__all__ = ["leaves", "scores"]

TOGETHER = 16
"""Rows that walk side by side, so that one waits for memory while others step. Their keys of a column fill a line of the cache."""
CHECK = 3
"""Steps after which rows that went further than usual are asked whether all of them stand on leaves."""


def scores(k: Kernel, out: Place, x: Place, forest: Forest) -> None:
    """Emit ``tree_scores``."""
    with _walker(k, x, forest) as find:
        add_leaves(k, out, forest, find)


def leaves(k: Kernel, out: Place, x: Place, forest: Forest) -> None:
    """Emit ``tree_leaves``."""
    with _walker(k, x, forest) as find:
        write_leaves(k, out, forest, find)


@contextmanager
def _walker(k: Kernel, x: Place, forest: Forest) -> Iterator[FindLeaves]:
    """Give what walks a tree.

    All rows of a tile walk one tree before the next: a tile must be tall where trees are large, for their nodes to be read from memory once.
    """
    packed = pack_nodes(forest, x.dtype, TOGETHER)
    roots, depths, usual = (
        k.constant(a) for a in (packed.roots, packed.depths, _usual_depths(forest))
    )
    nodes, columns = k.constant(packed.nodes), len(packed.feature) + 1

    def find(tree: Any, numbers: Place, i: Any) -> None:
        root, most, first_steps = (k.bind(k.entry(a, tree)) for a in (roots, depths, usual))
        with k.vectors(TOGETHER) as row:
            first_key = k.bind(tirx.Cast("int64", row.base * columns))
            at = [k.variable("int64", root) for _ in range(TOGETHER)]

            def advance() -> list[Any]:
                return [
                    step(k, place, nodes, keys, packed, first_key + j) for j, place in enumerate(at)
                ]

            with T.serial(first_steps):
                advance()
            _finish(k, advance, most - first_steps)
            for j, place in enumerate(at):
                k.store(
                    numbers, (i,), row.base + j, tirx.Cast("int32", k.entry(nodes, place.get() * 2))
                )

    with k.temporary(packed.word, (columns,)) as keys:
        _write_keys(k, keys, x, packed)
        yield find


def _finish(k: Kernel, advance: Callable[[], list[Any]], most: Any) -> None:
    """Advance until no row steps on, where there is more to go at all."""
    onward = k.variable("int64", most)
    with T.While(onward.get() > 0):
        for _ in range(CHECK - 1):
            advance()
        onward.set(reduce(tirx.bitwise_or, advance()))


def _usual_depths(forest: Forest) -> npt.NDArray[np.int64]:
    """Mean depth of each tree's leaves, rounded up: of many rows side by side, one nearly always goes so far."""
    below = (forest.left.data < 0).astype(np.int64) + (forest.right.data < 0)
    total = np.bincount(
        forest.tree_of_tests, (forest.depth_of_tests + 1) * below, minlength=forest.n_trees
    )
    return np.ceil(total / np.diff(forest.first_leaf.data)).astype(np.int64)


def _write_keys(k: Kernel, keys: Place, x: Place, packed: PackedNodes) -> None:
    """Write the keys of the rows that walk side by side next to each other, column after column, and a last column of zeros."""
    feature, nan_left, columns = (
        k.constant(packed.feature),
        k.constant(packed.nan_left),
        len(packed.feature),
    )
    lowest, highest = tirx.IntImm(packed.word, 0), tirx.IntImm(packed.word, -1)

    def store(row: Any, column: Any, key: Any) -> None:
        k.store(
            keys, (0,), tirx.Ramp(row.base * (columns + 1) + column * TOGETHER, 1, TOGETHER), key
        )

    with k.over((columns,)) as (column,):
        source = k.bind(k.entry(feature, column))
        missing = k.bind(tirx.Select(tirx.EQ(k.entry(nan_left, column), 0), highest, lowest))
        with k.vectors(TOGETHER) as row:
            value = k.bind(k.load(x, (source,), row))
            store(
                row,
                column,
                tirx.Select(
                    tirx.isnan(value),
                    tirx.Broadcast(missing, TOGETHER),
                    key_of(value, x.dtype, packed.word, TOGETHER),
                ),
            )
    with k.vectors(TOGETHER) as row:
        store(row, columns, literal(0, packed.word, TOGETHER))
