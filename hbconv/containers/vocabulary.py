"""Vocabulary: the values of a column of categories, and their codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

__all__ = ["Vocabulary"]


@dataclass(frozen=True)
class Vocabulary:
    """Known values and their codes (positions), with codes of None, NaN and ``pandas.NA``.

    These are -1 where they are unknown, as other values are.

    In nearly all models the values are texts. A column of objects may hold numbers and bytes too.
    Python's equality holds for these: 1, 1.0 and True are one value.

    ``blank`` is the code of texts of whitespace alone, and of those in ``nulls``, that are not
    among the values. The source tells them so in columns of texts, but not of categories.
    With ``only_texts`` objects of other types are no unknown values: a look-up raises TypeError.
    """

    values: tuple[str | bytes | float | bool | None, ...]
    none: int = -1
    nan: int = -1
    na: int = -1
    blank: int = -1
    only_texts: bool = False
    nulls: tuple[str, ...] = ()

    @cached_property
    def codes(self) -> Mapping[object, int]:
        """Codes by value, for every value that can be hashed.

        Examples
        --------
        >>> codes = Vocabulary(("a", 1), none=2).codes
        >>> [codes[value] for value in ("a", 1.0, None, "b", float("nan"))]
        [0, 1, 2, -1, -1]
        """
        return _Codes(self)

    @cached_property
    def texts(self) -> tuple[list[str], npt.NDArray[np.int32]]:
        """The values that are texts, and their codes."""
        found = [(value, code) for code, value in enumerate(self.values) if isinstance(value, str)]
        return [text for text, _ in found], np.array([code for _, code in found], np.int32)

    @property
    def is_text(self) -> bool:
        """Whether all values are texts."""
        return all(isinstance(value, str) for value in self.values)

    def code_of_unknown(self, text: str) -> int:
        """Return the code of a text that is not among the values.

        Examples
        --------
        >>> known = Vocabulary(("a",), blank=1, nulls=("N/A",))
        >>> [known.code_of_unknown(text) for text in ("  ", "N/A", "b")]
        [1, 1, -1]
        """
        return self.blank if text in self.nulls or not text.strip() else -1

    def __str__(self) -> str:
        return f"{len(self.values)} categories"


class _Codes(dict[object, int]):
    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(zip(vocabulary.values, range(len(vocabulary.values)), strict=True))
        self[None] = vocabulary.none
        self._vocabulary = vocabulary

    def __missing__(self, value: object) -> int:
        if isinstance(value, str):
            return self._vocabulary.code_of_unknown(value)
        if type(value).__name__ == "NAType":
            return self._vocabulary.na
        if isinstance(value, float | np.floating) and value != value:
            return self._vocabulary.nan
        if self._vocabulary.only_texts:
            raise TypeError(value)
        return -1
