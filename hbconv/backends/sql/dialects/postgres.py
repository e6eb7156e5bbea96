"""PostgreSQL: what leaves the range of floats raises there, so it has cases of its own."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any, ClassVar

from hbconv.backends.sql.dialects.base import LARGEST_FLOAT32, Dialect, shortest_float32

__all__ = ["PostgreSQL", "find_range"]

MOST_EXPONENT, LEAST_EXPONENT = 709.782712893384, -745.1332191019411
"""The exponential of more is infinite, and that of less zero."""

# 1. Scaled sizes tell what a product or quotient becomes: an infinity, or zero from half of the
#    smallest float on. Sizes that cannot lead there are cut off, so that no scaled one raises.
# 2. The factor infinity or 0 then takes the signs, and the NaN, of both sides.
_MULTIPLY = (
    "({x}*CASE "
    f"WHEN (greatest(abs({{x}}),1)*{2.0**-512})*(greatest(abs({{y}}),1)*{2.0**-512})>=1 "
    "THEN {infinity} "
    f"WHEN (least(abs({{x}}),abs({{y}}),{2.0**-500})*{2.0**600})"
    f"*(least(greatest(abs({{x}}),abs({{y}})),1)*{2.0**474})<=0.5 THEN 0 "
    "ELSE 1 END*{y})"
)
# Only its text tells -0 from 0.
_DIVIDE = (
    "CASE WHEN {y}=0 THEN CASE WHEN {x}=0 OR {x}='nan' THEN {nan} "
    "WHEN ({x}>0)=({y}::text<>'-0') THEN {infinity} ELSE {least} END ELSE {x}*CASE "
    f"WHEN greatest(abs({{x}}),{2.0**-60})*{2.0**-512}>=least(abs({{y}}),2)*{2.0**512} "
    "THEN {infinity} "
    f"WHEN least(abs({{x}}),1)*{2.0**537}<=greatest(abs({{y}}),1)*{2.0**-538} THEN 0 "
    "ELSE 1 END/{y} END"
)
# By the logarithm of the result, whose rounding must not decide whether ``power`` raises: next to
# the largest float the result is computed from it, and the smallest float stands for what rounds
# to it.
_RESULT = "sign({y})*least(abs({y}),1e300)*ln(abs({x}))"
_POW = (
    "CASE WHEN {x}<0 AND {y}<>floor({y}) "
    "THEN CASE WHEN abs({x})<{infinity} THEN {nan} ELSE power({infinity},{y}) END "
    "WHEN {x}=0 AND {y}<0 THEN CASE "
    "WHEN {x}::text='-0' AND {y}=floor({y}) AND floor({y}/2)<>{y}/2 THEN {least} "
    "ELSE {infinity} END "
    "WHEN {x}<>0 AND abs({x})<{infinity} AND abs({y})>=1e-300 AND abs({y})<{infinity} "
    f"THEN power(sign({{x}}),{{y}})*CASE WHEN {_RESULT}>{MOST_EXPONENT} THEN {{infinity}} "
    f"WHEN {_RESULT}>709.7827 THEN exp({_RESULT}-{MOST_EXPONENT})*'{sys.float_info.max}' "
    f"WHEN {_RESULT}<{LEAST_EXPONENT} THEN 0 WHEN {_RESULT}<-744.1 THEN '5e-324' "
    "ELSE power(abs({x}),{y}) END "
    "ELSE power({x},{y}) END"
)
# Half of the smallest float32, or less, becomes a zero of the same sign.
_FLOAT32 = (
    "CASE WHEN {x}='nan' THEN 'nan'::float4 "
    f"WHEN {{x}}>={LARGEST_FLOAT32} THEN 'inf'::float4 "
    f"WHEN {{x}}<=-{LARGEST_FLOAT32} THEN '-inf'::float4 "
    f"WHEN abs({{x}})<={2.0**-150} THEN ({{x}}*0)::float4 ELSE {{x}}::float4 END"
)


class PostgreSQL(Dialect):
    """PostgreSQL, which raises where IEEE 754 has infinities: these have cases of their own."""

    name = "postgres"
    types: ClassVar = {
        "float64": "float8", "float32": "float4", "int64": "bigint", "int32": "integer",
        "bool": "boolean", "string": "text",
    }  # fmt: skip
    forms: ClassVar = {
        **Dialect.forms,
        "numbers": "coalesce(CAST({x} AS float8),{nan})",
        # They have no cast to float8.
        "bools": "coalesce((CASE CAST({x} AS text) WHEN 'true' THEN '1' WHEN 'false' THEN '0' "
        "ELSE CAST({x} AS text) END)::float8,{nan})",
        "texts": 'CAST({x} AS text) COLLATE "C"',
        "multiply": _MULTIPLY,
        "divide": _DIVIDE,
        # Its remainder is one of decimals.
        "remainder": "",
        "whole quotient": "{x}/{y}",
        "pow": _POW,
        "isnan": "({x}='nan')",
        "rint": "round({x})",
        "exp": f"CASE WHEN {{x}}>{MOST_EXPONENT} THEN {{x}}*'inf' "
        f"WHEN {{x}}<{LEAST_EXPONENT} THEN 0 ELSE exp({{x}}) END",
        "float32": _FLOAT32,
        "entry": "(ARRAY[{y}]::{type}[])[{x}+1]",
    }
    # Without it a column that is read often is computed as often, stage by stage.
    fence = " OFFSET 0"
    most_columns = 1600
    most_name_bytes = 63
    reads_arrays_fast = False
    raises = True

    def fold(self, name: str) -> str:
        """Return what is left of a name, whose case counts."""
        return name.encode(errors="replace")[: self.most_name_bytes].decode(errors="ignore")

    def float64(self, value: float) -> str:
        """Return a literal of float64: 0.1 and 1e-1 are decimals."""
        return f"'{value}'::float8"

    def float32(self, value: float) -> str:
        """Return a literal of float32, which is rounded once."""
        return f"'{value}'::float4"

    def bare(self, value: Any, dtype: str) -> str:
        """Return a literal beside a column or in a list: a decimal, converted once, in planning."""
        if not dtype.startswith("float"):
            return super().bare(value, dtype)
        value = shortest_float32(value) if dtype == "float32" else value
        if not math.isfinite(value) or (value == 0 and math.copysign(1.0, value) < 0):
            return f"'{value}'"
        return f"({value})" if value < 0 else str(value)

    def scale(self, x: str, symbol: str, constant: float, dtype: str) -> str:
        """Multiply a name, or divide it; what leaves the range becomes zero or an infinity."""
        plain = super().scale(x, symbol, constant, dtype)
        if constant == 0 or not math.isfinite(constant):
            return plain
        zero, infinity = ("-0", "-inf") if constant < 0 else ("0", "inf")
        factor = abs(Fraction(constant))
        lost, endless = find_range(factor if symbol == "*" else 1 / factor, dtype)
        whens = [f" WHEN abs({x})<={lost} THEN {x}*'{zero}'"] if lost else []
        if math.isfinite(endless):
            whens.append(f" WHEN abs({x})>={endless} THEN {x}*'{infinity}'")
        return f"CASE{''.join(whens)} ELSE {plain} END" if whens else plain


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


def _float_below(value: Fraction) -> float:
    """Return the largest float64 up to a value."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)
