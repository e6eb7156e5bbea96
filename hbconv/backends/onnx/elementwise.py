"""Emit functions of entries that take several operators."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hbconv.backends.onnx.writer import Tensor

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter

__all__ = [
    "asin",
    "cast",
    "cos",
    "fmod",
    "logical",
    "not_equal",
    "shift",
    "sin",
    "tanh",
    "trunc_divide",
    "where",
]

_QUARTER_TURN = Fraction("3.14159265358979323846264338327950288419716939937510") / 2
_FAR = 1e6
"""Beyond it a number of quarter turns is not subtracted exactly."""


def cast(w: GraphWriter, x: Tensor, dtype: str) -> str:
    """Convert."""
    return w.cast(x.name, dtype)


def logical(of_bools: str, of_ints: str) -> Callable[..., str]:
    """Combine bools, or the bits of ints."""
    return lambda w, x, y: w.node(of_bools if x.dtype == "bool" else of_ints, x.name, y.name)


def tanh(w: GraphWriter, x: Tensor) -> str:
    """Write tanh, in float64: ONNX Runtime's in float32 loses digits and exceeds 1."""
    return w.cast(w.node("Tanh", w.cast(x.name, "float64")), x.dtype)


def sin(w: GraphWriter, x: Tensor) -> str:
    """Write the sine, in float64.

    ONNX Runtime's own keeps 16 digits of 1, not of results near 0. So it gets the remainder of x
    after the nearest quarter turns; beyond a million these have too many bits, and it gets x
    itself. The cosine of a remainder is ``1 - 2 * sin(x / 2) ** 2``: it is far from 0.
    """
    wide = w.cast(x.name, "float64")
    place, odd, rest = _turned(w, wide, 0)
    sine = w.node("Sin", w.node("Where", odd, _halved(w, rest), rest))
    return w.cast(_signed(w, place, w.node("Where", odd, _doubled(w, sine), sine)), x.dtype)


def cos(w: GraphWriter, x: Tensor) -> str:
    """Write the cosine, in float64, by the sine: ONNX Runtime's own came after 1.28.

    It is the sine a quarter turn on. Beyond a million it is ``sin(2 * x) / (2 * sin(x))``, which
    keeps the digits of results near 0.
    """
    wide = w.cast(x.name, "float64")
    place, odd, rest = _turned(w, wide, 1)
    size = w.node("Abs", wide)
    is_far = w.node(
        "And",
        w.node("GreaterOrEqual", size, w.constant(_FAR, "float64")),
        # Twice as much must be finite.
        w.node("LessOrEqual", size, w.constant(np.finfo("float64").max / 2, "float64")),
    )
    # What is far is at an odd place: one sine is enough for both.
    half = w.node("Where", is_far, wide, _halved(w, rest))
    sine = w.node("Sin", w.node("Where", odd, half, rest))
    far = w.node("Div", w.node("Sin", w.node("Add", wide, wide)), w.node("Add", sine, sine))
    cosine = w.node("Where", is_far, far, _doubled(w, sine))
    return w.cast(_signed(w, place, w.node("Where", odd, cosine, sine)), x.dtype)


def _turned(w: GraphWriter, x: str, ahead: int) -> tuple[str, str, str]:
    """Split x and some quarter turns more into a quarter of the circle and the rest.

    Returns the number of the quarter, whether it is odd, and the rest.
    """
    quarters, rest = _quarter_turns(w, x)
    number = w.node("Add", w.cast(quarters, "int32"), w.constant(ahead, "int32"))
    # Mod of ints takes the sign of its divisor, so negative quarter turns count right.
    place = w.node("Mod", number, w.constant(4, "int32"))
    odd = w.cast(w.node("Mod", number, w.constant(2, "int32")), "bool")
    return place, odd, rest


def _halved(w: GraphWriter, angle: str) -> str:
    return w.node("Mul", angle, w.constant(0.5, "float64"))


def _doubled(w: GraphWriter, sine: str) -> str:
    """Write the cosine of twice the angle of a sine."""
    square = w.node("Mul", sine, sine)
    return w.node("Sub", w.constant(1.0, "float64"), w.node("Add", square, square))


def _signed(w: GraphWriter, place: str, size: str) -> str:
    """Write what is below 0 in the last two quarters of the circle."""
    is_positive = w.node("Less", place, w.constant(2, "int32"))
    return w.node("Where", is_positive, size, w.node("Neg", size))


def asin(w: GraphWriter, x: Tensor) -> str:
    """Write the arc sine, in float64.

    Two steps of Newton's method make ONNX Runtime's float32 result exact. They do not converge
    near 1, so beyond 1/2 it is a quarter turn less twice the arc sine of ``sqrt((1 - x) / 2)``.
    """
    wide = w.cast(x.name, "float64")
    one, two, half, quarter = (
        w.constant(number, "float64") for number in (1.0, 2.0, 0.5, np.pi / 2)
    )
    size = w.node("Abs", wide)
    is_large = w.node("Greater", size, half)
    sine = w.node(
        "Where", is_large, w.node("Sqrt", w.node("Div", w.node("Sub", one, size), two)), size
    )
    angle = w.cast(w.node("Asin", w.cast(sine, "float32")), "float64")
    for _ in range(2):
        found = w.node("Sin", angle)
        # The cosine of an angle of less than a quarter turn.
        slope = w.node("Sqrt", w.node("Sub", one, w.node("Mul", found, found)))
        angle = w.node("Sub", angle, w.node("Div", w.node("Sub", found, sine), slope))
    angle = w.node("Where", is_large, w.node("Sub", quarter, w.node("Mul", two, angle)), angle)
    return w.cast(w.node("Mul", angle, w.node("Sign", wide)), x.dtype)


def _quarter_turns(w: GraphWriter, x: str) -> tuple[str, str]:
    """Split x into its nearest number of quarter turns and the rest; beyond a million into 0 and x.

    A quarter turn is subtracted in parts of 30 bits, whose products with that number are exact
    (Cody and Waite, 1980).
    """
    is_near = w.node("Less", w.node("Abs", x), w.constant(_FAR, "float64"))
    nearest = w.node("Round", w.node("Mul", x, w.constant(2 / np.pi, "float64")))
    quarters = w.node("Where", is_near, nearest, w.constant(0.0, "float64"))
    rest = x
    # A Fraction of 50 digits: each part is cut off exactly, and the next one continues it.
    left = _QUARTER_TURN
    for bits in (30, 60, 90, 120):
        part = left // Fraction(1, 2**bits) * Fraction(1, 2**bits)
        rest = w.node("Sub", rest, w.node("Mul", quarters, w.constant(float(part), "float64")))
        left = left - part
    return quarters, rest


def fmod(w: GraphWriter, x: Tensor, y: Tensor) -> str:
    """Write the rest of a division; by a zero or minus one an int has none."""
    if not x.dtype.startswith("int"):
        return w.node("Mod", x.name, y.name, fmod=1)
    # ONNX Runtime computes Mod of ints in float64, where its sign is that of x.
    trivial, divisor = _whole_divisor(w, y)
    whole = w.node("Mul", w.node("Div", x.name, divisor), divisor)
    return w.node("Where", trivial, w.constant(0, x.dtype), w.node("Sub", x.name, whole))


def trunc_divide(w: GraphWriter, x: Tensor, y: Tensor) -> str:
    """Divide ints: Div rounds them toward zero. By a zero it gives 0."""
    trivial, divisor = _whole_divisor(w, y)
    quotient = w.node("Div", x.name, divisor)
    return w.node("Where", trivial, w.node("Mul", x.name, y.name), quotient)


def _whole_divisor(w: GraphWriter, y: Tensor) -> tuple[str, str]:
    """Return where a divisor is 0 or -1, and it with 1 there.

    In ONNX Runtime, either may end the process.
    """
    trivial = w.node(
        "Or",
        w.node("Equal", y.name, w.constant(0, y.dtype)),
        w.node("Equal", y.name, w.constant(-1, y.dtype)),
    )
    return trivial, w.node("Where", trivial, w.constant(1, y.dtype), y.name)


def not_equal(w: GraphWriter, x: Tensor, y: Tensor) -> str:
    """Write not-equal, which is True where one is NaN."""
    return w.node("Not", w.node("Equal", x.name, y.name))


def where(w: GraphWriter, condition: Tensor, x: Tensor, y: Tensor) -> str:
    """Write where; for bools by logic, since ONNX Runtime's Where does not take them.

    A zero of either sign becomes positive.
    """
    if x.dtype != "bool":
        return w.node("Where", condition.name, x.name, y.name)
    chosen = w.node("And", condition.name, x.name)
    return w.node("Or", chosen, w.node("And", w.node("Not", condition.name), y.name))


def shift(direction: str) -> Callable[..., str]:
    """Shift as unsigned numbers, since BitShift takes no others.

    The complement of a negative x is shifted right and complemented back, which keeps the sign. A
    count outside the width of the dtype shifts everything out, as in numpy.
    """

    def emit(w: GraphWriter, x: Tensor, count: Tensor) -> str:
        zero, ones = w.constant(0, x.dtype), w.constant(-1, x.dtype)
        sign = (
            w.node("Where", w.node("Less", x.name, zero), ones, zero)
            if direction == "RIGHT"
            else zero
        )
        valid = w.node(
            "And",
            w.node("GreaterOrEqual", count.name, zero),
            w.node("Less", count.name, w.constant(np.iinfo(x.dtype).bits, x.dtype)),
        )
        bits = w.cast(w.node("BitwiseXor", x.name, sign), "uint64")
        shifted = w.cast(
            w.node(
                "BitShift",
                bits,
                w.cast(w.node("Where", valid, count.name, zero), "uint64"),
                direction=direction,
            ),
            x.dtype,
        )
        return w.node("BitwiseXor", w.node("Where", valid, shifted, zero), sign)

    return emit
