"""LogAdd: the logarithm of a sum, from the logarithms of its terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["LogAdd"]


@container
class LogAdd(Node):
    """``log(exp(a) + exp(b) + ...)`` over equal blocks of columns, added one after another as ``numpy.logaddexp`` does."""

    x: Node
    groups: int

    @property
    def detail(self) -> str:
        return f"{self.groups} groups"

    def infer(self) -> Type:
        return Type(self.x.type.width // self.groups, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.reduce("ordered_logsumexp", b.reshape(inputs[0], self.groups, self.type.width))
