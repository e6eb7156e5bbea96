"""The leaves of the DAG: numeric columns, and text columns as codes.

Leaves have no ``lower``: hbconv.lower declares them, since it knows how the columns are fed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.extractors import Buckets, Extractor, Texts
from hbconv.containers.interval import FINITE, LARGEST, LARGEST_INT, Interval, Trend
from hbconv.containers.node import Node, container, container_base
from hbconv.containers.nodes.wiring import Cast, Concat
from hbconv.containers.schema import Schema, Type
from hbconv.containers.text_edits import LOW_BITS, SCALES, EditedVocabulary, TextEdit
from hbconv.containers.vocabulary import DateCodes, Vocabulary
from hbconv.errors import UnsupportedError

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "ChooseText",
    "ChosenText",
    "CleanText",
    "Codes",
    "Columns",
    "EditText",
    "Entries",
    "FillObjects",
    "FromObjects",
    "HashCodes",
    "Hashed",
    "Hashes",
    "JoinText",
    "KeepText",
    "NumberText",
    "OfTexts",
    "TextNumber",
    "Vocabulary",
]


@container
class Columns(Node):
    """Read input columns, by position in the schema.

    They are in their common dtype, or each is converted from its own to ``dtype``.
    """

    schema: Schema
    indices: Array
    dtype: str = ""

    @staticmethod
    def of(schema: Schema) -> Columns:
        """All columns."""
        return Columns(schema, Array(np.arange(len(schema.columns), dtype=np.int32)))

    @property
    def columns(self) -> tuple[int, ...]:
        """Positions read."""
        return tuple(self.indices.data.tolist())

    @property
    def detail(self) -> str:
        names = [self.schema.columns[i].name for i in self.columns]
        return (
            ", ".join(names)
            if len(names) <= 8
            else f"{names[0]} ... {names[-1]} ({len(names)} columns)"
        )

    @cached_property
    def weak_int(self) -> bool:
        chosen = [self.schema.columns[i] for i in self.columns]
        return not self.dtype and bool(chosen) and all(column.weak_int for column in chosen)

    def narrowed(self, columns: Array) -> Node:
        """Fewer columns may have a narrower common dtype; a Cast keeps that of all."""
        fewer = replace(self, indices=Array(self.indices.data[columns.data]))
        return fewer if fewer.type.dtype == self.type.dtype else Cast(fewer, self.type.dtype)

    def trend(self, column: int) -> Trend:
        """Rise: each column is converted from its own dtype."""
        dtype = self.schema.dtypes[self.columns[column]]
        keeps = self.type.dtype.startswith("float") or dtype == self.type.dtype
        return Trend.RISES if keeps else Trend.UNKNOWN

    def check(self) -> str | None:
        return (
            None
            if self.indices.are_places(len(self.schema.columns))
            else "reads a column that does not exist"
        )

    def infer(self) -> Type:
        common = self.schema.common_dtype(self.columns)
        return Type(len(self.indices), common if common == "string" else self.dtype or common)

    def interval(self, *inputs: Interval) -> Interval | None:
        """Hold ints too, which are not looked at: they are as large as their dtype allows."""
        (x,) = inputs
        if self.type.dtype == "string":
            return None
        # Only floats are looked at: ints hold no NaN, and their dtype bounds them.
        floats = frozenset(i for i in self.columns if self.schema.dtypes[i] in LARGEST)
        only_floats = len(floats) == len(self.columns)
        return Interval(x.bound if only_floats else max(x.bound, LARGEST_INT), floats)


@dataclass(frozen=True)
class Hashed:
    """Categories that the source distinguishes by hashes of their texts alone.

    A hash is signed, of 32 bits: the low half of CityHash64 1.0. A whole number is a category too:
    its decimal digits are hashed.
    """

    def codes(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return the code of each hash."""
        raise NotImplementedError


@dataclass(frozen=True)
class Hashes(Hashed):
    """The hashes that the source knows, ascending; their positions are the codes.

    Examples
    --------
    >>> Hashes((-7, 3, 90)).codes(np.array([90, 4, -7]))
    array([ 2, -1,  0], dtype=int32)
    """

    values: tuple[int, ...]

    def codes(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        values = np.asarray(self.values, np.int64)
        if not len(values):
            return np.full(len(hashes), -1, np.int32)
        # A hash above all of them would be looked for behind the end.
        place = np.minimum(np.searchsorted(values, hashes), len(values) - 1)
        return np.where(values[place] == hashes, place, -1).astype(np.int32)

    def __str__(self) -> str:
        return f"{len(self.values)} hashed categories"


@dataclass(frozen=True)
class HashCodes(Hashed):
    """Any hashes: the code of a category is its hash, so that a program can mix it with others."""

    def codes(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        # The hash is a signed int of 32 bits already, held in int64 by the look-up.
        return hashes.astype(np.int32)

    def __str__(self) -> str:
        return "hashed categories"


@container
class Codes(Node):
    """Read a text column as int32 codes of a vocabulary, -1 for an unknown value.

    ``HashCodes`` knows every value, and ``DateCodes`` every date. The host makes the codes; an
    ONNX file makes those of texts in its graph. Those of an ``EditedVocabulary`` are made of edited
    texts, by the host alone.
    """

    schema: Schema
    column: int
    vocabulary: Vocabulary | Hashes | HashCodes | DateCodes

    def check(self) -> str | None:
        return self.vocabulary.misfit if isinstance(self.vocabulary, EditedVocabulary) else None

    @property
    def columns(self) -> tuple[int, ...]:
        """Positions read."""
        return (self.column,)

    @property
    def detail(self) -> str:
        return f"{self.schema.columns[self.column].name}  {self.vocabulary}"

    def infer(self) -> Type:
        return Type(1, "int32")


@container
class TextNumber(Node):
    """Join the parts of the number that Python reads in an edited text, in float64.

    Codes are ints, so the host gives a whole number of 53 bits in two halves, and the place of a
    power of two by which it is multiplied: all steps are exact. A text that is missing, or no
    number, gives NaN.
    """

    x: Node

    @staticmethod
    def of(schema: Schema, column: int, edits: tuple[TextEdit, ...] = ()) -> TextNumber:
        """Read the number of a text column after some edits."""
        parts = (
            Codes(schema, column, EditedVocabulary((), edits=(*edits, TextEdit(part))))
            for part in ("float_high", "float_low", "float_scale")
        )
        return TextNumber(Concat(tuple(parts)))

    def check(self) -> str | None:
        return None if self.x.type == Type(3, "int32") else "joins other parts than three ints"

    def infer(self) -> Type:
        return Type(1, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        high, low, place = (b.take(inputs[0], [part]) for part in range(3))
        number = b.cast(high, "float64") * b.constant(2.0**LOW_BITS, "float64") + b.cast(
            low, "float64"
        )
        # A code of -1 is a missing text, and a file may hold any.
        last = b.constant(len(SCALES) - 1, "int32")
        is_place = (place >= b.constant(0, "int32")) & (place <= last)
        scale = b.lookup(b.constant(np.array(SCALES)), b.where(is_place, place, last))
        return number * scale


@container
class Entries(Node):
    """Read a column of texts or mappings as sparse rows, which the host makes.

    Each token has a column.
    """

    schema: Schema
    column: int
    extractor: Extractor

    @property
    def columns(self) -> tuple[int, ...]:
        """Positions read."""
        return (self.column,)

    @property
    def detail(self) -> str:
        return f"{self.schema.columns[self.column].name}  {self.extractor}  width {self.type.width}"

    def check(self) -> str | None:
        rows = self.extractor.rows
        width = self.extractor.width
        if isinstance(rows, Texts) and not rows.can_be_read:
            return "reads texts by a pattern, an encoding or n-grams that are none"
        # A bucket is a hash modulo the width, and nothing is modulo 0.
        least = 1 if isinstance(self.extractor.columns, Buckets) else 0
        # Tokens are int32, and the width itself stands for padding.
        fits = least <= width < 2**31 and self.extractor.dtype in (
            "float32",
            "float64",
            "int32",
            "int64",
        )
        return None if fits else f"has {width} columns of {self.extractor.dtype:.50}"

    def infer(self) -> Type:
        return Type(self.extractor.width, self.extractor.dtype)

    def interval(self, *inputs: Interval) -> Interval:
        # Features of texts count tokens, so no value of a row can make their sums large.
        if self.extractor.sums_ones:
            return Interval(FINITE, least=0.0 if self.extractor.counts else -FINITE)
        return Interval(inputs[0].bound if self.type.dtype in LARGEST else LARGEST_INT)


@container_base
class OfTexts(Node):
    """Base of steps of texts, which exist only between parsers: these fold them into others."""

    x: Node

    @property
    def parts(self) -> tuple[Node, ...]:
        """The texts that it makes others of."""
        return (self.x,)

    def infer(self) -> Type:
        return Type(self.x.type.width, "string")

    def lower(self, b: Builder, *inputs: Value) -> Value:  # noqa: ARG002
        raise UnsupportedError(
            "text columns",
            self.step,
            hint="Answers are numbers or labels: encode text (OneHotEncoder, OrdinalEncoder) after "
            "filling it, and fill columns of numbers with a number.",
        )


@container
class FillObjects(OfTexts):
    """Replace the missing values of columns of objects.

    It exists only between parsers. An encoder of texts folds it into a vocabulary, and columns of
    numbers are filled as such (``of_objects``). None and NaN leave numbers as they are.

    Parameters
    ----------
    fill : tuple
        A text, a number or None for each column.
    missing : tuple
        The values that count as missing: None, NaN, a text or a number.
    texts_only : bool
        Columns of other objects stay as they are.
    """

    fill: tuple[str | bytes | float | None, ...]
    missing: tuple[str | float | None, ...] = (float("nan"),)
    texts_only: bool = False

    @property
    def fills_numbers(self) -> bool:
        """Whether it changes a column of numbers, where None is NaN."""
        # NaN is unequal to itself: filling with it changes
        # nothing, since None is NaN among numbers.
        return any(value is not None and value == value for value in self.fill)

    def infer(self) -> Type:
        fills_text = any(isinstance(value, str | bytes) for value in self.fill)
        is_text = fills_text or self.x.type.dtype == "string"
        numbers = "float64" if self.fills_numbers else self.x.type.dtype
        return Type(self.x.type.width, "string" if is_text else numbers)


@container
class FromObjects(Node):
    """Columns of an array of objects: texts as they are, and numbers as float64.

    It exists only between parsers, until it is known which columns are texts.
    """

    x: Node

    def infer(self) -> Type:
        dtype = self.x.type.dtype
        return Type(self.x.type.width, dtype if dtype == "string" else "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.cast(inputs[0], self.type.dtype)


@container
class CleanText(OfTexts):
    """Make one missing value of all in a text column: None, NaN, NA and the texts of a list.

    With ``blank`` texts of whitespace alone are missing too. Objects that are neither text nor
    missing are refused in rows. It exists only between parsers, which fold it into a vocabulary.
    """

    nulls: tuple[str, ...] = ()
    blank: bool = False


@container
class EditText(OfTexts):
    """Edit each text of a column, by edits that make texts; missing ones stay missing.

    Objects that are neither text nor missing are refused in rows. It exists only between parsers,
    which fold it into a vocabulary.
    """

    edits: tuple[TextEdit, ...]


@container
class KeepText(OfTexts):
    """Replace the values of a text column that are not among ``kept`` by another text.

    It exists only between parsers, which fold it into a vocabulary. ``kept`` may hold None and NaN.
    """

    kept: tuple[str | float | None, ...]
    other: str


@container
class ChosenText(OfTexts):
    """Take a text of a table at the place that a column of codes holds.

    It exists only between parsers, which make codes of others of these.

    Parameters
    ----------
    x : Node
        Codes of one column, int32, from -1 on.
    texts : tuple of str or None
        Those of the codes -1, 0, 1, ...; None is a missing one, NaN.
    """

    texts: tuple[str | None, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        return ()


@container
class NumberText(OfTexts):
    """Write numbers as Python does: ints in digits, and floats as ``repr``.

    It exists only between parsers, which look the numbers up in place of their texts.
    """

    @property
    def parts(self) -> tuple[Node, ...]:
        return ()


@container
class ChooseText(OfTexts):
    """Take the text of x where a condition holds, and of y elsewhere.

    It exists only between parsers, which choose between the codes of both.
    """

    y: Node
    condition: Node

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.x, self.y


@container
class JoinText(OfTexts):
    """Join two texts; it is missing where one of them is.

    It exists only between parsers, which look the two parts of each known text up.
    """

    y: Node

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.x, self.y
