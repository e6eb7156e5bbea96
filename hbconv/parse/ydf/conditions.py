"""The trees of a YDF model: the conditions of their splits, and the forest that they become.

A condition that holds leads to the positive child, which is the right one of a forest. So a split
goes left where ``x < threshold``, or where the category is not in the set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Node
from hbconv.errors import ConversionError
from hbconv.parse.common.node_tables import NodeTable, assemble
from hbconv.parse.step import Step
from hbconv.parse.ydf.columns import TreeColumns, least_factor
from hbconv.trees.forest import CategoryTables, Forest

__all__ = ["Tests", "YdfTrees", "grow", "read_conditions", "read_trees"]

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Test:
    """One split: its column, and a threshold or the categories that go left, the missing last."""

    column: int
    threshold: float = 0.0
    missing_left: bool = True
    goes_left: bytes | None = None


@dataclass(frozen=True)
class Tests:
    """An entry for each node; those of leaves mean nothing.

    Parameters
    ----------
    column : array of int64
        Number that TreeColumns gave the column.
    threshold : array of float32
    missing_left : array of bool
    table : array of int32
        Number of the table of categories, -1 where there is none.
    sets : list of bytes
        For each table, whether each code goes left.
    """

    column: npt.NDArray[np.int64]
    threshold: npt.NDArray[np.float32]
    missing_left: Bools
    table: npt.NDArray[np.int32]
    sets: list[bytes]

    def tables(self) -> CategoryTables | None:
        """Return the category tables; None where no split reads categories."""
        if not self.sets:
            return None
        ends = np.cumsum([0, *map(len, self.sets)])
        goes_left = np.frombuffer(b"".join(self.sets), np.bool_)
        return CategoryTables(
            Array(self.table), Array.of(ends, np.int32), Array.of(goes_left, np.bool_)
        )


def read_conditions(columns: TreeColumns, nodes: Sequence[Any], splits: Bools) -> Tests:
    """Read the condition of each node that splits.

    Raises
    ------
    UnsupportedError
        The kind of a condition has no exact form.
    """
    leaf = _Test(0)
    tests = [
        _read(columns, node.condition) if split else leaf
        for node, split in zip(nodes, splits.tolist(), strict=True)
    ]
    numbers: dict[tuple[int, bytes], int] = {}
    table = np.full(len(tests), -1, np.int32)
    for place, test in enumerate(tests):
        if test.goes_left is not None:
            # Equal sets of one column share a table: boosted trees repeat them.
            table[place] = numbers.setdefault((test.column, test.goes_left), len(numbers))
    return Tests(
        np.array([test.column for test in tests], np.int64),
        np.array([test.threshold for test in tests], np.float32),
        np.array([test.missing_left for test in tests], np.bool_),
        table,
        [goes_left for _, goes_left in numbers],
    )


def _read(columns: TreeColumns, condition: Any) -> _Test:
    kind = condition.condition.WhichOneof("type")
    if kind not in _READERS:
        raise columns.refuse("condition", kind, f"hbconv handles {', '.join(_READERS)}.")
    return _READERS[kind](columns, condition)


def _higher(columns: TreeColumns, condition: Any) -> _Test:
    column = columns.number(condition.attribute)
    threshold = condition.condition.higher_condition.threshold
    return _Test(column, threshold, not condition.na_value)


def _at_boundary(columns: TreeColumns, condition: Any) -> _Test:
    """Compare with a boundary; the source compares a value that stands for the bin.

    Where rounding puts that value beyond the boundary, its engines disagree.
    """
    bounds = columns.boundaries(condition.attribute)
    place = int(condition.condition.discretized_higher_condition.threshold)
    if not 0 < place <= len(bounds):
        raise columns.damaged(f"a split reads boundary {place} of {len(bounds)}")
    # Halved before they are added: the sum of two large boundaries would be infinite.
    middles = bounds[:-1] / np.float32(2) + bounds[1:] / np.float32(2)
    one = np.float32(1)
    standing = np.concatenate([bounds[:1] - one, middles, bounds[-1:] + one])
    bound = bounds[place - 1]
    if not standing[place - 1] < bound <= standing[place]:
        hint = "float32 cannot tell its bins apart. Train it as Semantic.NUMERICAL, or scale it."
        raise columns.refuse("discretized column", columns.name(condition.attribute), hint)
    return _Test(columns.number(condition.attribute), float(bound), not condition.na_value)


def _is_true(columns: TreeColumns, condition: Any) -> _Test:
    return _Test(columns.truth(condition.attribute), 0.5, not condition.na_value)


def _in_bitmap(columns: TreeColumns, condition: Any) -> _Test:
    bitmap = condition.condition.contains_bitmap_condition.elements_bitmap
    # YDF packs the lowest item into the lowest bit.
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    return _in_set(columns, condition, np.flatnonzero(bits))


def _in_list(columns: TreeColumns, condition: Any) -> _Test:
    elements = condition.condition.contains_condition.elements
    return _in_set(columns, condition, np.array(elements, np.int64))


def _in_set(columns: TreeColumns, condition: Any, items: npt.NDArray[Any]) -> _Test:
    size = columns.n_categories(condition.attribute)
    if np.any((items < 0) | (items >= size)):
        raise columns.damaged(f"a split knows a category beyond the {size} of its column")
    # One entry behind the items, for missing values.
    goes_left = np.ones(size + 1, np.bool_)
    goes_left[items] = False
    goes_left[size] = not condition.na_value
    column = columns.category(condition.attribute)
    return _Test(column, goes_left=goes_left.tobytes())


def _is_missing(columns: TreeColumns, condition: Any) -> _Test:
    """Test a flag of a number, or the last code of a category; a bool is never missing."""
    kind = columns.kind(condition.attribute)
    if kind == "BOOLEAN":
        # Every bool is below infinity, so the condition never holds.
        return _Test(columns.truth(condition.attribute), np.inf)
    if kind == "CATEGORICAL":
        goes_left = np.ones(columns.n_categories(condition.attribute) + 1, np.bool_)
        goes_left[-1] = False
        return _Test(columns.category(condition.attribute), goes_left=goes_left.tobytes())
    return _Test(columns.flag(condition.attribute), 0.5)


def _oblique(columns: TreeColumns, condition: Any) -> _Test:
    """Compare a weighted sum of numbers, whose missing ones are replaced by means."""
    oblique = condition.condition.oblique_condition
    replaced = np.array(oblique.na_replacements, np.float32)
    means = np.array([columns.mean(attribute) for attribute in oblique.attributes], np.float32)
    # Otherwise YDF's engines disagree, so that no answer is the right one.
    if not np.array_equal(replaced, means):
        hint = f"YDF's engines disagree unless they are the means {means.tolist()}. Train again."
        raise columns.refuse("na_replacements", replaced.tolist(), hint)
    # A forest of 100 oblique trees took 20 s to answer first with a product for each, 9 s without.
    if len(means) == 1 and oblique.weights[0]:
        return _of_one_term(columns, oblique, means[0])
    column = columns.projection(tuple(oblique.attributes), tuple(oblique.weights))
    return _Test(column, oblique.threshold)


def _of_one_term(columns: TreeColumns, oblique: Any, mean: np.float32) -> _Test:
    """Compare the number itself, or its negative: thousands of products would take long."""
    attribute = oblique.attributes[0]
    weight = oblique.weights[0]
    least = least_factor(abs(weight), oblique.threshold)
    if weight < 0:
        return _Test(columns.projection((attribute,), (-1.0,)), least)
    return _Test(columns.number(attribute), least, bool(mean < least))


_READERS: dict[str, Callable[[TreeColumns, Any], _Test]] = {
    "higher_condition": _higher,
    "discretized_higher_condition": _at_boundary,
    "true_value_condition": _is_true,
    "contains_bitmap_condition": _in_bitmap,
    "contains_condition": _in_list,
    "na_condition": _is_missing,
    "oblique_condition": _oblique,
}


Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class YdfTrees:
    """The nodes of all trees, tree after tree, each before its negative child's, then the other's.

    Parameters
    ----------
    nodes : sequence of protobuf Node
    sizes : list of int
        Number of nodes of each tree.
    """

    nodes: Sequence[Any]
    sizes: list[int]

    @cached_property
    def splits(self) -> npt.NDArray[np.bool_]:
        """Whether each node splits; the others are leaves."""
        return np.array([node.HasField("condition") for node in self.nodes], np.bool_)

    @cached_property
    def relatives(self) -> tuple[Ints, Ints]:
        """Number of the positive child and of the parent of each node, -1 where there is none.

        The node behind a split is its negative child. The node behind a leaf is the positive child
        of the last split that has none yet.
        """
        positive = np.full(len(self.nodes), -1)
        parent = np.full(len(self.nodes), -1)
        waiting: list[int] = []
        splits = self.splits.tolist()
        for number, split in enumerate(splits):
            if number and splits[number - 1]:
                parent[number] = number - 1
            # The node behind a leaf belongs to the innermost split that has one child.
            elif waiting:
                parent[number] = waiting.pop()
                positive[parent[number]] = number
            if split:
                waiting.append(number)
        if waiting:
            raise ConversionError("The YDF model is damaged: its nodes do not form trees.")
        return positive, parent

    @cached_property
    def depth(self) -> Ints:
        """Number of splits above each node."""
        depth = np.zeros(len(self.nodes), np.int64)
        for number, parent in enumerate(self.relatives[1].tolist()):
            if parent >= 0:
                depth[number] = depth[parent] + 1
        return depth

    def leaf_values(self, value: Callable[[Any], list[float]], width: int) -> npt.NDArray[Any]:
        """Return what a function makes of each leaf, and zeros for splits: (n_nodes, width)."""
        values = np.zeros((len(self.nodes), width))
        leaves = np.flatnonzero(~self.splits)
        for leaf in leaves.tolist():
            values[leaf] = value(self.nodes[leaf])
        return values


def read_trees(model: Any) -> YdfTrees:
    """Read the nodes of all trees.

    The trees of ``model.iter_trees()`` hold probabilities in place of counts, and no winner of a
    leaf's vote, so the answers could not be the source's to the last bit.
    """
    # A private method: the public iter_trees replaces counts by probabilities.
    trees = [model._model.GetTree(number) for number in range(model.num_trees())]
    nodes = [node for tree in trees for node in tree]
    return YdfTrees(nodes, [len(tree) for tree in trees])


def grow(
    step: Step, trees: YdfTrees, values: Floats, start: Floats, target: Ints | None = None
) -> tuple[Node, Forest]:
    """Return the columns that the trees read, and the forest; the negative child is the left one.

    Parameters
    ----------
    step : Step
    trees : YdfTrees
    values : array of float32, shape (n_nodes, n_values)
        Values of leaves; those of splits mean nothing.
    start : array of float32, shape (n_outputs,)
    target : array of int, optional
    """
    columns = TreeColumns.of(step)
    tests = read_conditions(columns, trees.nodes, trees.splits)
    x, places = columns.side_by_side()
    # Children are numbered within their tree, and YDF's nodes over all trees.
    first = np.repeat(np.cumsum(trees.sizes) - trees.sizes, trees.sizes).astype(np.int64)
    number = np.arange(len(trees.nodes))
    leaf = ~trees.splits
    table = NodeTable(
        trees.sizes,
        places[tests.column],
        tests.threshold,
        tests.missing_left,
        np.where(leaf, -1, number + 1 - first),
        np.where(leaf, -1, trees.relatives[0] - first),
        values,
        tests.tables(),
    )
    forest = assemble(table.split(), start, strict=True, n_features=x.type.width, target=target)
    return x, _number_leaves(forest)


def _number_leaves(forest: Forest) -> Forest:
    """Name each leaf by its place in its tree, as ``predict_leaves`` does."""
    first = forest.first_leaf.data
    # predict_leaves numbers leaves from the left, each tree from 0.
    within = np.arange(forest.n_leaves) - np.repeat(first[:-1], np.diff(first))
    return replace(forest, leaf_id=Array.of(within, np.int32))
