"""How the host makes sparse rows of numbers from texts, mappings or sequences.

An extractor is data only, so that a model can be compared and stored.
``hbconv.runtime.text.vectorize`` follows it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal
from weakref import WeakKeyDictionary

__all__ = [
    "WORD",
    "Buckets",
    "Extractor",
    "Mappings",
    "Name",
    "Pairs",
    "Terms",
    "Texts",
    "Tokens",
    "TypedMappings",
]

Name = str | int | float | bool | tuple["Name", ...] | None
"""What a feature may be called: texts nearly always, but mappings have keys of other types too."""

# This is the default ``token_pattern`` of scikit-learn.
WORD = r"(?u)\b\w\w+\b"
"""The usual pattern of a word: two or more letters, digits or underscores."""

_MADE: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Made:
    """Base of values of which the host makes tables once, by names of its own."""

    @cached_property
    def made(self) -> dict[Any, Any]:
        """What was made of this value, or of an equal one: models of one vocabulary share it.

        It dies with the last of them.
        """
        # Kept by the value: to compare 80,000 terms with equal ones takes 6 ms, at every call.
        return _MADE.setdefault(self, {})

    def __reduce__(self) -> tuple[Any, ...]:
        # What is made stays in its process, and so do hashes of texts.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


# Sizes of n-grams are looped over for each text, so a claim must end somewhere.
_LONGEST = 10_000
"""Units that no n-gram has."""


@dataclass(frozen=True)
class Texts:
    """Each row is a document, and its features are the n-grams of its words or characters.

    Each n-gram has the value 1.

    Parameters
    ----------
    unit : {"word", "char", "char_wb"}
        Units of n-grams: words, characters, or the characters of one word with a space at both
        ends.
    shortest, longest : int
        Units in an n-gram.
    pattern : str
        Regular expression that finds the words, in its group where it has one.
    lowercase : bool
        Upper case counts as lower case.
    accents : {"", "ascii", "unicode"}
        Accents are kept, removed with all else that is not ASCII, or removed.
    stop_words : tuple of str
        Words left out.
    encoding, decode_error : str
        How bytes become text.
    empty : tuple of str
        Documents that count as empty.
    missing_is_empty, blank_is_empty : bool
        Missing documents, and those of whitespace alone, count as empty too.
    folded : {"", "ascii", "characters"}
        Each upper case letter counts as one lower case letter, whatever its neighbours are: none,
        those of ASCII, or all. ``lowercase`` goes by whole texts instead, as Python does.
    """

    unit: Literal["word", "char", "char_wb"] = "word"
    shortest: int = 1
    longest: int = 1
    pattern: str = WORD
    lowercase: bool = True
    accents: Literal["", "ascii", "unicode"] = ""
    stop_words: tuple[str, ...] = ()
    encoding: str = "utf-8"
    decode_error: Literal["strict", "ignore", "replace"] = "strict"
    empty: tuple[str, ...] = ()
    missing_is_empty: bool = False
    blank_is_empty: bool = False
    folded: Literal["", "ascii", "characters"] = ""

    def sizes(self, most: int) -> range:
        """Return the sizes of n-grams among ``most`` units: a file could claim any longest one.

        Examples
        --------
        >>> texts = Texts(shortest=2, longest=3000)
        >>> list(texts.sizes(4)), list(texts.sizes(0))
        ([2, 3, 4], [2])
        """
        # Seven short texts took 20 s while sizes up to a claimed 3,000 were tried for each of them.
        return range(self.shortest, max(self.shortest, min(self.longest, most)) + 1)

    @property
    def can_be_read(self) -> bool:
        """Whether the pattern and the encoding are ones, and n-grams have units."""
        try:
            re.compile(self.pattern)
            codecs.lookup(self.encoding)
        # Huge repeats end in OverflowError, deep nesting in RecursionError: both come from files.
        except (re.error, LookupError, ValueError, OverflowError, RecursionError):
            return False
        return 0 < self.shortest <= self.longest < _LONGEST


@dataclass(frozen=True)
class Mappings:
    """Each row maps names to values.

    A number is the value of its feature. Each text makes a feature of its own, of value 1.

    Parameters
    ----------
    separator : str
        Stands between a name and a text.
    """

    separator: str = "="


@dataclass(frozen=True)
class TypedMappings:
    """Each row maps names of one type to numbers; anything else is refused.

    Parameters
    ----------
    names : {"text", "int", "position"}
        What the names are; positions are ints from 0 on.
    """

    names: Literal["text", "int", "position"] = "text"


@dataclass(frozen=True)
class Pairs:
    """Each row is a mapping, or a sequence of pairs of a name and a value.

    A text makes a feature ``name=text`` of value 1, and zeros are left out.
    """

    mappings: bool = True


@dataclass(frozen=True)
class Tokens:
    """Each row is a sequence of names, each of value 1."""


@dataclass(frozen=True)
class Terms(Made):
    """The names that have a column, in the order of the columns; others are left out."""

    names: tuple[Name, ...]

    def __str__(self) -> str:
        return f"{len(self.names)} terms"

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.names)

    @cached_property
    def _hash(self) -> int:
        return hash(self.names)

    def __hash__(self) -> int:
        # Asked at every call of a model, of tens of thousands of names, so it is computed once.
        return self._hash

    @cached_property
    def places(self) -> Mapping[Name, int]:
        """Column of each name."""
        return {name: place for place, name in enumerate(self.names)}


@dataclass(frozen=True)
class Buckets:
    """The column of a name is its hash modulo the width.

    With ``signed``, a negative hash turns the sign of the value.

    The hash is MurmurHash3 of 32 bits, seed 0, over UTF-8.
    """

    width: int
    signed: bool = True

    def __str__(self) -> str:
        return f"{self.width} buckets"


@dataclass(frozen=True)
class Extractor(Made):
    """How rows become sparse rows: which features a row has, and which column each gets.

    Values of one column add up.

    Parameters
    ----------
    rows : Texts, Mappings, TypedMappings, Pairs or Tokens
        How a row is read.
    columns : Terms or Buckets
        How features become columns.
    dtype : {"float32", "float64", "int32", "int64"}
        Of the sums.
    binary : bool
        Every sum counts as 1.
    """

    rows: Texts | Mappings | TypedMappings | Pairs | Tokens
    columns: Terms | Buckets
    dtype: str = "float64"
    binary: bool = False

    def __str__(self) -> str:
        return f"{type(self.rows).__name__.lower()} in {self.columns}"

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.columns.width

    @property
    def sums_ones(self) -> bool:
        """Whether entries are sums of 1 and -1: features of texts have no values of their own."""
        return isinstance(self.rows, Texts | Tokens)

    @property
    def counts(self) -> bool:
        """Whether every entry is a count of at least 1; else it may be any number, 0 too."""
        is_signed = isinstance(self.columns, Buckets) and self.columns.signed
        return self.sums_ones and not is_signed
