"""FindCode: a number's position among known values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["FindCode"]


@container
class FindCode(Node):
    """Position of one column's value among the values, which ascend (NaN last), as an int32 code; -1 where it is none of them.

    Numbers are compared exactly, in numpy's common dtype of x and the values; NaN equals NaN.
    """

    x: Node
    values: Array

    finite: ClassVar[str] = "always"

    @property
    def detail(self) -> str:
        return f"{len(self.values)} values"

    def infer(self) -> Type:
        return Type(1, "int32")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        dtype = np.result_type(inputs[0].dtype, self.values.dtype).name
        x, known = b.cast(inputs[0], dtype), self.values.data[~np.isnan(self.values.data)].astype(b.dtype(dtype))
        code = _find(b, x, known)
        if len(known) == len(self.values) or not dtype.startswith("float"):
            return code
        return b.where(b.op("isnan", x), b.constant([len(known)], "int32"), code)


def _find(b: Builder, x: Value, known: npt.NDArray[Any]) -> Value:
    """Count the values below x: where x is known, that is its position."""
    unknown = b.op("expand", x, b.constant([-1], "int32"))
    if not len(known):
        return unknown
    position = b.op("minimum", b.op("bucketize", x, b.constant(known[None]), right=False), b.constant([len(known) - 1], "int32"))
    return b.where(b.op("eq", b.lookup(b.constant(known), position), x), position, unknown)
