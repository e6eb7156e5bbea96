"""The processor: its name, the instructions it has, and its caches, as the system tells them.

Linux tells in files, macOS by ``sysctl``. Other systems tell none of it: kernels then use
what every processor of the architecture has, and sizes of caches are common ones.
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Caches", "find_caches", "find_flags", "find_processor"]

PROCESSOR = Path("/proc/cpuinfo")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
SYSCTL = "/usr/sbin/sysctl"
FLAGS_OF_MACOS = ("machdep.cpu.features", "machdep.cpu.leaf7_features")


@dataclass(frozen=True)
class Caches:
    """Bytes of the data caches that one core uses, the nearest first.

    The defaults are those of a common server, for a machine that does not tell.
    """

    level1: int = 32 << 10
    level2: int = 1 << 20
    level3: int = 32 << 20

    def beyond(self, size: float) -> tuple[float, float, float]:
        """Return the share of a table that each cache cannot hold.

        Reads are spread over the table, so this is also the share of reads that miss.

        Examples
        --------
        >>> Caches(level1=1000, level2=4000, level3=8000).beyond(8000)
        (0.875, 0.5, 0.0)
        """
        level1, level2, level3 = (
            max(0.0, 1.0 - held / max(size, 1.0))
            for held in (self.level1, self.level2, self.level3)
        )
        return level1, level2, level3


@cache
def find_caches() -> Caches:
    """Return the caches of this machine."""
    return read_caches(CACHES)


def read_caches(folder: Path) -> Caches:
    """Read the sizes that Linux tells; those that it does not are the common ones."""
    common = Caches()
    sizes = {1: common.level1, 2: common.level2, 3: common.level3}
    for index in sorted(folder.glob("index*")):
        try:
            kind, level, size = (
                (index / name).read_text().strip() for name in ("type", "level", "size")
            )
            # Tables are data, which caches of instructions do not hold.
            if kind != "Instruction" and size.endswith("K"):
                sizes[int(level)] = int(size[:-1]) << 10
        except (OSError, ValueError):
            continue
    return Caches(sizes[1], sizes[2], sizes[3])


def find_flags() -> frozenset[str]:
    """Return the instructions that the processor and the system support, as Linux names them.

    None where they are not reported.
    """
    # archspec took 12 ms where this takes 1 ms, and its public list of features has no VBMI.
    if platform.system() == "Darwin":
        return frozenset(_ask_sysctl(*FLAGS_OF_MACOS).lower().split())
    # The kernel lists wide instructions only where it saves their registers. It lists those of
    # Arm as features.
    told = (line for line in _lines() if line.startswith(("flags", "Features")))
    flags = (line.split(":", 1)[1].split() for line in told)
    return frozenset(next(flags, []))


def find_processor() -> str:
    """Return the processor's name, as Linux reports it, or as Python knows it."""
    names = (line.partition(":")[2].strip() for line in _lines() if "model name" in line)
    # A coarser name only makes records hold for more machines.
    return next(names, f"{platform.machine()} {platform.processor()}")


def _lines() -> Iterator[str]:
    """Yield the lines of the first processors that are asked for: Linux writes hundreds."""
    with suppress(OSError), PROCESSOR.open(encoding="utf-8", errors="replace") as lines:
        yield from lines


def _ask_sysctl(*names: str) -> str:
    try:
        return subprocess.run(  # noqa: S603
            [SYSCTL, "-n", *names], capture_output=True, check=False, text=True
        ).stdout
    except OSError:
        return ""
