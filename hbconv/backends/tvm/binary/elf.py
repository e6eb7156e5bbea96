"""Link the ELF objects of a kernel into a shared object, in memory: what ``ld -shared`` does.

A kernel is code and constants, and calls few functions of others, so a small part of a linker
suffices: three segments, the relocations that LLVM writes for kernels, and a slot for each function
from outside. Functions around kernels also have constants that are addresses, and few variables,
which are a fourth segment. Anything else in an object is refused, and another linker may know it.

The names of structures and numbers are those of the System V ABI (gABI 4.1). What processors differ
in is in ``elf_architecture.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from hbconv.backends.tvm.binary.elf_architecture import ARCHITECTURES

__all__ = ["link_objects"]

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
TAG = struct.Struct("<QQ")
WORD = struct.Struct("<I")

MAGIC = b"\x7fELF\2\1\1"
"""ELF of 64 bits, little endian, version 1."""
RELOCATABLE, SHARED = 1, 3
PROGBITS, SYMTAB, STRTAB, RELA, HASH, DYNAMIC, DYNSYM = 1, 2, 3, 4, 5, 6, 11
UNWIND = 0x70000001
"""What x86-64 calls a section of frames."""
WRITE, ALLOC, EXECUTE, MERGE, STRINGS = 1, 2, 4, 16, 32
KNOWN_FLAGS = ALLOC | EXECUTE | MERGE | STRINGS
"""Thread-local data, groups and compression are not among them."""
LOCAL, GLOBAL = 0, 1
FUNCTION = 2
RESERVED = 0xFF00
"""Numbers of sections from which on a symbol stands in none."""
PT_LOAD, PT_DYNAMIC = 1, 2
PT_GNU_EH_FRAME, PT_GNU_STACK, PT_GNU_RELRO = 0x6474E550, 0x6474E551, 0x6474E552
READABLE, EXECUTABLE, WRITABLE = 4, 5, 6
DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT = 1, 4, 5, 6, 7, 8, 9
DT_STRSZ, DT_SYMENT, DT_INIT, DT_FLAGS, DT_FLAGS_1 = 10, 11, 12, 30, 0x6FFFFFFB
DF_BIND_NOW, DF_1_NOW, DF_1_NODELETE = 8, 1, 8
EH_FRAME_HEADER = bytes([1, 0x1B, 0xFF, 0xFF])
"""Version 1; the frames' place as a relative int32; no count and no table, so frames are read in
order."""
LINE = 64
"""Bytes that segments begin at a multiple of: vectors are loaded from aligned constants."""
VALUE = 8
"""Where a symbol holds its address."""
STUB_BYTES = 16
PROGRAM_HEADERS = 7
ADDRESSES, VARIABLES = ".data.rel.ro", ".data"
"""Sections that may be written: constants that the loader fills in, and what the code changes."""
LIBC = frozenset({"aligned_alloc", "free", "memcpy", "memmove", "memset", "strcmp"})
"""Functions of the C library, which every process has; others are of the mathematics library."""
LIBM = "libm.so.6"
"""musl takes this name for its own C library, which holds these functions."""


class Symbol(NamedTuple):
    """A name in an object, and where its object defines it."""

    name: str
    info: int
    section: int
    value: int
    size: int

    @property
    def binding(self) -> int:
        """Whether other objects see it."""
        return self.info >> 4


class Position(NamedTuple):
    """Where something stands in the library: its section, and the offset there."""

    section: str
    offset: int


@dataclass
class ElfSection:
    """A section of the library."""

    name: str
    kind: int
    flags: int
    align: int = 8
    link: str = ""
    info: int = 0
    entry: int = 0
    data: bytearray = field(default_factory=bytearray)
    offset: int = 0
    address: int = 0

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + len(self.data)

    def append(self, data: bytes, align: int) -> int:
        """Add bytes at a multiple of ``align``, and return their offset."""
        self.align = max(self.align, align)
        self.data += bytes(-len(self.data) % align)
        offset = len(self.data)
        self.data += data
        return offset


class ElfObject:
    """A relocatable object.

    Raises
    ------
    NotImplementedError
        It is no ELF of 64 bits, or holds what kernels do not.
    """

    def __init__(self, data: bytes) -> None:
        if data[: len(MAGIC)] != MAGIC:
            raise NotImplementedError("The object is no ELF of 64 bits, little endian.")
        header = HEADER.unpack_from(data)
        if header[1] != RELOCATABLE or header[2] not in ARCHITECTURES:
            raise NotImplementedError(f"ELF of type {header[1]} for machine {header[2]}.")
        self.data = data
        self.machine: int = header[2]
        start, count, names = header[6], header[12], header[13]
        self.headers = [
            SECTION_HEADER.unpack_from(data, start + i * SECTION_HEADER.size) for i in range(count)
        ]
        self.names = [self._text(names, entry[0]) for entry in self.headers]

    def _text(self, section: int, offset: int) -> str:
        start = self.headers[section][4] + offset
        return self.data[start : self.data.index(b"\0", start)].decode()

    def content(self, section: int) -> bytes:
        """Return the bytes of a section."""
        offset, size = self.headers[section][4:6]
        return self.data[offset : offset + size]

    @cached_property
    def loaded(self) -> list[int]:
        """The sections that are loaded."""
        found = [i for i, header in enumerate(self.headers) if header[2] & ALLOC]
        for i in found:
            kind, flags = self.headers[i][1:3]
            known = WRITE | ALLOC if self.names[i] in (ADDRESSES, VARIABLES) else KNOWN_FLAGS
            if kind not in (PROGBITS, UNWIND) or flags & ~known:
                raise NotImplementedError(f"Section {self.names[i]}, {kind=}, {flags=}.")
        return found

    @cached_property
    def symbols(self) -> list[Symbol]:
        """All symbols, by their numbers."""
        table = next(i for i, header in enumerate(self.headers) if header[1] == SYMTAB)
        texts = self.headers[table][6]
        return [
            Symbol(self._text(texts, name), info, section, value, size)
            for name, info, _, section, value, size in SYMBOL.iter_unpack(self.content(table))
        ]

    def relocations(self) -> Iterator[tuple[int, int, int, Symbol, int]]:
        """Yield the section, offset, type, symbol and addend of each in a section that is loaded.

        Objects of both architectures have addends beside the words, so the words' own do not count.
        """
        for i, header in enumerate(self.headers):
            if header[1] != RELA or header[7] not in self.loaded:
                continue
            for offset, info, addend in RELOCATION.iter_unpack(self.content(i)):
                yield header[7], offset, info & 0xFFFFFFFF, self.symbols[info >> 32], addend


def link_objects(
    objects: Iterable[bytes],
    constants: Mapping[str, bytes] = {},
    *,
    libraries: Sequence[str] = (),
    initializer: str = "",
) -> bytes:
    """Return the shared object of some objects, and of constants that they name.

    It exports the global symbols that no other of the objects uses: the kernels, but not their
    parts. Names from outside have no versions, so any version of the C library serves.

    Parameters
    ----------
    objects : iterable of bytes
    constants : mapping of str to bytes
    libraries : sequence of str
        Names of the libraries that the loader must find.
    initializer : str
        Function that runs when the library is loaded, which then stays till the process ends: it
        hands out addresses of the library.

    Raises
    ------
    NotImplementedError
        An object holds what this linker does not know.
    """
    found = [ElfObject(data) for data in objects]
    return _Linker(found, constants, libraries, initializer).link()


class _Linker:
    """The sections of one library, in the order in which they are loaded."""

    def __init__(
        self,
        objects: Sequence[ElfObject],
        constants: Mapping[str, bytes],
        libraries: Sequence[str],
        initializer: str,
    ) -> None:
        if len({o.machine for o in objects}) != 1:
            raise NotImplementedError("The objects are for several machines.")
        self.objects = objects
        self.machine = objects[0].machine
        self.architecture = ARCHITECTURES[self.machine]
        sections = (
            ElfSection(".hash", HASH, ALLOC, link=".dynsym", entry=4),
            ElfSection(".dynsym", DYNSYM, ALLOC, link=".dynstr", info=1, entry=SYMBOL.size),
            ElfSection(".dynstr", STRTAB, ALLOC, data=bytearray(1)),
            ElfSection(".rela.dyn", RELA, ALLOC, link=".dynsym", entry=RELOCATION.size),
            ElfSection(".rodata", PROGBITS, ALLOC),
            ElfSection(".eh_frame_hdr", PROGBITS, ALLOC),
            ElfSection(".eh_frame", PROGBITS, ALLOC),
            ElfSection(".text", PROGBITS, ALLOC | EXECUTE),
            ElfSection(ADDRESSES, PROGBITS, ALLOC | WRITE),
            ElfSection(".got", PROGBITS, ALLOC | WRITE, entry=8),
            ElfSection(".dynamic", DYNAMIC, ALLOC | WRITE, link=".dynstr", entry=TAG.size),
            ElfSection(VARIABLES, PROGBITS, ALLOC | WRITE),
        )
        held = {o.names[i] for o in objects for i in o.loaded}
        self.sections = {s.name: s for s in sections if s.name in held or not _is_optional(s)}
        self.numbers = {name: i for i, name in enumerate(self.sections, start=1)}
        self.places: dict[tuple[int, int], Position] = {}
        """Where each section of each object stands."""
        self.defined: dict[str, tuple[Symbol, Position]] = {}
        """The global and weak symbols of the objects."""

        for number, o in enumerate(self.objects):
            self._join(number, o)
        self._define()
        for name, data in constants.items():
            place = Position(".rodata", self.sections[".rodata"].append(data, LINE))
            self.defined[name] = Symbol(name, GLOBAL << 4, 0, 0, len(data)), place
        self.libraries, self.initializer = libraries, initializer
        self.exported = self._names_exported()
        self.outside = self._names_outside()
        self.stubs = self.sections[".text"].append(
            bytes(STUB_BYTES * len(self.outside)), STUB_BYTES
        )
        """Offset of the jumps to functions from outside."""
        self.addresses: list[tuple[int, int]] = []
        """Where a constant is an address, and which: the loader adds where it puts the library."""

    def link(self) -> bytes:
        """Write what has no addresses, give all an address, then write what has."""
        self._write_names()
        self._lay_out()
        self._relocate()
        self._write_stubs()
        self._write_addresses()
        return self._write()

    def _join(self, number: int, o: ElfObject) -> None:
        for i in o.loaded:
            kept = o.names[i] in (".eh_frame", ADDRESSES, VARIABLES)
            name = o.names[i] if kept else ".rodata"
            name = ".text" if o.headers[i][2] & EXECUTE else name
            offset = self.sections[name].append(o.content(i), max(o.headers[i][8], 1))
            self.places[number, i] = Position(name, offset)

    def _define(self) -> None:
        """Find the definitions: of weak ones the first, and a global one before any."""
        for number, o in enumerate(self.objects):
            for symbol in o.symbols:
                if symbol.binding == LOCAL or not symbol.section:
                    continue
                known = self.defined.get(symbol.name)
                if known is None or known[0].binding != GLOBAL:
                    self.defined[symbol.name] = symbol, self._place(number, symbol)

    def _place(self, number: int, symbol: Symbol) -> Position:
        found = self.places.get((number, symbol.section))
        if found is None:
            raise NotImplementedError(f"Symbol {symbol.name!r} in section {symbol.section}.")
        return Position(found.section, found.offset + symbol.value)

    def _names_exported(self) -> list[str]:
        """Return the global symbols that no other object uses."""
        used = {self.initializer}
        for o in self.objects:
            used |= {symbol.name for symbol in o.symbols if not symbol.section}
        return [
            name
            for name, (symbol, _) in self.defined.items()
            if symbol.binding == GLOBAL and name not in used
        ]

    def _names_outside(self) -> list[str]:
        """Return the functions that the objects call and none defines; nothing else may be used."""
        names: dict[str, None] = {}
        for o in self.objects:
            for _, _, kind, symbol, _ in o.relocations():
                if symbol.section or symbol.name in self.defined:
                    continue
                if kind not in self.architecture.calls:
                    raise NotImplementedError(f"Relocation {kind} of {symbol.name!r} from outside.")
                names[symbol.name] = None
        return list(names)

    def _write_names(self) -> None:
        """Write the symbols and their hashes, and make room for what holds addresses."""
        texts, slots = self.sections[".dynstr"], len(self.outside)
        kinds = [kind for o in self.objects for _, _, kind, _, _ in o.relocations()]
        filled = slots + kinds.count(self.architecture.absolute)
        rows = [(0, 0, 0, 0, 0, 0)]
        for name in self.exported:
            symbol, place = self.defined[name]
            text = texts.append(name.encode() + b"\0", 1)
            rows.append((text, symbol.info, 0, self.numbers[place.section], 0, symbol.size))
        for name in self.outside:
            text = texts.append(name.encode() + b"\0", 1)
            rows.append((text, GLOBAL << 4 | FUNCTION, 0, 0, 0, 0))
        libm = () if LIBC.issuperset(self.outside) else (LIBM,)
        names = (*self.libraries, *libm)
        self.needed = [texts.append(name.encode() + b"\0", 1) for name in names]
        """Where the name of each library stands that the loader must find."""
        # One bucket, whose chain is all exported symbols: there are one or two.
        chain = [*range(2, len(self.exported) + 1), 0] if self.exported else []
        hashes = [1, len(rows), bool(self.exported), 0, *chain, *[0] * slots]
        self.sections[".dynsym"].data += b"".join(SYMBOL.pack(*row) for row in rows)
        self.sections[".hash"].data += b"".join(map(WORD.pack, hashes))
        self.sections[".rela.dyn"].data += bytes(RELOCATION.size * filled)
        self.sections[".got"].data += bytes(8 * slots)
        self.sections[".eh_frame_hdr"].data += bytes(len(EH_FRAME_HEADER) + 4)
        self.sections[".eh_frame"].append(bytes(4), 4)  # a length of 0 ends the frames
        self.sections[".dynamic"].data += bytes(TAG.size * len(self._tags()))

    def _lay_out(self) -> None:
        """Give each section its place in the file, and its address.

        A page of the file may be mapped in two segments: each segment stands in the file right
        behind the one before, and a page further on in memory.
        """
        headers = PROGRAM_HEADERS + (VARIABLES in self.sections)
        offset = HEADER.size + headers * PROGRAM_HEADER.size
        shift = 0
        flags = ALLOC
        for section in self.sections.values():
            align = section.align
            if section.flags != flags or section.name == VARIABLES:
                flags, align = section.flags, max(LINE, align)
                shift += self.architecture.page
            section.offset = offset + -offset % align
            section.address = section.offset + shift
            offset = section.offset + len(section.data)

    def _tags(self) -> list[tuple[int, int]]:
        at = {name: section.address for name, section in self.sections.items()}
        size = {name: len(section.data) for name, section in self.sections.items()}
        tags = [
            *((DT_NEEDED, text) for text in self.needed),
            (DT_HASH, at[".hash"]),
            (DT_STRTAB, at[".dynstr"]),
            (DT_SYMTAB, at[".dynsym"]),
            (DT_STRSZ, size[".dynstr"]),
            (DT_SYMENT, SYMBOL.size),
            (DT_RELA, at[".rela.dyn"]),
            (DT_RELASZ, size[".rela.dyn"]),
            (DT_RELAENT, RELOCATION.size),
        ]
        stays = 0
        if self.initializer:
            tags.append((DT_INIT, self._address(self.defined[self.initializer][1])))
            stays = DF_1_NODELETE
        return [*tags, (DT_FLAGS, DF_BIND_NOW), (DT_FLAGS_1, DF_1_NOW | stays), (0, 0)]

    def _address(self, place: Position) -> int:
        return self.sections[place.section].address + place.offset

    def _relocate(self) -> None:
        """Write the addresses that the objects' code and constants hold."""
        for number, o in enumerate(self.objects):
            for section, offset, kind, symbol, addend in o.relocations():
                place = self.places[number, section]
                start = place.offset + offset
                target = self._address(self._target(number, symbol)) + addend
                here = self._address(Position(place.section, start))
                if kind == self.architecture.absolute and place.section == ADDRESSES:
                    self.addresses.append((here, target))
                    continue
                patch = self.architecture.patches.get(kind)
                if patch is None:
                    raise NotImplementedError(f"Relocation {kind} of {symbol.name!r}.")
                data = self.sections[place.section].data
                (word,) = WORD.unpack_from(data, start)
                WORD.pack_into(data, start, patch(word, target, here))

    def _target(self, number: int, symbol: Symbol) -> Position:
        if symbol.binding != LOCAL and symbol.name in self.defined:
            return self.defined[symbol.name][1]
        if symbol.section:
            return self._place(number, symbol)
        return Position(".text", self.stubs + STUB_BYTES * self.outside.index(symbol.name))

    def _write_stubs(self) -> None:
        """Write a jump through the slot of each function, and what the loader fills in."""
        text, slots = self.sections[".text"], self.sections[".got"]
        first = 1 + len(self.exported)
        for i in range(len(self.outside)):
            start, slot = self.stubs + STUB_BYTES * i, slots.address + 8 * i
            stub = self.architecture.stub(slot, text.address + start)
            text.data[start : start + len(stub)] = stub
            filled = (slot, (first + i) << 32 | self.architecture.glob_dat, 0)
            RELOCATION.pack_into(self.sections[".rela.dyn"].data, RELOCATION.size * i, *filled)
        for i, (here, target) in enumerate(self.addresses, start=len(self.outside)):
            filled = (here, self.architecture.relative, target)
            RELOCATION.pack_into(self.sections[".rela.dyn"].data, RELOCATION.size * i, *filled)

    def _write_addresses(self) -> None:
        """Write the tables that hold addresses."""
        symbols = self.sections[".dynsym"].data
        for i, name in enumerate(self.exported, start=1):
            address = self._address(self.defined[name][1])
            struct.pack_into("<Q", symbols, SYMBOL.size * i + VALUE, address)
        self.sections[".dynamic"].data[:] = b"".join(TAG.pack(*tag) for tag in self._tags())
        frames = self.sections[".eh_frame_hdr"]
        distance = self.sections[".eh_frame"].address - (frames.address + len(EH_FRAME_HEADER))
        frames.data[:] = EH_FRAME_HEADER + struct.pack("<i", distance)

    def _write(self) -> bytes:
        """Write the file: headers, sections, then their names and headers for tools."""
        named = [*self.sections.values(), ElfSection(".shstrtab", STRTAB, 0, align=1)]
        texts = [section.name.encode() + b"\0" for section in named]
        starts = [*accumulate(map(len, texts[:-1]), initial=1)]
        last = named[-2]
        named[-1].data += b"\0" + b"".join(texts)
        named[-1].offset = last.offset + len(last.data)
        table = named[-1].offset + len(named[-1].data)
        table += -table % 8
        file = bytearray(table)
        segments = self._segments()
        shape = (HEADER.size, PROGRAM_HEADER.size, len(segments), SECTION_HEADER.size)
        HEADER.pack_into(
            file,
            0,
            *(MAGIC, SHARED, self.machine, 1, 0, HEADER.size, table, 0),
            *(*shape, len(named) + 1, len(named)),
        )
        for i, header in enumerate(segments):
            PROGRAM_HEADER.pack_into(file, HEADER.size + i * PROGRAM_HEADER.size, *header)
        file += bytes(SECTION_HEADER.size)
        for section, name in zip(named, starts, strict=True):
            file[section.offset : section.offset + len(section.data)] = section.data
            file += SECTION_HEADER.pack(
                *(name, section.kind, section.flags, section.address, section.offset),
                *(len(section.data), self.numbers.get(section.link, 0), section.info),
                *(section.align, section.entry),
            )
        return bytes(file)

    def _segments(self) -> list[tuple[int, ...]]:
        """Return the program headers.

        The writable segment ends with its page, and the loader makes it read-only when it has
        filled the slots. Without the header of the stack, the library would ask for one that is
        executable, which a system may refuse.
        """
        page = self.architecture.page
        frames, dynamic = self.sections[".eh_frame_hdr"], self.sections[".dynamic"]
        text = self.sections[".text"]
        slots = self.sections.get(ADDRESSES, self.sections[".got"])
        constants = self.sections[".eh_frame"].end
        slots_size = dynamic.end - slots.address
        room = slots_size + -dynamic.end % page
        variables = self.sections.get(VARIABLES)
        last = [(PT_LOAD, WRITABLE, *_span(variables), page)] if variables else []
        return [
            (PT_LOAD, READABLE, 0, 0, 0, constants, constants, page),
            (PT_LOAD, EXECUTABLE, *_span(text), page),
            (PT_LOAD, WRITABLE, slots.offset, *2 * (slots.address,), slots_size, room, page),
            *last,
            (PT_DYNAMIC, WRITABLE, *_span(dynamic), 8),
            (PT_GNU_EH_FRAME, READABLE, *_span(frames), 4),
            (PT_GNU_STACK, WRITABLE, 0, 0, 0, 0, 0, 16),
            (PT_GNU_RELRO, READABLE, slots.offset, *2 * (slots.address,), slots_size, room, 1),
        ]


def _is_optional(section: ElfSection) -> bool:
    return section.name in (ADDRESSES, VARIABLES)


def _span(section: ElfSection) -> tuple[int, ...]:
    """Return the offset, both addresses and both sizes of a segment that is one section."""
    return (section.offset, *2 * (section.address,), *2 * (len(section.data),))
