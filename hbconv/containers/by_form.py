"""ByForm: what the source computes otherwise where rows come as a sparse matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type
from hbconv.containers.wiring import Select

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["ByForm"]


@container
class ByForm(Node):
    """One value for rows of an array or a table, another for those of a sparse matrix.

    ``Graph.of_form`` puts one of them in its place before anything is computed.
    """

    dense: Node
    sparse: Node

    def narrowed(self, columns: Array) -> Node:
        return ByForm(Select(self.dense, columns), Select(self.sparse, columns))

    def infer(self) -> Type:
        return self.dense.type

    def lower(self, b: Builder, *inputs: Value) -> Value:  # noqa: ARG002
        return inputs[0]
