"""A torch operator around the compiled kernel of all methods, by torch's stable ABI."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

from hbconv.backends.interface import FileInput, FileOutput, inputs_with_codes
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.c_library.export import (
    COMPILE,
    CPP,
    LINK,
    find_compiler,
    library_files,
    machine_of,
    run_compiler,
    write_files,
)
from hbconv.backends.tvm.c_library.function import CFunction, compile_function
from hbconv.backends.tvm.c_library.source import c_text, c_type, pointer_type, signature
from hbconv.containers import Graph
from hbconv.target import Target

__all__ = ["OPERATOR", "Operator", "export_operator"]

PREFIX = "hbconv"
OPERATOR = "answers"
"""Name of the operator in its namespace."""
TORCH_VERSION = "0x020a000000000000"
"""Of the stable ABI: 2.10, the first that has what ``operator.cpp`` calls."""
OPTIONS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    f"-DTORCH_TARGET_VERSION={TORCH_VERSION}",
)
TORCH = ("-Wl,--no-as-needed", "libtorch_cpu.so", "-Wl,--as-needed")
TYPES = {
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
    outputs = tuple(answer.told for answer in function.answers)
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
    names = ", ".join(f"Tensor {given.name}" for given in function.inputs)
    answers = ", ".join("Tensor" for _ in function.answers)
    return f"{OPERATOR}({names}) -> ({answers})"


def _resource(name: str) -> bytes:
    return resources.files("hbconv.backends.tvm.c_library").joinpath(name).read_bytes()


def _namespace(files: Mapping[str, bytes]) -> str:
    """Name the content of files."""
    found = hashlib.sha256()
    for name, data in sorted(files.items()):
        found.update(f"{name} {len(data)} ".encode() + data)
    return f"hbconv_{found.hexdigest()[:16]}"


def _tables(function: CFunction, schema: str) -> Iterator[str]:
    """Write what ``operator.cpp`` reads of a model."""
    inputs = [_rows(given.name, given.dtype, (len(given.columns),)) for given in function.inputs]
    answers = [_rows(a.told.method, a.told.dtype, a.told.shape) for a in function.answers]
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
    return f"{{{c_text(name)}, {c_text(dtype)}, ScalarType::{TYPES[dtype]}, {{{sizes}}}}}"


def _arguments(function: CFunction) -> Iterator[str]:
    for number, given in enumerate(function.inputs):
        yield f"reinterpret_cast<{pointer_type(given)}>(from[{number}])"
    for number, answer in enumerate(function.answers):
        yield f"reinterpret_cast<{c_type(answer.told.dtype)} *>(to[{number}])"


def _build(compiler: list[str], files: Mapping[str, bytes], headers: Path) -> bytes:
    """Compile and link; the library asks for torch's by name, wherever that lies."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        sources = write_files(folder, {**files, "torch.c": b"\n"})
        objects = [source for source in sources if source.endswith(".o")]
        stub = ["torch.c", "-shared", "-Wl,-soname,libtorch_cpu.so", "-o", "libtorch_cpu.so"]
        include = ["-isystem", str(headers), f"-ffile-prefix-map={headers}=torch"]
        for command in (
            ["-x", "c", *COMPILE, "-c", "library.c", "-o", "library.o"],
            [*OPTIONS, *include, "-c", "operator.cpp", "-o", "operator.o"],
            ["-x", "c", *stub],
            [*LINK, "operator.o", "library.o", *objects, *TORCH, "-lm", "-o", "library.so"],
        ):
            run_compiler([*compiler, *command], folder)
        return (folder / "library.so").read_bytes()
