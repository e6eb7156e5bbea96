"""WeightedMedian: of all columns, the one in the middle of the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["WeightedMedian"]


@container
class WeightedMedian(Node):
    """The smallest entry of each row at which the weights of the entries up to it, added in ascending order, reach half of all.

    Equal entries are added in the order of the columns.
    """

    x: Node
    weights: Array

    @property
    def detail(self) -> str:
        return f"of {len(self.weights)}"

    def infer(self) -> Type:
        return Type(1, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,), width = inputs, self.x.type.width
        order = b.op("topk", x, k=width)
        sums = b.op("cumsum", b.lookup(b.constant(self.weights), order), axis=0)
        half = b.constant(0.5, sums.dtype) * b.take(sums, [width - 1])
        place = b.reshape(b.reduce("argmax", b.cast(sums >= half, "int32")), 1)
        return b.gather(x, b.gather(order, place))
