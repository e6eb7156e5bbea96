"""OneHot: codes as zeros and ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.recode import Recode
from hbconv.containers.types import Type
from hbconv.containers.wiring import Select

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["OneHot"]


@container
class OneHot(Node):
    """For each column of codes as many columns as its size: a one at the code, zeros elsewhere; a code of -1 gives zeros.

    ``dtype`` None means the dtype of the codes.
    """

    codes: Node
    sizes: tuple[int, ...]
    dtype: str | None = "float64"

    finite: ClassVar[str] = "always"

    @property
    def detail(self) -> str:
        return f"width {sum(self.sizes)}"

    def narrowed(self, columns: Array) -> Node | None:
        """Encode the categories that are left, in their order; the others become -1."""
        if self.codes.type.dtype != "int32" or np.any(np.diff(columns.data) <= 0):
            return None
        kept = np.isin(np.arange(sum(self.sizes)), columns.data)
        parts = {j: part for j, part in enumerate(np.split(kept, np.cumsum(self.sizes)[:-1])) if part.any()}
        codes: Node = Select(self.codes, Array(np.array(list(parts), dtype=np.int32)))
        if not all(part.all() for part in parts.values()):
            tables = tuple(Array(np.append(-1, np.where(part, np.cumsum(part) - 1, -1)).astype(np.int32)) for part in parts.values())
            codes = Recode(codes, tables)
        return replace(self, codes=codes, sizes=tuple(int(part.sum()) for part in parts.values()))

    def infer(self) -> Type:
        return Type(sum(self.sizes), self.dtype or self.codes.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        codes = b.take(inputs[0], np.repeat(np.arange(len(self.sizes)), self.sizes))
        positions = np.concatenate([np.arange(size) for size in self.sizes])
        return b.cast(b.op("eq", codes, b.constant(positions, codes.dtype)), self.type.dtype)
