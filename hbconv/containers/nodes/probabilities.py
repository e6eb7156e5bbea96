"""Probabilities, their logarithms and their logits."""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.counts import misfit_of_groups
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.wiring import Select
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "ExpectedSigmoid",
    "FiniteLog",
    "LogAdd",
    "LogSoftmax",
    "LogSumExp",
    "Logits",
    "Proportions",
    "SymmetricLogit",
]


@container
class LogSumExp(Node):
    """``log(sum(exp(x)))`` over the columns."""

    x: Node

    def infer(self) -> Type:
        return Type(1, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.reshape(b.reduce("logsumexp", inputs[0]), 1)


@container
class LogSoftmax(Node):
    """``x - log(sum(exp(x)))`` over the columns."""

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return inputs[0] - b.reshape(b.reduce("logsumexp", inputs[0]), 1)


@container
class LogAdd(Node):
    """Compute ``log(exp(a) + exp(b) + ...)`` over equal blocks of columns.

    They are added one after another, as ``numpy.logaddexp`` does.
    """

    x: Node
    groups: int

    @property
    def detail(self) -> str:
        return f"{self.groups} groups"

    def infer(self) -> Type:
        return Type(self.x.type.width // self.groups, self.x.type.dtype)

    def check(self) -> str | None:
        return misfit_of_groups(self.groups, self.x.type.width)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.reduce("ordered_logsumexp", b.reshape(inputs[0], self.groups, self.type.width))


ABOVE_ZERO = 1e-12
"""Added to probabilities, whose logarithm would not be finite at 0."""

NEAR_ONE = 1.001e-5
"""How far from 1 the sum of probabilities may be."""


@container
class Logits(Node):
    """Compute ``log(x + 1e-12)`` of rows of probabilities, and keep any other row.

    Probabilities are between 0 and 1 and have a sum near 1.
    """

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        zero, one, near = (b.constant(value, x.dtype) for value in (0.0, 1.0, NEAR_ONE))
        outside = b.reduce("reduce_any", ~((x >= zero) & (x <= one)))
        far = ~(b.op("abs", b.reduce("reduce_sum", x) - one) <= near)
        return b.where(
            b.reshape(outside | far, 1), x, b.op("log", x + b.constant(ABOVE_ZERO, x.dtype))
        )


@container
class FiniteLog(Node):
    """``log(x)``; of zero the logarithm of the least normal number of x's dtype."""

    x: Node

    def narrowed(self, columns: Array) -> Node:
        return FiniteLog(Select(self.x, columns))

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        least = b.constant(np.finfo(x.dtype).smallest_normal, x.dtype)
        return b.op("log", b.where(b.op("eq", x, b.constant(0.0, x.dtype)), least, x))


@container
class SymmetricLogit(Node):
    """``log(p / geometric mean of the row)``, whose softmax is p."""

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (p,) = inputs
        total = b.reshape(b.reduce("reduce_sum", b.op("log", p)), 1)
        mean = b.op("exp", total / b.constant(float(self.type.width), p.dtype))
        return b.op("log", p / mean)


SLOPES = np.array([0.41, 0.4, 0.37, 0.44, 0.39])
SHARES = np.array([-1854.8214151, 3516.89893646, 221.29346712, 128.12323805, -2010.49422654])
"""The five error functions whose sum is nearly the logistic function, fitted by scikit-learn."""


@container
class ExpectedSigmoid(Node):
    """Compute the mean of ``sigmoid(z)`` for normal z as a sum of five error functions.

    Williams and Barber (1998), appendix A.

    Parameters
    ----------
    mean, variance : Node
        One column each. Where the variance is not positive, the answer is NaN.
    """

    mean: Node
    variance: Node

    def infer(self) -> Type:
        return Type(1, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        mean, variance = (b.cast(x, "float64") for x in inputs)
        two = b.constant(2.0)
        alpha = b.constant(1.0) / (two * variance)
        ratio = b.op("sqrt", alpha / (alpha + b.constant(SLOPES**2)))
        norm = b.op("sqrt", b.constant(pi) / alpha) / (
            two * b.op("sqrt", variance * b.constant(2 * pi))
        )
        integrals = norm * b.op("erf", b.constant(SLOPES) * mean * ratio)
        return b.reshape(b.reduce("reduce_sum", b.constant(SHARES) * integrals), 1) + b.constant(
            0.5 * SHARES.sum()
        )


@container
class Proportions(Node):
    """Compute ``x / sum(x)`` over the columns.

    A row that sums to zero becomes uniform, or ``of_nothing`` in every column.
    """

    x: Node
    of_nothing: float | None = None

    @property
    def detail(self) -> str:
        return "" if self.of_nothing is None else f"{self.of_nothing} of nothing"

    def infer(self) -> Type:
        return Type(self.x.type.width, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        width = x.shape[0]
        total = b.reshape(b.reduce("reduce_sum", x), 1)
        empty = b.op("eq", total, b.constant([0.0], x.dtype))
        share = 1.0 / width if self.of_nothing is None else self.of_nothing
        return b.where(
            empty,
            b.constant(np.full(width, share), x.dtype),
            x / b.where(empty, b.constant([1.0], x.dtype), total),
        )
