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
from hbconv.runtime.text.murmur_hash import murmur_hash_of
from hbconv.runtime.text.term_table import WINDOW, TermTable, table_of

__all__ = ["Grams", "find_grams"]

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
    """Words or whole documents: runs of characters, and the document that each is of."""

    codes: npt.NDArray[Any]
    starts: Ints
    lengths: Ints
    rows: Ints


def find_grams(documents: Sequence[str], texts: Texts) -> tuple[Ints, Grams] | None:
    """Return the document of each n-gram, and all n-grams; None if this way cannot find them.

    Examples
    --------
    >>> rows, grams = find_grams(["the cat: a cat " * 999, "it sat"], Texts(longest=2))
    >>> len(rows), int(rows[-1]), grams.data[:11].tobytes(), grams.lengths[-1:].tolist()
    (5996, 1, b'the cat cat', [6])
    """
    joined = "\n".join(documents)
    runs = runs_of(texts.pattern) if texts.unit == "word" else (SPACES, 1)
    if len(joined) < MANY[texts.unit] or runs is None:
        return None
    try:
        codes = _codes(joined)
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    lengths = np.fromiter(map(len, documents), np.int64, len(documents))
    whole = _Runs(codes, np.cumsum(lengths + 1) - lengths - 1, lengths, np.arange(len(lengths)))
    if texts.unit == "word":
        return _word_grams(_without(_runs(whole, members(runs[0]), runs[1]), texts), texts)
    if texts.unit == "char":
        return _character_grams(_single_spaced(whole), texts)
    return _character_grams(_spaced(_runs(whole, ~members(SPACES), 1), 1), texts)


def _codes(text: str) -> npt.NDArray[Any]:
    """Return the code of each character."""
    if text.isascii():
        return np.frombuffer(text.encode(), np.uint8)
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _runs(whole: _Runs, kind: npt.NDArray[np.bool_], least: int) -> _Runs:
    """Return the longest runs of a class in each document, that have a least length."""
    inside = np.zeros(len(whole.codes) + 2, bool)
    inside[1:-1] = kind[whole.codes]
    ends = whole.starts + whole.lengths
    inside[ends + 1] = False  # between documents
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    if least > 1:
        starts, lengths = starts[lengths >= least], lengths[lengths >= least]
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
    return TermTable(stop_words)


def _spaced(words: _Runs, before: int) -> _Runs:
    """Write words anew, with spaces before, and one after, as parts of them where before."""
    wide = words.lengths + before + 1
    starts = np.cumsum(wide) - wide
    codes = np.full(wide.sum(), SPACE, words.codes.dtype)
    steps = np.arange(words.lengths.sum())
    done = np.cumsum(words.lengths) - words.lengths
    codes[steps + np.repeat(starts + before - done, words.lengths)] = words.codes[
        steps + np.repeat(words.starts - done, words.lengths)
    ]
    return _Runs(codes, starts, wide if before else words.lengths, words.rows)


def _single_spaced(whole: _Runs) -> _Runs:
    """Write one space for two or more in a row."""
    space = np.zeros(len(whole.codes) + 1, bool)
    space[:-1] = members(SPACES)[whole.codes]
    ends = whole.starts + whole.lengths
    space[ends] = False
    after = np.append(False, space[:-1])
    kept = ~(space & after)[:-1]
    codes = np.where(space[:-1] & space[1:], SPACE, whole.codes).astype(whole.codes.dtype)[kept]
    places = np.append(0, np.cumsum(kept))
    starts = places[whole.starts]
    return replace(whole, codes=codes, starts=starts, lengths=places[ends] - starts)


def _word_grams(words: _Runs, texts: Texts) -> tuple[Ints, Grams]:
    if texts.longest == 1:
        return words.rows, _as_bytes(words.codes, words.starts, words.lengths)
    spaced = _spaced(words, 0)
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
    """Cut each run; in words, one that is too short counts whole."""
    positions = np.arange(len(runs.codes) + 1)
    room, row_of = np.zeros(len(positions), np.int64), np.zeros(len(positions), np.int64)
    within = np.repeat(runs.starts - (np.cumsum(runs.lengths) - runs.lengths), runs.lengths)
    within += np.arange(len(within))
    room[within] = np.repeat(runs.starts + runs.lengths, runs.lengths) - within
    row_of[within] = np.repeat(runs.rows, runs.lengths)
    short = np.flatnonzero((runs.lengths < texts.shortest) & (texts.unit == "char_wb"))
    starts, lengths = [runs.starts[short]], [runs.lengths[short]]
    for size in range(texts.shortest, texts.longest + 1):
        starts.append(np.flatnonzero(room >= size))
        lengths.append(np.full(len(starts[-1]), size))
    begins = np.concatenate(starts)
    return row_of[begins], _as_bytes(runs.codes, begins, np.concatenate(lengths))


def _as_bytes(codes: npt.NDArray[Any], starts: Ints, lengths: Ints) -> Grams:
    """Return parts of characters as parts of bytes."""
    if codes.dtype == np.uint8:
        return Grams(np.append(codes, np.zeros(WINDOW, np.uint8)), starts, lengths)
    sizes = 1 + (codes > 0x7F).astype(np.uint8) + (codes > 0x7FF) + (codes > 0xFFFF)
    places = np.append(0, np.cumsum(sizes, dtype=np.int64))
    data = codes.tobytes().decode("utf-32-le").encode() + bytes(WINDOW)
    begins = places[starts]
    return Grams(np.frombuffer(data, np.uint8), begins, places[starts + lengths] - begins)
