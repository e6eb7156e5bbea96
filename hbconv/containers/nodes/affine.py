"""Column-wise arithmetic with constants (Affine), and rows of norm one (Normalize)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.interval import Interval, Trend
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.column_wise import ColumnWise, Select, spread_over
from hbconv.containers.schema import Type, as_float

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, SparseRows, Value

__all__ = ["Affine", "AffineStep", "Normalize"]

_IDENTITY = {"add": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0}
_UNDO = {"add": np.subtract, "sub": np.add, "mul": np.divide, "div": np.multiply}


@dataclass(frozen=True)
class AffineStep:
    """One operation with a constant per column: ``add``, ``sub``, ``mul`` or ``div``.

    ``wide`` computes in the wider dtype of x and the constant, and rounds the result to x's dtype.
    numpy's in-place operators do so. Otherwise the constant is rounded first.
    """

    op: str
    constant: Array
    wide: bool = False

    def __str__(self) -> str:
        return f"{self.op} {self.constant!r}"

    @property
    def keeps_zero(self) -> bool:
        """Whether it makes zero of zero."""
        # Zero times infinity and zero by zero are NaN, so such constants do not keep zero.
        c = self.constant.data
        return bool(
            np.isfinite(c).all()
            if self.op == "mul"
            else np.all(c != 0) and not np.isnan(c).any()
            if self.op == "div"
            else not np.any(c)
        )

    def bound(self, bound: float) -> float | None:
        """Return a bound of the result for x within ``+-bound``; None if it is not finite."""
        sizes = np.abs(self.constant.data.astype(np.float64))
        smallest = float(sizes.min(initial=np.inf))
        largest = float(sizes.max(initial=0.0))
        if not largest < np.inf or (self.op == "div" and smallest == 0):
            return None
        if self.op == "mul":
            return bound * largest
        return bound / smallest if self.op == "div" else bound + largest


@container
class Affine(ColumnWise):
    """Add, subtract, multiply and divide by constants, in the source's order.

    Each step is rounded to x's dtype, so that the answer is the source's to the last bit. A
    constant wider than x is rounded to x's dtype, unless its step is wide. An int x becomes
    float64.
    """

    x: Node
    steps: tuple[AffineStep, ...]

    gives: ClassVar[str] = "float"

    @staticmethod
    def of(x: Node, **steps: npt.ArrayLike) -> Affine:
        """``Affine.of(x, sub=mean, div=scale)``: scalars stand for all columns."""
        constants = ((op, spread_over(x, c, np.float64)) for op, c in steps.items())
        return Affine(x, tuple(AffineStep(op, constant) for op, constant in constants))

    @staticmethod
    def in_place(x: Node, **steps: npt.ArrayLike) -> Affine:
        """Write ``x -= center; x /= scale`` with arrays for constants.

        Every step is wide, and the constants keep their dtypes.
        """
        constants = ((op, spread_over(x, c)) for op, c in steps.items())
        return Affine(x, tuple(AffineStep(op, constant, wide=True) for op, constant in constants))

    @property
    def detail(self) -> str:
        return ", ".join(str(s) for s in self.steps)

    @property
    def is_identity(self) -> bool:
        """Whether no step changes anything."""
        return all(np.all(s.constant.data == _IDENTITY[s.op]) for s in self.steps)

    @property
    def scale_and_offset(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The steps as one ``x * scale + offset``, in float64."""
        scale = np.ones(self.x.type.width)
        offset = np.zeros(self.x.type.width)
        for step in self.steps:
            c = step.constant.data.astype(np.float64)
            if step.op in ("mul", "div"):
                scale, offset = (
                    (scale * c, offset * c) if step.op == "mul" else (scale / c, offset / c)
                )
            else:
                offset = offset + c if step.op == "add" else offset - c
        return scale, offset

    def narrowed(self, columns: Array) -> Node:
        steps = tuple(replace(s, constant=Array(s.constant.data[columns.data])) for s in self.steps)
        return replace(self, x=Select(self.x, columns), steps=steps)

    def check(self) -> str | None:
        fits = all(
            step.op in _IDENTITY and step.constant.shape == (self.x.type.width,)
            for step in self.steps
        )
        return None if fits else "has a step that is no arithmetic with a constant for each column"

    def trend(self, column: int) -> Trend:
        """Rise where the factors are positive, and fall where an odd number is negative."""
        constants = [(step.op, float(step.constant.data[column])) for step in self.steps]
        factors = [c for op, c in constants if op in ("mul", "div")]
        # A factor of 0 makes all values one, or NaN of infinities: no trend holds for it.
        if not np.isfinite([c for _, c in constants]).all() or 0.0 in factors:
            return Trend.UNKNOWN
        return Trend.RISES if np.prod(np.sign(factors)) > 0 else Trend.FALLS

    def origin(self, column: int, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Undo the steps, from the last on."""
        for step in reversed(self.steps):
            values = _UNDO[step.op](values, step.constant.data[column])
        return values

    def interval(self, *inputs: Interval) -> Interval | None:
        """Bound each step, since a value between two steps may overflow too."""
        (x,) = inputs
        # The bound of every step counts: an overflow on the way is no finite value at the end.
        bound = x.bound
        largest = x.bound
        for step in self.steps:
            after = step.bound(bound)
            if after is None:
                return None
            bound = after
            largest = max(largest, bound)
        return x.within(largest)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        for step in self._changing():
            x = _apply(b, step, x, b.constant(step.constant, None if step.wide else x.dtype))
        return x

    def lower_sparse(self, b: Builder, *inputs: SparseRows) -> SparseRows | None:  # type: ignore[override]
        """Scale the entries alone, where every step keeps zero at zero."""
        (rows,) = inputs
        if not all(step.keeps_zero for step in self._changing()):
            return None
        weights = b.cast(rows.weights, self.type.dtype)
        for step in self._changing():
            weights = _apply(
                b,
                step,
                weights,
                rows.at_tokens(b, step.constant.data, 1.0, None if step.wide else weights.dtype),
            )
        return rows.with_weights(weights)

    def _changing(self) -> tuple[AffineStep, ...]:
        return tuple(
            step for step in self.steps if np.any(step.constant.data != _IDENTITY[step.op])
        )


def _apply(b: Builder, step: AffineStep, x: Value, constant: Value) -> Value:
    if not step.wide:
        return b.op(step.op, x, constant)
    return b.cast(b.op(step.op, *b.promote(x, constant)), x.dtype)


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
        return Type(self.x.type.width, as_float(self.x.type.dtype))

    def interval(self, *inputs: Interval) -> Interval:
        return inputs[0].within(2.0)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        # A row without columns has no largest entry, and nothing to divide.
        if not x.shape[0]:
            return x
        norm = b.reshape(self._sparse_norm(b, x) if self.sparse else self._dense_norm(b, x), 1)
        # Below the least float there is only 0; dense norms
        # follow ``_handle_zeros_in_scale`` of scikit-learn.
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
        # scikit-learn's Cython loop for sparse rows adds entry after entry into a double.
        total = b.reduce(
            "ordered_sum", b.cast(x * x if self.norm == "l2" else b.op("abs", x), "float64")
        )
        return b.op("sqrt", total) if self.norm == "l2" else total
