"""LogSumExp and LogSoftmax: sums and shares of what is given by its logarithms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["LogSoftmax", "LogSumExp"]


@container
class LogSumExp(Node):
    """``log(sum(exp(x)))`` over the columns."""

    x: Node

    def infer(self) -> Type:
        return Type(1, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.reshape(b.reduce("logsumexp", inputs[0]), 1)


@container
class LogSoftmax(Node):
    """``x - log(sum(exp(x)))`` over the columns."""

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return inputs[0] - b.reshape(b.reduce("logsumexp", inputs[0]), 1)
