"""Machine: the processor that kernels are compiled for.

It never has instructions that this machine lacks: running them would end the process.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, replace
from functools import cache

from hbconv.errors import OptionError
from hbconv.names import unknown
from hbconv.system.processor import Caches, find_caches, find_flags

__all__ = ["LEVELS", "VECTORS", "Machine"]

AVX2 = frozenset({"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"})
AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"})
LEVELS: dict[str, frozenset[str]] = {
    "x86-64-v4": AVX2 | AVX512,
    "x86-64-v3": AVX2,
    "x86-64": frozenset(),
    "aarch64": frozenset(),
    "generic": frozenset(),
}
"""Micro-architecture levels, best first, with the flags of Linux that each needs.

The flags come from the operating system, which also reports whether it saves wide registers.
"""
VECTOR = {"x86-64-v4": 64, "x86-64-v3": 32}
"""Bytes of a register, where it has more than 16."""
VECTORS = (16, 32, 64)
"""Bytes of vectors that kernels may be written in, on any machine: LLVM splits longer ones."""
EXTRAS = ("avx512vbmi",)
"""Instructions beyond any level that kernels use if they exist."""
ARCHITECTURES = {"x86_64": "x86-64", "AMD64": "x86-64", "aarch64": "aarch64", "arm64": "aarch64"}
VARIABLE = "HBCONV_MACHINE"
COMMON = Caches()


@dataclass(frozen=True)
class Machine:
    """A processor.

    Parameters
    ----------
    level : str
        Its instruction set, one of ``LEVELS``; "generic" is the base of any architecture.
    extras : frozenset of str
        Instructions beyond the level.
    level1, level2, level3 : int
        Bytes of the data caches that one core uses, the nearest first.
    cores : int
    vector : int
        Bytes of the vectors that kernels are written in, by default a register of the level. It
        does not determine which instructions exist: ``flags`` does.
    """

    level: str = "generic"
    extras: frozenset[str] = frozenset()
    level1: int = COMMON.level1
    level2: int = COMMON.level2
    level3: int = COMMON.level3
    cores: int = 1
    vector: int = 0

    def __post_init__(self) -> None:
        if not self.vector:
            # Registers of 16 bytes are the base of x86-64 and of aarch64.
            object.__setattr__(self, "vector", VECTOR.get(self.level, 16))

    @classmethod
    def host(cls) -> Machine:
        """Return this machine, limited by the environment variable HBCONV_MACHINE.

        The variable names a level that kernels may use, bytes of vectors, or both:
        ``x86-64-v3``, ``/16``, ``x86-64-v3/64``.

        Raises
        ------
        OptionError
            The level is unknown or this machine does not run it, or the vectors have other sizes.
        """
        return _limit(os.environ.get(VARIABLE, ""))

    @classmethod
    def named(cls, level: str, option: str) -> Machine:
        """Return a machine of a level that an option names; it need not be this one.

        Raises
        ------
        OptionError
            No level has this name; the message lists those that have.
        """
        levels = [name for name in LEVELS if name != "generic"]
        if level not in levels:
            raise unknown(option, level, levels)
        return cls(level)

    @property
    def flags(self) -> frozenset[str]:
        """Instructions that kernels may use, as Linux names them."""
        return LEVELS[self.level] | self.extras

    @property
    def shuffles(self) -> bool:
        """Whether it has the instructions of ``tir/shuffles.py``, which look up in registers."""
        return "avx2" in self.flags

    @property
    def wide_shuffles(self) -> bool:
        """Whether it has those that look up in registers of 64 bytes."""
        return self.flags >= AVX512

    @property
    def wide_byte_shuffles(self) -> bool:
        """Whether it has those that look bytes up there."""
        return self.flags >= AVX512 | {"avx512vbmi"}

    @property
    def processor(self) -> str:
        """LLVM's name of the level."""
        return self.level if self.architecture == "x86-64" else "generic"

    @property
    def triple(self) -> str:
        """LLVM's name of a system of its architecture."""
        return {"x86-64": "x86_64-unknown-linux-gnu"}.get(
            self.architecture, f"{self.architecture}-unknown-linux-gnu"
        )

    @property
    def architecture(self) -> str:
        """The architecture of its level."""
        return self.level.removesuffix("-v4").removesuffix("-v3")

    def runs(self, other: Machine) -> bool:
        """Whether this machine runs what was compiled for another.

        Examples
        --------
        >>> Machine("x86-64-v4").runs(Machine("x86-64-v3"))
        True
        >>> Machine("x86-64").runs(Machine("x86-64-v3")), Machine("x86-64").runs(Machine("aarch64"))
        (False, False)
        """
        return other.architecture == self.architecture and other.flags <= self.flags


@cache
def _limit(named: str) -> Machine:
    level, slash, size = named.partition("/")
    if slash and size not in map(str, VECTORS):
        raise unknown(f"{VARIABLE}, after the slash", size, tuple(map(str, VECTORS)))
    limited = _of_level(level)
    return replace(limited, vector=int(size)) if slash else limited


def _of_level(level: str) -> Machine:
    """Return this machine at a level; its own level if none is named."""
    host = _detect()
    if not level:
        return host
    if level not in LEVELS:
        raise unknown(VARIABLE, level, tuple(LEVELS))
    limited = Machine(level, frozenset(), host.level1, host.level2, host.level3, host.cores)
    if not host.runs(limited):
        missing = ", ".join(sorted(limited.flags - host.flags))
        raise OptionError(
            f"{VARIABLE}={level!r} is more than this machine has ({host.level}); "
            f"it lacks: {missing or f'its architecture is {host.architecture}'}."
        )
    return limited


@cache
def _detect() -> Machine:
    architecture = ARCHITECTURES.get(platform.machine(), "generic")
    flags = find_flags()
    levels = (name for name in LEVELS if name.startswith(architecture))
    # The last level of each architecture needs no flags, so one is always found.
    level = next(name for name in levels if LEVELS[name] <= flags)
    # Kernels use these with registers of 64 bytes only.
    extras = frozenset(EXTRAS) & flags if level == "x86-64-v4" else frozenset()
    caches = find_caches()
    return Machine(level, extras, caches.level1, caches.level2, caches.level3, _cores())


def _cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        # cpu_count also counts cores that this process may not use.
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
