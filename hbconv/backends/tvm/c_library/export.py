"""Compile methods, write the C around them, and link both to a library.

C compilers for this machine and for others.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

from hbconv.backends.interface import inputs_with_text
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.c_library.function import CFunction, compile_function
from hbconv.backends.tvm.c_library.source import (
    c_text,
    class_arrays,
    function_source,
    header_text,
    texts,
)
from hbconv.backends.tvm.target.machine import LEVELS, Machine
from hbconv.containers import Graph
from hbconv.errors import BackendError, MissingPackageError
from hbconv.names import unknown
from hbconv.target import Target

__all__ = [
    "COMPILE",
    "CPP",
    "LINK",
    "export_library",
    "find_compiler",
    "library_files",
    "machine_of",
    "run_compiler",
    "write_files",
]

COMPILE = ("-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden")
LINK = (
    *("-shared", "-fPIC", "-Wl,-Bsymbolic", "-s", "-Wl,-z,noexecstack"),
    "-Wl,--version-script=exports.map",
)
FAILURES = {
    -1: "rows is negative, or a pointer is NULL",
    -2: "there is no memory for the call",
    -3: "this processor lacks instructions that the library was compiled for",
    -4: "a code of a text is in no vocabulary",
}
SUPPORTS = {
    "x86-64-v3": ("avx2", "fma", "bmi", "bmi2"),
    "x86-64-v4": (
        *("avx2", "fma", "bmi", "bmi2"),
        *("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"),
    ),
}
"""What C compilers call the instructions of a level."""


def export_library(
    graphs: Mapping[str, Graph], target: Target, prefix: str, level: str | None = None
) -> tuple[bytes, str]:
    """Return a shared library of some methods, and its header.

    Parameters
    ----------
    graphs : mapping of str to Graph
        A planned graph for each method, with it alone.
    target : Target
    prefix : str
        Beginning of the names that the library exports.
    level : str, optional
        Instruction set of the processors that will run it, such as ``"x86-64-v3"`` or
        ``"aarch64"``. By default that of this machine.

    Raises
    ------
    OptionError
        There is no such level.
    MissingPackageError
        TVM, or a C compiler for the level, is not installed.
    BackendError
        C has no type for an input or answer, or the compiler fails.
    """
    BACKEND.require_packages()
    machine = machine_of(level)
    compiler = find_compiler(machine, C)
    functions = [
        compile_function(name, graph, inputs_with_text, target, machine)
        for name, graph in graphs.items()
    ]
    header = header_text(next(iter(graphs.values())).traits.estimator, functions, prefix)
    files = library_files(functions, prefix, machine)
    files["library.c"] += _class_arrays(functions, prefix).encode()
    files["exports.map"] = f"{{ global: {prefix}_*; local: *; }};\n".encode()
    with TemporaryDirectory() as name:
        folder = Path(name)
        sources = write_files(folder, files)
        run_compiler([*compiler, *COMPILE, *LINK, *sources, "-lm", "-o", "library.so"], folder)
        return (folder / "library.so").read_bytes(), header


def machine_of(level: str | None) -> Machine:
    """Return the machine of a level, by default this one, or raise OptionError."""
    if level is None:
        return Machine.host()
    known = [name for name in LEVELS if Machine(name).architecture in TRIPLES]
    if level not in known:
        raise unknown("target", level, known)
    return Machine(level)


def library_files(functions: list[CFunction], prefix: str, machine: Machine) -> dict[str, bytes]:
    """Return what a compiler reads: C, objects, and tables that the C includes."""
    files = {"library.c": _source(functions, prefix, machine).encode()}
    for loop in (loop for function in functions for loop in function.loops):
        files[f"{loop.symbol}.bin"] = loop.tables
        files |= {f"{name}.o": data for name, data in loop.objects.items()}
    return files


def write_files(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Write files, and return the names of those that a compiler is given."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [name for name in files if name.endswith((".c", ".o"))]


def _source(functions: list[CFunction], prefix: str, machine: Machine) -> str:
    """Return the C of a library. Statuses of checks count up over all functions."""
    runtime = resources.files("hbconv.backends.tvm.c_library").joinpath("runtime.c").read_text()
    parts = [runtime, _runs_here(machine)]
    messages: list[str] = []
    for function in functions:
        parts.append(function_source(function, prefix, len(messages) + 1))
        messages += [message for message, _ in function.messages]
    return "\n".join([*parts, _messages(messages, prefix)])


def _class_arrays(functions: list[CFunction], prefix: str) -> str:
    arrays = [pair for function in functions for pair in class_arrays(function, prefix)]
    lines = [f"API const char *const {n}[{len(v)}] = {texts(v)};\n" for n, v in arrays]
    return "".join(["\n", *lines])


def _runs_here(machine: Machine) -> str:
    names = [*SUPPORTS.get(machine.level, ()), *sorted(machine.extras)]
    tests = " && ".join(f'__builtin_cpu_supports("{name}")' for name in names) or "1"
    return f"static inline int runs_here(void) {{ return {tests}; }}\n"


def _messages(messages: list[str], prefix: str) -> str:
    statuses = {**FAILURES, **dict(enumerate(messages, start=1))}
    cases = [f"        case {status}: return {c_text(text)};" for status, text in statuses.items()]
    body = "\n".join(["    switch (status) {", *cases, "        default: return NULL;", "    }"])
    return f"API const char *{prefix}_message(int32_t status) {{\n{body}\n}}\n"


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
