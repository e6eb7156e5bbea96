"""Words of many documents at once: as positions in one ASCII text, and the columns of terms.

No word becomes a Python object, which takes most of the time otherwise. Other alphabets, patterns,
n-grams, and words longer than a key are left to ``hbconv.runtime.text.tokenize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import WORD, Terms, Texts
from hbconv.runtime.text.murmur_hash import murmur_hash_of

__all__ = ["Words", "find_words"]

Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

KEY = 8
"""Letters that a key holds: it is the word itself, as a number."""
MANY = 10_000
"""Characters from which it pays."""

_IS_WORD = np.array([chr(code).isalnum() or chr(code) == "_" for code in range(128)])
_MASKS = np.array([256**length - 1 for length in range(KEY + 1)], np.uint64)


@dataclass(frozen=True)
class Words:
    """Words of ASCII: where each begins in the text, and how long it is."""

    text: str
    starts: Ints
    lengths: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def hashes(self) -> npt.NDArray[np.int32]:
        """MurmurHash3 of each word."""
        return murmur_hash_of(self.text.encode(), self.starts, self.lengths)

    def places(self, terms: Terms) -> Ints:
        """Return the column of each word, -1 where it is none of the terms."""
        found, long = (
            _table(terms).find(_keys(self.text, self.starts, np.minimum(self.lengths, KEY))),
            np.flatnonzero(self.lengths > KEY),
        )
        ends = zip(
            self.starts[long].tolist(), (self.starts + self.lengths)[long].tolist(), strict=True
        )
        found[long] = [terms.places.get(self.text[first:last], -1) for first, last in ends]
        return found


def find_words(documents: Sequence[Any], texts: Texts) -> tuple[Ints, Words] | None:
    """Return how many words each document has, and all words; None if this way cannot find them.

    Examples
    --------
    >>> counts, words = find_words(["The cat: a cat" * 999, "It sat"], Texts())
    >>> counts.tolist(), words.text[:7], words.starts[:2].tolist(), words.lengths[-2:].tolist()
    ([1999, 2], 'the cat', [0, 4], [2, 3])
    """
    if (texts.unit, texts.pattern, texts.longest, texts.stop_words) != (
        "word",
        WORD,
        1,
        (),
    ) or not all(isinstance(d, str) for d in documents):
        return None
    joined = "\n".join(documents)
    if len(joined) < MANY or not joined.isascii():
        return None
    text = joined.lower() if texts.lowercase else joined
    inside = _IS_WORD[np.frombuffer(f"\n{text}\n".encode(), np.uint8)]
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    starts, lengths = starts[lengths > 1], lengths[lengths > 1]
    ends = np.cumsum(np.fromiter(map(len, documents), np.int64, len(documents)) + 1)
    return np.diff(np.searchsorted(starts, ends), prepend=0), Words(text, starts, lengths)


def _keys(text: str, starts: Ints, lengths: Ints) -> Keys:
    """Return up to eight letters from each start as one number, the first lowest."""
    padded = np.frombuffer(text.encode() + bytes(KEY), np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(padded, KEY)
    return np.ascontiguousarray(windows[starts]).view("<u8").ravel() & _MASKS[lengths]


class _Table:
    """Columns of short terms by their keys: open addressing, a slot for each two."""

    def __init__(self, terms: Terms) -> None:
        short = {
            name: place
            for name, place in terms.places.items()
            if isinstance(name, str) and name.isascii() and len(name) <= KEY and "\0" not in name
        }
        lengths = np.fromiter(map(len, short), np.int64, len(short))
        keys = _keys("".join(short), np.cumsum(lengths) - lengths, lengths)
        self.columns: Ints = np.fromiter((*short.values(), -1), np.int64, len(short) + 1)
        self.keys = np.append(keys, np.uint64(0))  # the last stands for no term
        self.bits = max(1, (2 * len(short)).bit_length())
        self.slots = np.full(1 << self.bits, -1, np.int32)
        waiting, at = np.arange(len(short)), self._home(keys)
        while len(waiting):
            free = waiting[self.slots[at[waiting]] < 0]
            self.slots[at[free]] = free
            waiting = waiting[self.slots[at[waiting]] != waiting]
            at[waiting] = self._next(at[waiting])

    def find(self, keys: Keys) -> Ints:
        """Return the column of each key, -1 where it is not there."""
        at = self._home(keys)
        found = self.slots[at]
        lost = np.flatnonzero(self._differ(found, keys))
        while len(lost):
            at[lost] = self._next(at[lost])
            found[lost] = self.slots[at[lost]]
            lost = lost[self._differ(found[lost], keys[lost])]
        return self.columns[found]

    def _differ(self, found: npt.NDArray[np.int32], keys: Keys) -> npt.NDArray[np.bool_]:
        """Whether each slot holds another key than the one looked for."""
        differ: npt.NDArray[np.bool_] = (found >= 0) & (self.keys[found] != keys)
        return differ

    def _home(self, keys: Keys) -> Ints:
        return (keys * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - self.bits)).astype(np.int64)

    def _next(self, at: Ints) -> Ints:
        return (at + 1) & ((1 << self.bits) - 1)


_TABLES: WeakKeyDictionary[Terms, _Table] = WeakKeyDictionary()


def _table(terms: Terms) -> _Table:
    """Return the table of terms, made once."""
    if terms not in _TABLES:
        _TABLES[terms] = _Table(terms)
    return _TABLES[terms]
