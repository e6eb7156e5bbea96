"""LookupSum: a linear model over categories as table look-ups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["LookupSum"]


@container
class LookupSum(Node):
    """``sum over j of tables[j][codes[:, j] + 1]``: each table is (size + 1, outputs), its first row for the code -1.

    What ``Linear(OneHot(codes))`` computes, without the zeros.
    """

    codes: Node
    tables: tuple[Array, ...]

    @property
    def detail(self) -> str:
        return f"tables of {', '.join(str(len(t)) for t in self.tables)}  width {self.type.width}"

    def infer(self) -> Type:
        return Type(self.tables[0].shape[1], self.tables[0].dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        starts = np.cumsum([1, *(len(t) for t in self.tables[:-1])])
        rows = b.lookup(b.constant(np.concatenate([t.data for t in self.tables])), b.cast(inputs[0], "int32") + b.constant(starts, "int32"))
        return b.reduce("reduce_sum", rows)
