"""Write the kernels that count the terms of documents, or their hashes.

Its steps are those of ``hbconv.runtime.text``, a document at a time. Tables are the same, and so
are keys and slots (``hbconv/runtime/text/term_table.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.machine.calling_convention import SYMBOL
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
from hbconv.backends.tvm.tir.kernel import ANY, EntryPoint, Register

__all__ = ["write_counter"]

WINDOW = 8
NOT_READ = -1
"""The number of letters of a document that is left to another way."""
FACTOR = 0x9E3779B97F4A7C15
ASCII, SPACE = 128, ord(" ")
select = tirx.Select


def int64(value: int) -> Any:
    """Return a number."""
    return tirx.IntImm("int64", value)


def uint64(value: int) -> Any:
    """Return a number; those from 2**63 on have no other form in TIR."""
    if value >> 63:
        return tirx.reinterpret("uint64", int64(value - (1 << 64)))
    return tirx.IntImm("uint64", value)


def held(value: Any) -> Any:
    """Compute a value once, here.

    It passes through a register: what TVM finds out of names that are computed from each other took
    it 20 s.
    """
    return Register(str(value.ty), 1, value).get()


def variable(value: Any) -> Register:
    """Make a register of an int64."""
    return Register("int64", 1, value)


def wrapped(operation: str, a: Any, b: Any) -> Any:
    """Add or multiply numbers of 64 bits modulo 2**64.

    TVM tells LLVM that its own operators never overflow.
    """
    both = tirx.Shuffle([a, b], [int64(0), int64(1)])
    return tirx.call_llvm_pure_intrin("uint64", f"llvm.vector.reduce.{operation}", both)


class CounterWriter:
    """The function under construction, and the buffers that it works on."""

    def __init__(self, entry: EntryPoint, interface: TextInterface) -> None:
        every = {**CALL, **TABLES}
        self.interface = interface
        self.dtypes = {name: every[name] for name in (*interface.call, *interface.tables)}
        self._pointers = {name: entry.pointer(dtype) for name, dtype in self.dtypes.items()}
        self._buffers: dict[str, Any] = {}
        self.facts: dict[str, Any] = {}
        self.words = "line" if "room" in interface.call else "letters"
        """Where what is looked up lies."""

    def declare(self) -> None:
        """Declare the buffers, and read the facts."""
        self._buffers = {
            name: T.decl_buffer((ANY,), self.dtypes[name], data=pointer)
            for name, pointer in self._pointers.items()
        }
        self.facts = {
            name: held(self.load("facts", int64(i))) for i, name in enumerate(self.interface.facts)
        }

    def load(self, name: str, at: Any) -> Any:
        """Read an entry."""
        return self._buffers[name][at]

    def store(self, name: str, at: Any, value: Any) -> None:
        """Write an entry."""
        T.buffer_store(self._buffers[name], value, [at])

    def byte(self, name: str, at: Any) -> Any:
        """Read a byte as a number."""
        return tirx.Cast("int64", self.load(name, at))

    def window(self, name: str, at: Any) -> Any:
        """Read eight bytes, the first lowest, as one number."""
        return tirx.reinterpret("uint64", self.load(name, tirx.Ramp(at, 1, WINDOW)))

    def store_window(self, name: str, at: Any, value: Any) -> None:
        """Write eight bytes."""
        self.store(name, tirx.Ramp(at, 1, WINDOW), tirx.reinterpret("uint8x8", value))


def write_counter(interface: TextInterface) -> dict[str, Any]:
    """Return the function that counts n-grams, by its name."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        entry = EntryPoint(SYMBOL)
        w = CounterWriter(entry, interface)
        with entry.body():
            w.declare()
            written, unread = variable(int64(0)), variable(int64(0))
            w.store("bounds", int64(0), int64(0))
            rows = held(tirx.Cast("int64", entry.rows))
            with T.serial(rows) as row:
                _count_document(w, row, written, unread)
                w.store("bounds", row + 1, written.get())
            w.store("bounds", rows + 1, unread.get())
        entry.end()
    return {SYMBOL: builder.get()}


def _count_document(w: CounterWriter, row: Any, written: Register, unread: Register) -> None:
    count = variable(int64(0))
    letters = _fold(w, held(w.load("offsets", row)), held(w.load("offsets", row + 1)))
    with T.If(letters.get() < 0), T.Then():
        w.store("unread", unread.get(), row)
        unread.set(unread.get() + 1)
    with T.If(letters.get() >= 0), T.Then():
        _PLACE[w.interface.name](w, letters, count)
        _sort(w, count)
        _sum(w, count, written)


# Letters.


def _fold(w: CounterWriter, begin: Any, end: Any) -> Register:
    """Write a document as it counts; return how many bytes it has, below 0 if it is not read."""
    size = held(end - begin)
    every = Register("uint8", 1, tirx.IntImm("uint8", 0))
    with T.serial(size) as j:
        code = held(w.load("text", begin + j))
        every.set(every.get() | code)
        w.store("letters", j, w.load("ascii", tirx.Cast("int64", code & tirx.IntImm("uint8", 127))))
    letters = variable(size)
    with T.If(every.get() >= tirx.IntImm("uint8", ASCII)), T.Then():
        letters.set(int64(0))
        at = variable(begin)
        with T.While((at.get() < end) & (letters.get() >= 0)):
            _fold_character(w, at, end, letters)
    return letters


def _fold_character(w: CounterWriter, at: Register, end: Any, letters: Register) -> None:
    """Write what the next character becomes; of bytes that are no UTF-8, refer the document."""
    lead = held(w.byte("text", at.get()))
    with T.If(lead < ASCII), T.Then():
        w.store("letters", letters.get(), w.load("ascii", lead))
        letters.set(letters.get() + 1)
        at.set(at.get() + 1)
    with T.If(lead >= ASCII), T.Then():
        # Bytes beyond the document are not read: its own last one stands for them.
        second = held(w.byte("text", tirx.min(at.get() + 1, end - 1)))
        is_whole = (lead >= 0xC2) & (lead < 0xE0) & ((second & 0xC0) == 0x80)
        code = variable(select(is_whole, ((lead & 31) << 6) | (second & 63), int64(0)))
        size = variable(int64(2))
        with T.If(lead >= 0xE0), T.Then():
            _decode_long(w, at, end, lead, second, code, size)
        at.set(at.get() + size.get())
        # The lead of a character that the document breaks off may look like another one's end.
        known = held(code.get() * tirx.Cast("int64", at.get() <= end))
        page = tirx.Cast("int64", w.load("pages", known >> 8))
        cell = held(tirx.Cast("int64", w.load("cells", (page << 8) + (known & 255))))
        w.store("letters", letters.get(), tirx.Cast("uint8", cell))
        is_read = (known > 0) & (cell != REFERRED)
        count = tirx.Cast("int64", cell != DROPPED)
        letters.set(select(is_read, letters.get() + count, int64(NOT_READ)))


def _decode_long(
    w: CounterWriter, at: Register, end: Any, lead: Any, second: Any, code: Register, size: Register
) -> None:
    """Set the code, 0 of what is none, and the size of a character of three or four bytes."""
    third, fourth = (held(w.byte("text", tirx.min(at.get() + i, end - 1))) for i in (2, 3))
    is_four = held(lead >= 0xF0)
    three = held(((lead & 15) << 12) | ((second & 63) << 6) | (third & 63))
    four = held(((lead & 7) << 18) | ((three & 0xFFF) << 6) | (fourth & 63))
    follow = ((second & 0xC0) == 0x80) & ((third & 0xC0) == 0x80)
    is_valid = select(
        is_four,
        (lead <= 0xF4) & ((fourth & 0xC0) == 0x80) & (four >= 0x10000) & (four <= 0x10FFFF),
        three >= 0x800,
    )
    code.set(select(is_valid & follow, select(is_four, four, three), int64(0)))
    size.set(select(is_four, int64(4), int64(3)))


# Words.


def _find_words(w: CounterWriter, letters: Register) -> Register:
    """Write where words begin, and their lengths; return how many there are."""
    end = held(letters.get())
    # Eight bytes are read at once from any place of a word on.
    w.store_window("letters", end, uint64(2**64 - 1))
    edges = variable(int64(0))
    before = variable(int64(0))
    with T.serial(end + 1) as j:
        inside = held(tirx.Cast("int64", w.load("letters", j) != tirx.IntImm("uint8", OUTSIDE)))
        # Written each time and kept by counting it: a branch would often be mispredicted.
        w.store("edges", edges.get(), tirx.Cast("int32", j))
        edges.set(edges.get() + (inside ^ before.get()))
        before.set(inside)
    words = variable(int64(0))
    with T.serial(edges.get() >> 1) as i:
        start = held(w.load("edges", 2 * i))
        length = held(w.load("edges", 2 * i + 1) - start)
        w.store("starts", words.get(), start)
        w.store("lengths", words.get(), length)
        is_word = tirx.Cast("int64", length) >= w.facts["least"]
        words.set(words.get() + tirx.Cast("int64", is_word))
    return words


def _key(w: CounterWriter, start: Any, length: Any) -> Any:
    """Return the key of a word: its bytes below its length, or a hash."""
    first = held(tirx.Cast("int64", start))
    size = held(tirx.Cast("int64", length))
    key = Register("uint64", 1, w.window(w.words, first))
    short = held(tirx.min(size, int64(WINDOW - 1)))
    with T.If(size >= WINDOW), T.Then():
        ends = held(size - WINDOW)
        step = variable(int64(WINDOW))
        with T.While(ends + WINDOW > step.get()):
            mixed = held(wrapped("mul", key.get(), uint64(FACTOR)))
            at = first + tirx.min(step.get(), ends)
            key.set(wrapped("add", mixed ^ (mixed >> uint64(32)), w.window(w.words, at)))
            step.set(step.get() + WINDOW)
        hashed = held(wrapped("mul", key.get(), uint64(FACTOR)))
        key.set(hashed ^ (hashed >> uint64(32)))
    bits = tirx.Cast("uint64", select(size >= WINDOW, int64(56), short * 8))
    mask = (uint64(1) << bits) - uint64(1)
    top = tirx.Cast("uint64", tirx.min(size, int64(255))) << uint64(56)
    return (key.get() & mask) | top


def _home(key: Any, bits: Any) -> Any:
    """Return the slot that a key belongs in."""
    mixed = wrapped("mul", (key >> uint64(29)) ^ key, uint64(FACTOR))
    return tirx.Cast("int64", mixed >> tirx.Cast("uint64", int64(64) - bits))


# Terms.


def _place_terms(w: CounterWriter, letters: Register, count: Register) -> None:
    """Write the code of each n-gram of words that is a term."""
    words = _find_words(w, letters)
    _find_numbers(w, words)
    _skip_stop_words(w, words)
    _place_grams(w, words, count)


def _find_numbers(w: CounterWriter, words: Register) -> None:
    """Write the number and the column of each word, -1 of those unknown."""
    with T.serial(words.get()) as i:
        key = held(_key(w, w.load("starts", i), w.load("lengths", i)))
        w.store("keys", i, key)
        w.store("homes", i, _home(key, w.facts["bits"]))
    with T.serial(words.get()) as i:
        # All words go to their slots first: a missed line of the cache waits for no other one.
        home = held(w.load("homes", i))
        w.store("found_keys", i, w.load("slots", 2 * home))
        w.store("found", i, tirx.Cast("int64", w.load("slots", 2 * home + 1)))
    with T.serial(words.get()) as i:
        key, found_key = held(w.load("keys", i)), held(w.load("found_keys", i))
        found = variable(select(key == found_key, w.load("found", i), int64(-1)))
        with T.If((key != found_key) & (found_key != uint64(0))), T.Then():
            found.set(_find_behind(w, "slots", int64(0), w.facts["bits"], key, w.load("homes", i)))
        length = held(tirx.Cast("int64", w.load("lengths", i)))
        with T.If((found.get() >= 0) & (length >= WINDOW)), T.Then():
            start = held(tirx.Cast("int64", w.load("starts", i)))
            number = tirx.Cast("int64", _number(found.get()))
            found.set(select(_is_term(w, held(number), start, length), found.get(), int64(-1)))
        w.store("found", i, found.get())


def _number(found: Any) -> Any:
    """Return the number of a word or an n-gram that was found, -1 of none."""
    return tirx.Cast("int32", found)


def _find_behind(w: CounterWriter, slots: str, first: Any, bits: Any, key: Any, home: Any) -> Any:
    """Return what is known of a key, from its own slot on; -1 if it is in none."""
    at = variable(home)
    last = held((int64(1) << bits) - 1)
    found = Register("uint64", 1, w.load(slots, first + 2 * at.get()))
    with T.While((found.get() != key) & (found.get() != uint64(0))):
        at.set((at.get() + 1) & last)
        found.set(w.load(slots, first + 2 * at.get()))
    known = tirx.Cast("int64", w.load(slots, first + 2 * at.get() + 1))
    return held(select(found.get() == key, known, int64(-1)))


def _is_term(w: CounterWriter, number: Any, start: Any, length: Any) -> Any:
    """Tell whether all bytes of a long word are those of the term with its key."""
    term = held(w.load("terms", 2 * number))
    same = variable(tirx.Cast("int64", w.load("terms", 2 * number + 1) == length))
    step = variable(int64(0))
    with T.While((same.get() > 0) & (step.get() < length)):
        # The last window ends with the word, and overlaps the one before it.
        at = held(tirx.min(step.get(), length - WINDOW))
        equal = w.window(w.words, start + at) == w.window("term_bytes", term + at)
        same.set(tirx.Cast("int64", equal))
        step.set(step.get() + WINDOW)
    return same.get() > 0


def _skip_stop_words(w: CounterWriter, words: Register) -> None:
    """Leave stop words out: n-grams go over them."""
    with T.If(w.facts["stopped"] > 0), T.Then():
        kept = variable(int64(0))
        with T.serial(words.get()) as i:
            found = held(w.load("found", i))
            w.store("found", kept.get(), found)
            number = tirx.Cast("int64", _number(found))
            is_kept = (number < 0) | (number >= w.facts["stopped"])
            kept.set(kept.get() + tirx.Cast("int64", is_kept))
        words.set(kept.get())


def _place_grams(w: CounterWriter, words: Register, count: Register) -> None:
    """Write the code of each n-gram that is a term."""
    with T.serial(words.get()) as i:
        found = held(w.load("found", i))
        w.store("numbers", i, _number(found))
        w.store("grams", i, _number(found))
        with T.If(w.facts["shortest"] == 1), T.Then():
            _append(w, count, found)
    with T.serial(w.facts["longest"] - 1) as level:
        size = held(level + 2)
        first, bits = (
            held(w.load("facts", len(TERMS_OF_WORDS.facts) + 2 * level + i)) for i in range(2)
        )
        with T.serial(tirx.max(words.get() - size + 1, int64(0))) as i:
            before = held(tirx.Cast("int64", w.load("grams", i)))
            last = held(tirx.Cast("int64", w.load("numbers", i + size - 1)))
            found = variable(int64(-1))
            # An n-gram of an unknown part is no term.
            with T.If((before >= 0) & (last >= 0)), T.Then():
                key = held(tirx.Cast("uint64", before * w.facts["words"] + last + 1))
                home = held(_home(key, bits))
                found.set(_find_behind(w, "gram_slots", first, bits, key, home))
            w.store("grams", i, _number(found.get()))
            with T.If(size >= w.facts["shortest"]), T.Then():
                _append(w, count, found.get())


def _append(w: CounterWriter, count: Register, found: Any) -> None:
    """Write the code of what was found, and keep it if it has a column."""
    column = held(found >> 32)
    w.store("codes", count.get(), tirx.Cast("uint32", column * 2))
    count.set(count.get() + tirx.Cast("int64", column >= 0))


# Hashes: MurmurHash3_x86_32, seed 0, by A. Appleby.


def _place_hashes(w: CounterWriter, letters: Register, count: Register) -> None:
    """Write the code of each n-gram: its words stand side by side in the line."""
    words = _find_words(w, letters)
    _write_line(w, words)
    with T.serial(w.facts["longest"] - w.facts["shortest"] + 1) as step:
        size = held(w.facts["shortest"] + step)
        with T.serial(tirx.max(words.get() - size + 1, int64(0))) as i:
            first = held(tirx.Cast("int64", w.load("starts", i)))
            last = held(i + size - 1)
            end = tirx.Cast("int64", w.load("starts", last) + w.load("lengths", last))
            w.store("codes", count.get(), _code_of_hash(w, _murmur(w, first, held(end - first))))
            count.set(count.get() + 1)


def _write_line(w: CounterWriter, words: Register) -> None:
    end = variable(int64(0))
    with T.serial(words.get()) as i:
        length = _copy_word(w, i, end.get())
        w.store("starts", i, tirx.Cast("int32", end.get()))
        end.set(end.get() + length)
        w.store("line", end.get(), tirx.IntImm("uint8", SPACE))
        end.set(end.get() + 1)


def _copy_word(w: CounterWriter, i: Any, at: Any) -> Any:
    """Copy a word to the line, and return its length."""
    start = held(tirx.Cast("int64", w.load("starts", i)))
    length = held(tirx.Cast("int64", w.load("lengths", i)))
    # Bytes beyond the word are written over by the next one.
    with T.serial((length + WINDOW - 1) >> 3) as j:
        w.store_window("line", at + 8 * j, w.window("letters", start + 8 * j))
    return length


def _murmur(w: CounterWriter, first: Any, length: Any) -> Any:
    """Hash some bytes of the line; numbers of 32 bits are in 64, where products do not overflow."""
    state = Register("uint64", 1, uint64(0))
    with T.serial(length >> 2) as block:
        state.set(_rotated(state.get() ^ _scrambled(_four(w, first + 4 * block)), 13))
        state.set(_low(state.get() * uint64(5) + uint64(0xE6546B64)))
    rest = tirx.Cast("uint64", 8 * (length & 3))
    last = _four(w, first + ((length >> 2) << 2)) & ((uint64(1) << rest) - uint64(1))
    state.set(state.get() ^ _scrambled(last) ^ tirx.Cast("uint64", length))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = held(state.get() ^ (state.get() >> uint64(shift)))
        state.set(_low(mixed * uint64(factor)))
    return state.get()


def _four(w: CounterWriter, at: Any) -> Any:
    """Read four bytes, the first lowest, as one number."""
    bytes_ = w.load("line", tirx.Ramp(at, 1, 4))
    return tirx.Cast("uint64", tirx.reinterpret("uint32", bytes_))


def _scrambled(word: Any) -> Any:
    mixed = held(_low(held(word) * uint64(0xCC9E2D51)))
    return held(_low(_rotated(mixed, 15) * uint64(0x1B873593)))


def _rotated(value: Any, by: int) -> Any:
    word = held(value)
    return _low((word << uint64(by)) | (word >> uint64(32 - by)))


def _low(value: Any) -> Any:
    return value & uint64(0xFFFFFFFF)


def _code_of_hash(w: CounterWriter, hashed: Any) -> Any:
    """Return the column of a hash, times 2, and 1 more where it counts against it."""
    negative = held(tirx.Cast("int64", hashed >> uint64(31)))
    size = tirx.Cast("int64", hashed)
    column = tirx.truncmod(select(negative > 0, (1 << 32) - size, size), w.facts["width"])
    return tirx.Cast("uint32", 2 * column + negative * w.facts["signed"])


# Characters.


def _place_terms_of_characters(w: CounterWriter, letters: Register, count: Register) -> None:
    """Write the code of each n-gram of characters that is a term."""

    def place(grams: Register) -> None:
        _find_numbers(w, grams)
        with T.serial(grams.get()) as i:
            _append(w, count, held(w.load("found", i)))

    _cut(w, letters, place)


def _place_hashed_characters(w: CounterWriter, letters: Register, count: Register) -> None:
    """Write the code of each n-gram of characters."""

    def place(grams: Register) -> None:
        with T.serial(grams.get()) as i:
            start, length = (held(tirx.Cast("int64", w.load(n, i))) for n in ("starts", "lengths"))
            w.store("codes", count.get(), _code_of_hash(w, _murmur(w, start, length)))
            count.set(count.get() + 1)

    _cut(w, letters, place)


def _cut(w: CounterWriter, letters: Register, place: Callable[[Register], None]) -> None:
    """Write where the n-grams of each size begin, and their lengths, and place those of a size."""
    end, longest = variable(int64(0)), variable(int64(0))
    with T.If(w.facts["in_words"] > 0):
        with T.Then():
            _write_words(w, letters, end, longest)
        with T.Else():
            _write_document(w, letters, end, longest)
    size = variable(w.facts["shortest"])
    grams = variable(int64(0))
    most = held(tirx.max(tirx.min(w.facts["longest"], longest.get()), w.facts["shortest"]))
    with T.While(size.get() <= most):
        grams.set(int64(0))
        is_first = size.get() == w.facts["shortest"]
        with T.serial(end.get()) as at:
            room = held(tirx.Cast("int64", w.load("room", at)))
            w.store("starts", grams.get(), tirx.Cast("int32", at))
            # A word that is shorter than all n-grams is one.
            length = select(room < 0, -room, size.get())
            w.store("lengths", grams.get(), tirx.Cast("int32", length))
            is_cut = (room >= size.get()) | ((room < 0) & is_first)
            grams.set(grams.get() + tirx.Cast("int64", is_cut))
        place(grams)
        size.set(size.get() + 1)


def _write_document(w: CounterWriter, letters: Register, end: Register, longest: Register) -> None:
    """Write one space for two or more in a row."""
    before = variable(int64(0))
    with T.serial(letters.get()) as j:
        letter = held(w.load("letters", j))
        space = held(tirx.Cast("int64", w.load("spaces", tirx.Cast("int64", letter))))
        pair = held(space & before.get())
        blank = tirx.IntImm("uint8", SPACE)
        w.store("line", end.get() - pair, select(pair > 0, blank, letter))
        end.set(end.get() + 1 - pair)
        before.set(space)
    longest.set(end.get())
    with T.serial(end.get()) as at:
        w.store("room", at, tirx.Cast("int32", end.get() - at))


def _write_words(w: CounterWriter, letters: Register, end: Register, longest: Register) -> None:
    """Write words with a space before and after each."""
    words = _find_words(w, letters)
    with T.serial(words.get()) as i:
        start = held(end.get())
        w.store("line", start, tirx.IntImm("uint8", SPACE))
        size = held(_copy_word(w, i, start + 1) + 2)
        w.store("line", start + size - 1, tirx.IntImm("uint8", SPACE))
        with T.serial(size) as at:
            w.store("room", start + at, tirx.Cast("int32", size - at))
        with T.If(size < w.facts["shortest"]), T.Then():
            w.store("room", start, tirx.Cast("int32", -size))
        longest.set(tirx.max(longest.get(), size))
        end.set(start + size)


_PLACE: dict[str, Callable[[CounterWriter, Register, Register], None]] = {
    TERMS_OF_WORDS.name: _place_terms,
    HASHED_WORDS.name: _place_hashes,
    TERMS_OF_CHARACTERS.name: _place_terms_of_characters,
    HASHED_CHARACTERS.name: _place_hashed_characters,
}


# Entries.


def _sort(w: CounterWriter, count: Register) -> None:
    """Sort the codes by one digit after the other, the lowest first."""
    bits = w.interface.digit
    with T.serial(w.facts["digits"]) as digit:
        shift = held(tirx.Cast("uint32", digit * bits))

        def digit_of(code: Any, shift: Any = shift) -> Any:
            low = tirx.const((1 << bits) - 1, "uint32")
            return held(tirx.Cast("int64", (code >> shift) & low))

        with T.serial(int64(1 << bits)) as value:
            w.store("tally", value, tirx.IntImm("int32", 0))
        with T.serial(count.get()) as i:
            value = digit_of(w.load("codes", i))
            w.store("tally", value, w.load("tally", value) + 1)
        before = Register("int32", 1, tirx.IntImm("int32", 0))
        with T.serial(int64(1 << bits)) as value:
            codes = held(w.load("tally", value))
            w.store("tally", value, before.get())
            before.set(before.get() + codes)
        with T.serial(count.get()) as i:
            code = held(w.load("codes", i))
            value = digit_of(code)
            place = held(w.load("tally", value))
            w.store("sorted", tirx.Cast("int64", place), code)
            w.store("tally", value, place + 1)
        with T.serial(count.get()) as i:
            w.store("codes", i, w.load("sorted", i))


def _sum(w: CounterWriter, count: Register, written: Register) -> None:
    """Write one entry for the codes of a column; a code that is odd counts -1."""
    before = Register("uint32", 1, tirx.const(2**32 - 1, "uint32"))
    sum_ = Register("int32", 1, tirx.IntImm("int32", 0))
    one = tirx.const(1, "uint32")
    with T.serial(count.get()) as i:
        code = held(w.load("codes", i))
        column = held(code >> one)
        new = held(tirx.Cast("int64", column != before.get()))
        written.set(written.get() + new)
        value = 1 - 2 * tirx.Cast("int32", code & one)
        sum_.set(select(new > 0, value, sum_.get() + value))
        w.store("columns", written.get() - 1, tirx.Cast("int32", column))
        w.store("sums", written.get() - 1, sum_.get())
        before.set(column)
