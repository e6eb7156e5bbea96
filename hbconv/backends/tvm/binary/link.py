"""Make object files a shared library, with whatever linker is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["link"]

COMPILERS = ("cc", "gcc", "clang", "c++", "g++", "clang++")


def link(compiled: Sequence[Path], library: Path) -> bool:
    """Write the library; False where no linker is installed, or none can."""
    return any(
        _runs([*command, "-o", str(library)])
        for command in _commands([str(path) for path in compiled])
    )


def _commands(compiled: list[str]) -> Iterator[list[str]]:
    """Yield what may link: the linker itself, which is quickest, or else a compiler, which knows more of where things lie."""
    if sys.platform == "linux" and shutil.which("ld"):
        yield [
            "ld",
            "-shared",
            "--strip-debug",
            "-z",
            "noexecstack",
            "-Bsymbolic",
            *compiled,
            "-l:libm.so.6",
        ]
    yield from ([name, "-shared", *compiled] for name in COMPILERS if shutil.which(name))


def _runs(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603
    except OSError:
        return False
