"""Runs: words or whole documents as parts of one text, and n-grams as parts of its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import Terms, Texts
from hbconv.runtime.text.term_table import WINDOW, table_of
from hbconv.runtime.text.text_hash import murmur_hash_of
from hbconv.runtime.text.tokenize import fold

__all__ = [
    "SPACE", "Grams", "Runs", "as_bytes", "documents_of", "find_runs", "pad_bytes", "space_words",
    "whole_documents",
]  # fmt: skip

Ints = npt.NDArray[np.int64]

SPACE = ord(" ")


@dataclass(frozen=True)
class Grams:
    """Parts of a text in UTF-8: where each begins, and how many bytes it has.

    The text has eight bytes more at its end.
    """

    data: npt.NDArray[np.uint8]
    starts: Ints
    lengths: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def hashes(self) -> npt.NDArray[np.int32]:
        """MurmurHash3 of each part."""
        return murmur_hash_of(self.data.tobytes(), self.starts, self.lengths)

    def places(self, terms: Terms) -> Ints:
        """Return the column of each part, -1 where it is none of the terms."""
        table = table_of(terms)
        if table.is_exact:
            return table.find(self.data, self.starts, self.lengths)
        columns = (terms.places.get(name, -1) for name in self._names())
        return np.fromiter(columns, np.int64, len(self))

    def _names(self) -> Iterator[str]:
        data = self.data.tobytes()
        for first, last in zip(self.starts, self.starts + self.lengths, strict=True):
            yield data[first:last].decode()


@dataclass(frozen=True)
class Runs:
    """Words or whole documents: runs of characters, and the document that each is of.

    A character that is part of none follows each.
    """

    codes: npt.NDArray[Any]
    starts: Ints
    lengths: Ints
    rows: Ints


def whole_documents(documents: Sequence[str], texts: Texts) -> Runs:
    """Return prepared documents, or raise UnicodeEncodeError for half of a surrogate pair."""
    return documents_of(*fold(documents, texts))


def documents_of(codes: npt.NDArray[Any], lengths: Ints) -> Runs:
    """Return documents that lie side by side, a character after each."""
    return Runs(codes, np.cumsum(lengths + 1) - lengths - 1, lengths, np.arange(len(lengths)))


def find_runs(whole: Runs, kind: npt.NDArray[np.bool_], least: int) -> Runs:
    """Return the longest runs of a class in each document, that have a least length."""
    inside = np.zeros(len(whole.codes) + 1, bool)
    inside[1:] = kind.take(whole.codes)
    ends = whole.starts + whole.lengths
    # Else a word at the end of a document would go on in the next one.
    inside[ends + 1] = False  # between documents
    # Edges come in pairs: a run begins, and ends.
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    starts = edges[::2]
    lengths = edges[1::2] - starts
    if least > 1:
        kept = np.flatnonzero(lengths >= least)
        starts = starts[kept]
        lengths = lengths[kept]
    # Runs ascend as documents do, so a search counts those of each.
    counts = np.diff(np.searchsorted(starts, ends), prepend=0)
    return Runs(whole.codes, starts, lengths, np.repeat(whole.rows, counts))


def space_words(words: Runs) -> Runs:
    """Write words again, with a space before the first, and one after each.

    A word and the character after it are kept, which is none of a word, and becomes a space.
    """
    ends = words.starts + words.lengths
    steps = np.zeros(len(words.codes) + 1, np.int8)
    steps[words.starts] = 1
    # Subtracted, because the next word may begin right there.
    steps[ends + 1] -= 1
    # The sum is 0 or 1, which a bool is in memory.
    kept = steps.cumsum(dtype=np.int8)[:-1].view(bool)
    codes = words.codes.copy()
    codes[ends] = SPACE
    wide = words.lengths + 1
    space_words = np.append(np.array([SPACE], codes.dtype), codes[kept])
    return replace(words, codes=space_words, starts=1 + np.cumsum(wide) - wide)


def pad_bytes(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return bytes with eight more at their end."""
    return np.append(codes, np.zeros(WINDOW, np.uint8))


def as_bytes(codes: npt.NDArray[Any], starts: Ints, lengths: Ints) -> Grams:
    """Return parts of characters as parts of bytes."""
    # Characters of ASCII are their own bytes in UTF-8.
    if codes.dtype == np.uint8:
        return Grams(pad_bytes(codes), starts, lengths)
    encoding = "utf-16-le" if codes.dtype == np.uint16 else "utf-32-le"
    text = codes.tobytes().decode(encoding).encode() + bytes(WINDOW)
    data = np.frombuffer(text, np.uint8)
    # Later bytes of a character are 0x80 to 0xBF: below -64 as signed numbers.
    places = np.flatnonzero(data.view(np.int8) >= -64)  # first bytes of characters, and the end
    begins = places[starts]
    return Grams(data, begins, places[starts + lengths] - begins)
