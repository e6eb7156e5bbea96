"""What each feature adds to the sums of a forest, and what two of them add together."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type
from hbconv.trees.covered_forest import CoveredForest

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["TreeContributions", "TreeInteractions"]


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
        numbers = _numbers(b, inputs[0])
        return b.cast(b.op("tree_contributions", numbers, covered=self.covered), "float64")


@container
class TreeInteractions(TreeContributions):
    """Shapley interaction values of the features of a forest, in float64.

    Each output has a matrix of the features, the expected value last. Half of what two features
    add together stands in either place of the pair, and what a feature adds alone in the diagonal.
    So the rows add up to the contributions.
    """

    def infer(self) -> Type:
        outputs, width = self.covered.shape
        return Type(outputs * width * width, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        numbers = _numbers(b, inputs[0])
        return b.cast(b.op("tree_interaction_matrices", numbers, covered=self.covered), "float64")


def _numbers(b: Builder, x: Value) -> Value:
    return x if x.dtype.startswith("float") else b.cast(x, "float64")
