"""Oblivious trees: all tests of a level are the same one, so that the outcomes, bit by bit, are the number of the leaf."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.leaf_sums import FindLeaves, add_leaves, write_leaves
from hbconv.backends.tvm.trees.single_row.emit import key_of
from hbconv.backends.tvm.trees.walk.tables import WORDS, keys_of
from hbconv.forest import Forest

__all__ = ["leaves", "level_tests", "scores"]

BYTES = 256
"""Bytes of keys compared at once: the numbers of so many rows fill half of the registers, and a threshold is read for all of them."""

Ints = npt.NDArray[np.int64]


def level_tests(forest: Forest) -> Ints | None:
    """Return one test of each level of each tree, tree after tree; None where a tree is not oblivious."""
    if forest.tables or not forest.n_tests:
        return None
    tree, depth = forest.tree_of_tests.astype(np.int64), forest.depth_of_tests
    level = tree * forest.depth + depth
    levels, first, own, counts = np.unique(
        level, return_index=True, return_inverse=True, return_counts=True
    )
    same = all(
        (a.data == a.data[first][own]).all()
        for a in (forest.feature, forest.threshold, forest.default_left)
    )
    return first if same and (counts == 2 ** (levels % forest.depth)).all() else None


def scores(k: Kernel, out: Place, x: Place, forest: Forest) -> None:
    """Emit ``tree_scores``."""
    with _finder(k, x, forest) as find:
        add_leaves(k, out, forest, find)


def leaves(k: Kernel, out: Place, x: Place, forest: Forest) -> None:
    """Emit ``tree_leaves``."""
    with _finder(k, x, forest) as find:
        write_leaves(k, out, forest, find)


@contextmanager
def _finder(k: Kernel, x: Place, forest: Forest) -> Iterator[FindLeaves]:
    """Give what finds the leaves of a tree."""
    tests, word = level_tests(forest), WORDS[x.dtype]
    pairs, columns = np.unique(
        forest.feature.data[tests] * 2 + forest.default_left.data[tests], return_inverse=True
    )
    column, threshold = (
        k.constant(columns.astype(np.int32)),
        k.constant(_signed(keys_of(forest.less_equal_thresholds(x.dtype)[tests]), word)),
    )
    start = k.constant(
        np.searchsorted(forest.tree_of_tests[tests], np.arange(forest.n_trees + 1)).astype(np.int32)
    )
    first_leaf = k.constant(forest.first_leaf.data)
    lanes = min(BYTES // np.dtype(word).itemsize, k.tile)
    one, zero = literal(1, "int32", lanes), literal(0, "int32", lanes)

    def find(tree: Any, numbers: Place, i: Any) -> None:
        begin, first = k.bind(k.entry(start, tree)), k.bind(k.entry(first_leaf, tree))
        levels = k.bind(k.entry(start, tree + 1) - begin)
        with k.vectors(lanes) as row:
            path = k.register("int32", zero, lanes)
            with T.serial(levels) as level:
                test = k.bind(begin + level)
                right = k.load(keys, (k.entry(column, test),), row) > tirx.Broadcast(
                    k.entry(threshold, test), lanes
                )
                path.set(path.get() + path.get() + tirx.Select(right, one, zero))
            k.store(numbers, (i,), row, path.get() + tirx.Broadcast(first, lanes))

    with k.temporary(word, (len(pairs),)) as keys:
        _write_keys(
            k,
            keys,
            x,
            k.constant((pairs // 2).astype(np.int32)),
            k.constant((pairs % 2).astype(np.int32)),
        )
        yield find


def _write_keys(k: Kernel, keys: Place, x: Place, feature: Place, nan_left: Place) -> None:
    """Write the keys of each column, less half their range: as signed numbers, which compare in fewer instructions."""
    word, half = (
        keys.dtype,
        literal(-(1 << (8 * np.dtype(keys.dtype).itemsize - 1)), keys.dtype, k.lanes),
    )
    lowest, highest = tirx.IntImm(word, 0), tirx.IntImm(word, -1)
    with k.over(keys.shape) as (column,):
        source = k.bind(k.entry(feature, column))
        missing = k.bind(tirx.Select(tirx.EQ(k.entry(nan_left, column), 0), highest, lowest))
        with k.vectors() as row:
            value = k.bind(k.load(x, (source,), row))
            key = tirx.Select(
                tirx.isnan(value),
                tirx.Broadcast(missing, k.lanes),
                key_of(value, x.dtype, word, k.lanes),
            )
            k.store(keys, (column,), row, key ^ half)


def _signed(keys: npt.NDArray[np.uint64], word: str) -> npt.NDArray[Any]:
    bits = 8 * np.dtype(word).itemsize
    return (keys ^ np.uint64(1 << (bits - 1))).astype(f"u{word}").view(word)
