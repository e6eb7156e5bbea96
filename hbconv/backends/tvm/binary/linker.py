"""Make shared libraries of object files: by the project's own linker, else by the system's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from hbconv.backends.tvm.binary.elf import link_objects
from hbconv.backends.tvm.binary.library import LIBRARY
from hbconv.errors import OptionError
from hbconv.system.temporary import temporary_folder

__all__ = ["link_by_tools", "make_libraries"]

COMPILERS = ("cc", "gcc", "clang", "c++", "g++", "clang++")


def make_libraries(objects: Mapping[str, bytes]) -> Iterator[bytes]:
    """Yield shared libraries of some object files, each made when it is asked for.

    The first serves unless the system cannot load it. On Linux it is made in memory: without a
    folder, a process, or anything that must be installed.
    """
    if sys.platform == "linux":
        # Linking took 0.6 ms where ld took 10 to 25.
        with suppress(NotImplementedError):
            yield link_objects(objects.values())
    # A full or missing folder for temporary files leaves no other way.
    with suppress(OptionError), temporary_folder() as folder:
        yield from link_by_tools(objects, folder)


def link_by_tools(objects: Mapping[str, bytes], folder: Path) -> Iterator[bytes]:
    """Yield the library of the first linker or compiler that makes one, if any does."""
    paths = {folder / f"{name}.o": data for name, data in objects.items()}
    for path, data in paths.items():
        path.write_bytes(data)
    library = folder / LIBRARY
    for command in _commands([str(path) for path in paths]):
        if _succeeds([*command, "-o", str(library)]):
            yield library.read_bytes()
            return


def _commands(compiled: list[str]) -> Iterator[list[str]]:
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
            # Calls inside the library are bound when it is linked, so two loaded kernels cannot
            # mix.
            "-Bsymbolic",
            *compiled,
            # Named by file, since the link libm.so comes with a compiler and may be missing.
            "-l:libm.so.6",
        ]
    yield from ([name, "-shared", *compiled] for name in COMPILERS if shutil.which(name))


def _succeeds(command: list[str]) -> bool:
    try:
        result = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    except OSError:
        return False
    return result.returncode == 0
