"""Emit sine and cosine, within two units in the last place.

Multiples of half of pi are subtracted in parts, each of whose products is exact (Cody and Waite,
1980). What the differences lose is carried along (Knuth's sum of two numbers). All is done in
float64. The C mathematics library computes arguments that are too large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.mathematics import Numbers
from hbconv.backends.tvm.tir.kernel import Kernel, Register, literal
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["EMITTERS"]

HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)
"""Parts whose sum is half of pi: 33 bits in each of the first three."""
LARGEST = float(1 << 20)
"""Arguments up to which products of multiples and parts are exact."""
SINE = (
    -0.16666666666666632,
    0.008333333333322564,
    -0.0001984126982990827,
    2.755731372223258e-06,
    -2.5050762366754795e-08,
    1.58970209262585e-10,
)
"""``(sin(r) / r - 1) / r**2`` in ``r**2``, for ``|r| <= pi / 4``: minimax, by Remez's exchange."""
COSINE = (
    0.041666666666666616,
    -0.0013888888888876148,
    2.480158729058603e-05,
    -2.7557314637388876e-07,
    2.0875758495560384e-09,
    -1.1361326640486063e-11,
)
"""``(cos(r) - 1 + r**2 / 2) / r**4`` in ``r**2``, by the same exchange."""
select = tirx.Select


def _difference(m: Numbers, a: Any, b: Any) -> tuple[Any, Any]:
    """Return ``a - b`` rounded, and what rounding lost."""
    rounded = m.bind(a - b)
    # Knuth's sum of two numbers: exact whichever of the two is larger.
    taken = m.bind(a - rounded)
    return rounded, m.bind((a - (rounded + taken)) + (taken - b))


def _reduce(m: Numbers, x: Any) -> tuple[Any, Any, Any]:
    """Write x as ``n pi / 2 + high + low``; returns n in its last bits, high and low."""
    # 2 / pi: the number of quarters of a turn.
    n, shifted = m.round_to_whole(x * m(0.6366197723675814))
    # Exact: n has up to 20 bits and each part 33, which is within the 53 bits of a product.
    first = m.bind(x - n * m(HALF_PI[0]))
    second, lost = _difference(m, first, m.bind(n * m(HALF_PI[1])))
    third, lost_too = _difference(m, second, m.bind(n * m(HALF_PI[2])))
    rest = m.bind(lost + lost_too - n * m(HALF_PI[3]))
    high = m.bind(third + rest)
    return m.bits(shifted), high, m.bind((third - high) + rest)


def circular(m: Numbers, x: Any, quarter: int) -> Any:
    """Return the sine of x plus ``quarter`` quarters of a turn."""
    n, high, low = _reduce(m, x)
    square = m.bind(high * high)
    cube = m.bind(square * high)
    series = m.bind(m.polynomial(SINE, square))
    sine = high + (cube * series + (low - m(0.5) * square * low))
    half = m.bind(m(0.5) * square)
    # What this difference rounds off is added back below, before the small terms.
    near = m.bind(m(1.0) - half)
    tail = square * square * m.polynomial(COSINE, square) - high * low
    cosine = near + (((m(1.0) - near) - half) + tail)
    turn = m.bind(n + m.word(quarter))
    one = m.word(1)
    # Odd quarters exchange sine and cosine; the second bit of the quarter is the sign.
    chosen = m.bind(select(tirx.EQ(turn & one, one), cosine, sine))
    sign = m.bind((turn >> one) << m.word(63))
    return m.floats(m.bits(chosen) ^ sign)


def sine(m: Numbers, x: Any) -> Any:
    """``sin``; small arguments, and zeros of either sign, are their own sine."""
    # Below 2**-27, x**2 / 6 is less than half a unit in the last place; and -0.0 stays -0.0.
    return select(tirx.abs(x) < m(2.0**-27), x, circular(m, x, 0))


def cosine(m: Numbers, x: Any) -> Any:
    """``cos``."""
    return circular(m, x, 1)


def vectors(name: str, function: Callable[[Numbers, Any], Any]) -> Callable[..., None]:
    """Return the emitter of a function."""

    def emit(k: Kernel, out: Place, x: Place) -> None:
        m = Numbers.of(k, "float64")
        double = f"float64x{m.lanes}"
        # Large arguments are tested for once, after all rows: a vector takes 0.8 ns a value, the
        # library 6.7.
        most = k.register("float64", m(0.0), m.lanes)
        with k.over(out.shape) as index, k.vectors(m.lanes) as row:
            value = k.bind(tirx.Cast(double, k.load(x, index, row)))
            # NaN is never larger, so it stays with the vectors, which return NaN.
            size = k.bind(tirx.abs(value))
            most.set(select(size > most.get(), size, most.get()))
            result = tirx.Cast(f"{out.dtype}x{m.lanes}", function(m, value))
            k.store(out, index, row, result)
        with T.If(_any_beyond(k, m, most)), T.Then():
            _ask_library(k, out, x, name)

    return emit


def _any_beyond(k: Kernel, m: Numbers, most: Register) -> Any:
    """Say whether a number is too large in any lane; there is one lane with one thread per row."""
    if m.lanes == 1:
        return most.get() > m(LARGEST)
    one, zero = (literal(flag, "int32", m.lanes) for flag in (1, 0))
    beyond = k.bind(select(most.get() > m(LARGEST), one, zero))
    return tirx.call_llvm_pure_intrin("int32", f"llvm.vector.reduce.or.v{m.lanes}i32", beyond) > 0


def _ask_library(k: Kernel, out: Place, x: Place, name: str) -> None:
    """Have the library compute arguments that are too large."""
    symbol = name + ("f" if out.dtype == "float32" else "")
    with k.over(out.shape) as index, k.rows() as row:
        value = k.bind(k.load(x, index, row))
        with T.If(tirx.abs(value) > tirx.FloatImm(x.dtype, LARGEST)), T.Then():
            k.store(out, index, row, tirx.call_pure_extern(out.dtype, symbol, value))


EMITTERS: dict[str, Callable[..., None]] = {
    "sin": vectors("sin", sine),
    "cos": vectors("cos", cosine),
}
