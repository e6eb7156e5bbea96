"""Terms of documents, or their hashes, counted by a compiled kernel, a document at a time.

Its tables are those that numpy looks terms up in. What it does not read is left to numpy: other
patterns of words than runs of one class of characters, and a document with a character that has no
cell.

A character becomes lower case and loses accents first. A document is referred, for numpy to read
it, by a character that becomes several others, and by a capital sigma, whose lower case its
neighbours decide.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.binary.loop import CompiledLoop
from hbconv.backends.tvm.texts.kernels import find_counter, is_at_hand
from hbconv.backends.tvm.texts.memory import (
    CALL,
    DROPPED,
    HASHED_CHARACTERS,
    HASHED_WORDS,
    OUTSIDE,
    REFERRED,
    TABLES,
    TERMS_OF_CHARACTERS,
    TERMS_OF_WORDS,
    TextInterface,
)
from hbconv.containers.extractors import Buckets, Extractor, Terms, Texts
from hbconv.errors import InputError
from hbconv.runtime.text.grams import CharacterTable, GramTable, Letters, gram_table_of
from hbconv.runtime.text.runs import SPACE
from hbconv.runtime.text.term_table import WINDOW, Slots, TermTable
from hbconv.runtime.text.tokenize import (
    ASCII,
    SIGMA,
    SPACES,
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
MOST_KEPT = 1 << 20
"""Letters and n-grams of a document whose scratch a thread keeps: at most 60 MB of it.

A document of 7 MB, cut into words' n-grams of two to five characters, takes 500 MB.
"""

MANY = 1_000
"""Documents of a call for which TVM is imported and the kernel compiled, which takes a second."""


class Documents(NamedTuple):
    """Documents side by side in UTF-8.

    Parameters
    ----------
    data : ndarray of uint8
    offsets : ndarray of int64
        Where each begins and the last one ends.
    longest : int
        Bytes of the longest one, or more.
    is_ascii : bool
        All bytes are ASCII.
    """

    data: npt.NDArray[np.uint8]
    offsets: Ints
    longest: int
    is_ascii: bool

    @staticmethod
    def of_texts(texts: Sequence[str]) -> Documents:
        """Write documents side by side, or raise UnicodeEncodeError for half a surrogate pair."""
        joined = "".join(texts)
        is_ascii = joined.isascii()
        parts: Sequence[Any] = texts if is_ascii else [text.encode() for text in texts]
        data = joined.encode() if is_ascii else b"".join(parts)
        lengths = list(map(len, parts))
        offsets = np.fromiter(accumulate(lengths, initial=0), np.int64, len(lengths) + 1)
        return Documents(np.frombuffer(data, np.uint8), offsets, max(lengths, default=0), is_ascii)

    @staticmethod
    def of_arrow(texts: Any) -> Documents:
        """Read an Arrow array of strings without nulls where it lies.

        Raises
        ------
        InputError
            Its offsets do not ascend, or lie beyond its letters: a request may hold any.
        """
        _, places, letters = texts.buffers()
        wide = str(texts.type).startswith("large_")
        # A slice of Arrow keeps the buffers of the whole column.
        end = texts.offset + len(texts) + 1
        offsets = np.frombuffer(places, np.int64 if wide else np.int32, end)[texts.offset :]
        data = np.frombuffer(letters or b"", np.uint8)
        lengths = np.diff(offsets)
        # The kernel trusts offsets.
        if offsets[0] < 0 or offsets[-1] > len(data) or lengths.min() < 0:
            raise InputError("Offsets of a column of texts are invalid. Ask its validate().")
        is_ascii = bool(data[offsets[0] : offsets[-1]].max(initial=0) < ASCII)
        return Documents(data, offsets.astype(np.int64, copy=False), int(lengths.max()), is_ascii)


class Counted(NamedTuple):
    """Entries of documents.

    Parameters
    ----------
    starts : ndarray of int64
        Where those of each document begin, and the last ones end.
    columns, sums : ndarray of int32
    unread : list of int
        Documents that were not read: they have no entries.
    """

    starts: Ints
    columns: npt.NDArray[np.int32]
    sums: npt.NDArray[np.int32]
    unread: list[int]


class Counter:
    """Counts n-grams by a kernel.

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
        self._texts = texts
        self._interface = interface
        self._inside, self._least = _words_of(texts)
        digits = -(-(2 * width).bit_length() // interface.digit)
        in_words = [int(texts.unit == "char_wb")] if texts.unit != "word" else []
        self._facts = [self._least, texts.shortest, texts.longest, digits, *in_words]
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
        data, offsets, longest, is_ascii = documents
        rows = len(offsets) - 1
        texts, least = self._texts, self._least
        units = _units(texts, least, longest, 1)
        sizes = max(1, min(texts.longest, units) - texts.shortest + 1)
        size = int(offsets[-1]) - int(offsets[0])
        # An array of no entries is no argument of a kernel.
        entries = max(1, _units(texts, least, size, rows) * sizes)
        loop = self._loop(is_ascii) if max(entries, longest) <= MOST_CODES else None
        if loop is None:
            return None
        bounds, unread = np.empty(rows + 2, np.int64), np.empty(max(1, rows), np.int64)
        columns, sums = np.empty(entries, np.int32), np.empty(entries, np.int32)
        run = self._run_in(loop, _Room(longest, units, units * sizes))
        run(rows, [data, offsets, bounds, unread, columns, sums])
        found, left = bounds[rows:].tolist()
        return Counted(bounds[:-1], columns[:found], sums[:found], unread[:left].tolist())

    def _loop(self, is_ascii: bool) -> CompiledLoop | None:
        """Return the kernel with its tables, which hold all characters once others came."""
        made = self._made
        # Those of all characters take 0.4 s to make, which ASCII never needs.
        if made is None or not (made[0] or is_ascii):
            letters = None if is_ascii else self.letters
            cells = cells_of(self._texts, self._inside, letters)
            made = not is_ascii, find_counter(self._interface, self._tables(cells))
            self._made = made
        return made[1]

    def _tables(self, cells: CharacterCells) -> list[npt.NDArray[Any]]:
        """Return the tables in their order."""
        tables = {
            "ascii": cells.ascii,
            "pages": cells.pages,
            "cells": cells.cells,
            "spaces": members(SPACES)[:256] if self.letters is None else ~self.letters.inside,
            **self.columns_found(),
        }
        # A buffer of no entries is no argument of a kernel.
        return [_filled(tables[name], TABLES[name]) for name in self._interface.tables]

    def columns_found(self) -> dict[str, Any]:
        """Return the facts, and the tables that columns are found by."""
        raise NotImplementedError

    def _run_in(self, loop: CompiledLoop, room: _Room) -> Callable[[int, Any], None]:
        """Return what runs the kernel in scratch of this thread that has room."""
        kept: _Bound | None = getattr(self._local, "kept", None)
        if kept is not None and kept.loop is loop and kept.room.holds(room):
            return kept.run
        is_kept = max(room) <= MOST_KEPT
        if is_kept and kept is not None:
            room = _Room(*map(max, room, kept.room))
        scratch = room.scratch(self._interface)
        run = loop.run_in(scratch, len(self._interface.call) - len(scratch))
        if is_kept:
            self._local.kept = _Bound(loop, room, run)
        return run


def _words_of(texts: Texts) -> tuple[npt.NDArray[np.bool_], int]:
    """Return which characters words are made of, and their least length."""
    if texts.unit == "char":
        return np.ones(sys.maxunicode + 1, bool), 1
    if texts.unit == "char_wb":
        return ~members(SPACES), 1
    runs = runs_of(texts.pattern)
    assert runs is not None  # noqa: S101  (a counter is made for runs alone)
    return members(runs[0]), runs[1]


class TermCounter(Counter):
    """Counts the n-grams of words that are terms.

    Parameters
    ----------
    terms : Terms
    texts : Texts
    table : GramTable
        Of these.
    """

    def __init__(self, terms: Terms, texts: Texts, table: GramTable) -> None:
        super().__init__(texts, TERMS_OF_WORDS, terms.width)
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
            **_slots_of(words, self._table.columns),
            "gram_slots": np.concatenate([np.zeros(0, np.uint64), *gram_slots]),
        }


class CharacterCounter(Counter):
    """Counts the n-grams of characters that are terms.

    Parameters
    ----------
    terms : Terms
    texts : Texts
    table : CharacterTable
        Of these.
    """

    def __init__(self, terms: Terms, texts: Texts, table: CharacterTable) -> None:
        super().__init__(texts, TERMS_OF_CHARACTERS, terms.width)
        self.letters = table.letters
        self._words = table.words
        self._columns = np.arange(terms.width)

    def columns_found(self) -> dict[str, Any]:
        """Return the facts, and the slots of terms."""
        facts = [*self._facts, self._words.slots.bits]
        return {"facts": facts, **_slots_of(self._words, self._columns)}


class HashCounter(Counter):
    """Counts n-grams by their hashes.

    Parameters
    ----------
    buckets : Buckets
    texts : Texts
    """

    def __init__(self, buckets: Buckets, texts: Texts) -> None:
        interface = HASHED_WORDS if texts.unit == "word" else HASHED_CHARACTERS
        super().__init__(texts, interface, buckets.width)
        self._buckets = buckets

    def columns_found(self) -> dict[str, Any]:
        """Return the facts."""
        return {"facts": [*self._facts, self._buckets.width, int(self._buckets.signed)]}


def _slots_of(words: TermTable, columns: Ints) -> dict[str, Any]:
    """Return the tables that words are found by."""
    return {
        "slots": _with_columns(words.slots, columns),
        "terms": np.stack([words.starts, words.lengths], axis=1),
        "term_bytes": words.data,
    }


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


class _Room(NamedTuple):
    """Room that a document needs.

    Parameters
    ----------
    letters : int
    units : int
        Words; or places where n-grams of characters begin.
    codes : int
        N-grams.
    """

    letters: int
    units: int
    codes: int

    def holds(self, other: _Room) -> bool:
        """Whether a document of another room fits."""
        letters, units, codes = other
        return self.letters >= letters and self.units >= units and self.codes >= codes

    def scratch(self, interface: TextInterface) -> list[npt.NDArray[Any]]:
        """Return the scratch in its order."""
        letters, units, codes = self
        sizes = {
            "letters": letters + WINDOW,
            "edges": letters + 2,
            **dict.fromkeys(_OF_UNITS, units + 1),
            "codes": codes + 1,
            "sorted": codes + 1,
            "tally": 1 << interface.digit,
            "line": letters + units + 2 * WINDOW,
        }
        kept = [name for name in interface.call if name in sizes]
        return [np.empty(sizes[name], CALL[name]) for name in kept]


class _Bound(NamedTuple):
    """A kernel bound to scratch of a thread."""

    loop: CompiledLoop
    room: _Room
    run: Callable[[int, Any], None]


_OF_UNITS = (
    "starts", "lengths", "keys", "homes", "found_keys", "found", "numbers", "grams", "room",
)  # fmt: skip


def _units(texts: Texts, least: int, size: int, count: int) -> int:
    """Return how many units so many documents have at most, of so many bytes."""
    if texts.unit == "char":
        return size
    # A character stands between two words.
    words = size // (least + 1) + count
    # Words within which n-grams are cut have a space before and after each.
    return words if texts.unit == "word" else size + words + count


def counter_of(extractor: Extractor, count: int) -> Counter | None:
    """Return what counts in a call of so many documents, made once; None where no kernel does."""
    made = extractor.made
    if Counter not in made:
        made[Counter] = _make_counter(extractor)
    counter: Counter | None = made[Counter]
    return counter if counter is not None and counter.serves(count) else None


def _make_counter(extractor: Extractor) -> Counter | None:
    columns, texts = extractor.columns, extractor.rows
    if not isinstance(texts, Texts):
        return None
    in_words = texts.unit == "word"
    runs = runs_of(texts.pattern) if in_words else None
    # Words are joined by spaces, so none of them may hold one.
    if in_words and (runs is None or members(runs[0])[SPACE]):
        return None
    if isinstance(columns, Buckets):
        return None if in_words and texts.stop_words else HashCounter(columns, texts)
    if not in_words:
        character_table = CharacterTable(columns)
        is_exact = character_table.is_exact
        return CharacterCounter(columns, texts, character_table) if is_exact else None
    table = gram_table_of(columns, texts)
    return TermCounter(columns, texts, table) if table.is_exact else None
