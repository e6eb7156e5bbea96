"""C compilers for this machine and for others."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from hbconv.backends.tvm.target.machine import Machine
from hbconv.errors import BackendError, MissingPackageError

__all__ = ["find_compiler", "run_compiler"]

HOST = ("cc", "gcc", "clang")
TRIPLES = {"x86-64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
"""Names of Linux systems, as GNU compilers and zig begin with or take."""


def find_compiler(machine: Machine) -> list[str]:
    """Return the command of a C compiler for a machine.

    Raises
    ------
    MissingPackageError
        There is none; the message says how to install one.
    """
    native = sys.platform == "linux" and machine.architecture == Machine.host().architecture
    triple = TRIPLES[machine.architecture]
    for name in (*(HOST if native else ()), f"{triple}-gcc"):
        if shutil.which(name):
            return [name]
    if shutil.which("zig"):
        return ["zig", "cc", "-target", triple]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc", "-target", triple]
    raise MissingPackageError(
        f"A library for {machine.architecture} needs a C compiler for it. Install {triple}-gcc, or "
        "zig with: pip install ziglang"
    )


def run_compiler(command: list[str], folder: Path) -> None:
    """Run a compiler in a folder, or raise BackendError with what it says."""
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise BackendError(f"{command[0]} cannot make the library: {done.stderr[-2000:]}")
