"""Transforms towards a normal distribution: YeoJohnson, BoxCox, NormalQuantile."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from math import exp, pi, sqrt
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.containers.interval import Interval, Trend
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.column_wise import ColumnWise, PerColumn
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["BoxCox", "NormalQuantile", "YeoJohnson"]


@container
class YeoJohnson(ColumnWise):
    """Apply a power transform to each column, for values of either sign.

    From zero up this is ``((1 + x) ** above - 1) / above``, and below zero
    ``-((1 - x) ** below - 1) / below``; it is the logarithm where a power is 0. It is computed as
    ``expm1(power * log1p(|x|)) / power``: the logarithm in x's dtype, the rest in the dtype that x
    and the powers promote to. A power within a rounding of 0 in that dtype counts as 0, as in
    ``scipy.stats.yeojohnson``.

    I.-K. Yeo and R. A. Johnson, A new family of power transformations, Biometrika 87 (2000).

    Parameters
    ----------
    above, below : Array of float32 or float64, shape (width,)
        Powers of each column where x is not negative, and where it is.
    """

    x: Node
    above: PerColumn
    below: PerColumn

    starts_as_x: ClassVar[bool] = True
    inexact: ClassVar[bool] = True
    trends: ClassVar[Trend] = Trend.RISES

    def infer(self) -> Type:
        floats = np.promote_types(self.x.type.dtype, self.above.data.dtype)
        return Type(self.x.type.width, str(np.promote_types(floats, self.below.data.dtype)))

    def interval(self, *inputs: Interval) -> Interval | None:
        (x,) = inputs
        powers = np.abs(self._powers()).astype(np.float64)
        digits = powers.max() * np.log10(1 + x.bound)
        digits -= np.log10(powers[powers > 0].min(initial=1.0))
        # A tenth of the exponents is left as room; written so that NaN has no interval.
        if not digits < 0.9 * np.log10(np.finfo(self.type.dtype).max):
            return None
        return x.within(float(10**digits + np.log1p(x.bound)))

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Take one logarithm and one power of each entry, whichever side of zero it is on."""
        dtype = self.type.dtype
        x = inputs[0] if inputs[0].dtype.startswith("float") else b.cast(inputs[0], dtype)
        log = b.cast(b.op("log1p", b.op("abs", x)), dtype)
        powers = self._powers()
        is_zero = powers == 0
        at_least_zero = b.op("ge", x, b.constant(0.0, x.dtype))
        # A power of 1 in place of 0 keeps the division harmless; the logarithm replaces its result.
        low, high = (b.constant(p, dtype) for p in np.where(is_zero, powers.dtype.type(1), powers))
        power = b.where(at_least_zero, high, low)
        # One logarithm and one power serve both signs: both sides are powers of 1 + |x|.
        size = b.op("expm1", power * log) / power
        if is_zero.any():
            size = b.where(
                b.where(at_least_zero, b.constant(is_zero[1]), b.constant(is_zero[0])), log, size
            )
        return b.where(at_least_zero, size, -size)

    def _powers(self) -> npt.NDArray[np.floating]:
        """Return the powers below and above zero in the dtype of the answer, those near 0 as 0."""
        powers = np.stack([self.below.data, self.above.data]).astype(self.type.dtype)
        eps = np.finfo(powers.dtype).eps
        # scipy takes the logarithm where |above| < eps, and
        # where not |below| > eps: hence two comparisons.
        near = np.stack([np.abs(powers[0]) <= eps, np.abs(powers[1]) < eps])
        return np.where(near, powers.dtype.type(0), powers)


@container
class BoxCox(ColumnWise):
    """Compute ``(x ** power - 1) / power`` column by column, and ``log(x)`` where the power is 0.

    It is computed as ``expm1(power * log(x)) / power``: the logarithm in x's dtype, the rest in
    float64.
    """

    x: Node
    powers: PerColumn

    starts_as_x: ClassVar[bool] = True
    inexact: ClassVar[bool] = True
    gives: ClassVar[str] = "float64"
    trends: ClassVar[Trend] = Trend.RISES

    def breaks(self, column: int) -> npt.NDArray[np.float64]:  # noqa: ARG002
        return np.array([0.0])

    def source_function(self) -> Callable[..., npt.NDArray[Any]] | None:
        if find_spec("scipy") is None:
            return None
        from scipy.special import boxcox

        return lambda x: boxcox(x.astype(np.float64), self.powers.data)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        log = b.cast(b.op("log", inputs[0]), "float64")
        is_zero = self.powers.data == 0
        # A power of 1 in place of 0 keeps the division harmless.
        powers = b.constant(np.where(is_zero, 1.0, self.powers.data), "float64")
        return b.where(b.constant(is_zero), log, b.op("expm1", powers * log) / powers)


_MIDDLE = (
    (
        -5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1,
        1.39312609387279679503e1, -1.23916583867381258016e0,
    ),
    (
        1.0, 1.95448858338141759834e0, 4.67627912898881538453e0, 8.63602421390890590575e1,
        -2.25462687854119370527e2, 2.00260212380060660359e2, -8.20372256168333339912e1,
        1.59056225126211695515e1, -1.18331621121330003142e0,
    ),
)  # fmt: skip
"""Numerator and denominator of Cephes' ``ndtri`` for probabilities within 3/8 of a half.

The highest power comes first.
"""

_TAIL = (
    (
        4.05544892305962419923e0, 3.15251094599893866154e1, 5.71628192246421288162e1,
        4.40805073893200834700e1, 1.46849561928858024014e1, 2.18663306850790267539e0,
        -1.40256079171354495875e-1, -3.50424626827848203418e-2, -8.57456785154685413611e-4,
    ),
    (
        1.0, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1,
        1.50425385692907503408e1, 2.50464946208309415979e0, -1.42182922854787788574e-1,
        -3.80806407691578277194e-2, -9.33259480895457427372e-4,
    ),
)  # fmt: skip
"""The same for probabilities from ``exp(-32)`` to ``exp(-2)``."""


@container
class NormalQuantile(ColumnWise):
    """Invert the normal distribution function, for float64 probabilities away from 0 and 1.

    The probabilities are from ``1.3e-14`` to ``1 - 1.3e-14``. It is computed as in Cephes (S. L.
    Moshier, ``ndtri``): a ratio of polynomials near a half, and another one in
    ``1 / sqrt(-2 log p)`` in the tails.
    """

    p: Node

    inexact: ClassVar[bool] = True
    gives: ClassVar[str] = "float64"
    trends: ClassVar[Trend] = Trend.RISES

    def source_function(self) -> Callable[..., npt.NDArray[Any]] | None:
        if find_spec("scipy") is None:
            return None
        from scipy.special import ndtri

        return lambda p: ndtri(p.astype(np.float64))

    def interval(self, *inputs: Interval) -> Interval | None:
        (p,) = inputs
        # Clipped probabilities are at least 1.3e-14, whose quantile is -7.6.
        return p.within(8.0) if p.bound <= 1.0 else None

    def lower(self, b: Builder, *inputs: Value) -> Value:
        p = b.cast(inputs[0], "float64")
        low, half, high, one = (
            b.constant(number, "float64") for number in (exp(-2), 0.5, 1.0 - exp(-2), 1.0)
        )
        is_high = p > high
        # The distribution is symmetric, so one polynomial serves both tails.
        tail = b.where(is_high, one - p, p)
        size = _tail(b, tail)
        return b.where(tail > low, _middle(b, p - half), b.where(is_high, size, -size))


def _middle(b: Builder, offset: Value) -> Value:
    """``sqrt(2 pi) * (w + w**3 P(w**2) / Q(w**2))`` for the offset w from a half."""
    square = offset * offset
    return (offset + offset * (square * _ratio(b, square, _MIDDLE))) * b.constant(
        sqrt(2 * pi), "float64"
    )


def _tail(b: Builder, p: Value) -> Value:
    """``z - log(z) / z - P(1 / z) / (z Q(1 / z))`` for ``z = sqrt(-2 log p)``."""
    z = b.op("sqrt", b.constant(-2.0, "float64") * b.op("log", p))
    inverse = b.constant(1.0, "float64") / z
    return (z - b.op("log", z) / z) - inverse * _ratio(b, inverse, _TAIL)


def _ratio(b: Builder, x: Value, polynomials: tuple[tuple[float, ...], tuple[float, ...]]) -> Value:
    numerator, denominator = (_polynomial(b, x, coefficients) for coefficients in polynomials)
    return numerator / denominator


def _polynomial(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    """Horner's rule, highest power first."""
    first, second, *rest = coefficients
    y = (
        # A leading coefficient of 1 is not multiplied, as Cephes' ``p1evl`` leaves it out.
        x + b.constant(second, "float64")
        if first == 1.0
        else b.constant(first, "float64") * x + b.constant(second, "float64")
    )
    for coefficient in rest:
        y = y * x + b.constant(coefficient, "float64")
    return y
