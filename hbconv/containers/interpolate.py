"""Interpolate: piecewise linear functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type
from hbconv.containers.wiring import Select

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Interpolate"]


@container
class Interpolate(Node):
    """A piecewise linear function of each column, through ``values`` at ``knots``; beyond the knots the value of the nearest.

    Computed as ``slope * (x - knot) + value`` from the knot that begins x's piece, in numpy's common dtype of x and the knots.

    Parameters
    ----------
    knots, values : Array, shape (width, n_knots)
        Knots ascend. Where they repeat, the pieces between them are never used.
    closed : {"left", "right"}
        Which end belongs to a piece: ``"left"`` gives the exact value at each knot, as ``numpy.interp`` does.
    """

    x: Node
    knots: Array
    values: Array
    closed: str = "left"

    @property
    def detail(self) -> str:
        return f"{self.knots.shape[1]} knots, pieces closed on the {self.closed}"

    def narrowed(self, columns: Array) -> Node:
        knots, values = (Array(table.data[columns.data]) for table in (self.knots, self.values))
        return replace(self, x=Select(self.x, columns), knots=knots, values=values)

    def infer(self) -> Type:
        return Type(self.x.type.width, np.result_type(self.x.type.dtype, self.knots.dtype).name)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Look up where the piece of each x begins, and its slope: 0 for the one behind the last knot, so that NaN stays NaN."""
        dtype, width = b.dtype(self.type.dtype), self.type.width
        knots, values = (table.data.astype(dtype) for table in (self.knots, self.values))
        x = b.op("maximum", b.cast(inputs[0], dtype), b.constant(knots[:, 0]))
        x = b.op("minimum", x, b.constant(knots[:, -1]))
        one = b.constant(1, "int32")
        first = b.op("maximum", b.op("bucketize", x, b.constant(knots), right=self.closed == "left"), one) - one
        piece = first + b.constant(np.arange(width) * knots.shape[1], "int32")
        knot, value, slope = (b.lookup(b.constant(table.ravel()), piece) for table in (knots, values, _slopes(knots, values)))
        return b.where(b.op("eq", x, knot), value, slope * (x - knot) + value)


def _slopes(knots: npt.NDArray[Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Slope of the piece that begins at each knot; 0 at the last."""
    with np.errstate(all="ignore"):
        slopes = np.where(np.diff(knots) > 0, np.diff(values) / np.diff(knots), 0)
    return np.concatenate([slopes, np.zeros_like(values[:, :1])], axis=1, dtype=values.dtype)
