"""Terms of documents, or their hashes, counted by a compiled kernel, a document at a time.

Its tables are those that numpy looks terms up in. What it does not read is left to numpy: other
patterns than runs of one class of characters, and a document with a character that has no cell.

A character becomes lower case and loses accents first. A document is referred, for numpy to read
it, by a character that becomes several others, and by a capital sigma, whose lower case its
neighbours decide.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.binary.loop import CompiledLoop
from hbconv.backends.tvm.texts.kernels import find_counter, is_at_hand
from hbconv.backends.tvm.texts.memory import (
    CALL,
    DIGIT,
    DROPPED,
    HASHES,
    OUTSIDE,
    REFERRED,
    TABLES,
    TERMS,
    TextInterface,
)
from hbconv.containers.extractors import Buckets, Extractor, Terms, Texts
from hbconv.runtime.text.grams import GramTable, Letters, gram_table_of
from hbconv.runtime.text.runs import SPACE
from hbconv.runtime.text.term_table import WINDOW, Slots
from hbconv.runtime.text.tokenize import (
    ASCII,
    SIGMA,
    lengths_of,
    members,
    preparation,
    runs_of,
    table_of_characters,
)

__all__ = ["Counted", "Counter", "Documents", "cells_of", "counter_of"]

PAGE = 256
SURROGATES = slice(0xD800, 0xE000)


@dataclass(frozen=True)
class CharacterCells:
    """What each character becomes: 256 characters are a page, and equal pages are one."""

    ascii: npt.NDArray[np.uint8]
    """The letters that characters of ASCII become."""
    pages: npt.NDArray[np.uint16]
    cells: npt.NDArray[np.uint16]


def cells_of(
    texts: Texts, inside: npt.NDArray[np.bool_], letters: Letters | None
) -> CharacterCells:
    """Return what characters become.

    Parameters
    ----------
    texts : Texts
    inside : ndarray of bool
        Whether each character may be in a word.
    letters : Letters, optional
        Those of the terms; without them all characters beyond ASCII are referred.
    """
    every = preparation(texts.lowercase, texts.accents)("".join(map(chr, range(ASCII))))
    folded = np.frombuffer(every.encode(), np.uint8)
    of_ascii = np.where(inside[folded], folded, np.uint8(OUTSIDE))
    if letters is None:
        pages = np.zeros((sys.maxunicode + 1) // PAGE, np.uint16)
        return CharacterCells(of_ascii, pages, np.full(PAGE, REFERRED, np.uint16))
    table = table_of_characters(texts.lowercase, texts.accents)
    becomes = table.changed[table.starts]
    cells = np.where(inside[becomes], letters.write(becomes), np.uint8(OUTSIDE)).astype(np.uint16)
    cells[table.counts != 1] = REFERRED
    cells[table.counts == 0] = DROPPED
    cells[SURROGATES] = REFERRED
    if texts.lowercase:
        cells[ord(SIGMA)] = REFERRED
    places: dict[bytes, int] = {}
    numbers = [places.setdefault(page.tobytes(), len(places)) for page in cells.reshape(-1, PAGE)]
    return CharacterCells(
        of_ascii, np.array(numbers, np.uint16), np.frombuffer(b"".join(places), np.uint16)
    )


Ints = npt.NDArray[np.int64]

MOST_CODES = 1 << 26
"""N-grams of a call: more are left to numpy, which knows how many there are."""


MANY = 1_000
"""Documents of a call for which TVM is imported and the kernel compiled, which takes a second."""


@dataclass(frozen=True)
class Documents:
    """Documents side by side in UTF-8, and where each begins and the last one ends."""

    data: npt.NDArray[np.uint8]
    offsets: Ints

    @staticmethod
    def of_texts(texts: Sequence[str]) -> Documents:
        """Write documents side by side, or raise UnicodeEncodeError for half a surrogate pair."""
        joined = "".join(texts)
        if joined.isascii():
            return Documents._of(joined.encode(), lengths_of(texts))
        parts = [text.encode() for text in texts]
        return Documents._of(b"".join(parts), lengths_of(parts))

    @staticmethod
    def _of(data: bytes, lengths: Ints) -> Documents:
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return Documents(np.frombuffer(data, np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def longest(self) -> int:
        """Bytes of the longest document."""
        return int(np.diff(self.offsets).max(initial=0))

    @property
    def size(self) -> int:
        """Bytes of all documents."""
        return int(self.offsets[-1] - self.offsets[0])


@dataclass(frozen=True)
class Counted:
    """Entries of documents: how many each has, below 0 where it was not read, and all of them."""

    counts: Ints
    columns: npt.NDArray[np.int32]
    sums: npt.NDArray[np.int32]


class Counter:
    """Counts n-grams of words by a kernel.

    Parameters
    ----------
    texts : Texts
    interface : TextInterface
        Of the kernel.
    width : int
        Columns.
    """

    letters: Letters | None = None
    """What characters beyond ASCII become: without these numpy reads documents that hold any."""

    def __init__(self, texts: Texts, interface: TextInterface, width: int) -> None:
        runs = runs_of(texts.pattern)
        assert runs is not None  # noqa: S101  (a counter is made for runs alone)
        self._one, least = runs
        self._texts = texts
        self._interface = interface
        digits = -(-(2 * width).bit_length() // DIGIT)
        self._facts = [least, texts.shortest, texts.longest, digits]
        self._made: tuple[bool, CompiledLoop | None] | None = None
        # Each thread has scratch of its own, or calls would overwrite each other.
        self._local = threading.local()

    def serves(self, count: int) -> bool:
        """Whether a kernel counts in a call of so many documents.

        It is made for many of them, or where that needs no import of TVM.
        """
        if self._made is not None:
            return self._made[1] is not None
        return count >= MANY or is_at_hand(self._interface)

    def count(self, documents: Documents) -> Counted | None:
        """Count the terms of documents; None where no kernel can."""
        is_ascii = not bool((documents.data >= 128).any())
        room = _Room.of(documents, self._texts, self._facts[0])
        loop = None if room is None else self._loop(is_ascii)
        if loop is None or room is None:
            return None
        counts = np.empty(len(documents), np.int64)
        columns = np.empty(room.entries, np.int32)
        sums = np.empty(room.entries, np.int32)
        given: list[npt.NDArray[Any]] = [documents.data, documents.offsets, counts, columns, sums]
        loop.run(len(documents), [*given, *self._scratch(room)])
        found = int(np.maximum(counts, 0).sum())
        return Counted(counts, columns[:found], sums[:found])

    def _loop(self, is_ascii: bool) -> CompiledLoop | None:
        """Return the kernel with its tables, which hold all characters once others came."""
        made = self._made
        # Those of all characters take 0.4 s to make, which ASCII never needs.
        if made is None or not (made[0] or is_ascii):
            letters = None if is_ascii else self.letters
            cells = cells_of(self._texts, members(self._one), letters)
            made = not is_ascii, find_counter(self._interface, self._tables(cells))
            self._made = made
        return made[1]

    def _tables(self, cells: CharacterCells) -> list[npt.NDArray[Any]]:
        """Return the tables in their order."""
        tables = {
            "ascii": cells.ascii,
            "pages": cells.pages,
            "cells": cells.cells,
            **self.columns_found(),
        }
        # A buffer of no entries is no argument of a kernel.
        return [_filled(tables[name], TABLES[name]) for name in self._interface.tables]

    def columns_found(self) -> dict[str, Any]:
        """Return the facts, and the tables that columns are found by."""
        raise NotImplementedError

    def _scratch(self, room: _Room) -> list[npt.NDArray[Any]]:
        """Return scratch of this thread that has room."""
        kept = getattr(self._local, "kept", None)
        if kept is None or not kept[0].holds(room):
            room = room if kept is None else room.joined(kept[0])
            self._local.kept = kept = (room, room.scratch(self._interface))
        return list(kept[1])


class TermCounter(Counter):
    """Counts the n-grams that are terms.

    Parameters
    ----------
    terms : Terms
    texts : Texts
    table : GramTable
        Of these.
    """

    def __init__(self, terms: Terms, texts: Texts, table: GramTable) -> None:
        super().__init__(texts, TERMS, terms.width)
        self.letters = table.letters
        self._table = table

    def columns_found(self) -> dict[str, Any]:
        """Return the facts, and the slots of words and n-grams."""
        words, levels = self._table.words, self._table.levels
        gram_slots = [_with_columns(level.slots, level.columns) for level in levels]
        ends = np.cumsum([0, *(slots.size for slots in gram_slots)])
        facts = [*self._facts, self._table.stopped, self._table.count, words.slots.bits]
        for start, level in zip(ends.tolist(), levels, strict=False):
            facts += [start, level.slots.bits]
        return {
            "facts": facts,
            "slots": _with_columns(words.slots, self._table.columns),
            "terms": np.stack([words.starts, words.lengths], axis=1),
            "term_bytes": words.data,
            "gram_slots": np.concatenate([np.zeros(0, np.uint64), *gram_slots]),
        }


class HashCounter(Counter):
    """Counts n-grams by their hashes.

    Parameters
    ----------
    buckets : Buckets
    texts : Texts
    """

    def __init__(self, buckets: Buckets, texts: Texts) -> None:
        super().__init__(texts, HASHES, buckets.width)
        self._buckets = buckets

    def columns_found(self) -> dict[str, Any]:
        """Return the facts."""
        return {"facts": [*self._facts, self._buckets.width, int(self._buckets.signed)]}


def _with_columns(slots: Slots, columns: Ints) -> npt.NDArray[np.uint64]:
    """Return slots that also hold, above the number of each key, its column."""
    pairs = slots.pairs.copy()
    taken = pairs[:, 0] > 0
    numbers = pairs[taken, 1]
    pairs[taken, 1] |= columns[numbers.astype(np.int64)].astype(np.uint64) << np.uint64(32)
    return pairs.reshape(-1)


def _filled(values: Any, dtype: str) -> npt.NDArray[Any]:
    array = np.asarray(values).reshape(-1)
    return (array if array.size else np.zeros(1)).astype(dtype, copy=False)


@dataclass(frozen=True)
class _Room:
    """Entries that a call needs room for.

    Parameters
    ----------
    entries : int
        Entries of all documents.
    letters, words, codes : int
        Letters, words and n-grams of one document.
    """

    entries: int
    letters: int
    words: int
    codes: int

    @staticmethod
    def of(documents: Documents, texts: Texts, least: int) -> _Room | None:
        """Return the room for documents; None if it is beyond what is sensible."""
        # A character stands between two words.
        words = documents.longest // (least + 1) + 1
        sizes = len(texts.sizes(words)) if texts.shortest <= words else 0
        entries = (documents.size // (least + 1) + len(documents)) * sizes
        if max(entries, documents.longest) > MOST_CODES:
            return None
        return _Room(max(1, entries), documents.longest, words, words * sizes)

    def holds(self, other: _Room) -> bool:
        """Whether a document of another room fits."""
        return (
            self.letters >= other.letters
            and self.words >= other.words
            and self.codes >= other.codes
        )

    def joined(self, other: _Room) -> _Room:
        """Return room for the documents of both."""
        return _Room(
            self.entries,
            max(self.letters, other.letters),
            max(self.words, other.words),
            max(self.codes, other.codes),
        )

    def scratch(self, interface: TextInterface) -> list[npt.NDArray[Any]]:
        """Return the scratch in its order."""
        sizes = {
            "letters": self.letters + WINDOW,
            "edges": self.letters + 2,
            "starts": self.words + 1,
            "lengths": self.words + 1,
            "keys": self.words + 1,
            "homes": self.words + 1,
            "found_keys": self.words + 1,
            "found": self.words + 1,
            "numbers": self.words + 1,
            "grams": self.words + 1,
            "codes": self.codes + 1,
            "sorted": self.codes + 1,
            "tally": 1 << DIGIT,
            "line": self.letters + self.words + WINDOW,
        }
        kept = [name for name in interface.call if name in sizes]
        return [np.empty(sizes[name], CALL[name]) for name in kept]


# Weak, so that counters die with the model that they were made for.
_COUNTERS: WeakKeyDictionary[Terms | Buckets, dict[Texts, Counter | None]] = WeakKeyDictionary()


def counter_of(extractor: Extractor, count: int) -> Counter | None:
    """Return what counts in a call of so many documents, made once; None where no kernel does."""
    texts = extractor.rows
    if not isinstance(texts, Texts):
        return None
    counters = _COUNTERS.setdefault(extractor.columns, {})
    if texts not in counters:
        counters[texts] = _make_counter(extractor.columns, texts)
    counter = counters[texts]
    return counter if counter is not None and counter.serves(count) else None


def _make_counter(columns: Terms | Buckets, texts: Texts) -> Counter | None:
    runs = runs_of(texts.pattern) if texts.unit == "word" else None
    # Words are joined by spaces, so none of them may hold one.
    if runs is None or members(runs[0])[SPACE]:
        return None
    if isinstance(columns, Buckets):
        return None if texts.stop_words else HashCounter(columns, texts)
    table = gram_table_of(columns, texts)
    return TermCounter(columns, texts, table) if table.is_exact else None
