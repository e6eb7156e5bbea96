"""Spark in ANSI mode, which is its default from 4.0 on."""

from __future__ import annotations

from typing import ClassVar

from hbconv.backends.sql.dialects.base import Dialect

__all__ = ["Spark"]

# ``floor`` and ``ceil`` give a bigint, and raise where it does not hold the number.
_FLOOR = "CASE WHEN rint({x})>{x} THEN rint({x})-1 ELSE rint({x}) END"
# The ceiling of -0.7 is -0.
_CEIL = "CASE WHEN rint({x})<{x} THEN -(-rint({x})-1) ELSE rint({x}) END"
# Division by zero raises, and only its text tells -0 from 0.
_DIVIDE = (
    "CASE WHEN {y}<>0 THEN {x}/{y} WHEN {x}=0 OR isnan({x}) THEN {nan} "
    "WHEN ({x}>0)=(string({y})<>'-0.0') THEN {infinity} ELSE {least} END"
)


class Spark(Dialect):
    """Spark, whose texts have escapes, and whose quotients are float64."""

    name = "spark"
    types: ClassVar = {
        "float64": "DOUBLE", "float32": "FLOAT", "int64": "BIGINT", "int32": "INT",
        "bool": "BOOLEAN", "string": "STRING",
    }  # fmt: skip
    forms: ClassVar = {
        **Dialect.forms,
        # Else a timestamp would be its seconds since 1970.
        "numbers": "coalesce(CASE WHEN typeof({x}) LIKE 'timestamp%' "
        "THEN double(raise_error('A timestamp is no number.')) "
        "ELSE CAST({x} AS DOUBLE) END,{nan})",
        "texts": "CAST({x} AS STRING) COLLATE UTF8_BINARY",
        "divide": _DIVIDE,
        "remainder": "CASE WHEN {y}=0 THEN {nan} ELSE {x}%{y} END",
        "whole quotient": "{x} div {y}",
        # Java's power of 1 to NaN or infinity, and that of -1 to infinity, are NaN.
        "pow": "CASE WHEN {x}=1 OR {x}=-1 AND abs({y})={infinity} THEN 1e0 ELSE pow({x},{y}) END",
        "rint": "rint({x})",
        "floor": _FLOOR,
        "ceil": _CEIL,
        # CAST truncates.
        "trunc": "{x}",
        "float32": "CAST({x} AS FLOAT)",
        "entry": "CAST(array({y})[{x}] AS {type})",
    }
    mark = "`"
    reads_arrays_fast = False

    def can_name(self, name: str) -> bool:
        """Refuse a name with ``${x}``, which a setting of the session replaces in all of a text."""
        return "${" not in name and super().can_name(name)

    def fold(self, name: str) -> str:
        """Return what Spark takes a name for: case does not count."""
        return name.lower()

    def text(self, value: str) -> str:
        """Return a literal of text, with its escapes."""
        plain = super().text(value)[1:-1].replace("''", "'")
        for special in ("\\", "'", "$"):
            plain = plain.replace(special, f"\\u{ord(special):04x}")
        return f"'{plain}'"

    def scale(self, x: str, symbol: str, constant: float, dtype: str) -> str:
        """Multiply a float by a constant, or divide it; a quotient is rounded to its dtype."""
        scaled = super().scale(x, symbol, constant, dtype)
        return self.cast(scaled, dtype) if symbol == "/" and dtype == "float32" else scaled
