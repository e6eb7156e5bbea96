"""The trees of a YDF model: nodes in the order in which it keeps them, and a forest of them."""

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
from hbconv.parse.ydf.columns import TreeColumns
from hbconv.parse.ydf.conditions import read_conditions
from hbconv.trees.forest import Forest

__all__ = ["YdfTrees", "grow", "read_trees"]

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
    return x, _numbered_from_left(forest)


def _numbered_from_left(forest: Forest) -> Forest:
    """Name each leaf by its place in its tree, as ``predict_leaves`` does."""
    first = forest.first_leaf.data
    within = np.arange(forest.n_leaves) - np.repeat(first[:-1], np.diff(first))
    return replace(forest, leaf_id=Array.of(within, np.int32))
