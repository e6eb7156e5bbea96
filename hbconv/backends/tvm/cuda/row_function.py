"""Write a program as the function of one row, by the emitters of the tile compiler.

On a CUDA device a tile is one row, and each thread computes one tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.emit.row_loop import RowProgramWriter
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.tir.kernel import ANY, SCRATCH, TABLES, EntryPoint, RowKernel
from hbconv.backends.tvm.tir.memory import InBuffer, storage
from hbconv.tensor import TensorProgram, TensorType

__all__ = ["RowFunction", "RowMatrix", "write_row_function"]

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
