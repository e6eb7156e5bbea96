"""Shared libraries of compiled methods, with a C function for each.

The methods are compiled, C is written around them, and a C compiler links both, for this machine or
for another one. Where there is none, LLVM compiles what else would be C (``llvm_source``).
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from hbconv.backends.interface import inputs_with_text
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.binary.elf import link_objects
from hbconv.backends.tvm.c_library.function import CFunction, compile_function
from hbconv.backends.tvm.c_library.llvm_source import tables_symbol, write_module
from hbconv.backends.tvm.c_library.source import (
    c_text,
    class_arrays,
    function_source,
    header_text,
    texts,
)
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.containers import Graph
from hbconv.errors import BackendError, MissingPackageError
from hbconv.system.temporary import temporary_folder
from hbconv.target import Target

__all__ = ["export_library", "find_compiler", "find_statuses", "machine_of"]

# Hidden by default: programs see only what is marked as API.
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
COMPILERS = ("cc", "gcc", "clang")
"""Compilers for this machine, by preference."""
TRIPLES = {"x86-64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
"""Names of Linux systems, as GNU compilers and zig begin with or take."""


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
        TVM is not installed. On other systems than Linux: nor is a C compiler for the level.
    BackendError
        C has no type for an input or answer, or the compiler fails.
    """
    BACKEND.require_packages()
    machine = machine_of(level)
    functions = [
        compile_function(name, graph, inputs_with_text, target, machine)
        for name, graph in graphs.items()
    ]
    header = header_text(next(iter(graphs.values())).traits.estimator, functions, prefix)
    try:
        compiler = find_compiler(machine)
    except MissingPackageError as missing:
        return _link_alone(functions, prefix, machine, missing), header
    return _compile_with(compiler, functions, prefix, machine), header


def _compile_with(
    compiler: list[str], functions: list[CFunction], prefix: str, machine: Machine
) -> bytes:
    """Return the library that a C compiler makes of functions in C around the loops."""
    files = _library_files(functions, prefix, machine)
    files["library.c"] += _class_arrays(functions, prefix).encode()
    # The version script also hides symbols of the object files, which LLVM leaves visible.
    files["exports.map"] = f"{{ global: {prefix}_*; local: *; }};\n".encode()
    with temporary_folder() as folder:
        sources = _write_files(folder, files)
        _run_compiler([*compiler, *COMPILE, *LINK, *sources, "-lm", "-o", "library.so"], folder)
        return (folder / "library.so").read_bytes()


def _link_alone(
    functions: list[CFunction], prefix: str, machine: Machine, missing: MissingPackageError
) -> bytes:
    """Return the library that needs no compiler: LLVM compiles the functions around the loops.

    It is for Linux, whatever system makes it. Loops in another format than ELF need the compiler.
    """
    from hbconv.backends.tvm.binary.build import compile_text

    arrays = [pair for function in functions for pair in class_arrays(function, prefix)]
    text = write_module(functions, prefix, machine, find_statuses(functions), arrays)
    loops = [loop for function in functions for loop in function.loops]
    objects = [data for loop in loops for data in loop.objects.values()]
    tables = {tables_symbol(loop): loop.tables for loop in loops}
    try:
        return link_objects([compile_text(text), *objects], tables)
    except NotImplementedError as error:
        raise missing from error


def find_statuses(functions: list[CFunction]) -> dict[int, str]:
    """Return the message of each status; those of checks count up over all functions."""
    checks = [message for function in functions for message, _ in function.messages]
    return {**FAILURES, **dict(enumerate(checks, start=1))}


def machine_of(level: str | None) -> Machine:
    """Return the machine of a level, by default this one, or raise OptionError."""
    return Machine.host() if level is None else Machine.named(level, "target")


def _library_files(functions: list[CFunction], prefix: str, machine: Machine) -> dict[str, bytes]:
    """Return what a compiler reads: C, objects, and tables that the C includes."""
    files = {"library.c": _source(functions, prefix, machine).encode()}
    for loop in (loop for function in functions for loop in function.loops):
        files[f"{loop.symbol}.bin"] = loop.tables
        files |= {f"{name}.o": data for name, data in loop.objects.items()}
    return files


def _write_files(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Write files, and return the names of those that a compiler is given."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [name for name in files if name.endswith((".c", ".o"))]


def _source(functions: list[CFunction], prefix: str, machine: Machine) -> str:
    """Return the C of a library."""
    runtime = resources.files("hbconv.backends.tvm.c_library").joinpath("runtime.c").read_text()
    parts = [runtime, _runs_here(machine)]
    first = 1
    for function in functions:
        parts.append(function_source(function, prefix, first))
        first += len(function.messages)
    return "\n".join([*parts, _messages(find_statuses(functions), prefix)])


def _class_arrays(functions: list[CFunction], prefix: str) -> str:
    arrays = [pair for function in functions for pair in class_arrays(function, prefix)]
    lines = [f"API const char *const {n}[{len(v)}] = {texts(v)};\n" for n, v in arrays]
    return "".join(["\n", *lines])


def _runs_here(machine: Machine) -> str:
    names = [*SUPPORTS.get(machine.level, ()), *sorted(machine.extras)]
    tests = " && ".join(f'__builtin_cpu_supports("{name}")' for name in names) or "1"
    return f"static inline int runs_here(void) {{ return {tests}; }}\n"


def _messages(statuses: dict[int, str], prefix: str) -> str:
    cases = [f"        case {status}: return {c_text(text)};" for status, text in statuses.items()]
    body = "\n".join(["    switch (status) {", *cases, "        default: return NULL;", "    }"])
    return f"API const char *{prefix}_message(int32_t status) {{\n{body}\n}}\n"


def find_compiler(machine: Machine) -> list[str]:
    """Return the command of a C compiler for a machine.

    Raises
    ------
    MissingPackageError
        A compiler is missing; the message says how to install one.
    """
    native = sys.platform == "linux" and machine.architecture == Machine.host().architecture
    triple = TRIPLES[machine.architecture]
    for name in (*(COMPILERS if native else ()), f"{triple}-gcc"):
        if shutil.which(name):
            return [name]
    if shutil.which("zig"):
        return ["zig", "cc", "-target", triple]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc", "-target", triple]
    raise MissingPackageError(
        f"A library for {machine.architecture} needs a C compiler for it. "
        f"Install {triple}-gcc, or zig with: pip install ziglang"
    )


def _run_compiler(command: list[str], folder: Path) -> None:
    """Run a compiler in a folder, or raise BackendError with its message."""
    # Compilers write in any encoding, and the reason is at the end of their output.
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise BackendError(f"{command[0]} cannot make the library: {done.stderr[-2000:]}")
