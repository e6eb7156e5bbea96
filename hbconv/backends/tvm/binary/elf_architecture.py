"""What ELF objects and libraries of each processor differ in: relocations, jumps and pages.

The names and numbers are those of the psABI of x86-64 1.0, and of ELF for the Arm 64-bit
architecture 2023Q3.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

__all__ = ["ARCHITECTURES", "Architecture"]

Patch = Callable[[int, int, int], int]
"""From a word, the address that it means and its own address to the word as it must be."""


@dataclass(frozen=True)
class Architecture:
    """What objects and libraries of a processor differ in.

    Parameters
    ----------
    page : int
        Bytes of the largest page that its systems have.
    glob_dat : int
        The relocation of a slot that holds the address of a symbol.
    absolute, relative : int
        The relocations of a constant that is an address: in an object, and in a library.
    calls : frozenset of int
        Relocations of calls and jumps.
    patches : mapping of int to callable
        What each relocation does to a word.
    stub : callable
        Writes a jump to the address in a slot, from the slot's and the stub's addresses.
    """

    page: int
    glob_dat: int
    absolute: int
    relative: int
    calls: frozenset[int]
    patches: Mapping[int, Patch]
    stub: Callable[[int, int], bytes]


def _distance(target: int, place: int, bits: int) -> int:
    distance = target - place
    if not -(1 << (bits - 1)) <= distance < 1 << (bits - 1):
        raise NotImplementedError(f"A distance of {distance} bytes in {bits} bits.")
    return distance


def _relative(word: int, target: int, place: int) -> int:  # noqa: ARG001
    """Return the distance itself."""
    return _distance(target, place, 32) & 0xFFFFFFFF


def _branch(word: int, target: int, place: int) -> int:
    """Write the distance into a ``b`` or ``bl``, in instructions."""
    return word & 0xFC000000 | _distance(target, place, 28) >> 2 & 0x3FFFFFF


def _page(word: int, target: int, place: int) -> int:
    """Write the distance into an ``adrp``, in pages of 4 KB whatever pages the system has."""
    pages = _distance(target & ~0xFFF, place & ~0xFFF, 33) >> 12
    return word & 0x9F00001F | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5


def _within_page(shift: int, word: int, target: int, place: int) -> int:  # noqa: ARG001
    """Write the place in a page into an ``add``, or into a load of ``1 << shift`` bytes."""
    return word & ~(0xFFF << 10) | (target & 0xFFF) >> shift << 10


def _jump_x86(slot: int, place: int) -> bytes:
    """Write ``jmp *slot(%rip)``, six bytes long."""
    return b"\xff\x25" + struct.pack("<i", _distance(slot, place + 6, 32))


def _jump_aarch64(slot: int, place: int) -> bytes:
    """Write ``adrp x16, slot; ldr x16, [x16, slot]; br x16``."""
    page = _page(0x90000010, slot, place)
    return struct.pack("<III", page, _within_page(3, 0xF9400210, slot, place), 0xD61F0200)


ARCHITECTURES = {
    62: Architecture(
        page=1 << 12,
        glob_dat=6,
        absolute=1,
        relative=8,
        calls=frozenset({4}),
        patches={2: _relative, 4: _relative},  # PC32, PLT32
        stub=_jump_x86,
    ),
    183: Architecture(
        page=1 << 16,
        glob_dat=1025,
        absolute=257,
        relative=1027,
        calls=frozenset({282, 283}),
        patches={
            261: _relative,  # PREL32
            275: _page,  # ADR_PREL_PG_HI21
            282: _branch,  # JUMP26
            283: _branch,  # CALL26
            # ADD_ABS_LO12_NC, then LDST8, 16, 32, 64 and 128
            277: partial(_within_page, 0),
            278: partial(_within_page, 0),
            **{284 + i: partial(_within_page, 1 + i) for i in range(3)},
            299: partial(_within_page, 4),
        },
        stub=_jump_aarch64,
    ),
}
"""Architectures by their numbers in ELF; 1,821 x86-64 and 104 aarch64 objects of the tests'
programs hold no other relocations."""
