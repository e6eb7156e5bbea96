"""Decisions: from scores to class codes, and the softmax that makes probabilities of scores.

Some libraries compute ``exp(x)`` as ``2**turn * 2**(place / 2048) * exp(rest)``. The second factor
comes from a table. The third is nearly 1 and comes from a cubic. The result is a few units in the
last place from that of the C library. So ``TableExp`` and its softmaxes compute it likewise: by
additions, products and a table, which all processors round alike.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.interval import Trend
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.column_wise import ColumnWise, PerColumn
from hbconv.containers.schema import Type, as_float
from hbconv.containers.vocabulary import misfit_of_groups
from hbconv.tensor.primitives import PRIMITIVES

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, SparseRows, Value

__all__ = [
    "ArgMax",
    "Compare",
    "IsBeyond",
    "IsNonFinite",
    "Softmax",
    "TableExp",
    "TableLogSoftmax",
    "TableSoftmax",
]


@container
class ArgMax(Node):
    """Find the largest column of each of ``groups`` blocks, the first of equals.

    The value is its position in the block as an int32 code.
    """

    x: Node
    groups: int = 1

    @property
    def detail(self) -> str:
        return f"in {self.groups} groups" if self.groups > 1 else ""

    def infer(self) -> Type:
        return Type(self.groups, "int32")

    def check(self) -> str | None:
        return misfit_of_groups(self.groups, self.x.type.width)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.reduce(
            "argmax", b.reshape(inputs[0], self.groups, self.x.type.width // self.groups), axis=1
        )


@container
class Compare(ColumnWise):
    """Compare ``x <op> constant`` column by column.

    ``dtype`` is that of the result: bool, an int32 code, or 0.0 and 1.0; None means x's.

    A weak constant is first rounded to a float x's dtype, as numpy does with Python numbers.
    """

    x: Node
    op: str
    constant: PerColumn
    dtype: str | None = "bool"
    weak: bool = False

    always_finite: ClassVar[bool] = True
    trends: ClassVar[Trend] = Trend.FLAT

    @staticmethod
    def of(x: Node, op: str, constant: float, dtype: str = "bool") -> Compare:
        """Compare all columns with one number."""
        return Compare(x, op, Array(np.full(x.type.width, constant)), dtype)

    def breaks(self, column: int) -> npt.NDArray[np.float64]:
        constant = self.constant.data[column : column + 1]
        rounds = self.weak and self.x.type.dtype.startswith("float")
        return constant.astype(self.x.type.dtype if rounds else np.float64).astype(np.float64)

    def infer(self) -> Type:
        return Type(self.x.type.width, self.dtype or self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        rounds = self.weak and inputs[0].dtype.startswith("float")
        x, constant = b.promote(
            inputs[0], b.constant(self.constant, inputs[0].dtype if rounds else None)
        )
        return b.cast(b.op(self.op, x, constant), self.type.dtype)

    def lower_sparse(self, b: Builder, *inputs: SparseRows) -> SparseRows | None:  # type: ignore[override]
        """Compare the entries alone, where zero compares as False and gives zero."""
        (rows,) = inputs
        if (
            self.type.dtype == "bool"
            # An entry that is not stored is 0, and stays so only if 0 compares as False.
            or PRIMITIVES[self.op].evaluate(np.zeros(len(self.constant)), self.constant.data).any()
        ):
            return None
        rounds = self.weak and rows.dtype.startswith("float")
        x, constant = b.promote(
            rows.weights,
            rows.at_tokens(
                b, self.constant.data, self.constant.data[0], rows.dtype if rounds else None
            ),
        )
        return rows.with_weights(b.cast(b.op(self.op, x, constant), self.type.dtype))


@container
class Softmax(Node):
    """``exp(x - max) / sum`` over the columns, within each of ``groups`` blocks of them.

    Where ``within`` names a wider dtype, exponentials and sum are rounded from it.
    """

    x: Node
    within: str = ""
    groups: int = 1

    @property
    def detail(self) -> str:
        return " ".join(
            filter(None, (self.within, f"in {self.groups} groups" if self.groups > 1 else ""))
        )

    def infer(self) -> Type:
        return Type(self.x.type.width, self.x.type.dtype)

    def check(self) -> str | None:
        return misfit_of_groups(self.groups, self.x.type.width)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        within = self.within or inputs[0].dtype
        width = self.type.width
        x = b.reshape(inputs[0], self.groups, width // self.groups)
        # The largest is taken off, so that no exponential overflows.
        top = b.reshape(b.reduce("reduce_max", x, axis=1), self.groups, 1)
        e = b.cast(b.op("exp", b.cast(x - top, within)), x.dtype)
        total = b.cast(b.reduce("reduce_sum", b.cast(e, within), axis=1), x.dtype)
        return b.reshape(e / b.reshape(total, self.groups, 1), width)


@container
class IsNonFinite(Node):
    """Test whether a row holds an infinite value or, unless allowed, NaN."""

    x: Node
    allow_nan: bool

    reads_numbers: ClassVar[bool] = True

    def infer(self) -> Type:
        return Type(1, "bool")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], as_float(inputs[0].dtype))
        # Not below infinity is true of infinity and of NaN: one compare for both.
        bad = (
            b.op("isinf", x)
            if self.allow_nan
            else b.op("not", b.op("lt", b.op("abs", x), b.constant([np.inf], x.dtype)))
        )
        return bad if bad.shape == (1,) else b.reshape(b.reduce("reduce_any", bad), 1)

    def lower_sparse(self, b: Builder, *inputs: SparseRows) -> Value:  # type: ignore[override]
        (rows,) = inputs
        return self.lower(b, rows.weights)


@container
class IsBeyond(Node):
    """Test whether a row of floats leaves ``[-bound, bound]`` or, unless allowed, holds NaN."""

    x: Node
    bound: float
    allow_nan: bool

    def check(self) -> str | None:
        return (
            None if self.x.type.dtype.startswith("float") else "looks at other values than floats"
        )

    def infer(self) -> Type:
        return Type(1, "bool")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        size = b.op("abs", inputs[0])
        bound = b.constant([self.bound], size.dtype)
        # Where NaN must not pass, the opposite is asked, which NaN does not meet either.
        beyond = b.op("gt", size, bound)
        if not self.allow_nan:
            beyond = b.op("not", b.op("le", size, bound))
        return b.reshape(b.reduce("reduce_any", beyond), 1)


PLACES = 2048
"""Size of the table."""

# 99 of numpy's 2,048 powers were a unit off where it
# has AVX-512, and CatBoost's are the C library's.
TABLE = Array.of([2.0 ** (place / PLACES) for place in range(PLACES)], np.float64)
"""The powers, each the float nearest to the true one.

They are Python's, since numpy's are a unit off on a processor with AVX-512.
"""

CUBIC = (3.0000000027955394, 0.16666666685227835064)
"""Coefficients of the cubic, each a little above 3 and 1/6, which makes the largest error small."""

LOWEST = -708.39641853226408
HIGHEST = 709.78271289338397
"""Arguments below the first count as it; beyond the second the power is infinite."""


@container
class TableExp(ColumnWise):
    """``exp(x)`` by the table."""

    x: Node

    inexact: ClassVar[bool] = True

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return _exp(b, inputs[0])


@container
class TableSoftmax(Node):
    """Compute ``exp(x - max) / sum`` by the table, within each of ``groups`` blocks of columns."""

    x: Node
    groups: int = 1

    @property
    def detail(self) -> str:
        return f"in {self.groups} groups" if self.groups > 1 else ""

    def infer(self) -> Type:
        return self.x.type

    def check(self) -> str | None:
        return misfit_of_groups(self.groups, self.x.type.width)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        width = self.type.width
        _, powers, total = _shift(b, b.reshape(inputs[0], self.groups, width // self.groups))
        return b.reshape(powers / total, width)


@container
class TableLogSoftmax(Node):
    """``x - max - log(sum of exp(x - max))`` over the columns by the table."""

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        shifted, _, total = _shift(b, b.reshape(inputs[0], 1, self.type.width))
        return b.reshape(shifted - b.op("log", total), self.type.width)


def _shift(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Return ``x - max``, its exponentials and their sum, over the last axis of x."""
    groups, width = x.shape
    shifted = x - b.reshape(b.reduce("reduce_max", x, axis=1), groups, 1)
    powers = _exp(b, shifted)
    if width % 4:
        # The source computes columns four by four, and those left over one by one.
        # There it cuts the smallest powers off to 0.
        vanishes = (shifted <= b.constant(LOWEST, x.dtype)) & b.constant(
            np.arange(width) >= width - width % 4
        )
        powers = b.where(vanishes, b.constant(0.0, x.dtype), powers)
    # CatBoost adds in the order of the columns.
    return shifted, powers, b.reshape(b.reduce("ordered_sum", powers, axis=1), groups, 1)


def _exp(b: Builder, x: Value) -> Value:
    if x.dtype != "float64":
        return b.op("exp", x)
    # NaN is set apart, for it would become no position of the table.
    missing = b.op("isnan", x)
    x = b.where(
        missing,
        b.constant(0.0),
        b.op("minimum", b.op("maximum", x, b.constant(LOWEST)), b.constant(HIGHEST)),
    )
    in_places = PLACES / math.log(2.0)
    # Rounded to the nearest step, so the rest is within half a step and the cubic is near.
    steps = b.op("rint", x * b.constant(in_places))
    turn = b.op("floor", steps / b.constant(float(PLACES)))
    place = steps - turn * b.constant(float(PLACES))
    rest = steps * b.constant(1.0 / in_places) - x
    cubic = (
        (b.constant(CUBIC[0]) - rest) * (rest * rest) * b.constant(CUBIC[1])
        - rest
        + b.constant(1.0)
    )
    # Two look-ups, of a fraction of a power and of a
    # whole one, where no primitive sets an exponent.
    scale = b.lookup(b.constant(TABLE.data), b.cast(place, "int32"))
    turns = b.lookup(
        b.constant(np.append(np.ldexp(1.0, np.arange(-1022, 1024)), np.inf)),
        b.cast(turn, "int32") + b.constant(1022, "int32"),
    )
    return b.where(missing, b.constant(np.nan), cubic * (scale * turns))
