"""Normalize: rows of norm one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.containers.interval import Interval
from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value
    from hbconv.tensor.sparse_rows import SparseRows

__all__ = ["Normalize"]


@container
class Normalize(Node):
    """Divide x by its row's norm, ``"l1"``, ``"l2"`` or ``"max"``, in x's dtype (float64 for ints).

    A norm below ten times the dtype's epsilon counts as one. ``sparse`` follows the source's rule
    for sparse matrices: it sums in float64, one entry after another, and only a norm of zero
    counts as one.
    """

    x: Node
    norm: str
    sparse: bool = False

    def infer(self) -> Type:
        return Type(
            self.x.type.width,
            self.x.type.dtype if self.x.type.dtype.startswith("float") else "float64",
        )

    def interval(self, *inputs: Interval) -> Interval:
        return inputs[0].within(2.0)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        if not x.shape[0]:
            return x
        norm = b.reshape(self._sparse_norm(b, x) if self.sparse else self._dense_norm(b, x), 1)
        least = np.nextafter(0.0, 1.0) if self.sparse else 10 * np.finfo(x.dtype).eps
        norm = b.where(
            b.op("lt", norm, b.constant([least], norm.dtype)), b.constant([1.0], norm.dtype), norm
        )
        return b.cast(b.cast(x, norm.dtype) / norm, x.dtype)

    def lower_sparse(self, b: Builder, *inputs: SparseRows) -> SparseRows:  # type: ignore[override]
        """Zeros add nothing to a norm: the entries alone make it, and alone are divided."""
        (rows,) = inputs
        return rows.with_weights(self.lower(b, rows.weights))

    def _dense_norm(self, b: Builder, x: Value) -> Value:
        if self.norm == "l2":
            return b.op("sqrt", b.reduce("reduce_sum", x * x))
        return b.reduce("reduce_sum" if self.norm == "l1" else "reduce_max", b.op("abs", x))

    def _sparse_norm(self, b: Builder, x: Value) -> Value:
        if self.norm == "max":
            return b.cast(b.reduce("reduce_max", b.op("abs", x)), "float64")
        total = b.reduce(
            "ordered_sum", b.cast(x * x if self.norm == "l2" else b.op("abs", x), "float64")
        )
        return b.op("sqrt", total) if self.norm == "l2" else total
