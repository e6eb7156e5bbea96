"""C compilers for this machine and for others."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hbconv.backends.tvm.target.machine import Machine
from hbconv.errors import BackendError, MissingPackageError

__all__ = ["CPP", "TRIPLES", "C", "Language", "find_compiler", "run_compiler"]

TRIPLES = {"x86-64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
"""Names of Linux systems, as GNU compilers and zig begin with or take."""


@dataclass(frozen=True)
class Language:
    """A language, and who compiles it.

    Parameters
    ----------
    name, what : str
        What the compiler is of, and what is made.
    host : tuple of str
        Compilers for this machine, by preference.
    gnu : str
        End of the name of a GNU compiler for another machine.
    zig : bool
        Whether zig's compiler does.
    """

    name: str
    what: str
    host: tuple[str, ...]
    gnu: str
    zig: bool


C = Language("C", "A library", ("cc", "gcc", "clang"), "gcc", zig=True)
CPP = Language("C++", "A torch operator", ("c++", "g++", "clang++"), "g++", zig=False)
"""Zig links a C++ runtime of its own, through which torch catches no exception."""


def find_compiler(machine: Machine, language: Language) -> list[str]:
    """Return the command of a compiler for a machine.

    Raises
    ------
    MissingPackageError
        There is none; the message says how to install one.
    """
    native = sys.platform == "linux" and machine.architecture == Machine.host().architecture
    triple = TRIPLES[machine.architecture]
    for name in (*(language.host if native else ()), f"{triple}-{language.gnu}"):
        if shutil.which(name):
            return [name]
    if language.zig and shutil.which("zig"):
        return ["zig", "cc", "-target", triple]
    if language.zig and importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc", "-target", triple]
    instead = "zig with: pip install ziglang" if language.zig else "export without native=True"
    raise MissingPackageError(
        f"{language.what} for {machine.architecture} needs a {language.name} compiler for it. "
        f"Install {triple}-{language.gnu}, or {instead}"
    )


def run_compiler(command: list[str], folder: Path) -> None:
    """Run a compiler in a folder, or raise BackendError with what it says."""
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise BackendError(f"{command[0]} cannot make the library: {done.stderr[-2000:]}")
