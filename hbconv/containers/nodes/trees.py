"""Nodes of forests: sums and leaves, in one step or stage by stage, and Shapley values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container, container_base
from hbconv.containers.schema import Type, as_float
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import Forest
from hbconv.trees.leaves import sum_linear_leaves

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "LeafSums",
    "StagedLeafSums",
    "TreeContributions",
    "TreeEnsemble",
    "TreeInteractions",
    "TreeLeaves",
]


@container_base
class _OverForest(Node):
    """Base of both nodes of a forest.

    The plan fills in ``strategy``. The input is float32 or float64, and is not rounded.
    """

    x: Node
    forest: Forest
    strategy: str = "tree_traversal"

    always_finite: ClassVar[bool] = True
    decides: ClassVar[bool] = True
    reads_numbers: ClassVar[bool] = True

    def check(self) -> str | None:
        return (
            None
            if self.x.type.width == self.forest.n_features
            else f"has trees over {self.forest.n_features} columns"
        )

    @property
    def detail(self) -> str:
        forest = self.forest
        comparison = "<" if forest.strict else "<="
        sets = f", {int(forest.on_category.sum())} on categories" if forest.tables else ""
        # Tests on categories hold the side of NaN in their tables.
        directions = np.count_nonzero(forest.default_left.data & ~forest.on_category)
        missing = f", NaN left in {directions}" if directions else ""
        linear = ", linear leaves" if forest.slopes else ""
        size = f"{forest.n_trees} trees, {forest.n_tests} tests{sets}{missing}"
        return f"{size}, {comparison} {forest.threshold.dtype}, sums {forest.accumulate}{linear}"

    def planned(self, strategy: str) -> Self:
        """Return the same node with a strategy chosen."""
        return replace(self, strategy=strategy)


@container
class TreeEnsemble(_OverForest):
    """Sums of the leaf values of all trees, one column an output."""

    def infer(self) -> Type:
        return Type(self.forest.n_outputs, self.forest.accumulate)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        dtype = b.dtype(self.forest.accumulate)
        forest = (
            # For ``precision="fast"`` the builder narrows the dtype of the sums.
            self.forest if dtype == self.forest.accumulate else self.forest.with_accumulation(dtype)
        )
        x = b.cast(inputs[0], as_float(inputs[0].dtype))
        if forest.slopes is None:
            return b.op("tree_scores", x, forest=forest, strategy=self.strategy)
        return sum_linear_leaves(
            forest, b.op("tree_leaves", x, forest=forest, strategy=self.strategy), x, b
        )


@container
class TreeLeaves(_OverForest):
    """The source's own number of the leaf each row reaches, one column a tree."""

    def infer(self) -> Type:
        return Type(self.forest.n_trees, self.forest.leaf_id.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        leaves = b.op(
            "tree_leaves",
            b.cast(inputs[0], as_float(inputs[0].dtype)),
            forest=self.forest,
            strategy=self.strategy,
        )
        names = self.forest.leaf_id
        return (
            leaves
            # Where the source numbers its leaves from left to right, no look-up is needed.
            if np.array_equal(names.data, np.arange(len(names)))
            else b.lookup(b.constant(names), leaves)
        )


@container_base
class _OverLeaves(Node):
    """Base of both sums over leaves.

    ``leaves`` are numbered over the forest, and ``values`` (n_leaves, 1) holds the value of each. A
    stage is one tree for each column of ``start``. Additions are made in the order of the stages,
    in the dtype of the values.
    """

    leaves: Node
    values: Array
    start: Node

    @property
    def stages(self) -> int:
        """Number of stages."""
        return self.leaves.type.width // self.start.type.width

    @property
    def detail(self) -> str:
        return f"{self.stages} stages, sums {self.values.dtype}"

    def terms(self, b: Builder, leaves: Value, start: Value) -> Value:
        """Lay out what is added up: (rows, 1 + stages, outputs)."""
        outputs = self.start.type.width
        values = b.reshape(b.lookup(b.constant(self.values), leaves), self.stages, outputs)
        return b.concat([b.reshape(b.cast(start, self.values.dtype), 1, outputs), values])


@container
class LeafSums(_OverLeaves):
    """The start, and the values of the leaves reached added to it."""

    def infer(self) -> Type:
        return Type(self.start.type.width, self.values.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.reduce("ordered_sum", self.terms(b, *inputs), axis=0)


@container
class StagedLeafSums(_OverLeaves):
    """Likewise after each stage: the sums of all stages side by side."""

    def infer(self) -> Type:
        return Type(self.leaves.type.width, self.values.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        sums = b.op("cumsum", self.terms(b, *inputs), axis=0)
        return b.reshape(b.take(sums, np.arange(1, self.stages + 1)), self.type.width)


@container
class TreeContributions(Node):
    """Shapley values of the features of a forest, in float64.

    Each output has a column for each feature of the source, and one for the expected value.
    The input is what the splits compare.
    """

    x: Node
    covered: CoveredForest

    always_finite: ClassVar[bool] = True
    decides: ClassVar[bool] = True
    reads_numbers: ClassVar[bool] = True

    def infer(self) -> Type:
        outputs, width = self.covered.shape
        return Type(outputs * width, "float64")

    def check(self) -> str | None:
        forest = self.covered.forest
        if self.x.type.width != forest.n_features:
            return f"has trees over {forest.n_features} columns"
        return self.covered.misfit()

    @property
    def detail(self) -> str:
        forest = self.covered.forest
        return f"{forest.n_trees} trees, {forest.n_tests} tests, of {self.covered.n_features}"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        numbers = b.cast(inputs[0], as_float(inputs[0].dtype))
        return b.cast(b.op("tree_contributions", numbers, covered=self.covered), "float64")


@container
class TreeInteractions(TreeContributions):
    """Shapley interaction values of the features of a forest, in float64.

    Each output has a matrix of the features, the expected value last. Half of what two features
    add together is in either place of the pair, and what a feature adds alone in the diagonal.
    So the rows add up to the contributions.
    """

    def infer(self) -> Type:
        outputs, width = self.covered.shape
        return Type(outputs * width * width, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        numbers = b.cast(inputs[0], as_float(inputs[0].dtype))
        return b.cast(b.op("tree_interaction_matrices", numbers, covered=self.covered), "float64")
