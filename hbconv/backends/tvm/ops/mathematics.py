"""Emit exponentials, logarithms and related functions, within two units in the last place.

Arguments are reduced as by Cody and Waite (Software Manual for the Elementary Functions, 1980).
Exponents are cut from the bits of numbers. Logarithms take ``s = f / (2 + f)`` as FDLIBM does (Sun
Microsystems, 1993). A second number carries what one number cannot hold. Products and sums may be
fused or not: each step that must be exact is exact either way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx

from hbconv.backends.tvm.ops.float_formats import FORMATS
from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["EMITTERS", "FUNCTIONS", "Numbers", "exp", "log1p"]

REGISTERS = 2
"""Registers of a vector: two dependency chains overlap, and all values still fit."""
select = tirx.Select


class Numbers:
    """Vectors of floats of one dtype: numbers in all lanes, and their bits."""

    def __init__(self, k: Kernel, dtype: str, lanes: int) -> None:
        self.dtype = dtype
        self.lanes = lanes
        self.format = FORMATS[dtype]
        self.bind = k.bind
        self.huge = 1.5 * 2.0**self.format.mantissa

    @classmethod
    def of(cls, k: Kernel, dtype: str) -> Numbers:
        """Return vectors of as many lanes as suit this machine."""
        lanes = REGISTERS * k.machine.vector // np.dtype(dtype).itemsize
        return cls(k, dtype, min(k.lanes, lanes))

    def __call__(self, value: float) -> Any:
        """Return a number in all lanes."""
        return literal(value, self.dtype, self.lanes)

    def word(self, value: int) -> Any:
        """Return bits in all lanes."""
        return literal(value, self.format.word, self.lanes)

    def pattern(self, value: float) -> int:
        """Return the bits of a number."""
        return int(np.array(value, self.dtype).view(self.format.word))

    def bits(self, x: Any) -> Any:
        """Return the bits of numbers."""
        return tirx.reinterpret(f"{self.format.word}x{self.lanes}", x)

    def floats(self, bits: Any) -> Any:
        """Return the numbers that bits stand for."""
        return tirx.reinterpret(f"{self.dtype}x{self.lanes}", bits)

    def polynomial(self, coefficients: tuple[float, ...], x: Any) -> Any:
        """Return a polynomial's value, by Horner's rule."""
        value = self(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = value * x + self(coefficient)
        return value

    def rounded(self, x: Any) -> tuple[Any, Any]:
        """Return x rounded, and the same plus ``huge``, whose last bits then count ones."""
        shifted = self.bind(x + self(self.huge))
        return self.bind(shifted - self(self.huge)), shifted

    def power_of_two(self, shifted: Any) -> Any:
        """Return ``2**n`` for ``rounded(n)[1]``: its last bits become the exponent."""
        return self.floats(
            (self.bits(shifted) << self.word(self.format.mantissa)) + self.word(self.pattern(1.0))
        )


# Exponentials.


def _reduced(m: Numbers, x: Any) -> tuple[Any, Any, Any, Any]:
    """Write x as ``n ln(2) + high - low``, and ``exp(high - low)`` as ``1 + high + rest``.

    Returns n, n shifted, high, and rest.
    """
    whole, shifted = m.rounded(x * m(sum(m.format.log2e)))
    high = m.bind(x - whole * m(m.format.ln2[0]))
    low = m.bind(whole * m(m.format.ln2[1]))
    r = m.bind(high - low)
    return whole, shifted, high, m.bind(r * r * m.polynomial(m.format.exp, r) - low)


def _near_power(m: Numbers, x: Any) -> tuple[Any, Any, Any]:
    """Write ``exp(x)`` as ``value * 2**n``; returns the value, n, and n shifted."""
    whole, shifted, high, rest = _reduced(m, x)
    near = m.bind(m(1.0) + high)
    return m.bind(near + ((m(1.0) - near) + high + rest)), whole, shifted


def inner_exp(m: Numbers, x: Any) -> Any:
    """``exp`` of arguments whose results are normal numbers."""
    value, _, shifted = _near_power(m, x)
    return m.bind(value * m.power_of_two(shifted))


def exp(m: Numbers, x: Any) -> Any:
    """``exp``: the result is scaled in two steps, since the bits of one power end at the denormals.

    Only the last step rounds.
    """
    below = select(x < m(m.format.underflow), m(m.format.underflow), x)
    value, whole, _ = _near_power(
        m, m.bind(select(below > m(m.format.overflow), m(m.format.overflow), below))
    )
    half, half_shifted = m.rounded(whole * m(0.5))
    _, rest_shifted = m.rounded(whole - half)
    return value * m.power_of_two(half_shifted) * m.power_of_two(rest_shifted)


def expm1(m: Numbers, x: Any) -> Any:
    """``exp(x) - 1``, as twice ``2**(n - 1) (exp(r) - 1) + (2**(n - 1) - 1/2)``.

    This does not overflow before its last product.
    """
    least = -(m.format.mantissa + 3) * math.log(2.0)
    below = select(x < m(least), m(least), x)
    whole, _, high, rest = _reduced(
        m, m.bind(select(below > m(m.format.overflow), m(m.format.overflow), below))
    )
    scale = m.bind(m.power_of_two(m.rounded(whole - m(1.0))[1]))
    base = m.bind(scale - m(0.5))
    step = m.bind(scale * high)
    near = m.bind(base + step)
    value = (near + ((base - near) + step + scale * rest)) * m(2.0)
    return select(tirx.abs(x) < m(2.0 ** -(m.format.mantissa + 2)), x, value)


def sigmoid(m: Numbers, x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    return m(1.0) / (m(1.0) + exp(m, m.bind(m(0.0) - x)))


def odd(m: Numbers, x: Any, value: Any) -> Any:
    """Return a non-negative value with the sign of x."""
    sign = m.word(8 * np.dtype(m.dtype).itemsize - 1)
    return m.floats(m.bits(value) | ((m.bits(x) >> sign) << sign))


def tanh(m: Numbers, x: Any) -> Any:
    """``tanh``: a polynomial near 0, elsewhere ``1 - 2 / (exp(2 |x|) + 1)``."""
    size = m.bind(tirx.abs(x))
    last = m(float(m.format.mantissa))
    square = m.bind(size * size)
    near = size + size * (square * m.polynomial(m.format.tanh, square))
    double = m.bind(m(2.0) * select(size > last, last, size))
    far = m(1.0) - m(2.0) / (inner_exp(m, double) + m(1.0))
    return odd(m, x, select(size < m(0.55), near, far))


def erf(m: Numbers, x: Any) -> Any:
    """``erf``: a polynomial near 0, elsewhere ``1 - exp(-x**2) erfcx(|x|)``."""
    last = m(m.format.erf_one)
    size = m.bind(select(tirx.abs(x) > last, last, tirx.abs(x)))
    square = m.bind(size * size)
    near = size + size * m.polynomial(m.format.erf, square)
    t = m.bind((size - m(2.0)) / (size + m(2.0)))
    far = m(1.0) - inner_exp(m, m.bind(m(0.0) - square)) * m.polynomial(m.format.erfcx, t)
    return odd(m, x, select(size < m(1.0), near, far))


# Logarithms.


def _split(m: Numbers, x: Any) -> tuple[Any, Any, Any]:
    """Write x as ``2**n (1 + f)``, with ``1 + f`` between the roots of 1/2 and of 2.

    Returns n, f, and ``2**-n``, which is right unless x is denormal.

    1. Scale denormals to normal numbers.
    2. Shift the bits, so that exponents change at the root of 1/2, and split them.
    3. Make each part a float: the exponent counts ones in the last bits of a large number.
    """
    mantissa = m.format.mantissa
    root = m.pattern(math.sqrt(0.5))
    offset = 2**mantissa + m.format.bias
    small = x < m(float(np.finfo(m.dtype).tiny))  # 1.
    scaled = m.bind(select(small, x * m(2.0 ** (mantissa + 1)), x))
    bits = m.bind(m.bits(scaled) + m.word(m.pattern(1.0) - root))  # 2.
    exponent = m.floats((bits >> m.word(mantissa)) | m.word(m.pattern(2.0**mantissa)))  # 3.
    fraction = m.bind((bits & m.word(2**mantissa - 1)) + m.word(root))
    unscale = m.floats(fraction - m.bits(scaled) + m.word(m.pattern(1.0)))
    n = m.bind(exponent - select(small, m(offset + mantissa + 1), m(offset)))
    return n, m.bind(m.floats(fraction) - m(1.0)), unscale


def _series(m: Numbers, f: Any) -> tuple[Any, Any]:
    """Write ``log(1 + f)`` as ``f - (half - series)``, with half ``f**2 / 2``; returns both."""
    s = m.bind(f / (m(2.0) + f))
    half = m.bind(m(0.5) * f * f)
    square = m.bind(s * s)
    return half, m.bind(s * (half + square * m.polynomial(m.format.log, square)))


def _proper(m: Numbers, x: Any, zero: float, value: Any) -> Any:
    """Return a logarithm's value at its edges too; it is -infinity at ``x = zero``."""
    inside = select(x < m(math.inf), value, x)
    return select(x > m(zero), inside, select(tirx.EQ(x, m(zero)), m(-math.inf), m(math.nan)))


def log(m: Numbers, x: Any) -> Any:
    """``log``."""
    n, f, _ = _split(m, x)
    half, series = _series(m, f)
    high, low = m.format.ln2
    return _proper(m, x, 0.0, n * m(high) - ((half - (series + n * m(low))) - f))


def log1p(m: Numbers, x: Any) -> Any:
    """``log(1 + x)``: what ``1 + x`` loses is added to the fraction.

    What the fraction then loses is added to the last terms.
    """
    whole = m.bind(m(1.0) + x)
    n, first, unscale = _split(m, whole)
    lost = m.bind(select(x < m(2.0**m.format.mantissa), (x - (whole - m(1.0))) * unscale, m(0.0)))
    f = m.bind(first + lost)
    half, series = _series(m, f)
    high, low = m.format.ln2
    value = n * m(high) - ((half - (series + (n * m(low) + ((first - f) + lost)))) - f)
    return select(tirx.abs(x) < m(2.0 ** -(m.format.mantissa + 2)), x, _proper(m, x, -1.0, value))


def logarithm(
    scale: Callable[[Numbers], tuple[float, float]],
    of_two: Callable[[Numbers], tuple[float, float]],
) -> Callable[[Numbers, Any], Any]:
    """Return the logarithm to a base, from ``1 / ln(base)`` and ``ln(2) / ln(base)``.

    Each is a pair, whose first part has exact products.
    """

    def function(m: Numbers, x: Any) -> Any:
        n, f, _ = _split(m, x)
        half, series = _series(m, f)
        cut = m.word(m.format.mantissa // 2 + 1)
        high = m.bind(m.floats((m.bits(f - half) >> cut) << cut))
        low = m.bind((f - high) - half + series)
        scale_high, scale_low = scale(m)
        two_high, two_low = of_two(m)
        large = m.bind(n * m(two_high))
        added = m.bind(high * m(scale_high))
        total = m.bind(large + added)
        rest = n * m(two_low) + (
            (low + high) * m(scale_low) + (low * m(scale_high) + ((large - total) + added))
        )
        return _proper(m, x, 0.0, total + rest)

    return function


def vectors(function: Callable[[Numbers, Any], Any]) -> Callable[..., None]:
    """Return the emitter of a function."""

    def emit(k: Kernel, out: Place, x: Place) -> None:
        m = Numbers.of(k, out.dtype)
        with k.over(out.shape) as index, k.vectors(m.lanes) as row:
            k.store(out, index, row, function(m, k.bind(k.load(x, index, row))))

    return emit


FUNCTIONS: dict[str, Callable[[Numbers, Any], Any]] = {
    "exp": exp,
    "expm1": expm1,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "erf": erf,
    "log": log,
    "log1p": log1p,
    "log2": logarithm(lambda m: m.format.log2e, lambda _: (1.0, 0.0)),
    "log10": logarithm(lambda m: m.format.log10e, lambda m: m.format.log10_2),
}
EMITTERS: dict[str, Callable[..., None]] = {
    name: vectors(function) for name, function in FUNCTIONS.items()
}
