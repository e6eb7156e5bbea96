"""Emit elementwise primitives as numpy defines them, including NaN and signed zeros.

Floats are compared by ``<  <=  >  >=  ==`` only, and bools are bytes in memory. So none of TVM's
rewrites that forget NaN applies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import InTable, Place

__all__ = ["EMITTERS", "Kind", "larger", "product", "smaller"]

Emitter = Callable[..., None]
select = tirx.Select
BITS = {"int32": 32, "int64": 64}


@dataclass(frozen=True)
class Kind:
    """Dtype and lanes of the vectors at hand."""

    dtype: str
    lanes: int

    @property
    def floating(self) -> bool:
        """Whether values may be NaN."""
        return self.dtype.startswith("float")

    def number(self, value: float) -> Any:
        """Return a number in all lanes."""
        return literal(value, self.dtype, self.lanes)

    def truth(self, condition: Any) -> Any:
        """Return bytes of 1 where a condition holds, else 0."""
        one = literal(1, "uint8", self.lanes)
        return select(condition, one, literal(0, "uint8", self.lanes))


def plain(expression: Callable[..., Any]) -> Emitter:
    """Return the emitter of ``expression(*vectors)``."""

    def emit(k: Kernel, out: Place, *operands: Place) -> None:
        k.map_vectors(out, operands, expression)

    return emit


def by_kind(expression: Callable[..., Any]) -> Emitter:
    """Return the emitter of ``expression(kind, *vectors)``; the kind is that of the operands."""

    def emit(k: Kernel, out: Place, *operands: Place) -> None:
        kind = Kind(operands[0].dtype, k.lanes)
        k.map_vectors(out, operands, lambda *vectors: expression(kind, *vectors))

    return emit


def library(name: str) -> Emitter:
    """Return the emitter of a call of the C mathematics library for each row."""

    def emit(k: Kernel, out: Place, *operands: Place) -> None:
        symbol = name + ("f" if out.dtype == "float32" else "")
        k.map_rows(out, operands, lambda *values: tirx.call_pure_extern(out.dtype, symbol, *values))

    return emit


def power(k: Kernel, out: Place, x: Place, exponent: Place) -> None:
    """Emit ``pow`` by the C mathematics library.

    Exponents that at most two products reach do without: they are within two units in the last
    place.
    """
    exponents = set(exponent.data.reshape(-1).tolist()) if isinstance(exponent, InTable) else set()
    short = POWERS.get(exponents.pop()) if len(exponents) == 1 else None
    if short is None:
        library("pow")(k, out, x, exponent)
        return
    k.map_vectors(out, (x,), lambda value: short(k, k.bind(value)))


def fourth_power(k: Kernel, x: Any) -> Any:
    """Square the square."""
    square = k.bind(x * x)
    return square * square


POWERS: dict[float, Callable[[Kernel, Any], Any]] = {
    1.0: lambda _, x: x,
    2.0: lambda _, x: x * x,
    3.0: lambda _, x: x * x * x,
    4.0: fourth_power,
}


def comparison(compare: Callable[[Any, Any], Any]) -> Emitter:
    """Return the emitter of a comparison."""
    return by_kind(lambda kind, a, b: kind.truth(compare(a, b)))


def shift(operator: Callable[[Any, Any], Any], beyond: Callable[[Kind, Any], Any]) -> Emitter:
    """Return the emitter of a shift; a count outside the word gives ``beyond(kind, x)``."""

    def expression(kind: Kind, x: Any, count: Any) -> Any:
        zero = kind.number(0)
        # LLVM leaves shifts by the width of a word or more undefined, so none is made.
        inside = (count >= zero) & (count < kind.number(BITS[kind.dtype]))
        return select(inside, operator(x, select(inside, count, zero)), beyond(kind, x))

    return by_kind(expression)


def fmod(k: Kernel, out: Place, x: Place, y: Place) -> None:
    """Emit the rest of a division; by a zero or minus one an int has none."""
    if out.dtype not in BITS:
        library("fmod")(k, out, x, y)
        return

    def rest(kind: Kind, a: Any, b: Any) -> Any:
        trivial, divisor = whole_divisor(kind, b)
        return select(trivial, kind.number(0), tirx.truncmod(a, divisor))

    by_kind(rest)(k, out, x, y)


def trunc_divide(kind: Kind, a: Any, b: Any) -> Any:
    """Return the quotient of ints, rounded toward zero; 0 by a zero."""
    trivial, divisor = whole_divisor(kind, b)
    return select(trivial, a * b, tirx.truncdiv(a, divisor))


def whole_divisor(kind: Kind, b: Any) -> tuple[Any, Any]:
    """Return where a divisor is 0 or -1, and it with 1 there: processors trap at both."""
    trivial = tirx.EQ(b, kind.number(0)) | tirx.EQ(b, kind.number(-1))
    return trivial, select(trivial, kind.number(1), b)


def product(kind: Kind, a: Any, b: Any) -> Any:
    """Multiply and round: the fence keeps LLVM from fusing the product with an addition."""
    if not kind.floating:
        return a * b
    # numpy rounds after each operation, and a fused sum would differ in the last bit.
    rounded = a * b
    return tirx.call_llvm_pure_intrin(str(rounded.ty), "llvm.arithmetic.fence", rounded)


def smaller(kind: Kind, a: Any, b: Any) -> Any:
    """Return the smaller value, or NaN if either is NaN."""
    return select(tirx.isnan(a) | (a < b), a, b) if kind.floating else select(a < b, a, b)


def larger(kind: Kind, a: Any, b: Any) -> Any:
    """Return the larger value, or NaN if either is NaN."""
    return select(tirx.isnan(a) | (a > b), a, b) if kind.floating else select(a > b, a, b)


def absolute(kind: Kind, x: Any) -> Any:
    """Return ``|x|``."""
    return tirx.abs(x) if kind.floating else select(x < kind.number(0), kind.number(0) - x, x)


def sign(kind: Kind, x: Any) -> Any:
    """Return -1, 0 or 1; NaN stays NaN."""
    zero = kind.number(0)
    return select(
        x > zero,
        kind.number(1),
        # NaN fails all three compares, and is returned as it is.
        select(x < zero, kind.number(-1), select(tirx.EQ(x, zero), zero, x)),
    )


def where(k: Kernel, out: Place, condition: Place, x: Place, y: Place) -> None:
    """Emit ``where``."""
    k.map_vectors(
        out, (condition, x, y), lambda c, a, b: select(c > literal(0, "uint8", k.lanes), a, b)
    )


def cast(k: Kernel, out: Place, x: Place, dtype: str) -> None:
    """Emit ``cast``; every value but zero is true, NaN too."""
    kind = Kind(x.dtype, k.lanes)

    def convert(value: Any) -> Any:
        if dtype == x.dtype:
            return value
        if dtype != "bool":
            return tirx.Cast(f"{dtype}x{k.lanes}", value)
        zero = literal(0, "uint8", k.lanes)
        return select(tirx.EQ(value, kind.number(0)), zero, literal(1, "uint8", k.lanes))

    k.map_vectors(out, (x,), convert)


EMITTERS: dict[str, Emitter] = {
    **{name: library(name) for name in ("tan", "asin", "atan")},
    "pow": power,
    "sqrt": plain(tirx.sqrt),
    "floor": plain(tirx.floor),
    "ceil": plain(tirx.ceil),
    "rint": plain(tirx.nearbyint),
    # A product, since 0 - x gives 0.0 for 0.0, whose negative is -0.0.
    "neg": by_kind(lambda kind, x: product(kind, x, kind.number(-1))),
    "abs": by_kind(absolute),
    "sign": by_kind(sign),
    "isnan": by_kind(lambda kind, x: kind.truth(tirx.isnan(x))),
    "isinf": by_kind(lambda kind, x: kind.truth(tirx.EQ(tirx.abs(x), kind.number(float("inf"))))),
    "add": plain(lambda a, b: a + b),
    "sub": plain(lambda a, b: a - b),
    "mul": by_kind(product),
    "div": plain(tirx.Div),
    "fmod": fmod,
    "trunc_divide": by_kind(trunc_divide),
    "minimum": by_kind(smaller),
    "maximum": by_kind(larger),
    # A bool is a byte of 0 or 1, so this stays one.
    "not": by_kind(lambda kind, x: literal(1, "uint8", kind.lanes) - x),
    "and": plain(lambda a, b: a & b),
    "or": plain(lambda a, b: a | b),
    "xor": plain(lambda a, b: a ^ b),
    "shift_left": shift(lambda x, count: x << count, lambda kind, x: kind.number(0)),
    "shift_right": shift(
        lambda x, count: x >> count,
        lambda kind, x: select(x < kind.number(0), kind.number(-1), kind.number(0)),
    ),
    "lt": comparison(lambda a, b: a < b),
    "le": comparison(lambda a, b: a <= b),
    "gt": comparison(lambda a, b: a > b),
    "ge": comparison(lambda a, b: a >= b),
    "eq": comparison(tirx.EQ),
    "ne": by_kind(lambda kind, a, b: literal(1, "uint8", kind.lanes) - kind.truth(tirx.EQ(a, b))),
    "where": where,
    "cast": cast,
}
