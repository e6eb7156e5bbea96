"""What each feature adds to the sums of a forest."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type
from hbconv.covered_forest import CoveredForest

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["TreeContributions"]


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
        x = inputs[0]
        numbers = x if x.dtype.startswith("float") else b.cast(x, "float64")
        return b.cast(b.op("tree_contributions", numbers, covered=self.covered), "float64")
