"""Which processor to compile for: never one whose instructions this machine lacks, since that ends the process."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

__all__ = ["LEVELS", "processor", "runs"]

LEVELS = {
    "x86-64-v4": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd", "avx2", "fma", "bmi2"},
    "x86-64-v3": {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"},
}
"""Levels of x86-64, best first, with the flags that Linux shows for what each adds."""


@cache
def processor() -> str:
    """Return the LLVM name of the best processor level this machine surely has.

    Examples
    --------
    >>> processor() in {*LEVELS, "generic"}
    True
    """
    flags = _flags()
    return next((level for level, needed in LEVELS.items() if needed <= flags), "generic")


def runs(level: str) -> bool:
    """Say whether this machine runs what was compiled for a level: its own or a lower one.

    Examples
    --------
    >>> runs("generic"), runs(processor())
    (True, True)
    """
    ranks = [*LEVELS, "generic"]
    return level in ranks and ranks.index(level) >= ranks.index(processor())


def _flags() -> set[str]:
    if platform.machine() not in ("x86_64", "AMD64"):
        return set()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return set()
    return set(next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), []))
