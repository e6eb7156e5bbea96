"""N-grams of words that are terms, found by the numbers of their words.

A word is looked up once, however many n-grams it is in. An n-gram has the number of the one
without its last word, joined to that of the last word, looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import Terms, Texts
from hbconv.runtime.text.character_classes import members, runs_of
from hbconv.runtime.text.term_table import Slots, TermTable, utf8

__all__ = ["GramTable", "Letters", "gram_table_of"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

ASCII = 128
OTHER_INSIDE, OTHER = 254, 255
"""Bytes of characters that no term has: those that words may have, and those between words."""
SEPARATOR = " "


class Letters:
    """A byte for each character of some words: ASCII, and few others.

    Parameters
    ----------
    letters : sequence of str
        Characters beyond ASCII, at most 126.
    inside : ndarray of bool
        Whether each character may be in a word.
    """

    def __init__(self, letters: Sequence[str], inside: npt.NDArray[np.bool_]) -> None:
        codes = list(map(ord, letters))
        self._bytes = np.where(inside, OTHER_INSIDE, OTHER).astype(np.uint8)
        self._bytes[:ASCII] = np.arange(ASCII)
        self._bytes[codes] = ASCII + np.arange(len(codes))
        self.inside = np.zeros(256, bool)
        self.inside[self._bytes] = inside
        self._names = {code: chr(ASCII + place) for place, code in enumerate(codes)}

    def write(self, codes: npt.NDArray[np.unsignedinteger]) -> Bytes:
        """Return the byte of each character."""
        return codes if codes.dtype == np.uint8 else self._bytes.take(codes)

    def encode(self, word: str) -> bytes:
        """Return a word of these letters."""
        return word.encode() if word.isascii() else word.translate(self._names).encode("latin-1")


@dataclass(frozen=True)
class _Level:
    """N-grams of some words: a number for each pair of one word less and the last word."""

    slots: Slots
    columns: Ints
    """Column of each, -1 where it only begins a term; once more for those unknown."""


class GramTable:
    """Terms that are n-grams of words without spaces.

    ``is_exact`` is False where two words have one hash: their table is of no use.
    """

    def __init__(self, terms: Terms, texts: Texts) -> None:
        self.shortest = texts.shortest
        numbers = {word: number for number, word in enumerate(texts.stop_words)}
        self._number(numbers, terms, texts)
        runs = runs_of(texts.pattern)
        letters = sorted(set(chain.from_iterable(numbers)) - set(map(chr, range(ASCII))))
        known = runs is not None and len(letters) <= OTHER_INSIDE - ASCII
        self.letters = Letters(letters, members(runs[0])) if runs and known else None
        encode = self.letters.encode if self.letters else utf8
        self.words = TermTable(list(map(encode, numbers)))
        self.is_exact = self.words.is_exact

    def _number(self, numbers: dict[str, int], terms: Terms, texts: Texts) -> None:
        """Give words and n-grams of the terms numbers; stop words have the first."""
        self.stopped = len(numbers)
        grams: list[dict[tuple[int, int], int]] = [{} for _ in range(texts.longest - 1)]
        columns: list[dict[int, int]] = [{} for _ in range(texts.longest)]
        for column, name in enumerate(terms.names):
            parts = name.split(SEPARATOR) if isinstance(name, str) else ()
            if not texts.shortest <= len(parts) <= texts.longest:
                continue
            number, *others = (numbers.setdefault(part, len(numbers)) for part in parts)
            for level, word in zip(grams, others, strict=False):
                number = level.setdefault((number, word), len(level))
            columns[len(others)][number] = column
        self.count = len(numbers)
        self.columns = _filled(columns[0], self.count)
        self.columns[: self.stopped] = -1
        self.levels = [
            _Level(_slots(level, self.count), _filled(found, len(level)))
            for level, found in zip(grams, columns[1:], strict=True)
        ]

    def find(self, data: Bytes, starts: Ints, lengths: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """Return the row and the column of each n-gram that is a term.

        Parameters
        ----------
        data : ndarray of uint8
            Words in the letters, or in UTF-8 where there are none; and eight bytes more.
        starts, lengths, rows : ndarray of int64
            Bytes of each word, and the row that it is of.
        """
        words = self.words.find(data, starts, lengths)
        if self.stopped and self.levels:
            kept = np.flatnonzero((words < 0) | (words >= self.stopped))
            words, rows = words[kept], rows[kept]
        found = [(rows, self.columns[words])] if self.shortest == 1 else []
        numbers = words
        for size, level in enumerate(self.levels, 2):
            first, last = numbers[: len(words) - size + 1], words[size - 1 :]
            same = rows[: len(last)] == rows[size - 1 :]
            at = np.flatnonzero((first >= 0) & (last >= 0) & same)
            keys = (first[at] * self.count + last[at] + 1).astype(np.uint64)
            numbers = np.full(len(last), -1)
            numbers[at] = level.slots.find(keys)
            if size >= self.shortest:
                found.append((rows[: len(last)], level.columns[numbers]))
        every, columns = map(np.concatenate, zip(*found, strict=True))
        known = np.flatnonzero(columns >= 0)
        return every[known], columns[known]


def _filled(columns: dict[int, int], count: int) -> Ints:
    filled = np.full(count + 1, -1)
    filled[list(columns)] = list(columns.values())
    return filled


def _slots(level: dict[tuple[int, int], int], count: int) -> Slots:
    pairs = np.array(list(level), np.int64).reshape(-1, 2)
    return Slots((pairs[:, 0] * count + pairs[:, 1] + 1).astype(np.uint64))


_TABLES: WeakKeyDictionary[Terms, dict[Texts, GramTable]] = WeakKeyDictionary()


def gram_table_of(terms: Terms, texts: Texts) -> GramTable:
    """Return the table of terms, made once."""
    tables = _TABLES.setdefault(terms, {})
    if texts not in tables:
        tables[texts] = GramTable(terms, texts)
    return tables[texts]
