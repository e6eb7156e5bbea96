"""Recode: codes replaced through a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type
from hbconv.containers.wiring import Select

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Recode"]


@container
class Recode(Node):
    """``tables[j][codes[:, j] + 1]``: a table for each column, its first entry for the unknown code -1. All tables have one dtype."""

    codes: Node
    tables: tuple[Array, ...]

    finite: ClassVar[str] = "computed"

    @property
    def detail(self) -> str:
        return f"tables of {', '.join(str(len(t)) for t in self.tables)}"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, codes=Select(self.codes, columns), tables=tuple(self.tables[j] for j in columns.data))

    def infer(self) -> Type:
        return Type(len(self.tables), self.tables[0].dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        starts = np.cumsum([1, *(len(t) for t in self.tables[:-1])])
        flat = np.concatenate([t.data for t in self.tables])
        return b.lookup(b.constant(flat), inputs[0] + b.constant(starts, "int32"))
