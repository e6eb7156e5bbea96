"""Machine: the processor that is compiled for. Never one whose instructions this machine lacks, since that ends the process."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from hbconv.errors import OptionError
from hbconv.names import unknown

__all__ = ["LEVELS", "VECTORS", "Machine"]

LEVELS: dict[str, frozenset[str]] = {
    "x86-64-v4": frozenset(
        {
            "avx512f",
            "avx512bw",
            "avx512dq",
            "avx512vl",
            "avx512cd",
            "avx2",
            "fma",
            "bmi1",
            "bmi2",
            "f16c",
            "movbe",
        }
    ),
    "x86-64-v3": frozenset({"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"}),
    "x86-64": frozenset(),
    "aarch64": frozenset(),
    "generic": frozenset(),
}
"""Instruction set levels, best first of each architecture, with the flags that Linux shows for what each needs."""
VECTOR = {"x86-64-v4": 64, "x86-64-v3": 32}
VECTORS = (16, 32, 64)
"""Bytes of vectors that kernels may be written in, on any machine: LLVM makes of each as many registers as it takes."""
EXTRAS = ("avx512vbmi",)
"""Instructions beyond any level that kernels ask for where they are."""
ARCHITECTURES = {"x86_64": "x86-64", "AMD64": "x86-64", "aarch64": "aarch64", "arm64": "aarch64"}
VARIABLE = "HBCONV_MACHINE"
CACHES = (32 << 10, 1 << 20, 32 << 20)
"""Bytes of the caches where the machine does not tell: a server's of today, for one core."""


@dataclass(frozen=True)
class Machine:
    """A processor.

    Parameters
    ----------
    level : str
        Its instruction set, one of ``LEVELS``; "generic" is the least that any of its architecture has.
    extras : frozenset of str
        Instructions beyond the level.
    level1, level2, level3 : int
        Bytes of the data caches that one core uses, from the nearest on.
    cores : int
    vector : int
        Bytes of the vectors that kernels are written in: by default of a register of the level. What instructions there are it does not say, ``flags`` do.
    """

    level: str = "generic"
    extras: frozenset[str] = frozenset()
    level1: int = CACHES[0]
    level2: int = CACHES[1]
    level3: int = CACHES[2]
    cores: int = 1
    vector: int = 0

    def __post_init__(self) -> None:
        if not self.vector:
            object.__setattr__(self, "vector", VECTOR.get(self.level, 16))

    @classmethod
    def host(cls) -> Machine:
        """Describe this machine, or what the environment variable HBCONV_MACHINE makes of it.

        The variable names a level that kernels may use, bytes of the vectors that they are written in, or both: ``x86-64-v3``, ``/16``, ``x86-64-v3/64``.

        Raises
        ------
        OptionError
            The variable names a level that does not exist, or that this machine does not run, or vectors of other sizes.
        """
        return _limited(os.environ.get(VARIABLE, ""))

    @property
    def flags(self) -> frozenset[str]:
        """Instructions that kernels may use, as Linux names them."""
        return LEVELS[self.level] | self.extras

    @property
    def shuffles(self) -> bool:
        """Whether it has the instructions by which ``shuffles.py`` looks up in registers."""
        return "avx2" in self.flags

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
        """The family of its level."""
        return self.level.removesuffix("-v4").removesuffix("-v3")

    def runs(self, other: Machine) -> bool:
        """Say whether this machine runs what was compiled for another.

        Examples
        --------
        >>> Machine("x86-64-v4").runs(Machine("x86-64-v3")), Machine("x86-64").runs(Machine("x86-64-v3")), Machine("x86-64").runs(Machine("aarch64"))
        (True, False, False)
        """
        return other.architecture == self.architecture and other.flags <= self.flags


@cache
def _limited(named: str) -> Machine:
    level, slash, size = named.partition("/")
    if slash and size not in map(str, VECTORS):
        raise unknown(f"{VARIABLE}, after the slash", size, tuple(map(str, VECTORS)))
    limited = _of_level(level)
    return replace(limited, vector=int(size)) if slash else limited


def _of_level(level: str) -> Machine:
    host = _detected()
    if not level:
        return host
    if level not in LEVELS:
        raise unknown(VARIABLE, level, tuple(LEVELS))
    limited = Machine(level, frozenset(), host.level1, host.level2, host.level3, host.cores)
    if not host.runs(limited):
        lacks = (
            ", ".join(sorted(limited.flags - host.flags))
            or f"its architecture is {host.architecture}"
        )
        raise OptionError(
            f"{VARIABLE}={level!r} is more than this machine has ({host.level}); it lacks: {lacks}."
        )
    return limited


@cache
def _detected() -> Machine:
    architecture, flags = ARCHITECTURES.get(platform.machine(), "generic"), _flags()
    level = next(
        name for name, needed in LEVELS.items() if name.startswith(architecture) and needed <= flags
    )
    extras = frozenset(EXTRAS) & flags if level == "x86-64-v4" else frozenset()
    return Machine(
        level,
        extras,
        *_caches(),
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    )


def _flags() -> frozenset[str]:
    """Read what the processor and the system support; nothing where they do not tell."""
    try:
        if platform.system() == "Darwin":
            names = ("machdep.cpu.features", "machdep.cpu.leaf7_features")
            found = subprocess.run(  # noqa: S603
                ["/usr/sbin/sysctl", "-n", *names], capture_output=True, check=False, text=True
            ).stdout
            return frozenset(found.lower().split())
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(
        next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), [])
    )


def _caches() -> tuple[int, int, int]:
    """Read the sizes of the data caches; the usual ones where the system does not tell."""
    sizes = dict(enumerate(CACHES, 1))
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size = (
                (index / name).read_text().strip() for name in ("type", "level", "size")
            )
            if kind != "Instruction" and size.endswith("K"):
                sizes[int(level)] = int(size[:-1]) << 10
        except (OSError, ValueError):
            continue
    return sizes[1], sizes[2], sizes[3]
