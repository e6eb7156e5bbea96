"""N-grams of many documents at once, as parts of one text: no n-gram becomes a Python object.

A text is written anew so that each n-gram lies side by side in it: words with one space between.
What this way cannot cut is left to ``hbconv.runtime.text.tokenize``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import Terms, Texts
from hbconv.runtime.text.character_classes import SPACES, members, runs_of
from hbconv.runtime.text.folding import fold
from hbconv.runtime.text.gram_table import gram_table_of
from hbconv.runtime.text.murmur_hash import murmur_hash_of
from hbconv.runtime.text.term_table import WINDOW, TermTable, table_of, utf8

__all__ = ["Grams", "are_many", "find_grams", "find_places"]

Ints = npt.NDArray[np.int64]

MANY = {"word": 2000, "char": 100, "char_wb": 100}
"""Characters from which on this way is the faster one, by the unit of n-grams."""
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
        found = (terms.places.get(name, -1) for name in self._names())
        return np.fromiter(found, np.int64, len(self))

    def _names(self) -> Iterator[str]:
        data = self.data.tobytes()
        for first, last in zip(self.starts, self.starts + self.lengths, strict=True):
            yield data[first:last].decode()


@dataclass(frozen=True)
class _Runs:
    """Words or whole documents: runs of characters, and the document that each is of.

    A character that is part of none follows each.
    """

    codes: npt.NDArray[Any]
    starts: Ints
    lengths: Ints
    rows: Ints


def are_many(documents: Sequence[str], texts: Texts) -> bool:
    """Whether documents have so many characters that this way is the faster one."""
    return sum(map(len, documents)) >= MANY[texts.unit]


def find_places(documents: Sequence[str], texts: Texts, terms: Terms) -> tuple[Ints, Ints] | None:
    """Return the document and the column of each n-gram of words that is one of the terms.

    None if this way cannot find them.

    Examples
    --------
    >>> documents = ["the cat: a cat " * 999, "it sat"]
    >>> rows, columns = find_places(documents, Texts(longest=2), Terms(("sat", "cat cat")))
    >>> len(rows), columns[:2].tolist()
    (1000, [0, 1])
    """
    runs = runs_of(texts.pattern) if texts.unit == "word" else None
    if runs is None or members(runs[0])[SPACE]:
        return None
    table = gram_table_of(terms, texts)
    whole = _whole(documents, texts)
    if whole is None or not table.is_exact:
        return None
    if table.letters is None:
        words = _runs(whole, members(runs[0]), runs[1])
        grams = _as_bytes(words.codes, words.starts, words.lengths)
        return table.find(grams.data, grams.starts, grams.lengths, words.rows)
    written = replace(whole, codes=table.letters.write(whole.codes))
    words = _runs(written, table.letters.inside, runs[1])
    return table.find(_padded(words.codes), words.starts, words.lengths, words.rows)


def find_grams(documents: Sequence[str], texts: Texts) -> tuple[Ints, Grams] | None:
    """Return the document of each n-gram, and all n-grams; None if this way cannot find them.

    Examples
    --------
    >>> rows, grams = find_grams(["the cat: a cat " * 999, "it sat"], Texts(longest=2))
    >>> len(rows), int(rows[-1]), grams.data[:12].tobytes(), grams.lengths[-1:].tolist()
    (5996, 1, b' the cat cat', [6])
    """
    runs = runs_of(texts.pattern) if texts.unit == "word" else (SPACES, 1)
    whole = _whole(documents, texts) if runs else None
    if whole is None or runs is None:
        return None
    if texts.unit == "word":
        return _word_grams(_without(_runs(whole, members(runs[0]), runs[1]), texts), texts)
    if texts.unit == "char":
        return _character_grams(_single_spaced(whole), texts)
    words = _spaced(_runs(whole, ~members(SPACES), 1))
    padded = replace(words, starts=words.starts - 1, lengths=words.lengths + 2)
    return _character_grams(padded, texts)


def _whole(documents: Sequence[str], texts: Texts) -> _Runs | None:
    """Return prepared documents; None if some hold half of a surrogate pair."""
    try:
        codes, lengths = fold(documents, texts)
    except UnicodeEncodeError:
        return None
    return _Runs(codes, np.cumsum(lengths + 1) - lengths - 1, lengths, np.arange(len(lengths)))


def _runs(whole: _Runs, kind: npt.NDArray[np.bool_], least: int) -> _Runs:
    """Return the longest runs of a class in each document, that have a least length."""
    inside = np.zeros(len(whole.codes) + 1, bool)
    inside[1:] = kind.take(whole.codes)
    ends = whole.starts + whole.lengths
    inside[ends + 1] = False  # between documents
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    if least > 1:
        kept = np.flatnonzero(lengths >= least)
        starts, lengths = starts[kept], lengths[kept]
    counts = np.diff(np.searchsorted(starts, ends), prepend=0)
    return _Runs(whole.codes, starts, lengths, np.repeat(whole.rows, counts))


def _without(words: _Runs, texts: Texts) -> _Runs:
    """Leave the stop words out."""
    if not texts.stop_words:
        return words
    grams = _as_bytes(words.codes, words.starts, words.lengths)
    kept = _stop_table(texts.stop_words).find(grams.data, grams.starts, grams.lengths) < 0
    return replace(
        words, starts=words.starts[kept], lengths=words.lengths[kept], rows=words.rows[kept]
    )


@lru_cache(maxsize=64)
def _stop_table(stop_words: tuple[str, ...]) -> TermTable:
    return TermTable(list(map(utf8, stop_words)))


def _spaced(words: _Runs) -> _Runs:
    """Write words anew, with a space before the first, and one after each.

    A word and the character after it are kept, which is none of a word, and becomes a space.
    """
    ends = words.starts + words.lengths
    steps = np.zeros(len(words.codes) + 1, np.int8)
    steps[words.starts] = 1
    steps[ends + 1] -= 1
    kept = steps.cumsum(dtype=np.int8)[:-1].view(bool)
    codes = words.codes.copy()
    codes[ends] = SPACE
    wide = words.lengths + 1
    spaced = np.append(np.array([SPACE], codes.dtype), codes[kept])
    return replace(words, codes=spaced, starts=1 + np.cumsum(wide) - wide)


def _single_spaced(whole: _Runs) -> _Runs:
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


def _word_grams(words: _Runs, texts: Texts) -> tuple[Ints, Grams]:
    if texts.longest == 1:
        return words.rows, _as_bytes(words.codes, words.starts, words.lengths)
    spaced = _spaced(words)
    starts, lengths, rows = [], [], []
    for size in range(texts.shortest, texts.longest + 1):
        last = slice(size - 1, None)
        first = np.flatnonzero(
            spaced.rows[last] == spaced.rows[: max(0, len(words.rows) - size + 1)]
        )
        starts.append(spaced.starts[first])
        final = first + size - 1
        lengths.append(spaced.starts[final] + spaced.lengths[final] - starts[-1])
        rows.append(spaced.rows[first])
    return np.concatenate(rows), _as_bytes(
        spaced.codes, np.concatenate(starts), np.concatenate(lengths)
    )


def _character_grams(runs: _Runs, texts: Texts) -> tuple[Ints, Grams]:
    """Cut each run; in words, one that is too short counts whole.

    Runs are side by side, or share the space between them: it begins the later one, and is an
    n-gram of the earlier one too where these have one character.
    """
    short = np.flatnonzero((runs.lengths < texts.shortest) & (texts.unit == "char_wb"))
    ends = runs.starts + runs.lengths
    last = len(runs.codes) - (texts.unit == "char_wb")
    steps = np.diff(runs.starts, append=last)
    first = int(runs.starts[0]) if len(runs.starts) else 0
    room = np.repeat(ends, steps) - np.arange(first, first + steps.sum())
    row_of = np.repeat(runs.rows, steps)
    starts, lengths, rows = [runs.starts[short]], [runs.lengths[short]], [runs.rows[short]]
    for size in range(texts.shortest, texts.longest + 1):
        at = np.flatnonzero(room >= size)
        starts.append(at + first)
        rows.append(row_of[at])
        if size == 1 and texts.unit == "char_wb":
            starts.append(ends - 1)
            rows.append(runs.rows)
        lengths.append(np.full(sum(map(len, rows)) - sum(map(len, lengths)), size))
    return np.concatenate(rows), _as_bytes(
        runs.codes, np.concatenate(starts), np.concatenate(lengths)
    )


def _padded(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.append(codes, np.zeros(WINDOW, np.uint8))


def _as_bytes(codes: npt.NDArray[Any], starts: Ints, lengths: Ints) -> Grams:
    """Return parts of characters as parts of bytes."""
    if codes.dtype == np.uint8:
        return Grams(_padded(codes), starts, lengths)
    encoding = "utf-16-le" if codes.dtype == np.uint16 else "utf-32-le"
    text = codes.tobytes().decode(encoding).encode() + bytes(WINDOW)
    data = np.frombuffer(text, np.uint8)
    places = np.flatnonzero(data.view(np.int8) >= -64)  # first bytes of characters, and the end
    begins = places[starts]
    return Grams(data, begins, places[starts + lengths] - begins)
