"""Types of the container DAG: what flows (Type), and what the user feeds (Schema).

Also the names of the columns that ``transform`` returns, and the format in which it returns them.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import is_
from typing import Literal

import numpy as np

from hbconv.errors import ConversionError, InputError

__all__ = [
    "MOST_COLUMNS",
    "MOST_EXACT_INT",
    "WEAK_INT",
    "WIDER",
    "Column",
    "Conventions",
    "Finds",
    "FrameFormat",
    "NamesOut",
    "Schema",
    "Type",
    "as_float",
    "common_dtype",
    "place",
]

# numpy promotes int16 beside float32 to float32, and wider ints to float64.
WEAK_INT = "int16"
"""Dtype by which a table reports that a column holds bools or ints of up to 16 bits."""

MOST_EXACT_INT = 2**53
"""Ints up to this magnitude are floats of 64 bits exactly."""
WIDER = {"float32": ("float64",), "int64": ("float64",), WEAK_INT: ("float64",)}
"""Dtypes that hold all values of another, ints up to ``MOST_EXACT_INT``."""

MOST_NAMES = 10
"""Names of columns that a prompt shows."""
MOST_COLUMNS = 2**22
"""Columns that a model may read: a damaged one would ask for more memory than there is."""

Finds = Literal["names", "names in order", "positions"]
"""How a source finds the columns of a table.

``"names"``: by their names, wherever they are. ``"names in order"``: by position, once the names
are those of fitting in that order. ``"positions"``: by position, whatever the names.
"""


@dataclass(frozen=True)
class Type:
    """Every value is rows x width; the row count is never known."""

    width: int
    dtype: str

    def __str__(self) -> str:
        return f"width {self.width} {self.dtype}"


@dataclass(frozen=True, slots=True)
class Column:
    """One input column.

    Parameters
    ----------
    name : str
    dtype : {"float32", "float64", "int64", "string"}
    weak_int : bool
        The ints are small, so that numpy keeps float32 next to them.
    """

    name: str
    dtype: str = "float64"
    weak_int: bool = False

    def of(self, dtype: str) -> Column:
        """Return the same column of the dtype that a table reports."""
        weak = dtype == WEAK_INT
        own_dtype = "int64" if weak else dtype
        if (self.dtype, self.weak_int) == (own_dtype, weak):
            return self
        return Column(self.name, own_dtype, weak)


@dataclass(frozen=True)
class Conventions:
    """How a source reads tables and arrays, where it is not as scikit-learn does.

    Parameters
    ----------
    tables_only : bool
        The source was fitted on columns of categories, whose values only tables hold. The numbers
        of an array would be codes.
    other_arrays : str
        Dtype as which the source reads an array of another dtype than float32 and float64. It is
        empty where ints stay exact.
    underscored : bool
        The source put underscores for spaces in the names.
    names_as_text : bool
        The source makes text of names that are numbers; for others, a table of such has no names.
    no_categories : bool
        The source would read a table's columns of a category dtype by their codes. These depend on
        the table, so such columns are refused.
    absent_missing : bool
        The source takes for missing, not for zero, what a sparse matrix leaves out.
    sequence : bool
        Rows come as a one-dimensional sequence of values, as labels do. A table or array of one
        column is taken too.
    items : bool
        Rows come as the items of any iterable: texts, mappings, sequences. The items of a table
        are its names, so it is refused.
    """

    tables_only: bool = False
    other_arrays: str = ""
    underscored: bool = False
    names_as_text: bool = False
    no_categories: bool = False
    absent_missing: bool = False
    sequence: bool = False
    items: bool = False

    @property
    def takes_column(self) -> bool:
        """Whether rows are one sequence, of values or of items, rather than a table."""
        return self.sequence or self.items

    @property
    def takes_matrices(self) -> bool:
        """Whether rows may be a matrix of numbers."""
        return not (self.tables_only or self.takes_column)


@dataclass(frozen=True)
class Schema:
    """The columns a model reads, in the order the source was fitted on.

    Parameters
    ----------
    columns : tuple of Column
        All columns.
    named : bool
        The source was fitted on named columns; else a table's columns are found by position.
    conventions : Conventions
        How the source reads tables and arrays, where it is not as scikit-learn does.
    finds : Finds
        How the source finds named columns. In a mapping, which has no order, they are found by
        name.
    """

    columns: tuple[Column, ...]
    named: bool = False
    conventions: Conventions = Conventions()
    finds: Finds = "names"

    def __repr__(self) -> str:
        kinds = Counter(column.dtype for column in self.columns)
        first = ", ".join(column.name for column in self.columns[:MOST_NAMES])
        more = len(self.columns) - MOST_NAMES
        rest = f" and {more} more" if more > 0 else ""
        counts = ", ".join(f"{count} {dtype}" for dtype, count in kinds.items())
        return f"<hbconv.Schema of {len(self.columns)} columns ({counts}): {first}{rest}>"

    @staticmethod
    def matrix(width: int, dtype: str = "float64") -> Schema:
        """Return unnamed columns of one dtype.

        Raises
        ------
        ConversionError
            The width is negative, or above ``MOST_COLUMNS``.
        """
        if not 0 <= width <= MOST_COLUMNS:
            raise ConversionError(
                f"The model says that it reads {width} columns; hbconv takes 0 to {MOST_COLUMNS}."
            )
        return Schema(tuple(Column(f"x{i}", dtype) for i in range(width)))

    @staticmethod
    def table(names: Sequence[str], dtype: str = "float64", finds: Finds = "names") -> Schema:
        """Named columns, all of one dtype."""
        return Schema(tuple(Column(name, dtype) for name in names), named=True, finds=finds)

    @staticmethod
    def sequence(dtype: str = "float64") -> Schema:
        """One unnamed column, whose rows come as a one-dimensional sequence."""
        return Schema((Column("x0", dtype),), conventions=Conventions(sequence=True))

    @staticmethod
    def items() -> Schema:
        """One unnamed column, whose rows are the items of an iterable."""
        return Schema((Column("x0", "string"),), conventions=Conventions(items=True))

    @cached_property
    def key(self) -> str:
        """Digest that distinguishes schemas."""
        weak = tuple(column.weak_int for column in self.columns)
        content = repr((self.names, self.dtypes, weak, self.named, self.conventions, self.finds))
        # Names may hold lone surrogates, as of files that
        # are no UTF-8, which the plain codec refuses.
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names."""
        return tuple(c.name for c in self.columns)

    @cached_property
    def dtypes(self) -> tuple[str, ...]:
        """Column dtypes."""
        return tuple(c.dtype for c in self.columns)

    def with_dtypes(self, dtypes: Sequence[str]) -> Schema:
        """Return the same columns with other dtypes; the schema itself where they have these."""
        columns = tuple(c.of(d) for c, d in zip(self.columns, dtypes, strict=True))
        # ``Column.of`` returns the column itself where
        # nothing changes, so identity is enough and fast.
        same = all(map(is_, columns, self.columns))
        return self if same else replace(self, columns=columns)

    def common_dtype(self, indices: Sequence[int]) -> str:
        """Dtype numpy gives the chosen columns together; "string" when one of them is text."""
        chosen = [self.columns[i] for i in indices]
        return common_dtype((column.dtype, column.weak_int) for column in chosen)[0]


def common_dtype(members: Iterable[tuple[str, bool]]) -> tuple[str, bool]:
    """Return the dtype that numpy gives columns together, and whether it is a weak int.

    Parameters
    ----------
    members : iterable of (str, bool)
        Dtype of each, and whether it is a weak int. One of text makes the whole text.

    Examples
    --------
    >>> common_dtype([("float32", False), ("int64", True)])
    ('float32', False)
    >>> common_dtype([("float32", False), ("int64", False)])
    ('float64', False)
    """
    dtypes = {WEAK_INT if weak else dtype for dtype, weak in members}
    if "string" in dtypes:
        return "string", False
    # Without columns numpy makes an empty array of float64.
    common = np.result_type(*dtypes).name if dtypes else "float64"
    return ("int64", True) if common == WEAK_INT else (common, False)


def as_float(dtype: str) -> str:
    """Return the float dtype in which numpy computes with numbers of a dtype: float64 for ints."""
    return dtype if dtype.startswith("float") else "float64"


def place(column: int) -> str:
    """Return the place of an input column's name in a pattern."""
    # Null characters mark the place: names of columns hardly ever hold one.
    return f"\0{column}\0"


# At most nine digits: a place is a column number, whatever a damaged file holds.
_PLACE = re.compile("\0(\\d{1,9})\0")


@dataclass(frozen=True)
class NamesOut:
    r"""Names of the columns that ``transform`` returns.

    Parameters
    ----------
    default : tuple of str
        Where the caller does not name the input columns.
    pattern : tuple of str
        The same, with places for the input columns' names; empty where these do not matter.
    checked : bool
        Names of the input columns must be those of fitting, or at least as many.

    Examples
    --------
    >>> names = NamesOut(("x0", "x0^2"), (place(0), place(0) + "^2"), checked=True)
    >>> names.of(["age"], Schema.matrix(1))
    ('age', 'age^2')
    """

    default: tuple[str, ...]
    pattern: tuple[str, ...] = ()
    checked: bool = False

    def of(self, names: Sequence[str] | None, schema: Schema) -> tuple[str, ...]:
        """Return the names for input columns of the given names; those of fitting for None.

        Raises
        ------
        InputError
            Other names than in fitting, or another number of them, where the source checks that.
        """
        if names is None:
            return self.default
        if self.checked and schema.named and tuple(names) != schema.names:
            raise InputError("input_features is not equal to feature_names_in_")
        if self.checked and len(names) != len(schema.columns):
            raise InputError(
                f"input_features should have length equal to number of features "
                f"({len(schema.columns)}), got {len(names)}"
            )
        return (
            tuple(
                _PLACE.sub(lambda match: str(names[int(match[1])]), name) for name in self.pattern
            )
            or self.default
        )

    @property
    def reads(self) -> set[int]:
        """Input columns whose names are in the pattern."""
        return {int(column) for name in self.pattern for column in _PLACE.findall(name)}


@dataclass(frozen=True)
class FrameFormat:
    """Format in which ``transform`` returns columns.

    Parameters
    ----------
    library : {"default", "pandas", "polars", "given", "rows", ""}
        "default" stands for arrays, "given" for frames of the library of the rows and arrays for
        other rows, "rows" for the rows themselves, and "" for the configuration of scikit-learn.
    names : tuple of str, or None
        Names of a frame's columns; None where the rows name them.
    renames : bool
        Columns of the rows are named again, as the wrapper of scikit-learn's ``set_output`` does.
        Else an Index of pandas is that of the rows, with its dtype and name, where it fits.
    """

    library: str
    names: tuple[str, ...] | None
    renames: bool = False
