"""Torch operators of compiled methods, in libraries that TVM's LLVM and hbconv's linker make.

Torch's C interface is stable: a library that is made once serves every torch from 2.10 on. What is
the same for all models is ``operator.ll``; here is written what a model has of its own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from hbconv.backends.interface import FileInput, FileOutput, inputs_with_codes
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.binary.elf import link_objects
from hbconv.backends.tvm.c_library.export import find_statuses, machine_of
from hbconv.backends.tvm.c_library.function import CFunction, compile_function
from hbconv.backends.tvm.c_library.llvm_source import (
    FunctionLines,
    LlvmFunction,
    LlvmModule,
    tables_symbol,
)
from hbconv.backends.tvm.c_library.source import c_type
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.containers import Graph
from hbconv.errors import BackendError
from hbconv.target import Target

__all__ = ["Operator", "export_operator"]

PREFIX = "hbconv"
NAME = "answers"
"""Name of the operator in its namespace."""
TORCH_VERSION = 2 << 56 | 10 << 48
"""Of the stable interface: 2.10, the first that has what ``operator.ll`` calls."""
LIBRARIES = ("libtorch_cpu.so", "libstdc++.so.6")
"""Those that the loader finds, in whatever folder: a process that calls torch has loaded them."""
LEAST_ROWS = 1024
"""Rows that one thread takes at least: the work of a few of them costs less than to wake it."""
INITIALIZER = "hbconv_declare"
NAMESPACE = "@namespace"


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


def export_operator(graph: Graph, target: Target, level: str | None = None) -> Operator:
    """Return the operator that computes all methods of a planned graph, in a library for Linux.

    Parameters
    ----------
    graph : Graph
    target : Target
    level : str, optional
        As of ``export_library``.

    Raises
    ------
    OptionError
        There is no such level.
    MissingPackageError
        TVM is not installed.
    BackendError
        C has no type for an input or answer, or LLVM writes no ELF here.
    """
    BACKEND.require_packages()
    from hbconv.backends.tvm.binary.build import compile_text

    machine = machine_of(level)
    function = compile_function(NAME, graph, inputs_with_codes, target, machine)
    outputs = tuple(answer.file_output for answer in function.answers)
    for output in outputs:
        c_type(output.dtype)  # its error names the dtype
    schema = _schema(function)
    text = _write_module(function, machine, schema)
    objects = [data for loop in function.loops for data in loop.objects.values()]
    tables = {tables_symbol(loop): loop.tables for loop in function.loops}
    namespace = _namespace([text.encode(), *objects, *tables.values()])
    text += f'{NAMESPACE} = internal constant [{len(namespace) + 1} x i8] c"{namespace}\\00"\n'
    try:
        library = link_objects(
            [compile_text(text), *objects], tables, libraries=LIBRARIES, initializer=INITIALIZER
        )
    except NotImplementedError as error:
        raise BackendError(f"hbconv cannot link a torch operator here: {error}") from error
    return Operator(NAME, namespace, schema, function.inputs, outputs, library)


def _schema(function: CFunction) -> str:
    names = ", ".join(f"Tensor {argument.name}" for argument in function.inputs)
    answers = ", ".join("Tensor" for _ in function.answers)
    return f"{NAME}({names}) -> ({answers})"


def _namespace(contents: Sequence[bytes]) -> str:
    """Name what a library holds."""
    digest = hashlib.sha256()
    for data in contents:
        digest.update(f"{len(data)} ".encode() + data)
    return f"hbconv_{digest.hexdigest()[:16]}"


def _write_module(function: CFunction, machine: Machine, schema: str) -> str:
    """Return the text of a module, in which the namespace is yet to be defined."""
    module = LlvmModule(machine, "internal")
    LlvmFunction(module, function, PREFIX, 1).write()
    module.write_messages(PREFIX, find_statuses([function]))
    dtypes = [argument.dtype for argument in function.inputs]
    dtypes += [answer.file_output.dtype for answer in function.answers]
    module.lines += [f"declare i32 @aoti_torch_dtype_{dtype}()" for dtype in sorted(set(dtypes))]
    operator = resources.files("hbconv.backends.tvm.c_library").joinpath("operator.ll")
    module.lines.append(operator.read_text())
    for writer in (_Slice(function), _Answer(module, function), _Declare(module, schema)):
        module.lines += writer.write()
    return "\n".join([*module.lines, ""])


class _Slice(FunctionLines):
    """Writes the function that answers some rows: torch calls it on its threads.

    A call is the addresses of inputs and answers, then a status.
    """

    def __init__(self, function: CFunction) -> None:
        super().__init__()
        self.function = function

    def write(self) -> list[str]:
        """Return the lines."""
        pointers = []
        for number, bytes_a_row in enumerate(_row_bytes(self.function)):
            slot = self._let(f"getelementptr ptr, ptr %call, i64 {number}")
            base = self._let(f"load ptr, ptr {slot}")
            first = self._let(f"mul i64 %first, {bytes_a_row}")
            pointers.append(f"ptr {self._at(base, first)}")
        rows = self._let("sub i64 %end, %first")
        status = self._let(f"call i32 @{PREFIX}_{NAME}({', '.join([f'i64 {rows}', *pointers])})")
        with self._where(self._let(f"icmp ne i32 {status}, 0")):
            slot = self._let(f"getelementptr ptr, ptr %call, i64 {len(pointers)}")
            # Another thread may store the status of its rows: either is one.
            self._do(f"store atomic i32 {status}, ptr {slot} monotonic, align 8")
        self._do("ret void")
        head = "define internal void @slice(i64 %first, i64 %end, ptr %call) {\nstart:"
        return [head, *self.lines, "}"]


class _Answer(FunctionLines):
    """Writes the function that checks the inputs, and makes the answers and fills them.

    It returns what is wrong, or NULL. The caller deletes the tensors.
    """

    def __init__(self, module: LlvmModule, function: CFunction) -> None:
        super().__init__()
        self.module, self.function = module, function

    def write(self) -> list[str]:
        """Return the lines."""
        inputs, answers = self.function.inputs, self.function.answers
        dtypes = self._dtypes()
        deepest = max(1, *(len(answer.file_output.shape) for answer in answers))
        self._do(f"%sizes = alloca i64, i64 {1 + deepest}")
        self._do(f"%call = alloca ptr, i64 {len(inputs) + len(answers) + 1}")
        rows = self._check(dtypes)
        self._do(f"store i64 {rows}, ptr %sizes")
        for number, answer in enumerate(answers):
            output = answer.file_output
            sizes, strides, dim = self._shape(output.shape)
            arguments = f"i64 {dim}, ptr {sizes}, ptr {strides}, i32 {dtypes[output.dtype]}"
            made = self._let(f"call ptr @make({arguments}, i32 %device)")
            self._do(f"store ptr {made}, ptr {self._slot('%answers', number)}")
            self._require(f"icmp ne ptr {made}, null", "Torch has no memory for the answers.")
        cpu = self._let("call i32 @aoti_torch_device_type_cpu()")
        self._return_unless(self._let(f"icmp eq i32 %device, {cpu}"), "ptr null")
        self._return_unless(self._let(f"icmp ne i64 {rows}, 0"), "ptr null")
        for number, argument in enumerate(inputs):
            sizes, strides, _ = self._shape((len(argument.columns),))
            slot = self._slot("%given", number)
            arguments = f"ptr {slot}, ptr {sizes}, ptr {strides}, i32 {dtypes[argument.dtype]}"
            is_laid_out = f"call i1 @lay_out({arguments})"
            self._require(is_laid_out, f"Torch cannot copy input '{argument.name}'.")
            self._store_address(slot, number, is_written=False)
        for number in range(len(answers)):
            self._store_address(
                self._slot("%answers", number), len(inputs) + number, is_written=True
            )
        self._compute(rows)
        head = "define internal ptr @answer(ptr %given, ptr %answers, i32 %device) {\nstart:"
        return [head, *self.lines, "}"]

    def _dtypes(self) -> dict[str, str]:
        """Return torch's number of each dtype."""
        names = {argument.dtype: "" for argument in self.function.inputs}
        names |= {answer.file_output.dtype: "" for answer in self.function.answers}
        return {name: self._let(f"call i32 @aoti_torch_dtype_{name}()") for name in names}

    def _check(self, dtypes: Mapping[str, str]) -> str:
        """Check each input, and return their number of rows."""
        found = []
        for number, argument in enumerate(self.function.inputs):
            given = self._let(f"load ptr, ptr {self._slot('%given', number)}")
            width = len(argument.columns)
            arguments = f"ptr {given}, i32 {dtypes[argument.dtype]}, i64 {width}"
            found.append(self._let(f"call i64 @rows_of({arguments})"))
            wanted = f"a tensor of dtype {argument.dtype} and shape (n_rows, {width})"
            wrong = f"Input '{argument.name}' must be {wanted}."
            self._require(f"icmp sge i64 {found[-1]}, 0", wrong)
        for rows in found[1:]:
            wrong = "All inputs must have the same number of rows."
            self._require(f"icmp eq i64 {rows}, {found[0]}", wrong)
        return found[0]

    def _compute(self, rows: str) -> None:
        """Answer few rows at once, and more on torch's threads."""
        count = len(self.function.inputs) + len(self.function.answers)
        status_at = self._slot("%call", count)
        self._do(f"store i64 0, ptr {status_at}")
        are_few = self._let(f"icmp sle i64 {rows}, {LEAST_ROWS}")
        with self._where(are_few):
            self._do(f"call void @slice(i64 0, i64 {rows}, ptr %call)")
        with self._where(self._let(f"xor i1 {are_few}, true")):
            arguments = f"i64 0, i64 {rows}, i64 {LEAST_ROWS}, ptr @slice, ptr %call"
            fails = self._let(f"call i32 @torch_parallel_for({arguments})")
            self._require(f"icmp eq i32 {fails}, 0", "Torch cannot answer on its threads.")
        status = self._let(f"load i32, ptr {status_at}")
        message = self._let(f"call ptr @{PREFIX}_message(i32 {status})")
        self._do(f"ret ptr {message}")

    def _store_address(self, slot: str, number: int, *, is_written: bool) -> None:
        tensor = self._let(f"load ptr, ptr {slot}")
        arguments = f"ptr {tensor}, i1 {str(is_written).lower()}"
        address = self._let(f"call ptr @address_of({arguments})")
        self._do(f"store ptr {address}, ptr {self._slot('%call', number)}")

    def _shape(self, shape: tuple[int, ...]) -> tuple[str, str, int]:
        """Write the sizes behind the rows, and return where sizes and strides stand."""
        for place, size in enumerate(shape, start=1):
            self._do(f"store i64 {size}, ptr {self._slot('%sizes', place)}")
        widths = [max(1, size) for size in shape]
        strides = [math.prod(widths[place:]) for place in range(len(widths) + 1)]
        return "%sizes", self.module.constant(np.array(strides, "<i8").tobytes()), len(strides)

    def _slot(self, base: str, number: int) -> str:
        return self._let(f"getelementptr i64, ptr {base}, i64 {number}")

    def _require(self, condition: str, wrong: str) -> None:
        text = self.module.constant(wrong.encode() + bytes(1))
        self._return_unless(self._let(condition), f"ptr {text}")


class _Declare(FunctionLines):
    """Writes the function that tells torch of the operator, when the library is loaded."""

    def __init__(self, module: LlvmModule, schema: str) -> None:
        super().__init__()
        self.module, self.schema = module, schema

    def write(self) -> list[str]:
        """Return the lines."""
        schema, name, cpu, meta = (
            self.module.constant(text.encode() + bytes(1))
            for text in (self.schema, NAME, "CPU", "Meta")
        )
        calls = [f"@declare_in(ptr {NAMESPACE}, ptr {schema}, ptr {name})"]
        for device, function in ((cpu, "@on_cpu"), (meta, "@on_meta")):
            what = f"ptr {NAMESPACE}, ptr {device}, ptr {name}, ptr {function}"
            calls.append(f"@implement({what}, i64 {TORCH_VERSION})")
        for call in calls:
            fails = self._let(f"call i32 {call}")
            self._return_unless(self._let(f"icmp eq i32 {fails}, 0"), "void")
        self._do("ret void")
        return [f"define void @{INITIALIZER}() {{\nstart:", *self.lines, "}"]


def _row_bytes(function: CFunction) -> list[int]:
    """Return the bytes of a row of each input and answer."""
    inputs = [len(i.columns) * np.dtype(i.dtype).itemsize for i in function.inputs]
    outputs = [answer.file_output for answer in function.answers]
    return inputs + [math.prod(o.shape) * np.dtype(o.dtype).itemsize for o in outputs]
