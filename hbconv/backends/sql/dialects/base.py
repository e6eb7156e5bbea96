"""What databases say differently: types, literals, and arithmetic that follows IEEE 754."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hbconv.backends.interface import is_unicode
from hbconv.errors import BackendError

__all__ = [
    "LARGEST_FLOAT32",
    "LONG_TABLE",
    "Dialect",
    "choose",
    "float_word",
    "shortest_float32",
]

LARGEST_FLOAT32 = 3.4028235677973366e38
"""Halfway from the largest float32 to the next power of two: from here on, floats round to inf."""


class Dialect:
    """DuckDB, and what most databases share with it.

    Attributes
    ----------
    name : str
    types : dict of str to str
        The type of each dtype.
    mark : str
        Stands around a name.
    fence : str
        Ends a stage, so that its columns are computed once however often they are read.
    same : str
        Operator of equality for which missing values are equal.
    collation : str
        Compares texts character by character.
    array : str
        A list of ``entries`` of a ``type``; empty where there is none.
    reads_arrays_fast : bool
        A list of leaves is faster than a tree of CASE.
    most_columns : int
        Of a stage.
    most_name_bytes : int
        Of a name; longer ones are cut off.
    whole_division : str
        Operator of the quotient of ints, rounded toward zero.
    has_float32 : bool
        Floats of 32 bits have arithmetic of their own.
    has_nan : bool
        NaN is a value, above all others and equal to itself; else NULL stands for it.
    raises : bool
        A product or quotient raises where finite floats give an infinity, or others than zero give
        zero.
    """

    name: ClassVar[str] = "duckdb"
    types: ClassVar[dict[str, str]] = {
        "float64": "DOUBLE", "float32": "REAL", "int64": "BIGINT", "int32": "INTEGER",
        "bool": "BOOLEAN", "string": "VARCHAR",
    }  # fmt: skip
    mark: ClassVar[str] = '"'
    fence: ClassVar[str] = ""
    same: ClassVar[str] = "="
    collation: ClassVar[str] = "C"
    array: ClassVar[str] = "CAST([{entries}] AS {type}[])"
    reads_arrays_fast: ClassVar[bool] = True
    most_columns: ClassVar[int] = 6000
    most_name_bytes: ClassVar[int] = 1000
    whole_division: ClassVar[str] = "//"
    has_float32: ClassVar[bool] = True
    has_nan: ClassVar[bool] = True
    raises: ClassVar[bool] = False

    def quote(self, name: str) -> str:
        """Return a name of a column or table."""
        if "\0" in name or not name or not is_unicode(name):
            raise BackendError(f"SQL cannot name a column {name!r}. Rename it and fit again.")
        return self.mark + name.replace(self.mark, 2 * self.mark) + self.mark

    def fold(self, name: str) -> str:
        """Return what the database takes a name for: equal ones are one column."""
        return "".join([c.lower() if c.isascii() else c for c in name])

    def text(self, value: str) -> str:
        """Return a literal of text."""
        if "\0" in value or not is_unicode(value):
            raise BackendError(
                f"SQL cannot hold the text {value!r}, with a null or half a character."
            )
        return "'" + value.replace("'", "''") + "'"

    def number(self, value: Any, dtype: str) -> str:
        """Return a literal that is read as exactly this number of this dtype."""
        if dtype == "bool":
            return "TRUE" if value else "FALSE"
        if dtype.startswith("float"):
            return self.float32(float(value)) if dtype == "float32" else self.float64(float(value))
        if int(value) == -(2**63):
            return "(-9223372036854775807-1)"
        return str(int(value)) if value >= 0 else f"({int(value)})"

    def float64(self, value: float) -> str:
        """Return a literal of float64: with an exponent, since 0.1 alone is a decimal."""
        if not math.isfinite(value):
            return self.cast(f"'{float_word(value)}'", "float64")
        text = repr(value)
        text = text if "e" in text else f"{text}e0"
        return f"({text})" if text.startswith("-") else text

    def float32(self, value: float) -> str:
        """Return a literal of float32."""
        if not math.isfinite(value):
            return self.cast(f"'{float_word(value)}'", "float32")
        return self.cast(self.float64(shortest_float32(value)), "float32")

    def bound(self, value: float) -> str:
        """Return a float64 that a column is compared with."""
        return self.float64(value)

    def cast(self, x: str, dtype: str) -> str:
        """Convert what the type holds."""
        return f"CAST({x} AS {self.types[dtype]})"

    def isnan(self, x: str) -> str:
        """Test for NaN."""
        return f"isnan({x})"

    def read(self, column: str) -> str:
        """Read a column of the user's as float64, NULL as NaN."""
        return f"coalesce({self.cast(column, 'float64')},{self.float64(math.nan)})"

    def is_no_number(self, column: str) -> str:  # noqa: ARG002
        """Test for what a column of numbers should not hold; empty where the database raises."""
        return ""

    def read_text(self, column: str) -> str:
        """Read a column of the user's as text, of which equal ones have the same characters."""
        return f"{self.cast(column, 'string')} COLLATE {self.collation}"

    def to_int(self, x: str, dtype: str) -> str:
        """Truncate a float; what the int cannot hold becomes 0."""
        return f"coalesce(TRY_{self.cast(f'trunc({x})', dtype)},0)"

    def narrow_int(self, x: str, dtype: str) -> str:
        """Convert between ints; what the narrower one cannot hold becomes 0."""
        return f"coalesce(TRY_{self.cast(x, dtype)},0)"

    def round_float32(self, x: str) -> str:
        """Round a float64 column to float32, to infinity beyond the largest."""
        infinity = (
            f"CASE WHEN {x}>0 THEN {self.float32(math.inf)} ELSE {self.float32(-math.inf)} END"
        )
        return f"coalesce(TRY_{self.cast(x, 'float32')},{infinity})"

    def greatest(self, xs: Sequence[str]) -> str:
        """Return the largest, or NaN where there is one."""
        return f"greatest({','.join(xs)})" if len(xs) > 1 else xs[0]

    def function(self, name: str, x: str) -> str:
        """Apply a function of float64, with the infinities and NaN of IEEE 754.

        ``x`` is a name, which may be written often.
        """
        if name == "log":
            # DuckDB before 2 raises where the logarithm is not finite.
            return (
                f"CASE WHEN {x}>0 THEN ln({x}) WHEN {x}=0 THEN {self.float64(-math.inf)} "
                f"ELSE {self.float64(math.nan)} END"
            )
        if name == "sqrt":
            return f"CASE WHEN {x}<0 THEN {self.float64(math.nan)} ELSE sqrt({x}) END"
        if name in ("sin", "cos"):
            outside = f"abs({x})={self.float64(math.inf)}"
            return f"CASE WHEN {outside} THEN {self.float64(math.nan)} ELSE {name}({x}) END"
        if name == "asin":
            return f"CASE WHEN abs({x})<=1 THEN asin({x}) ELSE {self.float64(math.nan)} END"
        return f"{name}({x})"

    def rint(self, x: str) -> str:
        """Round halves to even."""
        return f"round_even({x},0)"

    def times(self, x: str, weight: float, dtype: str) -> str:
        """Multiply a float by a constant."""
        return f"{x}*{self.number(weight, dtype)}"

    def multiply(self, x: str, y: str) -> str:
        """Multiply names of float64."""
        return f"({x}*{y})"

    def divide_by(self, x: str, divisor: float, dtype: str) -> str:
        """Divide a float by a constant that is not zero."""
        return f"({x}/{self.number(divisor, dtype)})"

    def divide(self, x: str, y: str, dtype: str) -> str:  # noqa: ARG002
        """Divide floats; by zero as IEEE 754 does."""
        return f"({x}/{y})"

    def divide_constant(self, dividend: float, y: str) -> str:
        """Divide a finite float that is no zero by a name of float64."""
        return self.divide(self.float64(dividend), y, "float64")

    def power(self, x: str, y: str) -> str:
        """Raise floats to a power."""
        return f"pow({x},{y})"

    def remainder(self, x: str, y: str) -> str:
        """Return the rest of a division that is rounded toward zero."""
        return f"({x}%{y})"

    def whole_quotient(self, x: str, y: str) -> str:
        """Divide ints, rounded toward zero."""
        return f"({x}{self.whole_division}{y})"

    def literal(self, value: Any, dtype: str) -> str:
        """Return a literal of a text or a number."""
        return self.text(value) if dtype == "string" else self.number(value, dtype)

    def listed(self, value: Any, dtype: str) -> str:
        """Return a literal in a list, which converts all of its entries to one type."""
        if dtype == "float32":
            return self.float64(shortest_float32(value))
        return self.literal(value, dtype)

    def pick(self, index: str, values: Sequence[Any], dtype: str) -> str:
        """Return the value at a position from 0."""
        if not self.array or len(values) <= LONG_TABLE:
            return choose(index, [self.literal(value, dtype) for value in values])
        entries = ",".join(self.listed(value, dtype) for value in values)
        return f"{self.array.format(entries=entries, type=self.types[dtype])}[{index}+1]"

    def entry_of_splits(self, goes_left: Sequence[str], entries: Sequence[str]) -> str | None:
        """Return a leaf of a symmetric tree by the outcomes of its levels, the first one highest.

        None where a table is not faster than a tree of CASE.
        """
        if not self.reads_arrays_fast:
            return None
        levels = len(goes_left)
        bits = [
            f"CASE WHEN {t} THEN 0 ELSE {1 << levels - 1 - i} END" for i, t in enumerate(goes_left)
        ]
        return f"[{','.join(entries)}][1+{'+'.join(bits)}]"


LONG_TABLE = 5
"""Entries beyond which a list is read: DuckDB takes as long for 5 in a CASE, and 4 times as long
for 64 (200,000 rows, one thread)."""


def choose(index: str, entries: Sequence[str], first: int = 0) -> str:
    """Compare an int with each position from ``first``; the commonest entry is the last answer."""
    common = max(dict.fromkeys(entries), key=entries.count)
    whens = "".join(f" WHEN {i} THEN {e}" for i, e in enumerate(entries, first) if e != common)
    return f"CASE {index}{whens} ELSE {common} END" if whens else common


def float_word(value: float) -> str:
    """Return the text of a float, as most databases read it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def shortest_float32(value: float) -> float:
    """Return the float64 of fewest digits that rounds to the same float32."""
    if not math.isfinite(value):
        return value
    short = float(str(np.float32(value)))
    return short if np.float32(short) == np.float32(value) else float(np.float32(value))
