"""Caches: the sizes of the data caches of a machine, and how much of a table lies beyond each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Caches", "find_caches"]

FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")


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
    return read_caches(FOLDER)


def read_caches(folder: Path) -> Caches:
    """Read the sizes that Linux tells; those that it does not are the common ones."""
    common = Caches()
    sizes = {1: common.level1, 2: common.level2, 3: common.level3}
    for index in sorted(folder.glob("index*")):
        try:
            kind, level, size = (
                (index / name).read_text().strip() for name in ("type", "level", "size")
            )
            if kind != "Instruction" and size.endswith("K"):
                sizes[int(level)] = int(size[:-1]) << 10
        except (OSError, ValueError):
            continue
    return Caches(sizes[1], sizes[2], sizes[3])
