"""Lower case and accents of many documents at once, by a table of all characters.

What becomes of a character depends on no other one, but for the capital sigma: its lower case
differs at the end of a word.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import Texts
from hbconv.runtime.text.tokenize import all_characters, preparation

__all__ = ["codes_of", "fold", "lengths_of"]

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[Any]
"""Characters, as unsigned numbers of 8, 16 or 32 bits: the first that hold all of a text."""

SIGMA = "\u03a3"
"""The capital sigma."""
BETWEEN = "\n"
"""Stands after each document, and between characters: no change joins it to another one."""
SHORT = 1 << 16


def fold(documents: Sequence[str], texts: Texts) -> tuple[Codes, Ints]:
    r"""Return prepared documents, a character after each, and their lengths without it.

    Raises
    ------
    UnicodeEncodeError
        A document holds half of a surrogate pair.

    Examples
    --------
    >>> codes, lengths = fold(["Où", "ﬁ"], Texts(accents="unicode"))
    >>> "".join(map(chr, codes)), lengths.tolist()
    ('ou\nfi\n', [2, 2])
    """
    joined = BETWEEN.join([*documents, ""])
    if joined.isascii():
        lowered = joined.lower() if texts.lowercase else joined
        return np.frombuffer(lowered.encode(), np.uint8), lengths_of(documents)
    lowercase = texts.lowercase
    if lowercase and SIGMA in joined:
        documents = list(map(str.lower, documents))
        joined = BETWEEN.join([*documents, ""])
        lowercase = False
    codes, lengths = codes_of(joined), lengths_of(documents)
    if lowercase or texts.accents:
        codes, lengths = _table(lowercase, texts.accents)(codes, lengths)
    return codes.astype(np.uint8) if codes.max() < 128 else codes, lengths


def lengths_of(parts: Sequence[Sized]) -> Ints:
    """Return the length of each."""
    return np.fromiter(map(len, parts), np.int64, len(parts))


def codes_of(text: str) -> Codes:
    """Return the characters of a text, or raise UnicodeEncodeError for half a surrogate pair."""
    if text.isascii():
        return np.frombuffer(text.encode(), np.uint8)
    short = np.frombuffer(text.encode("utf-16-le"), np.uint16)
    return short if len(short) == len(text) else np.frombuffer(text.encode("utf-32-le"), np.uint32)


class _Folding:
    """What each character becomes: one other, none, or several."""

    def __init__(self, lowercase: bool, accents: str) -> None:
        change = preparation(lowercase, accents)
        text = change(BETWEEN.join([*all_characters(), ""]))
        self.changed = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        # The newline itself becomes one more newline than others do.
        ends = np.delete(np.flatnonzero(self.changed == ord(BETWEEN)), ord(BETWEEN))
        self.starts = np.append(0, ends[:-1] + 1).astype(np.int32)
        self.counts = (ends - self.starts).astype(np.uint8)
        self.single = np.where(self.counts == 1, self.changed[self.starts], 0).astype(np.uint32)
        """The one other; 0 where it is not one."""
        short = self.single[:SHORT]
        self.short = np.where(short < SHORT, short, 0).astype(np.uint16)

    def __call__(self, codes: Codes, lengths: Ints) -> tuple[Codes, Ints]:
        """Return the changed text, and the length of each document."""
        folded = (self.short if codes.dtype == np.uint16 else self.single).take(codes)
        return (folded, lengths) if folded.all() else self._anew(codes, lengths)

    def _anew(self, codes: Codes, lengths: Ints) -> tuple[Codes, Ints]:
        counts = self.counts[codes].astype(np.int64)
        ends = np.cumsum(counts)
        first = np.repeat(self.starts[codes] - (ends - counts), counts)
        places = ends[np.cumsum(lengths + 1) - 1]
        return self.changed[first + np.arange(len(first))], np.diff(places, prepend=0) - 1


@cache
def _table(lowercase: bool, accents: str) -> _Folding:
    return _Folding(lowercase, accents)
