"""ExpectedSigmoid: the mean of the logistic function of a normal variable."""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING

import numpy as np

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["ExpectedSigmoid"]

SLOPES = np.array([0.41, 0.4, 0.37, 0.44, 0.39])
SHARES = np.array([-1854.8214151, 3516.89893646, 221.29346712, 128.12323805, -2010.49422654])
"""The five error functions whose sum is nearly the logistic function, fitted by scikit-learn."""


@container
class ExpectedSigmoid(Node):
    """Mean of ``sigmoid(z)`` for normal z, as a sum of five error functions (Williams and Barber 1998, appendix A).

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
        norm = b.op("sqrt", b.constant(pi) / alpha) / (two * b.op("sqrt", variance * b.constant(2 * pi)))
        integrals = norm * b.op("erf", b.constant(SLOPES) * mean * ratio)
        return b.reshape(b.reduce("reduce_sum", b.constant(SHARES) * integrals), 1) + b.constant(0.5 * SHARES.sum())
