"""Formats of floats: their bits, and the constants of functions in their precision."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FORMATS", "Format"]

Polynomial = tuple[float, ...]
Pair = tuple[float, float]


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
