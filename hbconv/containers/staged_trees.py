"""LeafSums and StagedLeafSums: sums over trees that start from another value in each row, and the sums after each stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["LeafSums", "StagedLeafSums"]


@dataclass(frozen=True, eq=False)
class _OverLeaves(Node):
    """What the two share.

    ``leaves`` are numbered over the forest, ``values`` (n_leaves, 1) holds the value of each, and a stage is one tree for each column of
    ``start``. Additions are made in the order of the stages, in the dtype of the values.
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
