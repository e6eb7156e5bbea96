"""Compile methods, write the C around them, and link both to a library."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.c_library.header import class_arrays, header_text
from hbconv.backends.tvm.c_library.literals import c_text, texts
from hbconv.backends.tvm.c_library.method import CMethod, compile_method
from hbconv.backends.tvm.c_library.source import method_source
from hbconv.backends.tvm.c_library.toolchain import TRIPLES, find_compiler, run_compiler
from hbconv.backends.tvm.target.machine import LEVELS, Machine
from hbconv.containers import Graph
from hbconv.names import unknown
from hbconv.target import Target

__all__ = ["export_library"]

OPTIONS = (
    *("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-Bsymbolic", "-s"),
    *("-Wl,-z,noexecstack", "-Wl,--version-script=exports.map"),
)
FAILURES = {
    -1: "rows is negative, or a pointer is NULL",
    -2: "there is no memory for the call",
    -3: "this processor lacks instructions that the library was compiled for",
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
        C has no type for an answer, or the compiler fails.
    """
    BACKEND.require_packages()
    machine = _machine(level)
    compiler = find_compiler(machine)
    methods = [compile_method(graph, target, machine) for graph in graphs.values()]
    estimator = next(iter(graphs.values())).traits.estimator
    header = header_text(estimator, methods, prefix)
    with TemporaryDirectory() as name:
        folder = Path(name)
        objects = _write(folder, methods, _source(methods, prefix, machine), prefix)
        library = folder / "library.so"
        run_compiler(
            [*compiler, *OPTIONS, "library.c", *objects, "-lm", "-o", library.name], folder
        )
        return library.read_bytes(), header


def _machine(level: str | None) -> Machine:
    if level is None:
        return Machine.host()
    known = [name for name in LEVELS if Machine(name).architecture in TRIPLES]
    if level not in known:
        raise unknown("target", level, known)
    return Machine(level)


def _source(methods: list[CMethod], prefix: str, machine: Machine) -> str:
    """Return the C of a library. Statuses of checks count up over all methods."""
    runtime = resources.files("hbconv.backends.tvm.c_library").joinpath("runtime.c").read_text()
    parts = [runtime, _runs_here(machine)]
    messages: list[str] = []
    for method in methods:
        parts.append(method_source(method, prefix, len(messages) + 1))
        messages += [message for message, _ in method.messages]
        parts += [
            f"API const char *const {name}[{len(values)}] = {texts(values)};\n"
            for name, values in class_arrays(method, prefix)
        ]
    return "\n".join([*parts, _messages(messages, prefix)])


def _runs_here(machine: Machine) -> str:
    names = [*SUPPORTS.get(machine.level, ()), *sorted(machine.extras)]
    tests = " && ".join(f'__builtin_cpu_supports("{name}")' for name in names) or "1"
    return f"static inline int runs_here(void) {{ return {tests}; }}\n"


def _messages(messages: list[str], prefix: str) -> str:
    statuses = {**FAILURES, **dict(enumerate(messages, start=1))}
    cases = [f"        case {status}: return {c_text(text)};" for status, text in statuses.items()]
    body = "\n".join(["    switch (status) {", *cases, "        default: return NULL;", "    }"])
    return f"API const char *{prefix}_message(int32_t status) {{\n{body}\n}}\n"


def _write(folder: Path, methods: list[CMethod], source: str, prefix: str) -> list[str]:
    """Write what the compiler reads, and return the names of the object files."""
    (folder / "library.c").write_text(source, encoding="utf-8")
    (folder / "exports.map").write_text(f"{{ global: {prefix}_*; local: *; }};\n")
    objects: dict[str, bytes] = {}
    for loop in (loop for method in methods for loop in method.loops):
        (folder / f"{loop.symbol}.bin").write_bytes(loop.tables)
        objects |= {f"{name}.o": data for name, data in loop.objects.items()}
    for name, data in objects.items():
        (folder / name).write_bytes(data)
    return list(objects)
