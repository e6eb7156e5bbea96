"""The trees of CatBoost's JSON, symmetric and not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import current_step
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.catboost.columns import ONE_HOT, TOLD, Inputs
from hbconv.parse.common.node_tables import FlatTrees, NodeTable
from hbconv.parse.damage import finite_numbers
from hbconv.trees.forest import CategoryTables

__all__ = ["read_trees"]

Tree = Mapping[str, Any]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Tests:
    """One entry for each split; ``table`` is -1 where a number is compared."""

    feature: Ints
    threshold: npt.NDArray[np.float32]
    default_left: npt.NDArray[np.bool_]
    table: Ints
    start: Ints
    goes_left: npt.NDArray[np.bool_]

    def tables(self, tests: Ints) -> CategoryTables | None:
        """Return the tables of the given splits."""
        # One entry is the end of no table.
        if len(self.start) == 1:
            return None
        return CategoryTables(
            Array.of(self.table[tests], np.int32),
            Array.of(self.start, np.int32),
            Array.of(self.goes_left, np.bool_),
        )


def read_trees(
    trees: Sequence[Tree],
    inputs: Inputs,
    outputs: int,
    leaf_numbers: Sequence[Sequence[int]] | None,
) -> FlatTrees:
    """Read trees of either kind.

    A split goes left where a number is at most the border, or where a category is another.
    """
    symmetric = not trees or "leaf_values" in trees[0]
    return (
        _read_symmetric(trees, inputs, outputs)
        if symmetric
        else _read_branching(trees, inputs, outputs, leaf_numbers)
    )


def _tests(splits: Sequence[Mapping[str, Any]], inputs: Inputs) -> _Tests:
    strange = {split["split_type"] for split in splits} - {*TOLD}
    if strange:
        hint = f"hbconv handles {', '.join(TOLD)}."
        raise UnsupportedError("CatBoost", current_step(), "split_type", min(strange), hint)
    if not all(_is_known(split, inputs) for split in splits):
        raise ConversionError(
            "The CatBoost model is damaged: a split is not the one that its split_index names."
        )
    listed = [inputs.splits[split["split_index"]] for split in splits]
    # The listed values are used, not those of the tree: CatBoost itself goes by the index.
    feature = np.array([split.column for split in listed], np.int64)
    threshold = np.array([split.value * (split.kind != ONE_HOT) for split in listed], np.float32)
    table = np.full(len(splits), -1)
    tables: dict[tuple[int, int], int] = {}
    for i, split in enumerate(listed):
        if split.kind == ONE_HOT:
            table[i] = tables.setdefault((split.column, int(split.value)), len(tables))
    nan_right = [*inputs.nan_right, *(True for _ in inputs.categories)]
    # A statistic of 0/0 is NaN, which is above no border. Codes of categories are never NaN.
    default_left = ~np.array([*nan_right, *(False for _ in inputs.statistics)], np.bool_)[feature]
    return _Tests(
        feature,
        threshold,
        default_left,
        table,
        *_one_against_rest(tables, list(inputs.categories.values()), len(inputs.numbers)),
    )


def _is_known(split: Mapping[str, Any], inputs: Inputs) -> bool:
    """Tell whether a split agrees with the list: CatBoost goes by its index alone."""
    index = split["split_index"]
    kind = split["split_type"]
    named, value = TOLD[kind]
    in_list = type(index) is int and 0 <= index < len(inputs.splits)
    return in_list and inputs.splits[index][:3] == (kind, split[named], split[value])


def _one_against_rest(
    tables: Mapping[tuple[int, int], int], hashes: Sequence[tuple[int, ...]], first: int
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Write a table for each category that a split knows: it goes right, others left.

    Codes are 0 for unknown categories, else 1 + the position of the hash.
    """
    codes = [1 + hashes[column - first].index(value) for column, value in tables]
    # A table ends with an entry past the code, for all larger codes.
    start = np.concatenate([[0], np.cumsum(np.array(codes, np.int64) + 2)])
    goes_left = np.ones(start[-1], np.bool_)
    goes_left[start[1:] - 2] = False
    return start, goes_left


def _read_symmetric(trees: Sequence[Tree], inputs: Inputs, outputs: int) -> FlatTrees:
    """Write out each tree as a heap, its last split at the root.

    Leaves are then in CatBoost's order, where the first split is the lowest bit.
    """
    splits = [tree.get("splits") or () for tree in trees]
    depths = np.array([len(of_tree) for of_tree in splits], np.int64)
    if any(
        len(tree["leaf_values"]) != outputs << len(of_tree)
        for tree, of_tree in zip(trees, splits, strict=True)
    ):
        raise ConversionError(
            "The CatBoost model is damaged: a symmetric tree has too few or too many leaves."
        )
    tests = _tests([split for of_tree in splits for split in of_tree], inputs)
    first_split, first_test, first_leaf = (
        _starts(sizes) for sizes in (depths, 2**depths - 1, 2**depths)
    )
    split_of, left, right = (np.zeros(int((2**depths - 1).sum()), np.int64) for _ in range(3))
    # Trees of one depth are written together: a model has thousands of trees and few depths.
    for depth in np.unique(depths[depths > 0]).tolist():
        of_depth = np.flatnonzero(depths == depth)
        node = np.arange(2**depth - 1)
        at = first_test[of_depth, None] + node
        # The level of a node of a heap is the exponent of its
        # number; the last split is at the root.
        split_of[at] = first_split[of_depth, None] + depth - np.frexp(node + 1.0)[1]
        left[at], right[at] = (
            _heap_children(
                2 * node + side, depth, first_test[of_depth, None], first_leaf[of_depth, None]
            )
            for side in (1, 2)
        )
    values = np.concatenate(
        [np.zeros(0), *(finite_numbers(tree["leaf_values"]) for tree in trees)]
    ).reshape(-1, outputs)
    within = np.arange(len(values)) - np.repeat(first_leaf, 2**depths)
    roots = np.where(depths > 0, first_test, ~first_leaf)
    feature = tests.feature[split_of]
    threshold = tests.threshold[split_of]
    default_left = tests.default_left[split_of]
    return FlatTrees(
        feature, threshold, default_left, left, right, roots, values, within, tests.tables(split_of)
    )


def _heap_children(child: Ints, depth: int, first_test: Ints, first_leaf: Ints) -> Ints:
    inner = 2**depth - 1
    # Numbers beyond the tests are leaves, stored as complements.
    return np.where(child < inner, first_test + child, ~(first_leaf + child - inner))


def _starts(sizes: Ints) -> Ints:
    starts: Ints = np.cumsum(sizes) - sizes
    return starts


def _read_branching(
    trees: Sequence[Tree],
    inputs: Inputs,
    outputs: int,
    leaf_numbers: Sequence[Sequence[int]] | None,
) -> FlatTrees:
    nodes, right, sizes = _lay_out(trees)
    leaf = np.array(["value" in node for node in nodes], np.bool_)
    left = np.where(leaf, -1, np.concatenate([np.arange(size) + 1 for size in sizes]))
    values = np.zeros((len(nodes), outputs))
    values[leaf] = _leaf_values(nodes, outputs)
    none = np.zeros(len(nodes), np.int64)
    shape = NodeTable(sizes, none, none, none, left, right, values).split()
    tests = _tests([node["split"] for node in nodes if "value" not in node], inputs)
    numbers = leaf_numbers or [
        range(int(np.count_nonzero(of_tree))) for of_tree in np.split(leaf, np.cumsum(sizes)[:-1])
    ]
    leaf_id = np.concatenate([np.asarray(of_tree, np.int64) for of_tree in numbers])
    tables = tests.tables(np.arange(len(tests.feature)))
    return replace(
        shape,
        feature=tests.feature,
        threshold=tests.threshold,
        default_left=tests.default_left,
        leaf_id=leaf_id,
        tables=tables,
    )


def _leaf_values(nodes: Sequence[Tree], outputs: int) -> npt.NDArray[np.float64]:
    """Read the leaves of trees that are not symmetric: one number each, or a list."""
    held = [node["value"] for node in nodes if "value" in node]
    if outputs == 1:
        return finite_numbers(held)[:, None]
    if {*map(len, held)} != {outputs}:
        raise ConversionError(
            f"The CatBoost model is damaged: a leaf holds more or less than {outputs} numbers."
        )
    return finite_numbers([value for values in held for value in values]).reshape(-1, outputs)


def _lay_out(trees: Sequence[Tree]) -> tuple[list[Tree], Ints, list[int]]:
    """Lay out the nodes of each tree: a node, its left branch, its right branch.

    Returns the nodes, the places of right children (-1 for a leaf), and the sizes of the trees.
    """
    nodes: list[Tree] = []
    right: list[int] = []
    sizes = []
    for tree in trees:
        first = len(nodes)
        waiting: list[tuple[Tree, int]] = [(tree, -1)]
        while waiting:
            node, parent = waiting.pop()
            if parent >= 0:
                right[parent] = len(nodes) - first
            nodes.append(node)
            right.append(-1)
            if "value" not in node:
                waiting += ((node["right"], len(nodes) - 1), (node["left"], -1))
        sizes.append(len(nodes) - first)
    return nodes, np.array(right, np.int64), sizes
