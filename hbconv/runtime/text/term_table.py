"""Terms found by parts of a text: of all parts at once, exactly, and no part becomes an object."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import Name, Terms

__all__ = ["Slots", "TermTable", "table_of", "utf8"]

Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

WINDOW = 8
"""Bytes that are read at once."""

# A mask keeps the bytes of a part that is shorter than a window.
_MASKS = np.array([256**length - 1 for length in range(WINDOW)], np.uint64)
FEW = 400
"""Keys for which several slots are looked at together."""
_AFTER = np.arange(8)
# 2**64 over the golden ratio, odd: Fibonacci hashing (Knuth, volume 3, 6.4).
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
# The top byte holds the length, so that a hash has 56 bits.
_LOW = np.uint64(2**56 - 1)


class Slots:
    """Positions of keys: open addressing, a slot for each half.

    Parameters
    ----------
    keys : ndarray of uint64
        Each is there once; those that are 0 are left out.
    """

    def __init__(self, keys: Keys) -> None:
        # Half of the slots stay empty at least, so that most keys are where they belong.
        self.bits = max(1, (2 * len(keys)).bit_length())
        self.pairs = np.zeros((1 << self.bits, 2), np.uint64)
        """A key and its position side by side, for one miss of the cache."""
        self.keys = self.pairs[:, 0]
        self.positions = self.pairs.view(np.int64)[:, 1]
        self._fill(keys)

    def _fill(self, keys: Keys) -> None:
        """Give each key a slot: one of those that want the same gets it, and others the next."""
        # 0 marks an empty slot.
        waiting = np.flatnonzero(keys)
        at = self._home(keys)
        while len(waiting):
            free = waiting[self.keys[at[waiting]] == 0]
            # Of several keys for one slot numpy keeps the last written; the others wait.
            self.keys[at[free]], self.positions[at[free]] = keys[free], free
            waiting = waiting[self.keys[at[waiting]] != keys[waiting]]
            at[waiting] = self._next(at[waiting])

    def find(self, keys: Keys) -> Ints:
        """Return the position of each key, -1 where it is none of these."""
        at = self._home(keys)
        slot_keys = self.keys[at]
        lost = ((slot_keys != keys) & (slot_keys > 0)).nonzero()[0]
        while len(lost) > FEW:
            at[lost] = self._next(at[lost])
            slot_keys[lost] = self.keys[at[lost]]
            lost = lost[(slot_keys[lost] != keys[lost]) & (slot_keys[lost] > 0)]
        positions: Ints = self.positions[at]
        positions[slot_keys != keys] = -1
        if len(lost):
            self._find_near(keys[lost], at[lost], positions, lost)
        return positions

    def _find_near(self, keys: Keys, at: Ints, positions: Ints, places: Ints) -> None:
        """Write the positions of keys that are in slots after others, to their places."""
        while len(places):
            # Eight slots of 16 bytes are two or three lines of the cache.
            slots = self._next(at)[:, None] + _AFTER & (len(self.keys) - 1)
            near = self.keys[slots]
            same = near == keys[:, None]
            matches = same.reshape(-1).nonzero()[0]
            # Eight slots a key: the position over 8 is the key's.
            positions[places[matches >> 3]] = self.positions[slots.reshape(-1)[matches]]
            same |= near == 0
            left = (same.view(np.uint64).reshape(-1) == 0).nonzero()[0]  # eight bools as one number
            keys = keys[left]
            at = slots[left, -1]
            places = places[left]

    def _home(self, keys: Keys) -> Ints:
        # A product moves bits up only, so the high bits of a key first join its low ones.
        mixed = keys >> np.uint64(29)
        mixed ^= keys
        mixed *= _FACTOR
        # The high bits of a product depend on all bits of the key.
        mixed >>= np.uint64(64 - self.bits)
        return mixed.view(np.int64)

    def _next(self, at: Ints) -> Ints:
        return (at + 1) & ((1 << self.bits) - 1)


class TermTable:
    """Columns of terms, given as bytes, by their keys.

    The key of a part below eight bytes is the part, below its length. Keys of others are hashes,
    and then the bytes are compared. ``is_exact`` is False where two terms have one hash: their
    table is of no use.
    """

    def __init__(self, terms: Sequence[bytes]) -> None:
        data = np.frombuffer(b"".join(terms) + bytes(WINDOW), np.uint8)
        self.lengths: Ints = np.fromiter(map(len, terms), np.int64, len(terms))
        self.starts: Ints = np.cumsum(self.lengths) - self.lengths
        self.data = data
        self.windows = _windows(data)
        keys = _keys(self.windows, self.starts, self.lengths)
        # Two terms of one hash could not be told apart in their slot.
        self.is_exact = len(np.unique(keys[keys > 0])) == np.count_nonzero(keys)
        self.slots = Slots(keys if self.is_exact else keys[:0])

    def find(self, data: Bytes, starts: Ints, lengths: Ints) -> Ints:
        """Return the column of each part, -1 where it is none of the terms.

        Parameters
        ----------
        data : ndarray of uint8
            UTF-8, with eight bytes more at its end.
        starts, lengths : ndarray of int64
            Bytes; no part is empty.
        """
        windows = _windows(data)
        columns = self.slots.find(_keys(windows, starts, lengths))
        return self._verified(columns, windows, starts, lengths)

    def _verified(self, columns: Ints, windows: Keys, starts: Ints, lengths: Ints) -> Ints:
        """Forget the columns of terms whose hash alone is that of the part."""
        rows = ((columns >= 0) & (lengths >= WINDOW)).nonzero()[0]
        if not len(rows):
            return columns
        terms, first = columns[rows], starts[rows]
        ends = lengths[rows] - WINDOW
        same = self.lengths[terms] == lengths[rows]
        step, left = 0, np.flatnonzero(same)
        while len(left):
            # The last window ends with the part, and overlaps the one before it.
            at = np.minimum(step, ends[left])
            same[left] = windows[first[left] + at] == self.windows[self.starts[terms[left]] + at]
            step += WINDOW
            left = left[same[left] & (ends[left] > step - WINDOW)]
        columns[rows[~same]] = -1
        return columns


def utf8(name: Name) -> bytes:
    """Return a term as UTF-8; empty if it is no text, or holds half of a surrogate pair."""
    try:
        return name.encode() if isinstance(name, str) else b""
    except UnicodeEncodeError:
        return b""


def _windows(data: Bytes) -> Keys:
    """Return the eight bytes from each position on, the first lowest, as one number."""
    # A view: windows overlap, and none is copied.
    return np.ndarray((len(data) - WINDOW + 1,), "<u8", data, strides=(1,))


def _keys(windows: Keys, starts: Ints, lengths: Ints) -> Keys:
    keys = windows[starts]
    long = (lengths >= WINDOW).nonzero()[0]
    if len(long):
        hashes = _hashes(windows, keys[long], starts[long], lengths[long] - WINDOW)
    keys &= _MASKS[np.minimum(lengths, WINDOW - 1)]
    if len(long):
        keys[long] = hashes & _LOW
    # The length tells "a" from "a\0", whose bytes are one number.
    keys |= np.minimum(lengths, 255).astype(np.uint64) << np.uint64(56)
    return keys


def _hashes(windows: Keys, hashes: Keys, first: Ints, ends: Ints) -> Keys:
    """Mix the first eight bytes of each part with those after them, up to its end."""
    step, left = WINDOW, np.flatnonzero(ends)
    while len(left):
        mixed = hashes[left] * _FACTOR
        mixed ^= mixed >> np.uint64(32)
        hashes[left] = mixed + windows[first[left] + np.minimum(step, ends[left])]
        left = left[ends[left] > step]
        step += WINDOW
    hashes *= _FACTOR
    return hashes ^ hashes >> np.uint64(32)


def table_of(terms: Terms) -> TermTable:
    """Return the table of terms, made once."""
    table: TermTable | None = terms.made.get(TermTable)
    if table is None:
        table = terms.made[TermTable] = TermTable(list(map(utf8, terms.names)))
    return table
