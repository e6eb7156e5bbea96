"""PostgreSQL: what leaves the range of floats raises there, so it has cases of its own."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

from hbconv.backends.sql.dialects.base import (
    LARGEST_FLOAT32,
    Dialect,
    float_word,
    shortest_float32,
)
from hbconv.errors import BackendError

__all__ = ["PostgreSQL", "find_range"]


class PostgreSQL(Dialect):
    """PostgreSQL, which raises where IEEE 754 has infinities: these have cases of their own."""

    name = "postgres"
    types: ClassVar = {
        "float64": "float8", "float32": "float4", "int64": "bigint", "int32": "integer",
        "bool": "boolean", "string": "text",
    }  # fmt: skip
    # Without it a column that is read often is computed as often, stage by stage.
    fence = " OFFSET 0"
    collation = '"C"'
    array = "(ARRAY[{entries}]::{type}[])"
    reads_arrays_fast = False
    whole_division = "/"
    most_columns = 1600
    most_name_bytes = 63
    raises = True

    def fold(self, name: str) -> str:
        """Return what is left of a name, whose case counts."""
        return name.encode(errors="replace")[: self.most_name_bytes].decode(errors="ignore")

    def float64(self, value: float) -> str:
        """Return a literal of float64: 0.1 and 1e-1 are decimals."""
        return f"'{float_word(value)}'::float8"

    def float32(self, value: float) -> str:
        """Return a literal of float32, which is rounded once."""
        return f"'{float_word(value)}'::float4"

    def bound(self, value: float) -> str:
        """Return a float64 beside a column: a decimal, which is float8 once the query is read."""
        if not math.isfinite(value):
            return self.float64(value)
        return f"({value!r})" if value < 0 else repr(value)

    def listed(self, value: Any, dtype: str) -> str:
        """Return a literal in an array: decimals are converted once, when the query is planned."""
        if not dtype.startswith("float"):
            return super().listed(value, dtype)
        value = shortest_float32(value) if dtype == "float32" else value
        is_decimal = math.isfinite(value) and (value or math.copysign(1.0, value) > 0)
        return repr(value) if is_decimal else f"'{float_word(value)}'"

    def isnan(self, x: str) -> str:
        """Test for NaN, which equals itself."""
        return f"({x}='NaN')"

    def to_int(self, x: str, dtype: str) -> str:
        """Truncate a float; what the int cannot hold becomes 0."""
        end = self.float64(float(2 ** (31 if dtype == "int32" else 63)))
        inside = f"{x}>=-{end} AND {x}<{end}"
        return f"CASE WHEN {inside} THEN {self.cast(f'trunc({x})', dtype)} ELSE 0 END"

    def narrow_int(self, x: str, dtype: str) -> str:
        """Convert between ints; what the narrower one cannot hold becomes 0."""
        if dtype == "int64":
            return self.cast(x, dtype)
        inside = f"{x} BETWEEN -2147483648 AND 2147483647"
        return f"CASE WHEN {inside} THEN {self.cast(x, dtype)} ELSE 0 END"

    def round_float32(self, x: str) -> str:
        """Round a float64 column to float32: to infinity beyond the largest, to zero below."""
        beyond = self.float64(LARGEST_FLOAT32)
        # Half of the smallest float32; what is not above it becomes a zero of the same sign.
        below = self.float64(2.0**-150)
        return (
            f"CASE WHEN {self.isnan(x)} THEN {self.float32(math.nan)} "
            f"WHEN {x}>={beyond} THEN {self.float32(math.inf)} "
            f"WHEN {x}<=-{beyond} THEN {self.float32(-math.inf)} "
            f"WHEN abs({x})<={below} THEN {self.cast(f'({x}*0)', 'float32')} "
            f"ELSE {self.cast(x, 'float32')} END"
        )

    def function(self, name: str, x: str) -> str:
        """Apply a function of float64, with cases for what PostgreSQL raises."""
        if name != "exp":
            return super().function(name, x)
        over, under = self.float64(MOST_EXPONENT), self.float64(LEAST_EXPONENT)
        return (
            f"CASE WHEN {self.isnan(x)} THEN {x} WHEN {x}>{over} THEN {self.float64(math.inf)} "
            f"WHEN {x}<{under} THEN {self.float64(0.0)} ELSE exp({x}) END"
        )

    def rint(self, x: str) -> str:
        """Round halves to even."""
        return f"round({x})"

    def times(self, x: str, weight: float, dtype: str) -> str:
        """Multiply a name by a constant; where the product leaves the range, by 0 or infinity."""
        plain = super().times(x, weight, dtype)
        if weight == 0 or not math.isfinite(weight):
            return plain
        return self._within(x, plain, Fraction(weight), dtype)

    def divide_by(self, x: str, divisor: float, dtype: str) -> str:
        """Divide a name by a constant that is not zero; in the same way."""
        plain = super().divide_by(x, divisor, dtype)
        if not math.isfinite(divisor):
            return plain
        return self._within(x, plain, 1 / Fraction(divisor), dtype)

    def _within(self, x: str, plain: str, factor: Fraction, dtype: str) -> str:
        zero, infinity = ("-0", "-Infinity") if factor < 0 else ("0", "Infinity")
        lost, endless = find_range(abs(factor), dtype)
        whens = [f" WHEN abs({x})<={self.bound(lost)} THEN {x}*'{zero}'"] if lost else []
        if math.isfinite(endless):
            whens.append(f" WHEN abs({x})>={self.bound(endless)} THEN {x}*'{infinity}'")
        return f"CASE{''.join(whens)} ELSE {plain} END" if whens else plain

    def multiply(self, x: str, y: str) -> str:
        """Multiply names of float64; scaled ones tell whether the product leaves the range.

        What is half of the smallest float or less becomes zero.
        """
        small, large = f"least(abs({x}),abs({y}))", f"greatest(abs({x}),abs({y}))"
        is_endless = f"({small}*{_power(-424)})*({large}*{_power(-600)})>=1"
        is_lost = f"({small}*{_power(600)})*({large}*{_power(474)})<=0.5"
        return (
            f"({x}*CASE WHEN {small}=0 THEN 1 "
            f"WHEN {small}>=1 THEN {self._either(is_endless, math.inf)} "
            f"WHEN {small}<{_power(-500)} AND {large}<=1 THEN {self._either(is_lost, 0.0)} "
            f"ELSE 1 END*{y})"
        )

    def _either(self, condition: str, factor: float) -> str:
        return f"CASE WHEN {condition} THEN {self.float64(factor)} ELSE 1 END"

    def divide(self, x: str, y: str, dtype: str) -> str:  # noqa: ARG002
        """Divide names of float64 as IEEE 754 does, by zero and beyond the range too."""
        nan, infinity, least = map(self.float64, (math.nan, math.inf, -math.inf))
        # -0 equals 0, and only its text tells them apart.
        signs = f"({x}>0)=({y}::text<>'-0')"
        by_zero = (
            f"CASE WHEN {x}=0 OR {self.isnan(x)} THEN {nan} "
            f"WHEN {signs} THEN {infinity} ELSE {least} END"
        )
        a, b = f"abs({x})", f"abs({y})"
        is_endless = f"({a}*{_power(-600)})/({b}*{_power(474)})>={_power(-50)}"
        is_endless_below = f"{a}/({b}*{_power(600)})>={_power(424)}"
        is_lost = f"({a}*{_power(600)})/({b}*{_power(-474)})<=0.5"
        return (
            f"CASE WHEN {y}=0 THEN {by_zero} WHEN {x}=0 THEN {x}/{y} "
            f"WHEN {a}>=1 AND {b}<1 THEN {x}*{self._either(is_endless, math.inf)}/{y} "
            f"WHEN {a}<1 AND {b}<{_power(-1022)} "
            f"THEN {x}*{self._either(is_endless_below, math.inf)}/{y} "
            f"WHEN {a}<{_power(-51)} AND {b}>1 AND {b}<{infinity} "
            f"THEN {x}*{self._either(is_lost, 0.0)}/{y} ELSE {x}/{y} END"
        )

    def divide_constant(self, dividend: float, y: str) -> str:
        """Divide a finite float that is no zero, so the quotient is none, by a name of float64."""
        last = _float_below(Fraction(abs(dividend)) / _RANGES["float64"][1])
        ends = [self.float64(end) for end in (math.inf, -math.inf)]
        below, above = ends if dividend < 0 else ends[::-1]
        # Only its text tells -0 from 0.
        return (
            f"CASE WHEN abs({y})<={self.bound(last)} THEN CASE WHEN {y}::text LIKE '-%' "
            f"THEN {below} ELSE {above} END ELSE {self.float64(dividend)}/{y} END"
        )

    def power(self, x: str, y: str) -> str:
        """Raise floats to a power; beyond the range by the logarithm of the result."""
        over, under = self.float64(MOST_EXPONENT), self.float64(LEAST_EXPONENT)
        infinity = self.float64(math.inf)
        is_finite = f"{x}<>0 AND abs({x})<{infinity} AND abs({y})>=1e-300 AND abs({y})<{infinity}"
        result = f"sign({y})*least(abs({y}),1e300)*ln(abs({x}))"
        is_odd = f"{y}=floor({y}) AND floor({y}/2)<>{y}/2"
        return (
            f"CASE WHEN {x}<0 AND {y}<>floor({y}) "
            f"THEN CASE WHEN abs({x})<{infinity} THEN {self.float64(math.nan)} "
            f"ELSE power({infinity},{y}) END "
            f"WHEN {x}=0 AND {y}<0 THEN CASE WHEN {x}::text='-0' AND {is_odd} "
            f"THEN -{infinity} ELSE {infinity} END "
            f"WHEN {is_finite} THEN CASE WHEN {result}>{over} THEN power(sign({x}),{y})*{infinity} "
            f"WHEN {result}<{under} THEN power(sign({x}),{y})*0 ELSE power({x},{y}) END "
            f"ELSE power({x},{y}) END"
        )

    def remainder(self, x: str, y: str) -> str:  # noqa: ARG002
        """Refuse: the remainder is one of decimals."""
        raise BackendError(
            "PostgreSQL has no remainder of float8, which the model computes. "
            "Use dialect='duckdb', or a column of the remainder."
        )


def find_range(factor: Fraction, dtype: str) -> tuple[float, float]:
    """Return where the product of a float and a positive factor leaves the range of a dtype.

    They are the largest size whose product is zero, and the smallest whose product is infinite; 0
    and infinity where there is none.

    Examples
    --------
    >>> find_range(Fraction(1, 4), "float64"), find_range(Fraction(2), "float64")
    ((1e-323, inf), (0.0, 8.98846567431158e+307))
    """
    least, top = _RANGES[dtype]
    lost, endless = least / 2 / factor, top / factor
    return (
        _float_below(lost) if lost >= least else 0.0,
        -_float_below(-endless) if endless < top else math.inf,
    )


_RANGES = {
    "float64": (Fraction(1, 2**1074), Fraction(2**1024 - 2**970)),
    "float32": (Fraction(1, 2**149), Fraction(2**128 - 2**103)),
}
"""The least float of each dtype, and the least number that rounds to infinity."""
MOST_EXPONENT, LEAST_EXPONENT = 709.782712893384, -745.1332191019411
"""The exponential of more is infinite, and that of less zero."""


def _float_below(value: Fraction) -> float:
    """Return the largest float64 up to a value."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def _power(exponent: int) -> str:
    """Return a power of two, as a decimal that is read exactly."""
    return repr(2.0**exponent)
