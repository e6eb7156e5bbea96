"""Write a program as the function of one row, and print it as CUDA C: one thread per row.

The emitters of the tile compiler write it: on a CUDA device a tile is one row.

TVM's own printer rounds constants to 15 digits, and its passes forget NaN: ``not (x <= t)`` becomes
``t < x``. So TIR is printed as it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.emit.row_loop import RowProgramWriter
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.tir.kernel import ANY, SCRATCH, TABLES, EntryPoint, RowKernel
from hbconv.backends.tvm.tir.memory import InBuffer, storage
from hbconv.errors import VerificationError
from hbconv.tensor import TensorProgram, TensorType

__all__ = ["THREADS", "RowFunction", "print_kernel", "write_row_function"]

NO_VECTORS = Machine(vector=8)


@dataclass(frozen=True)
class RowMatrix:
    """A matrix that the function reads or writes a row of.

    Parameters
    ----------
    name : str
        Of the argument.
    dtype : str
        In memory.
    width : int
    by_columns : bool
        Its columns are stored one after another, as the leaves of forests do.
    """

    name: str
    dtype: str
    width: int
    by_columns: bool = False

    @property
    def start(self) -> str:
        """Where the row starts, in CUDA C."""
        # In 64 bits, since a batch may have more than 2**31 entries.
        return "row" if self.by_columns else f"(long long)row * {self.width}"


@dataclass(frozen=True, eq=False)
class RowFunction:
    """The function of one row, and what it reads.

    Parameters
    ----------
    function : PrimFunc
        Its arguments are pointers: to the row of each input and output, then to tables and scratch.
    inputs, outputs : tuple of RowMatrix
    tables : dict of str to ndarray
        Constants by dtype.
    scratch : dict of str to int
        Entries of each dtype that a row needs.
    """

    function: Any
    inputs: tuple[RowMatrix, ...]
    outputs: tuple[RowMatrix, ...]
    tables: dict[str, npt.NDArray[Any]]
    scratch: dict[str, int]

    @property
    def scratch_bytes(self) -> int:
        """Bytes that a row needs."""
        return sum(size * np.dtype(dtype).itemsize for dtype, size in self.scratch.items())


def write_row_function(program: TensorProgram, by_columns: frozenset[str]) -> RowFunction:
    """Write a program without forests; some of its inputs lie by columns."""
    k = DeviceRowKernel()
    types = program.types
    read = {
        name: _matrix(f"in{i}", kind, name in by_columns)
        for i, (name, kind) in enumerate(types.inputs.items())
    }
    written = {
        name: _matrix(f"out{i}", kind) for i, (name, kind) in enumerate(types.outputs.items())
    }
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("row")
        pointers = {
            m.name: T.arg(m.name, T.ptr(m.dtype)) for m in (*read.values(), *written.values())
        }
        k.take_pointers(lambda kind, dtype: T.arg(f"{kind}_{dtype}", T.ptr(dtype)))
        T.func_ret(ir.PrimType("int32"))
        k.declare_buffers()
        inputs = {name: _row(pointers[m.name], types.inputs[name]) for name, m in read.items()}
        outputs = {name: _row(pointers[m.name], types.outputs[name]) for name, m in written.items()}
        RowProgramWriter(k, program, inputs, outputs).write()
        EntryPoint.end()
    tables = {dtype: k.tables.pack(dtype) for dtype in TABLES}
    return RowFunction(
        builder.get(),
        tuple(read.values()),
        tuple(written.values()),
        # Each table ends with one padding entry, so a longer one holds constants.
        {dtype: table for dtype, table in tables.items() if len(table) > 1},
        {dtype: k.scratch[dtype].size for dtype in SCRATCH if k.scratch[dtype].size},
    )


def _matrix(name: str, kind: TensorType, by_columns: bool = False) -> RowMatrix:
    return RowMatrix(name, storage(kind.dtype), int(np.prod(kind.shape)), by_columns)


def _row(pointer: Any, kind: TensorType) -> InBuffer:
    """Return the row that a pointer points to."""
    buffer = T.decl_buffer((ANY,), storage(kind.dtype), data=pointer, align=1)
    return InBuffer(kind.dtype, kind.shape, buffer)


class DeviceRowKernel(RowKernel):
    """The function of a thread. It calls none of hbconv's: NVRTC compiles long ones well enough."""

    def __init__(self) -> None:
        super().__init__(NO_VECTORS)

    def number(self, value: int | npt.NDArray[Any]) -> Any:
        """Write a runtime parameter into the code."""
        return tirx.IntImm("int32", self.offset(value) if isinstance(value, np.ndarray) else value)


THREADS = 256
"""Threads of a block."""
TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
    "float32": "float",
    "float64": "double",
}
OPERATORS = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "Mod": "%",
    "EQ": "==",
    "NE": "!=",
    "LT": "<",
    "LE": "<=",
    "GT": ">",
    "GE": ">=",
    "And": "&&",
    "Or": "||",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
    "LShift": "<<",
    "RShift": ">>",
}
HELPERS = {"FloorDiv": "floor_div", "FloorMod": "floor_mod", "Min": "lesser", "Max": "greater"}
"""Functions of ``HEAD``; of whole numbers, since floats that may be NaN are selected."""
FUNCTIONS = {
    "isnan": "isnan",
    "fabs": "fabs",
    "abs": "fabs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "nearbyint": "nearbyint",
}
FENCE = "llvm.arithmetic.fence"
"""Keeps a product from being fused with a sum, which ``--fmad=false`` does for all of them."""
HEAD = """\
template <typename To, typename From>
__device__ __forceinline__ To bits_as(From x) {
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
__device__ __forceinline__ int lesser(int a, int b) { return a < b ? a : b; }
__device__ __forceinline__ int greater(int a, int b) { return a > b ? a : b; }
__device__ __forceinline__ int floor_div(int a, int b) {
    return a / b - (a % b != 0 && (a ^ b) < 0);
}
__device__ __forceinline__ int floor_mod(int a, int b) { return a - floor_div(a, b) * b; }
"""


def print_kernel(row: RowFunction, name: str) -> str:
    """Return the source of a kernel of this name.

    Its arguments are the matrices of inputs and outputs, the tables, and the number of rows.
    """
    printer = _Printer(row)
    body = list(printer.lines(row.function.body, "    "))
    parameters = [
        *(f"const {TYPES[m.dtype]}* __restrict__ {m.name}_rows" for m in row.inputs),
        *(f"{TYPES[m.dtype]}* __restrict__ {m.name}_rows" for m in row.outputs),
        *(f"const {TYPES[dtype]}* __restrict__ table_{dtype}" for dtype in row.tables),
        "int n",
    ]
    begin = [
        f"const int row = blockIdx.x * {THREADS} + threadIdx.x;",
        # The last block has threads past the last row.
        "if (row >= n) return;",
        *(f"const {TYPES[m.dtype]}* {m.name} = {m.name}_rows + {m.start};" for m in row.inputs),
        *(f"{TYPES[m.dtype]}* {m.name} = {m.name}_rows + {m.start};" for m in row.outputs),
        *(f"{TYPES[dtype]} scratch_{dtype}[{size}];" for dtype, size in row.scratch.items()),
    ]
    head = f'extern "C" __global__ void __launch_bounds__({THREADS}) {name}(\n    '
    lines = [HEAD + head + ",\n    ".join(parameters) + ") {", *(f"    {line}" for line in begin)]
    return "\n".join([*lines, *body, "}\n"])


class _Printer:
    """Prints statements and expressions; variables of one name get numbers."""

    def __init__(self, row: RowFunction) -> None:
        self.names: dict[Any, str] = {p: p.name for p in row.function.params}
        self.registers: set[Any] = set()
        self.numbers = count()
        self.by_columns = {m.name for m in row.inputs if m.by_columns}

    def lines(self, statement: Any, indent: str) -> Iterator[str]:
        """Print a statement."""
        kind = type(statement).__name__
        if kind == "SeqStmt":
            for each in statement.seq:
                yield from self.lines(each, indent)
        elif kind == "For":
            yield from () if is_zero(statement.extent) else self._loop(statement, indent)
        elif kind == "While":
            yield f"{indent}while ({self.value(statement.condition)}) {{"
            yield from self.lines(statement.body, indent + "    ")
            yield f"{indent}}}"
        elif kind == "IfThenElse":
            yield from self._branch(statement, indent)
        else:
            yield from (f"{indent}{line}" for line in _SIMPLE[kind](self, statement))

    def _loop(self, loop: Any, indent: str) -> Iterator[str]:
        v, first = self.name(loop.loop_var), self.value(loop.min)
        stop = self.value(loop.min + loop.extent)
        yield f"{indent}for (int {v} = {first}; {v} < {stop}; ++{v}) {{"
        yield from self.lines(loop.body, indent + "    ")
        yield f"{indent}}}"

    def _branch(self, branch: Any, indent: str) -> Iterator[str]:
        yield f"{indent}if ({self.value(branch.condition)}) {{"
        yield from self.lines(branch.then_case, indent + "    ")
        if branch.else_case is not None:
            yield f"{indent}}} else {{"
            yield from self.lines(branch.else_case, indent + "    ")
        yield f"{indent}}}"

    def declare(self, statement: Any) -> list[str]:
        """Let a buffer have the name of its pointer."""
        self.names[statement.buffer] = self.name(statement.data)
        return []

    def allocate(self, statement: Any) -> list[str]:
        """Print a register."""
        buffer = statement.buffer
        self.registers.add(buffer)
        return [f"{TYPES[str(buffer.dtype)]} {self.name(buffer)};"]

    def bind(self, statement: Any) -> list[str]:
        """Print a name for a value."""
        dtype = TYPES[str(statement.var.ty)]
        return [f"const {dtype} {self.name(statement.var)} = {self.value(statement.value)};"]

    def store(self, statement: Any) -> list[str]:
        """Print an assignment."""
        entry = self._entry(statement.buffer, statement.indices)
        return [f"{entry} = {self.value(statement.value)};"]

    def name(self, variable: Any) -> str:
        """Return the name of a variable, a new one at first."""
        if variable not in self.names:
            self.names[variable] = f"v{next(self.numbers)}"
        return self.names[variable]

    def _entry(self, buffer: Any, indices: Any) -> str:
        (index,) = indices
        name = self.name(buffer)
        if buffer in self.registers:
            return name
        position = self.value(index)
        if name in self.by_columns:
            # Forests write leaves by columns, so neighbouring threads read neighbouring entries.
            return f"{name}[(long long)({position}) * n]"
        return f"{name}[{position}]"

    def value(self, x: Any) -> str:
        """Print an expression."""
        kind = type(x).__name__
        if kind in OPERATORS:
            return f"({self.value(x.a)} {OPERATORS[kind]} {self.value(x.b)})"
        if kind in HELPERS and str(x.ty) == "int32":
            return f"{HELPERS[kind]}({self.value(x.a)}, {self.value(x.b)})"
        if kind not in _VALUES:
            raise VerificationError(f"CUDA C has no {kind} of {x.ty}: {x}")
        return _VALUES[kind](self, x)

    def select(self, x: Any) -> str:
        """Print a choice."""
        condition, yes, no = map(self.value, (x.condition, x.true_value, x.false_value))
        return f"({condition} ? {yes} : {no})"

    def invert(self, x: Any) -> str:
        """Print an inversion: C's ``~`` would make a whole number of a truth."""
        return f"({'!' if str(x.ty) == 'bool' else '~'}{self.value(x.a)})"

    def call(self, x: Any) -> str:
        """Print a call of a function."""
        name, arguments = x.op.name.rpartition(".")[2], list(x.args)
        # The flag --fmad=false keeps every product from being fused, so the fence is its argument.
        if name == "call_llvm_pure_intrin" and _intrinsic(arguments[0]) == FENCE:
            return self.value(arguments[1])
        if name == "reinterpret":
            return f"bits_as<{TYPES[str(x.ty)]}>({self.value(arguments[0])})"
        if name == "call_pure_extern":
            function, arguments = str(arguments[0].value), arguments[1:]
        elif name in FUNCTIONS:
            function = FUNCTIONS[name]
        else:
            raise VerificationError(f"CUDA C has no {name}: {x}")
        return f"{function}({', '.join(map(self.value, arguments))})"


def _intrinsic(number: Any) -> str:
    return str(tvm.target.codegen.llvm_get_intrinsic_name(int(number.value)))


def is_zero(extent: Any) -> bool:
    """Whether a loop has no turn: what it would read may not exist."""
    return type(extent).__name__ == "IntImm" and int(extent.value) == 0


def print_float(value: float, dtype: str) -> str:
    """Print a float to the last bit.

    Examples
    --------
    >>> print_float(0.1, "float64"), print_float(float("-inf"), "float32")
    ('0x1.999999999999ap-4', 'bits_as<float>(0xff800000u)')
    """
    number = np.array(value, dtype)
    if not np.isfinite(number):
        word, suffix = ("uint64", "ull") if dtype == "float64" else ("uint32", "u")
        # C has no literals of NaN and infinity, so their bits are written.
        return f"bits_as<{TYPES[dtype]}>({hex(number.view(word))}{suffix})"
    # Hexadecimal digits are exact for both dtypes.
    printed = float(number).hex() + ("" if dtype == "float64" else "f")
    return f"({printed})" if printed.startswith("-") else printed


def print_whole(value: int, dtype: str) -> str:
    """Print a whole number.

    Examples
    --------
    >>> print_whole(-3, "int32"), print_whole(2**40, "int64"), print_whole(1, "uint8")
    ('(-3)', '((long long)1099511627776ll)', '((unsigned char)1)')
    """
    if dtype == "bool":
        return "true" if value else "false"
    if dtype == "int32":
        return f"({value})" if value < 0 else str(value)
    suffix = {"int64": "ll", "uint64": "ull", "uint32": "u"}.get(dtype, "")
    return f"(({TYPES[dtype]}){value}{suffix})"


_SIMPLE: dict[str, Callable[[_Printer, Any], list[str]]] = {
    "DeclBuffer": _Printer.declare,
    "AllocBuffer": _Printer.allocate,
    "Bind": _Printer.bind,
    "BufferStore": _Printer.store,
    "Return": lambda printer, statement: [],
}
_VALUES: dict[str, Callable[[_Printer, Any], str]] = {
    "Var": _Printer.name,
    "IntImm": lambda _, x: print_whole(int(x.value), str(x.ty)),
    "FloatImm": lambda _, x: print_float(float(x.value), str(x.ty)),
    "Cast": lambda printer, x: f"(({TYPES[str(x.ty)]}){printer.value(x.value)})",
    "Not": lambda printer, x: f"(!{printer.value(x.a)})",
    "BitwiseNot": _Printer.invert,
    "Select": _Printer.select,
    "TensorLoad": lambda printer, x: printer._entry(x.source, x.indices),  # noqa: SLF001
    "Call": _Printer.call,
}
