"""What databases say differently: types, literals, and arithmetic that follows IEEE 754."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hbconv.backends.interface import is_unicode
from hbconv.errors import BackendError
from hbconv.tensor.types import FLOATS

__all__ = ["LARGEST_FLOAT32", "Dialect", "choose", "search", "shortest_float32"]

LARGEST_FLOAT32 = 3.4028235677973366e38
"""Halfway from the largest float32 to the next power of two: from here on, floats round to inf."""
LONG_TABLE = 5
"""Entries beyond which a list is read: DuckDB takes as long for 5 in a CASE, and 4 times as long
for 64 (200,000 rows, one thread)."""
MOST_ARGUMENTS = 100
"""Of a call: SQLite takes 127."""


class Dialect:
    """DuckDB, and what most databases share with it.

    Attributes
    ----------
    name : str
    types : dict of str to str
        The type of each dtype.
    forms : mapping of str to str
        How each operation on ``{x}``, or on ``{x}`` and ``{y}``, is written, so that its answers
        are those of IEEE 754. One that misses is a function of that name, and the database lacks
        one whose form is empty.
    mark : str
        Stands around a name.
    fence : str
        Ends a stage, so that its columns are computed once however often they are read.
    largest : str
        Function that returns the largest of its arguments.
    most_columns : int
        Of a stage.
    most_name_bytes : int
        Of a name; longer ones are cut off.
    reads_arrays_fast : bool
        A list of leaves is faster than a tree of CASE.
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
    forms: ClassVar[Mapping[str, str]] = {
        # Columns of the user's: numbers, texts, and what is no number where the database would read
        # it as one.
        "numbers": "coalesce(CAST({x} AS DOUBLE),{nan})",
        "texts": "CAST({x} AS VARCHAR) COLLATE C",
        "no number": "",
        "multiply": "({x}*{y})",
        "divide": "({x}/{y})",
        "remainder": "({x}%{y})",
        "whole quotient": "{x}//{y}",
        "negate": "(-{x})",
        "pow": "pow({x},{y})",
        "rint": "round_even({x},0)",
        # DuckDB before 2 raises where the logarithm is not finite.
        "log": "CASE WHEN {x}>0 THEN ln({x}) WHEN {x}=0 THEN {least} ELSE {nan} END",
        "sqrt": "CASE WHEN {x}<0 THEN {nan} ELSE sqrt({x}) END",
        "sin": "CASE WHEN abs({x})={infinity} THEN {nan} ELSE sin({x}) END",
        "cos": "CASE WHEN abs({x})={infinity} THEN {nan} ELSE cos({x}) END",
        "asin": "CASE WHEN abs({x})<=1 THEN asin({x}) ELSE {nan} END",
        "float32": "coalesce(TRY_CAST({x} AS REAL),"
        "CASE WHEN {x}>0 THEN CAST('inf' AS REAL) ELSE CAST('-inf' AS REAL) END)",
        # Entry {x}, from 0, of the entries {y} of a type.
        "entry": "CAST([{y}] AS {type}[])[{x}+1]",
    }
    mark: ClassVar[str] = '"'
    fence: ClassVar[str] = ""
    largest: ClassVar[str] = "greatest"
    most_columns: ClassVar[int] = 6000
    most_name_bytes: ClassVar[int] = 1000
    reads_arrays_fast: ClassVar[bool] = True
    has_float32: ClassVar[bool] = True
    has_nan: ClassVar[bool] = True
    raises: ClassVar[bool] = False

    def can_name(self, name: str) -> bool:
        """Whether a column or table may have a name."""
        return bool(name) and "\0" not in name and is_unicode(name)

    def quote(self, name: str) -> str:
        """Return a name of a column or table, or raise BackendError."""
        if not self.can_name(name):
            raise BackendError(f"{self.name} cannot name a column or table {name!r}. Rename it.")
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

    def literal(self, value: Any, dtype: str) -> str:
        """Return a literal that is read as exactly this text, bool or number of this dtype."""
        if dtype == "string":
            return self.text(value)
        if dtype == "bool":
            return "TRUE" if value else "FALSE"
        if dtype == "float32":
            return self.float32(float(value))
        if dtype == "float64":
            return self.float64(float(value))
        if int(value) == -(2**63):
            return "(-9223372036854775807-1)"
        return str(int(value)) if value >= 0 else f"({int(value)})"

    def float64(self, value: float) -> str:
        """Return a literal of float64: with an exponent, since 0.1 alone is a decimal."""
        if not math.isfinite(value):
            return self.cast(f"'{value}'", "float64")
        text = repr(value)
        text = text if "e" in text else f"{text}e0"
        return f"({text})" if text.startswith("-") else text

    def float32(self, value: float) -> str:
        """Return a literal of float32."""
        return self.cast(f"'{shortest_float32(value)}'", "float32")

    def bare(self, value: Any, dtype: str) -> str:
        """Return a literal whose dtype is that of its list, or of the column beside it."""
        if dtype == "float32":
            return self.float64(shortest_float32(value))
        return self.literal(value, dtype)

    def cast(self, x: str, dtype: str) -> str:
        """Convert what the type holds."""
        return f"CAST({x} AS {self.types[dtype]})"

    def to_int(self, x: str, source: str, dtype: str) -> str:
        """Truncate a number; what the int cannot hold becomes 0."""
        end = 2.0 ** (31 if dtype == "int32" else 63)
        inside = f"{x}>={self.bare(-end, 'float64')} AND {x}<{self.bare(end, 'float64')}"
        whole = self.apply("trunc", x) if source in FLOATS else x
        return f"CASE WHEN {inside} THEN {self.cast(whole, dtype)} ELSE 0 END"

    def apply(self, operation: str, x: str, y: str = "", dtype: str = "float64") -> str:
        """Write an operation by its form; ``x`` and ``y`` are names.

        Raises
        ------
        BackendError
            The database has no such operation.
        """
        form = self.forms.get(operation, operation + "({x})")
        if not form:
            raise BackendError(
                f"{self.name} has no {operation} of float64, which the model computes. "
                f"Use dialect='duckdb', or a column of the {operation}."
            )
        nan, infinity, least = map(self.float64, (math.nan, math.inf, -math.inf))
        return form.format(
            x=x, y=y, type=self.types[dtype], nan=nan, infinity=infinity, least=least
        )

    def greatest(self, xs: Sequence[str]) -> str:
        """Return the largest, or NaN where there is one."""
        if len(xs) > MOST_ARGUMENTS:
            return self.greatest([self.greatest(xs[:MOST_ARGUMENTS]), *xs[MOST_ARGUMENTS:]])
        return f"{self.largest}({','.join(xs)})" if len(xs) > 1 else xs[0]

    def scale(self, x: str, symbol: str, constant: float, dtype: str) -> str:
        """Multiply a float by a constant, or divide it by one that is not zero."""
        return f"{x}{symbol}{self.literal(constant, dtype)}"

    def pick(self, index: str, values: Sequence[Any], dtype: str) -> str:
        """Return the value at a position from 0."""
        if len(values) > LONG_TABLE and self.forms["entry"]:
            listed = ",".join(self.bare(value, dtype) for value in values)
            return self.apply("entry", index, listed, dtype)
        entries = [self.literal(value, dtype) for value in values]
        if len(values) <= LONG_TABLE:
            return choose(index, entries)
        return search(index, ">=", [str(place) for place in range(1, len(values))], entries)


def choose(index: str, entries: Sequence[str], first: int = 0) -> str:
    """Compare an int with each position from ``first``; the commonest entry is the last answer."""
    common = max(dict.fromkeys(entries), key=entries.count)
    whens = "".join(f" WHEN {i} THEN {e}" for i, e in enumerate(entries, first) if e != common)
    return f"CASE {index}{whens} ELSE {common} END" if whens else common


def search(x: str, symbol: str, bounds: Sequence[str], entries: Sequence[str]) -> str:
    """Return the entry behind the last of the ascending bounds that ``x`` reaches, by halves."""
    if len(set(entries)) == 1:
        return entries[0]
    middle = len(bounds) // 2
    above = search(x, symbol, bounds[middle + 1 :], entries[middle + 1 :])
    below = search(x, symbol, bounds[:middle], entries[: middle + 1])
    return f"CASE WHEN {x}{symbol}{bounds[middle]} THEN {above} ELSE {below} END"


def shortest_float32(value: float) -> float:
    """Return the float64 of fewest digits that rounds to the same float32."""
    if not math.isfinite(value):
        return value
    short = float(str(np.float32(value)))
    return short if np.float32(short) == np.float32(value) else float(np.float32(value))
