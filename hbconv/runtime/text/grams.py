"""N-grams of many documents at once, as parts of one text: no n-gram becomes a Python object.

A text is rewritten so that the parts of each n-gram are next to each other: words with one space
between them.
What this way cannot cut is left to ``hbconv.runtime.text.tokenize``.

N-grams of characters, of documents or within words, as parts of one text.

N-grams of words that are terms, found by the numbers of their words.

A word is looked up once, however many n-grams it is in. An n-gram has the number of the one
without its last word, joined to that of the last word, looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import Terms, Texts
from hbconv.runtime.text.runs import (
    SPACE,
    Grams,
    Runs,
    as_bytes,
    documents_of,
    find_runs,
    pad_bytes,
    space_words,
    whole_documents,
)
from hbconv.runtime.text.term_table import Slots, TermTable, utf8
from hbconv.runtime.text.tokenize import (
    SPACES,
    codes_of,
    lengths_of,
    members,
    preparation,
    runs_of,
    single_spaces,
)

__all__ = [
    "CharacterTable", "Letters", "are_many", "find_character_grams", "find_grams", "find_places",
    "gram_table_of",
]  # fmt: skip

Ints = npt.NDArray[np.int64]

MANY = {"word": 2000, "char": 100, "char_wb": 100}
"""Characters from which on this way is the faster one, by the unit of n-grams."""


def are_many(documents: Sequence[str], texts: Texts) -> bool:
    """Whether documents have so many characters that this way is the faster one."""
    return sum(map(len, documents)) >= MANY[texts.unit]


def find_places(documents: Sequence[str], texts: Texts, terms: Terms) -> tuple[Ints, Ints] | None:
    """Return the document and the column of each n-gram of words that is one of the terms.

    None if this way cannot find them.

    Raises
    ------
    UnicodeEncodeError
        A document holds half of a surrogate pair.

    Examples
    --------
    >>> documents = ["the cat: a cat " * 999, "it sat"]
    >>> rows, columns = find_places(documents, Texts(longest=2), Terms(("sat", "cat cat")))
    >>> len(rows), columns[:2].tolist()
    (1000, [0, 1])
    """
    runs = runs_of(texts.pattern) if texts.unit == "word" else None
    # Words are joined by spaces, so none of them may hold one.
    if runs is None or members(runs[0])[SPACE]:
        return None
    table = gram_table_of(terms, texts)
    if not table.is_exact:
        return None
    whole = whole_documents(documents, texts)
    if table.letters is None:
        words = find_runs(whole, members(runs[0]), runs[1])
        grams = as_bytes(words.codes, words.starts, words.lengths)
        return table.find(grams.data, grams.starts, grams.lengths, words.rows)
    written = replace(whole, codes=table.letters.write(whole.codes))
    words = find_runs(written, table.letters.inside, runs[1])
    return table.find(pad_bytes(words.codes), words.starts, words.lengths, words.rows)


def find_grams(documents: Sequence[str], texts: Texts) -> tuple[Ints, Grams] | None:
    """Return the document of each n-gram, and all n-grams; None if this way cannot find them.

    Raises
    ------
    UnicodeEncodeError
        A document holds half of a surrogate pair.

    Examples
    --------
    >>> rows, grams = find_grams(["the cat: a cat " * 999, "it sat"], Texts(longest=2))
    >>> len(rows), int(rows[-1]), grams.data[:12].tobytes(), grams.lengths[-1:].tolist()
    (5996, 1, b' the cat cat', [6])
    """
    if texts.unit != "word":
        return find_character_grams(documents, texts)
    runs = runs_of(texts.pattern)
    if runs is None:
        return None
    whole = whole_documents(documents, texts)
    return _word_grams(_without(find_runs(whole, members(runs[0]), runs[1]), texts), texts)


def _without(words: Runs, texts: Texts) -> Runs:
    """Leave the stop words out."""
    if not texts.stop_words:
        return words
    grams = as_bytes(words.codes, words.starts, words.lengths)
    kept = _stop_table(texts.stop_words).find(grams.data, grams.starts, grams.lengths) < 0
    return replace(
        words, starts=words.starts[kept], lengths=words.lengths[kept], rows=words.rows[kept]
    )


@lru_cache(maxsize=64)
def _stop_table(stop_words: tuple[str, ...]) -> TermTable:
    return TermTable(list(map(utf8, stop_words)))


def _word_grams(words: Runs, texts: Texts) -> tuple[Ints, Grams]:
    if texts.longest == 1:
        return words.rows, as_bytes(words.codes, words.starts, words.lengths)
    words = space_words(words)
    starts, lengths, rows = [], [], []
    # No document has n-grams of more words than the longest one has.
    most = int(np.bincount(words.rows).max(initial=0))
    for size in texts.sizes(most):
        last = slice(size - 1, None)
        # First and last word must be of one document: an n-gram never joins two.
        first = np.flatnonzero(words.rows[last] == words.rows[: max(0, len(words.rows) - size + 1)])
        starts.append(words.starts[first])
        final = first + size - 1
        lengths.append(words.starts[final] + words.lengths[final] - starts[-1])
        rows.append(words.rows[first])
    return np.concatenate(rows), as_bytes(
        words.codes, np.concatenate(starts), np.concatenate(lengths)
    )


FEW = 4000
"""Characters up to which text is rewritten by Python, not by numpy."""


def find_character_grams(documents: Sequence[str], texts: Texts) -> tuple[Ints, Grams]:
    """Return the document of each n-gram of characters, and all of them.

    Raises
    ------
    UnicodeEncodeError
        A document holds half of a surrogate pair.

    Examples
    --------
    >>> rows, grams = find_character_grams(["a b"], Texts("char_wb", 3, 3))
    >>> grams.data[:5].tobytes(), grams.starts.tolist()
    (b' a b ', [0, 2])
    """
    ways = _FEW if sum(map(len, documents)) <= FEW else _MANY
    return _cut(ways[texts.unit](documents, texts), texts)


def _few_documents(documents: Sequence[str], texts: Texts) -> Runs:
    """Return documents with one space for two or more in a row."""
    prepared = map(preparation(texts.lowercase, texts.accents), documents)
    written = list(map(single_spaces, prepared))
    return documents_of(codes_of("\n".join([*written, ""])), lengths_of(written))


def _few_words(documents: Sequence[str], texts: Texts) -> Runs:
    """Return words with a space before and after each."""
    prepared = map(preparation(texts.lowercase, texts.accents), documents)
    words = list(map(str.split, prepared))
    every = list(chain.from_iterable(words))
    lengths = lengths_of(every)
    starts = np.cumsum(lengths + 1) - lengths - 1
    rows = np.repeat(np.arange(len(words)), lengths_of(words))
    return Runs(codes_of(f" {' '.join(every)} "), starts, lengths + 2, rows)


def _many_documents(documents: Sequence[str], texts: Texts) -> Runs:
    return _single_spaced(whole_documents(documents, texts))


def _many_words(documents: Sequence[str], texts: Texts) -> Runs:
    words = space_words(find_runs(whole_documents(documents, texts), ~members(SPACES), 1))
    return replace(words, starts=words.starts - 1, lengths=words.lengths + 2)


_FEW = {"char": _few_documents, "char_wb": _few_words}
_MANY = {"char": _many_documents, "char_wb": _many_words}


def _single_spaced(whole: Runs) -> Runs:
    """Write one space for two or more in a row."""
    space = members(SPACES).take(whole.codes)
    ends = whole.starts + whole.lengths
    space[ends] = False
    pair = np.zeros(len(space) + 1, bool)
    pair[1:-1] = space[1:] & space[:-1]  # with the one before
    codes = np.where(pair[1:], SPACE, whole.codes).astype(whole.codes.dtype)
    kept = ~pair[:-1]
    places = np.append(0, np.cumsum(kept))
    starts = places[whole.starts]
    return replace(whole, codes=codes[kept], starts=starts, lengths=places[ends] - starts)


def _cut(runs: Runs, texts: Texts) -> tuple[Ints, Grams]:
    """Cut each run; in words, one that is too short counts whole.

    Runs are side by side, or share the space between them: it begins the later one, and is an
    n-gram of the earlier one too where these have one character.

    1. Find how many characters each one has up to the end of its run.
    2. Begin n-grams of each size where there are enough.
    """
    in_words = texts.unit == "char_wb"
    ends = runs.starts + runs.lengths
    first = int(runs.starts[0]) if len(runs.starts) else 0
    steps = np.empty_like(runs.starts)
    steps[:-1] = runs.starts[1:] - runs.starts[:-1]
    # Words share the space between them, so that the last character begins no n-gram.
    steps[-1:] = len(runs.codes) - in_words - runs.starts[-1:]
    room = np.repeat(ends - first, steps)
    room -= np.arange(len(room))  # 1
    sizes = texts.sizes(int(room.max(initial=0)))
    firsts = [(room >= size).nonzero()[0] for size in sizes]  # 2
    at = np.concatenate(firsts)
    rows = np.repeat(runs.rows, steps)[at]
    lengths = np.repeat(np.array(sizes), list(map(len, firsts)))
    starts = at + first
    if in_words:
        short = runs.lengths < texts.shortest
        rows = np.concatenate([rows, runs.rows[short]])
        starts = np.concatenate([starts, runs.starts[short]])
        lengths = np.concatenate([lengths, runs.lengths[short]])
    # The space after a word is an n-gram of it, and is where the next word begins.
    if in_words and texts.shortest == 1:
        rows = np.concatenate([rows, runs.rows])
        starts = np.concatenate([starts, ends - 1])
        lengths = np.concatenate([lengths, np.ones_like(ends)])
    return rows, as_bytes(runs.codes, starts, lengths)


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
        # An unknown letter keeps its word apart from all terms, but must not cut it in two.
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


def letters_of(words: Iterable[str], inside: npt.NDArray[np.bool_]) -> Letters | None:
    """Return the letters of some words; None if these have more than a byte tells."""
    # Sorted, as the order of a set changes from run to run.
    letters = sorted(set(chain.from_iterable(words)) - set(map(chr, range(ASCII))))
    # A byte tells 126 letters beyond ASCII; two values stand for all others.
    return Letters(letters, inside) if len(letters) <= OTHER_INSIDE - ASCII else None


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
        self.letters = letters_of(numbers, members(runs[0])) if runs else None
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
        # A stop word is looked up so that n-grams can skip it, but is no term.
        self.columns[: self.stopped] = -1
        self.levels = [
            _Level(_slots(level, self.count), _filled(level_columns, len(level)))
            for level, level_columns in zip(grams, columns[1:], strict=True)
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
        pairs = [(rows, self.columns[words])] if self.shortest == 1 else []
        numbers = words
        for size, level in enumerate(self.levels, 2):
            first, last = numbers[: len(words) - size + 1], words[size - 1 :]
            same = rows[: len(last)] == rows[size - 1 :]
            # An n-gram of an unknown part is no term: it needs no look-up.
            at = np.flatnonzero((first >= 0) & (last >= 0) & same)
            # One more, because ``Slots`` leaves out keys that are 0.
            keys = (first[at] * self.count + last[at] + 1).astype(np.uint64)
            numbers = np.full(len(last), -1)
            numbers[at] = level.slots.find(keys)
            if size >= self.shortest:
                pairs.append((rows[: len(last)], level.columns[numbers]))
        every, columns = map(np.concatenate, zip(*pairs, strict=True))
        are_terms = np.flatnonzero(columns >= 0)
        return every[are_terms], columns[are_terms]


def _filled(columns: dict[int, int], count: int) -> Ints:
    filled = np.full(count + 1, -1)
    filled[list(columns)] = list(columns.values())
    return filled


def _slots(level: dict[tuple[int, int], int], count: int) -> Slots:
    pairs = np.array(list(level), np.int64).reshape(-1, 2)
    return Slots((pairs[:, 0] * count + pairs[:, 1] + 1).astype(np.uint64))


class CharacterTable:
    """Terms that are n-grams of characters."""

    def __init__(self, terms: Terms) -> None:
        texts = [name for name in terms.names if isinstance(name, str)]
        self.letters = letters_of(texts, ~members(SPACES))
        encode = self.letters.encode if self.letters else utf8
        # A name that is no text is found nowhere, but has a column.
        names = (encode(name) if isinstance(name, str) else b"" for name in terms.names)
        self.words = TermTable(list(names))
        self.is_exact = self.words.is_exact


def gram_table_of(terms: Terms, texts: Texts) -> GramTable:
    """Return the table of terms, made once."""
    key = GramTable, texts
    table: GramTable | None = terms.made.get(key)
    if table is None:
        table = terms.made[key] = GramTable(terms, texts)
    return table
