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

    def check(self) -> str | None:
        if np.isinf(self.knots.data).any():
            return "a knot is infinite"
        return None if self.knots.ascends else "its knots do not ascend"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Look up where the piece of each x begins, and its slope; before the first knot and behind the last one it is 0."""
        dtype, width = b.dtype(self.type.dtype), self.type.width
        knots, values = (table.data.astype(dtype) for table in (self.knots, self.values))
        x = b.cast(inputs[0], dtype)
        n_before = b.op("bucketize", x, b.constant(knots), right=self.closed == "left")
        piece = n_before + b.constant(np.arange(width) * (knots.shape[1] + 1), "int32")
        knot, value, slope = (b.lookup(b.constant(table.ravel()), piece) for table in _pieces(knots, values))
        within = b.op("minimum", b.op("maximum", x, b.constant(knots[:, 0])), b.constant(knots[:, -1]))
        return b.where(b.op("eq", within, knot), value, slope * (within - knot) + value)


def _pieces(knots: npt.NDArray[Any], values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """Knot, value and slope at the start of each piece, by the number of knots before it."""
    with np.errstate(all="ignore"):
        slopes = np.where(np.diff(knots) > 0, np.diff(values) / np.diff(knots), 0).astype(values.dtype)
    first_knot, first_value, flat = knots[:, :1], values[:, :1], np.zeros_like(values[:, :1])
    return np.hstack([first_knot, knots]), np.hstack([first_value, values]), np.hstack([flat, slopes, flat])
