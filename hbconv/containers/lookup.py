"""LookupSum and Add: a linear model over categories as table look-ups, and sums of parts."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Add", "LookupSum"]


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


@container
class Add(Node):
    """The sum of nodes of one width, in numpy's common dtype."""

    xs: tuple[Node, ...]

    finite: ClassVar[str] = "computed"

    def infer(self) -> Type:
        return Type(self.xs[0].type.width, np.result_type(*(x.type.dtype for x in self.xs)).name)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return reduce(lambda total, x: total + x, b.promote(*inputs))
