"""Emit exponentials, logarithms and related functions, within two units in the last place.

Arguments are reduced as by Cody and Waite (Software Manual for the Elementary Functions, 1980).
Exponents are cut from the bits of numbers. Logarithms take ``s = f / (2 + f)`` as FDLIBM does (Sun
Microsystems, 1993). A second number carries what one number cannot hold. Products and sums may be
fused or not: each step that must be exact is exact either way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["EMITTERS", "FUNCTIONS", "REGISTERS", "Numbers", "exp", "log1p"]

Polynomial = tuple[float, ...]
Pair = tuple[float, float]
REGISTERS = 2
"""Registers of a vector: two dependency chains overlap, and all values still fit."""
select = tirx.Select


@dataclass(frozen=True)
class Format:
    """A format of floats.

    Polynomials are tuples of coefficients, the constant one first. They are minimax polynomials,
    found by Remez's exchange in 50 digits. A pair is a constant in two parts. The first has so few
    bits that its products with small integers are exact; the second is the rest.

    Parameters
    ----------
    word : str
        Unsigned dtype of the same width.
    mantissa, bias : int
        Bits of the fraction; bias of the exponent.
    underflow, overflow : float
        Arguments beyond which ``exp`` is 0, or infinite.
    ln2, log2e, log10e, log10_2 : pair of floats
    exp : tuple of float
        ``(exp(r) - 1 - r) / r**2`` in r, for ``|r| <= ln(2) / 2``.
    log : tuple of float
        ``(log((1 + s) / (1 - s)) / s - 2) / s**2`` in ``s**2``, for ``s <= 3 - sqrt(8)``.
    tanh : tuple of float
        ``(tanh(x) / x - 1) / x**2`` in ``x**2``, for ``x <= 0.55``.
    erf : tuple of float
        ``erf(x) / x - 1`` in ``x**2``, for ``x <= 1``.
    erfcx : tuple of float
        ``exp(x**2) * erfc(x)`` in ``(x - 2) / (x + 2)``, for ``1 <= x <= erf_one``.
    erf_one : float
        The argument from which on ``erf`` rounds to 1.
    """

    word: str
    mantissa: int
    bias: int
    underflow: float
    overflow: float
    ln2: Pair
    log2e: Pair
    log10e: Pair
    log10_2: Pair
    exp: Polynomial
    log: Polynomial
    tanh: Polynomial
    erf: Polynomial
    erfcx: Polynomial
    erf_one: float


FORMATS = {
    "float32": Format(
        word="uint32",
        mantissa=23,
        bias=127,
        underflow=-104.0,
        overflow=89.0,
        ln2=(0.693145751953125, 1.428606765330187e-06),
        log2e=(1.44287109375, -0.00017605285393074155),
        log10e=(0.434326171875, -3.168997136526741e-05),
        log10_2=(0.301025390625, 4.605039066518657e-06),
        exp=(
            0.5000000095295225,
            0.1666651880320683,
            0.04166620539455405,
            0.008368895891281921,
            0.0013950519229960691,
        ),
        log=(0.6666677643520826, 0.39977529646012644, 0.2987215016027412),
        tanh=(
            -0.3333331805046133,
            0.13332601805511157,
            -0.05385386799411929,
            0.02107779296311354,
            -0.006282515497371179,
        ),
        erf=(
            0.12837916590620607,
            -0.3761262707092266,
            0.1128359929718749,
            -0.02685440206509426,
            0.005189443750076348,
            -0.0008019942627031742,
            7.885843500528492e-05,
        ),
        erfcx=(
            0.25539567937091995,
            -0.4271858108982584,
            0.24165728852598273,
            -0.07899240290164362,
            0.003685448879668,
            0.0070810036706069075,
            -0.00013666810806825335,
        ),
        erf_one=4.0,
    ),
    "float64": Format(
        word="uint64",
        mantissa=52,
        bias=1023,
        underflow=-746.0,
        overflow=710.0,
        ln2=(0.6931471805601177, -1.7239444525614835e-13),
        log2e=(1.4426950514316559, -1.0542692476429138e-08),
        log10e=(0.4342944845557213, -2.6524694553078553e-09),
        log10_2=(0.3010299956640665, -8.532344317057107e-14),
        exp=(
            0.5000000000000012,
            0.166666666666667,
            0.04166666666651586,
            0.00833333333330713,
            0.0013888888946931655,
            0.00019841269917553956,
            2.4801490005508437e-05,
            2.7557216150908327e-06,
            2.7631264380567346e-07,
            2.511790645989646e-08,
        ),
        log=(
            0.6666666666666734,
            0.3999999999941516,
            0.28571428742394334,
            0.22222198563711387,
            0.18183565190141124,
            0.15314020324199415,
            0.14796323828981303,
        ),
        tanh=(
            -0.333333333333333,
            0.1333333333332684,
            -0.05396825396388176,
            0.021869488389179598,
            -0.008863232653884485,
            0.0035920925424766477,
            -0.0014555460424870146,
            0.0005884572713028157,
            -0.00023341325673348167,
            8.336078244612935e-05,
            -1.952144513877282e-05,
        ),
        erf=(
            0.1283791670955126,
            -0.3761263890318375,
            0.11283791670954882,
            -0.026866170645077358,
            0.0052239776248231215,
            -0.0008548326981104797,
            0.00012055331120714634,
            -1.4925595465584908e-05,
            1.6461003369307077e-06,
            -1.6350340142799098e-07,
            1.4659939192572736e-08,
            -1.1373404634466473e-09,
            5.957988195304087e-11,
        ),
        erfcx=(
            0.25539567631050575,
            -0.42718584741395615,
            0.24165819424249382,
            -0.07897858101639,
            0.003732892393916864,
            0.006997461750003483,
            -0.0008471424976542601,
            -0.000981974517099603,
            4.354209133663525e-05,
            0.00017427499184560104,
            2.7506265694212336e-05,
            -2.6863812583756416e-05,
            -1.2832515111819185e-05,
        ),
        erf_one=6.0,
    ),
}
"""Formats by dtype."""


class Numbers:
    """Vectors of floats of one dtype: numbers in all lanes, and their bits."""

    def __init__(self, k: Kernel, dtype: str, lanes: int) -> None:
        self.dtype = dtype
        self.lanes = lanes
        self.format = FORMATS[dtype]
        self.bind = k.bind
        # A sum with this number has no room for a fraction; the half above 1 keeps negative x in
        # its binade.
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
        """Return the numbers with these bits."""
        return tirx.reinterpret(f"{self.dtype}x{self.lanes}", bits)

    def polynomial(self, coefficients: tuple[float, ...], x: Any) -> Any:
        """Return a polynomial's value, by Horner's rule."""
        value = self(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = value * x + self(coefficient)
        return value

    def round_to_whole(self, x: Any) -> tuple[Any, Any]:
        """Return x rounded, and the same plus ``huge``, whose last bits then count ones."""
        shifted = self.bind(x + self(self.huge))
        return self.bind(shifted - self(self.huge)), shifted

    def power_of_two(self, counted: Any) -> Any:
        """Return ``2**n`` for bits whose last ones count n: these become the exponent."""
        return self.floats(
            (counted << self.word(self.format.mantissa)) + self.word(self.pattern(1.0))
        )


# Exponentials.


def _reduce(m: Numbers, x: Any) -> tuple[Any, Any, Any, Any]:
    """Write x as ``n ln(2) + high - low``, and ``exp(high - low)`` as ``1 + high + rest``.

    Returns n, bits whose last ones count n, high, and rest.
    """
    whole, shifted = m.round_to_whole(x * m(sum(m.format.log2e)))
    # Exact: the first part of ln(2) has zeros at its end, and whole is a small integer.
    high = m.bind(x - whole * m(m.format.ln2[0]))
    low = m.bind(whole * m(m.format.ln2[1]))
    r = m.bind(high - low)
    rest = m.bind(r * r * m.polynomial(m.format.exp, r) - low)
    return whole, m.bind(m.bits(shifted)), high, rest


def _near_power(m: Numbers, x: Any) -> tuple[Any, Any]:
    """Write ``exp(x)`` as ``value * 2**n``; returns the value, and bits whose last ones count n."""
    _, counted, high, rest = _reduce(m, x)
    near = m.bind(m(1.0) + high)
    return m.bind(near + ((m(1.0) - near) + high + rest)), counted


def inner_exp(m: Numbers, x: Any) -> Any:
    """``exp`` of arguments whose results are normal numbers."""
    value, counted = _near_power(m, x)
    return m.bind(value * m.power_of_two(counted))


def exp(m: Numbers, x: Any) -> Any:
    """``exp``: the result is scaled in two steps, since the bits of one power end at the denormals.

    Only the last step rounds.
    """
    # NaN fails both compares, so it passes through to the result.
    below = select(x < m(m.format.underflow), m(m.format.underflow), x)
    value, counted = _near_power(
        m, m.bind(select(below > m(m.format.overflow), m(m.format.overflow), below))
    )
    # What is counted from has zeros at its end, so the half of both ends with half of n.
    half = m.bind(counted >> m.word(1))
    return value * m.power_of_two(half) * m.power_of_two(counted - half)


def expm1(m: Numbers, x: Any) -> Any:
    """``exp(x) - 1``, as twice ``2**(n - 1) (exp(r) - 1) + (2**(n - 1) - 1/2)``.

    This does not overflow before its last product.
    """
    # Below this argument the result rounds to -1.
    least = -(m.format.mantissa + 3) * math.log(2.0)
    below = select(x < m(least), m(least), x)
    whole, _, high, rest = _reduce(
        m, m.bind(select(below > m(m.format.overflow), m(m.format.overflow), below))
    )
    scale = m.bind(m.power_of_two(m.bits(m.round_to_whole(whole - m(1.0))[1])))
    base = m.bind(scale - m(0.5))
    step = m.bind(scale * high)
    near = m.bind(base + step)
    value = (near + ((base - near) + step + scale * rest)) * m(2.0)
    # Such a small x is its own result, and -0.0 keeps its sign.
    return select(tirx.abs(x) < m(2.0 ** -(m.format.mantissa + 2)), x, value)


def sigmoid(m: Numbers, x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    return m(1.0) / (m(1.0) + exp(m, m.bind(m(0.0) - x)))


def odd(m: Numbers, x: Any, value: Any) -> Any:
    """Return a non-negative value with the sign of x."""
    # The sign bit is copied, since a product with the sign would lose that of -0.0.
    sign = m.word(8 * np.dtype(m.dtype).itemsize - 1)
    return m.floats(m.bits(value) | ((m.bits(x) >> sign) << sign))


def tanh(m: Numbers, x: Any) -> Any:
    """``tanh``: a polynomial near 0, elsewhere ``1 - 2 / (exp(2 |x|) + 1)``."""
    size = m.bind(tirx.abs(x))
    # From there on tanh rounds to 1, and a larger argument would overflow in exp.
    last = m(float(m.format.mantissa))
    square = m.bind(size * size)
    near = size + size * (square * m.polynomial(m.format.tanh, square))
    double = m.bind(m(2.0) * select(size > last, last, size))
    # From 0.55 on the result is at least a half, so the difference loses one bit at most.
    far = m(1.0) - m(2.0) / (inner_exp(m, double) + m(1.0))
    return odd(m, x, select(size < m(0.55), near, far))


def erf(m: Numbers, x: Any) -> Any:
    """``erf``: a polynomial near 0, elsewhere ``1 - exp(-x**2) erfcx(|x|)``."""
    last = m(m.format.erf_one)
    size = m.bind(select(tirx.abs(x) > last, last, tirx.abs(x)))
    square = m.bind(size * size)
    near = size + size * m.polynomial(m.format.erf, square)
    # This maps the arguments of erfcx to a short interval about 0, where a polynomial is accurate.
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
    # The exponent is read as the last bits of 2**mantissa, which is taken away again with the bias.
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
    # Infinity is its own logarithm; NaN fails both compares below and stays NaN.
    inside = select(x < m(math.inf), value, x)
    return select(x > m(zero), inside, select(tirx.EQ(x, m(zero)), m(-math.inf), m(math.nan)))


def log(m: Numbers, x: Any) -> Any:
    """``log``."""
    n, f, _ = _split(m, x)
    half, series = _series(m, f)
    high, low = m.format.ln2
    # Small terms are added first, so that what they lose is below the last place.
    return _proper(m, x, 0.0, n * m(high) - ((half - (series + n * m(low))) - f))


def log1p(m: Numbers, x: Any) -> Any:
    """``log(1 + x)``: what ``1 + x`` loses is added to the fraction.

    What the fraction then loses is added to the last terms.
    """
    whole = m.bind(m(1.0) + x)
    n, first, unscale = _split(m, whole)
    # 1 + x rounds; the rest of x, scaled as the fraction is, belongs to the fraction.
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
        # Half of the bits: the product with the first part of a constant is then exact.
        cut = m.word(m.format.mantissa // 2 + 1)
        high = m.bind(m.floats((m.bits(f - half) >> cut) << cut))
        low = m.bind((f - high) - half + series)
        scale_high, scale_low = scale(m)
        two_high, two_low = of_two(m)
        large = m.bind(n * m(two_high))
        added = m.bind(high * m(scale_high))
        total = m.bind(large + added)
        # What the sum of both large terms lost is exact, since the first is larger or 0 (Dekker,
        # 1971).
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
