"""TreeEnsemble and TreeLeaves: a forest's sums, and the leaves it reaches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type
from hbconv.forest import Forest
from hbconv.tensor.leaves import sum_linear_leaves

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["TreeEnsemble", "TreeLeaves"]


@dataclass(frozen=True, eq=False)
class _OverForest(Node):
    """What the two share. ``strategy`` is filled in by the plan; the input is float32 or float64, never rounded on the way in."""

    x: Node
    forest: Forest
    strategy: str = "tree_traversal"

    finite: ClassVar[str] = "always"

    def check(self) -> str | None:
        return None if self.x.type.width == self.forest.n_features else f"has trees over {self.forest.n_features} columns"

    @property
    def detail(self) -> str:
        forest = self.forest
        comparison = "<" if forest.strict else "<="
        sets = f", {int(forest.on_category.sum())} on categories" if forest.tables else ""
        linear = ", linear leaves" if forest.slopes else ""
        return f"{forest.n_trees} trees, {forest.n_tests} tests{sets}, {comparison} {forest.threshold.dtype}, sums {forest.accumulate}{linear}"

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
        forest = self.forest if dtype == self.forest.accumulate else self.forest.with_accumulation(dtype)
        x = b.cast(inputs[0], _float(inputs[0].dtype))
        if forest.slopes is None:
            return b.op("tree_scores", x, forest=forest, strategy=self.strategy)
        return sum_linear_leaves(forest, b.op("tree_leaves", x, forest=forest, strategy=self.strategy), x, b)


@container
class TreeLeaves(_OverForest):
    """The source's own number of the leaf each row reaches, one column a tree."""

    def infer(self) -> Type:
        return Type(self.forest.n_trees, self.forest.leaf_id.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        leaves = b.op("tree_leaves", b.cast(inputs[0], _float(inputs[0].dtype)), forest=self.forest, strategy=self.strategy)
        names = self.forest.leaf_id
        return leaves if np.array_equal(names.data, np.arange(len(names))) else b.lookup(b.constant(names), leaves)


def _float(dtype: str) -> str:
    return dtype if dtype.startswith("float") else "float64"
