"""Shared libraries of compiled methods: with a C function for each, or with a torch operator.

The methods are compiled, C is written around them, and a C compiler links both, for this machine or
for another one. Where there is none, LLVM compiles what else would be C (``llvm_source``). The
operator uses torch's stable ABI.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from hbconv.backends.interface import FileInput, FileOutput, inputs_with_codes, inputs_with_text
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.binary.elf import link_objects
from hbconv.backends.tvm.c_library.function import CFunction, compile_function
from hbconv.backends.tvm.c_library.llvm_source import tables_symbol, write_module
from hbconv.backends.tvm.c_library.source import (
    c_text,
    c_type,
    class_arrays,
    function_source,
    header_text,
    pointer_type,
    signature,
    texts,
)
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.containers import Graph
from hbconv.errors import BackendError, MissingPackageError
from hbconv.system.temporary import temporary_folder
from hbconv.target import Target

__all__ = [
    "COMPILE",
    "CPP",
    "LINK",
    "export_library",
    "export_operator",
    "find_compiler",
    "library_files",
    "machine_of",
    "run_compiler",
    "write_files",
]

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
TRIPLES = {"x86-64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
"""Names of Linux systems, as GNU compilers and zig begin with or take."""
PREFIX = "hbconv"
OPERATOR = "answers"
"""Name of the operator in its namespace."""
TORCH_VERSION = "0x020a000000000000"
"""Of the stable ABI: 2.10, the first that has what ``operator.cpp`` calls."""
OPERATOR_OPTIONS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    f"-DTORCH_TARGET_VERSION={TORCH_VERSION}",
)
# The stub defines no symbol, so linkers would drop its name from the library.
TORCH_LINK = ("-Wl,--no-as-needed", "libtorch_cpu.so", "-Wl,--as-needed")
TORCH_TYPES = {
    "bool": "Bool",
    "float32": "Float",
    "float64": "Double",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "uint8": "Byte",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
}
"""Torch's type of each dtype that C has."""


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
        compiler = find_compiler(machine, C)
    except MissingPackageError as missing:
        return _link_alone(functions, prefix, machine, missing), header
    return _compile_with(compiler, functions, prefix, machine), header


def _compile_with(
    compiler: list[str], functions: list[CFunction], prefix: str, machine: Machine
) -> bytes:
    """Return the library that a C compiler makes of functions in C around the loops."""
    files = library_files(functions, prefix, machine)
    files["library.c"] += _class_arrays(functions, prefix).encode()
    # The version script also hides symbols of the object files, which LLVM leaves visible.
    files["exports.map"] = f"{{ global: {prefix}_*; local: *; }};\n".encode()
    with temporary_folder() as folder:
        sources = write_files(folder, files)
        run_compiler([*compiler, *COMPILE, *LINK, *sources, "-lm", "-o", "library.so"], folder)
        return (folder / "library.so").read_bytes()


def _link_alone(
    functions: list[CFunction], prefix: str, machine: Machine, missing: MissingPackageError
) -> bytes:
    """Return the library that needs no compiler: LLVM compiles the functions around the loops.

    It is for Linux, whatever system makes it. Loops in another format than ELF need the compiler.
    """
    from hbconv.backends.tvm.binary.build import compile_text

    arrays = [pair for function in functions for pair in class_arrays(function, prefix)]
    text = write_module(functions, prefix, machine, _statuses(functions), arrays)
    loops = [loop for function in functions for loop in function.loops]
    objects = [data for loop in loops for data in loop.objects.values()]
    tables = {tables_symbol(loop): loop.tables for loop in loops}
    try:
        return link_objects([compile_text(text), *objects], tables)
    except NotImplementedError as error:
        raise missing from error


def _statuses(functions: list[CFunction]) -> dict[int, str]:
    """Return the message of each status; those of checks count up over all functions."""
    checks = [message for function in functions for message, _ in function.messages]
    return {**FAILURES, **dict(enumerate(checks, start=1))}


def machine_of(level: str | None) -> Machine:
    """Return the machine of a level, by default this one, or raise OptionError."""
    return Machine.host() if level is None else Machine.named(level, "target")


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
    """Return the C of a library."""
    runtime = resources.files("hbconv.backends.tvm.c_library").joinpath("runtime.c").read_text()
    parts = [runtime, _runs_here(machine)]
    first = 1
    for function in functions:
        parts.append(function_source(function, prefix, first))
        first += len(function.messages)
    return "\n".join([*parts, _messages(_statuses(functions), prefix)])


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
        A compiler is missing; the message says how to install one.
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
    """Run a compiler in a folder, or raise BackendError with its message."""
    # Compilers write in any encoding, and the reason is at the end of their output.
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise BackendError(f"{command[0]} cannot make the library: {done.stderr[-2000:]}")


@dataclass(frozen=True)
class Operator:
    """A torch operator in a shared library.

    Parameters
    ----------
    name : str
    namespace : str
        Each library has one of its own, by its content, so that a process may load many.
    schema : str
    inputs : tuple of FileInput
        Matrices; the last holds the codes of texts, where there are any.
    outputs : tuple of FileOutput
    library : bytes
    """

    name: str
    namespace: str
    schema: str
    inputs: tuple[FileInput, ...]
    outputs: tuple[FileOutput, ...]
    library: bytes


def export_operator(
    graph: Graph, target: Target, headers: Path, level: str | None = None
) -> Operator:
    """Return the operator that computes all methods of a planned graph.

    Parameters
    ----------
    graph : Graph
    target : Target
    headers : Path
        Torch's folder of header files.
    level : str, optional
        As of ``export_library``.

    Raises
    ------
    OptionError
        There is no such level.
    MissingPackageError
        TVM, or a C++ compiler for the level, is not installed.
    BackendError
        C has no type for an input or answer, or the compiler fails.
    """
    BACKEND.require_packages()
    machine = machine_of(level)
    compiler = find_compiler(machine, CPP)
    function = compile_function(OPERATOR, graph, inputs_with_codes, target, machine)
    outputs = tuple(answer.file_output for answer in function.answers)
    schema = _schema(function)
    files = library_files([function], PREFIX, machine)
    files["operator.cpp"] = _resource("operator.cpp")
    files["operator_tables.h"] = "\n".join(_tables(function, schema)).encode()
    namespace = _namespace(files)
    files["operator_tables.h"] += f'#define NAMESPACE "{namespace}"\n'.encode()
    files["exports.map"] = b"{ local: *; };\n"
    library = _build(compiler, files, headers)
    return Operator(OPERATOR, namespace, schema, function.inputs, outputs, library)


def _schema(function: CFunction) -> str:
    names = ", ".join(f"Tensor {argument.name}" for argument in function.inputs)
    answers = ", ".join("Tensor" for _ in function.answers)
    return f"{OPERATOR}({names}) -> ({answers})"


def _resource(name: str) -> bytes:
    return resources.files("hbconv.backends.tvm.c_library").joinpath(name).read_bytes()


def _namespace(files: Mapping[str, bytes]) -> str:
    """Name the content of files."""
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(f"{name} {len(data)} ".encode() + data)
    return f"hbconv_{digest.hexdigest()[:16]}"


def _tables(function: CFunction, schema: str) -> Iterator[str]:
    """Write what ``operator.cpp`` reads of a model."""
    inputs = [
        _rows(argument.name, argument.dtype, (len(argument.columns),))
        for argument in function.inputs
    ]
    answers = [
        _rows(a.file_output.method, a.file_output.dtype, a.file_output.shape)
        for a in function.answers
    ]
    yield f"#define SCHEMA {c_text(schema)}"
    yield f"#define OPERATOR {c_text(OPERATOR)}"
    yield f"constexpr size_t INPUT_COUNT = {len(inputs)}, ANSWER_COUNT = {len(answers)};"
    yield f"static const Rows INPUTS[] = {{{', '.join(inputs)}}};"
    yield f"static const Rows ANSWERS[] = {{{', '.join(answers)}}};"
    yield f'extern "C" {signature(function, PREFIX)};'
    yield f'extern "C" const char *{PREFIX}_message(int32_t status);'
    yield f"static const char *message(int32_t status) {{ return {PREFIX}_message(status); }}"
    yield "static int32_t answer_rows(int64_t rows, const char *const *from, char *const *to) {"
    yield f"    return {PREFIX}_{OPERATOR}({', '.join(['rows', *_arguments(function)])});"
    yield "}\n"


def _rows(name: str, dtype: str, shape: tuple[int, ...]) -> str:
    sizes = ", ".join(map(str, shape))
    return f"{{{c_text(name)}, {c_text(dtype)}, ScalarType::{TORCH_TYPES[dtype]}, {{{sizes}}}}}"


def _arguments(function: CFunction) -> Iterator[str]:
    for number, argument in enumerate(function.inputs):
        yield f"reinterpret_cast<{pointer_type(argument)}>(from[{number}])"
    for number, answer in enumerate(function.answers):
        yield f"reinterpret_cast<{c_type(answer.file_output.dtype)} *>(to[{number}])"


def _build(compiler: list[str], files: Mapping[str, bytes], headers: Path) -> bytes:
    """Compile and link; the library requires torch's by name, in whatever folder."""
    with temporary_folder() as folder:
        sources = write_files(folder, {**files, "torch.c": b"\n"})
        objects = [source for source in sources if source.endswith(".o")]
        # A stub with the name of torch's library: linking needs no torch, and the loader finds the
        # real one.
        stub = ["torch.c", "-shared", "-Wl,-soname,libtorch_cpu.so", "-o", "libtorch_cpu.so"]
        # The prefix map keeps paths of this machine out of the library.
        include = ["-isystem", str(headers), f"-ffile-prefix-map={headers}=torch"]
        for command in (
            ["-x", "c", *COMPILE, "-c", "library.c", "-o", "library.o"],
            [*OPERATOR_OPTIONS, *include, "-c", "operator.cpp", "-o", "operator.o"],
            ["-x", "c", *stub],
            [*LINK, "operator.o", "library.o", *objects, *TORCH_LINK, "-lm", "-o", "library.so"],
        ):
            run_compiler([*compiler, *command], folder)
        return (folder / "library.so").read_bytes()
