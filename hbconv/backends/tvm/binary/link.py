"""Link object files to a shared library."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["link"]

COMPILERS = ("cc", "gcc", "clang", "c++", "g++", "clang++")
LIBRARY = "kernel.so"


def link(objects: Mapping[str, bytes]) -> bytes | None:
    """Return the shared library of some object files; None if no linker is there, or succeeds."""
    with TemporaryDirectory() as folder:
        paths = {Path(folder, f"{name}.o"): data for name, data in objects.items()}
        for path, data in paths.items():
            path.write_bytes(data)
        library = Path(folder, LIBRARY)
        commands = _link_commands([str(path) for path in paths])
        linked = any(_succeeds([*command, "-o", str(library)]) for command in commands)
        return library.read_bytes() if linked else None


def _link_commands(compiled: list[str]) -> Iterator[list[str]]:
    """Yield commands that may link: the linker, which is quickest, then compilers.

    A compiler knows more about where the system's libraries are.
    """
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


def _succeeds(command: list[str]) -> bool:
    try:
        ran = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    except OSError:
        return False
    return ran.returncode == 0
