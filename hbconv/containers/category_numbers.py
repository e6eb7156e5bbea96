"""CategoryNumbers: categories of a table as the numbers that a source gave them, which an array holds itself."""

from __future__ import annotations

from hbconv.array import Array
from hbconv.containers.columns import Codes, Columns
from hbconv.containers.find_code import FindCode
from hbconv.containers.node import Node, container
from hbconv.containers.recode import Recode
from hbconv.containers.types import Schema
from hbconv.containers.wiring import Cast

__all__ = ["CategoryNumbers"]


@container
class CategoryNumbers(Recode):
    """A Recode of one column whose table holds the numbers that the source computes with.

    Parameters
    ----------
    dtype : str
        Dtype as which the source reads such numbers in an array; ``"float"`` for float32 and float64 as they are.
    """

    dtype: str = "float32"

    def of_array(self, schema: Schema) -> Node:
        """Return the column of an array that stands for this node; the node itself where its codes are not of one column."""
        leaf = self.codes.x if isinstance(self.codes, FindCode) else self.codes
        return Cast(Columns(schema, Array.of(leaf.columns, "int32")), self.dtype) if isinstance(leaf, Codes | Columns) else self
